#include "control_words.h"

#include <stdlib.h>

struct env_slot {
    uint32_t seen;      /* seq of the last command taken */
    bool owed : 1;      /* taken and not answered */
    bool immediate : 1; /* of the command taken */
};

struct gv_worker {
    struct shared_header *header;
    struct worker_queue *queue;
    struct completion *ring;
    gv_waiter waiter;
    uint32_t envs;
    uint32_t mask;
    uint32_t tail;
    uint32_t cursor; /* next environment of the pass under way, 0 between passes */
    uint32_t heard;  /* the doorbell when the last pass began */
    uint32_t unpublished;
    uint64_t pass_begun; /* when the last wait ended; 0 before the first */
    gv_presence presence;
    struct env_slot env_slots[];
};

gv_status gv_worker_open(void *base, size_t length, size_t header_offset, gv_region place,
                         gv_policy policy, gv_worker **out)
{
    *out = NULL;
    size_t size = gv_queue_size(place.envs);
    if (size == 0)
        return GV_BAD_SIZE;
    gv_status status = gv_check_span(base, length, header_offset, sizeof(struct shared_header));
    if (status != GV_OK)
        return status;
    status = gv_check_span(base, length, place.offset, size);
    if (status != GV_OK)
        return status;
    if (gv_overlap(place.offset, size, header_offset, sizeof(struct shared_header)))
        return GV_OVERLAP;

    /* All zero is "a pass before the first ring found nothing", so what was sent before this
     * worker started is found by its first wait. */
    gv_worker *self = calloc(1, sizeof *self + place.envs * sizeof(struct env_slot));
    if (self == NULL)
        return GV_NO_MEMORY;
    self->header = (struct shared_header *)((char *)base + header_offset);
    self->queue = (struct worker_queue *)((char *)base + place.offset);
    self->ring = gv_ring_of(self->queue, place.envs);
    self->waiter = gv_waiter_new(policy, self->header);
    self->envs = place.envs;
    self->mask = gv_ring_capacity(place.envs) - 1;
    *out = self;
    return GV_OK;
}

void gv_worker_close(gv_worker *self)
{
    free(self);
}

/* If the worker lacked a core in its passes, the waits of all sides sleep for a spell. */
static void end_pass(gv_worker *self)
{
    if (self->pass_begun == 0)
        return;
    uint64_t now = gv_now();
    if (gv_presence_pass(&self->presence, self->pass_begun, now) &&
        gv_presence_lacked(&self->presence, now, gv_thread_usage()))
        gv_contend(self->header, now);
    self->pass_begun = 0;
}

gv_status gv_worker_wait(gv_worker *self, uint64_t ns, bool gil_held)
{
    word *doorbell = &self->queue->doorbell;
    end_pass(self);
    gv_flush(self);
    if (self->cursor != 0)
        return GV_OK;
    /* A finished pass saw every command rung before `heard`, so there is no need for an empty pass
     * before sleeping on it. */
    uint32_t goal = self->heard + 1;
    gv_status status = GV_OK;
    if (!gv_reached(atomic_load_explicit(doorbell, memory_order_acquire), goal)) {
        uint64_t until = gv_waiter_begin(&self->waiter, ns, gil_held);
        if (!gv_spin(&self->waiter, doorbell, goal, &self->queue->rung_at, until)) {
            if (gil_held)
                return GV_TIMEOUT;
            do {
                status = gv_sleep(&self->waiter, &self->queue->asleep, doorbell, goal, doorbell,
                                  self->heard, until);
                if (gv_reached(atomic_load_explicit(doorbell, memory_order_acquire), goal)) {
                    status = GV_OK;
                    break;
                }
            } while (status == GV_OK);
        }
    }
    if (status == GV_OK) {
        gv_waiter_end(&self->waiter);
        self->pass_begun = gv_now();
    }
    return status;
}

int32_t gv_take(gv_worker *self, uint32_t *opcode)
{
    /* Before the pass: a command that the pass misses was published after this load, and then so
     * was its ring, which ends the next wait. Acquire: commands rung before it are seen. */
    if (self->cursor == 0)
        self->heard = atomic_load_explicit(&self->queue->doorbell, memory_order_acquire);
    while (self->cursor < self->envs) {
        uint32_t env = self->cursor++;
        struct env_slot *env_slot = &self->env_slots[env];
        struct command *command = &self->queue->commands[env];
        /* Acquire: with the seq come the opcode and the action row. */
        uint32_t seq = atomic_load_explicit(&command->seq, memory_order_acquire);
        if (seq == env_slot->seen)
            continue;
        uint32_t packed = atomic_load_explicit(&command->opcode, memory_order_relaxed);
        env_slot->seen = seq;
        env_slot->owed = true;
        env_slot->immediate = (packed & GV_IMMEDIATE) != 0;
        *opcode = packed & GV_MAX_OPCODE;
        return (int32_t)env;
    }
    self->cursor = 0;
    return -1;
}

/* The one add of `count` that takes `done` across `target` rings, so that a target of an earlier
 * wait wakes no parent. Memory order: see gv_sleep and gv_parent_wait. */
static void publish(gv_worker *self, uint32_t count)
{
    struct shared_header *header = self->header;
    /* Relaxed: ordered by the add, and only advice. */
    atomic_store_explicit(&header->published_at, gv_moment(gv_now()), memory_order_relaxed);
    uint32_t done = atomic_fetch_add_explicit(&header->done, count, memory_order_seq_cst) + count;
    uint32_t target = atomic_load_explicit(&header->target, memory_order_seq_cst);
    if (done - target < count)
        gv_notify(&self->waiter, &header->doorbell, &header->asleep);
}

gv_status gv_complete(gv_worker *self, uint32_t env)
{
    if (env >= self->envs)
        return GV_BAD_ENV;
    struct env_slot *env_slot = &self->env_slots[env];
    if (!env_slot->owed)
        return GV_NOT_PENDING;
    env_slot->owed = false;
    struct completion *answer = &self->ring[self->tail & self->mask];
    atomic_store_explicit(&answer->env, env, memory_order_relaxed);
    atomic_store_explicit(&answer->seq, env_slot->seen, memory_order_relaxed);
    /* Release: who sees the tail sees the slot and the observation row. */
    atomic_store_explicit(&self->queue->tail, ++self->tail, memory_order_release);
    if (env_slot->immediate)
        publish(self, 1);
    else
        self->unpublished++;
    return GV_OK;
}

void gv_flush(gv_worker *self)
{
    uint32_t count = self->unpublished;
    self->unpublished = 0;
    if (count != 0)
        publish(self, count);
}

gv_counts gv_worker_counts(const gv_worker *self)
{
    return self->waiter.counts;
}
