#include "control_words.h"

#include <stdlib.h>
#include <string.h>

size_t gv_header_size(void)
{
    return sizeof(struct shared_header);
}

size_t gv_queue_size(uint32_t envs)
{
    if (envs == 0 || envs > GV_MAX_ENVS)
        return 0;
    return gv_whole_lines(sizeof(struct worker_queue) + envs * sizeof(struct command)) +
           gv_whole_lines(gv_ring_capacity(envs) * sizeof(struct completion));
}

enum { IDLE = 0, SENT = 1, MARKED = 2, GONE = 3 };

struct slot {
    uint32_t seq; /* of the last command; the parent never reads it back from shared memory */
    uint32_t queue;
    uint8_t state;
};

struct counterpart {
    struct worker_queue *words;
    struct completion *ring;
    uint32_t first; /* environment */
    uint32_t envs;
    uint32_t mask;
    uint32_t head;    /* answers taken */
    uint32_t pending; /* commands whose answer was not taken */
    bool touched;     /* to be rung by the send under way */
    bool gone;
};

struct gv_parent {
    struct shared_header *header;
    gv_waiter waiter;
    uint32_t queues;
    uint32_t envs;
    uint32_t pending;
    uint32_t start; /* queue that the next drain begins with */
    struct counterpart *queue;
    struct slot *slot;
};

static gv_status check_places(const char *base, size_t length, size_t header_offset,
                              const gv_region *places, uint32_t queues, uint32_t *bad_index)
{
    uint32_t envs = 0;
    *bad_index = queues;
    if (queues == 0)
        return GV_BAD_SIZE;
    gv_status status = gv_check_span(base, length, header_offset, sizeof(struct shared_header));
    if (status != GV_OK)
        return status;
    for (uint32_t i = 0; i < queues; i++) {
        size_t size = gv_queue_size(places[i].envs);
        *bad_index = i;
        if (size == 0 || places[i].envs > GV_MAX_ENVS - envs)
            return GV_BAD_SIZE;
        envs += places[i].envs;
        status = gv_check_span(base, length, places[i].offset, size);
        if (status != GV_OK)
            return status;
        if (gv_overlap(places[i].offset, size, header_offset, sizeof(struct shared_header)))
            return GV_OVERLAP;
        for (uint32_t j = 0; j < i; j++) {
            if (gv_overlap(places[i].offset, size, places[j].offset, gv_queue_size(places[j].envs)))
                return GV_OVERLAP;
        }
    }
    return GV_OK;
}

gv_status gv_parent_open(void *base, size_t length, size_t header_offset, const gv_region *places,
                         uint32_t queues, gv_policy policy, gv_parent **out, uint32_t *bad_index)
{
    *out = NULL;
    gv_status status = check_places(base, length, header_offset, places, queues, bad_index);
    if (status != GV_OK)
        return status;
    uint32_t envs = 0;
    for (uint32_t i = 0; i < queues; i++)
        envs += places[i].envs;

    gv_parent *self = calloc(1, sizeof *self);
    if (self == NULL)
        return GV_NO_MEMORY;
    self->header = (struct shared_header *)((char *)base + header_offset);
    self->waiter = gv_waiter_new(policy, self->header);
    self->queues = queues;
    self->envs = envs;
    self->queue = calloc(queues, sizeof *self->queue);
    self->slot = calloc(envs, sizeof *self->slot);
    if (self->queue == NULL || self->slot == NULL) {
        gv_parent_close(self);
        return GV_NO_MEMORY;
    }
    memset(self->header, 0, sizeof(struct shared_header));
    uint32_t env = 0;
    for (uint32_t i = 0; i < queues; i++) {
        struct counterpart *queue = &self->queue[i];
        queue->words = (struct worker_queue *)((char *)base + places[i].offset);
        memset(queue->words, 0, gv_queue_size(places[i].envs));
        queue->ring = gv_ring_of(queue->words, places[i].envs);
        queue->first = env;
        queue->envs = places[i].envs;
        queue->mask = gv_ring_capacity(places[i].envs) - 1;
        for (uint32_t e = 0; e < queue->envs; e++)
            self->slot[env++].queue = i;
    }
    *out = self;
    return GV_OK;
}

void gv_parent_close(gv_parent *self)
{
    if (self == NULL)
        return;
    free(self->queue);
    free(self->slot);
    free(self);
}

static void ring(gv_parent *self, struct worker_queue *words, uint32_t moment)
{
    /* Relaxed: ordered by the doorbell, and only advice. */
    atomic_store_explicit(&words->rung_at, moment, memory_order_relaxed);
    gv_notify(&self->waiter, &words->doorbell, &words->asleep);
}

static void publish(gv_parent *self, struct counterpart *to, uint32_t env, uint32_t opcode)
{
    struct slot *slot = &self->slot[env];
    struct command *command = &to->words->commands[env - to->first];
    slot->state = SENT;
    slot->seq++;
    atomic_store_explicit(&command->opcode, opcode, memory_order_relaxed);
    /* Release: who sees the new seq sees the opcode and the action row. */
    atomic_store_explicit(&command->seq, slot->seq, memory_order_release);
    to->pending++;
    self->pending++;
}

static gv_status refusal(uint8_t state)
{
    return state == SENT ? GV_PENDING : state == MARKED ? GV_DUPLICATE : GV_DEAD;
}

gv_status gv_send_all(gv_parent *self, uint32_t opcode, bool immediate, uint32_t *bad_index)
{
    for (uint32_t env = 0; env < self->envs; env++) {
        if (self->slot[env].state != IDLE) {
            *bad_index = env;
            return refusal(self->slot[env].state);
        }
    }
    opcode = (opcode & GV_MAX_OPCODE) | (immediate ? GV_IMMEDIATE : 0);
    uint32_t moment = gv_moment(gv_now());
    for (uint32_t i = 0; i < self->queues; i++) {
        struct counterpart *to = &self->queue[i];
        for (uint32_t e = 0; e < to->envs; e++)
            publish(self, to, to->first + e, opcode);
        ring(self, to->words, moment);
    }
    return GV_OK;
}

gv_status gv_send(gv_parent *self, const int64_t *envs, size_t count, uint32_t opcode,
                  bool immediate, size_t *bad_index)
{
    gv_status status = GV_OK;
    size_t checked = 0;
    for (; checked < count; checked++) {
        if (envs[checked] < 0 || envs[checked] >= (int64_t)self->envs) {
            status = GV_BAD_ENV;
            break;
        }
        struct slot *slot = &self->slot[envs[checked]];
        if (slot->state != IDLE) {
            status = refusal(slot->state);
            break;
        }
        slot->state = MARKED;
    }
    if (status != GV_OK) {
        for (size_t i = 0; i < checked; i++)
            self->slot[envs[i]].state = IDLE;
        *bad_index = checked;
        return status;
    }
    opcode = (opcode & GV_MAX_OPCODE) | (immediate ? GV_IMMEDIATE : 0);
    uint32_t moment = gv_moment(gv_now());
    for (size_t i = 0; i < count; i++) {
        struct counterpart *to = &self->queue[self->slot[envs[i]].queue];
        publish(self, to, (uint32_t)envs[i], opcode);
        to->touched = true;
    }
    /* After all commands, and in the order of the commands: one ring a worker, and a worker that
     * is woken finds all of its commands. */
    for (size_t i = 0; i < count; i++) {
        struct counterpart *to = &self->queue[self->slot[envs[i]].queue];
        if (!to->touched)
            continue;
        to->touched = false;
        ring(self, to->words, moment);
    }
    return GV_OK;
}

gv_status gv_notify_worker(gv_parent *self, uint32_t queue_index)
{
    if (queue_index >= self->queues)
        return GV_BAD_QUEUE;
    ring(self, self->queue[queue_index].words, gv_moment(gv_now()));
    return GV_OK;
}

/* How many answers lie in a ring; more than are due only if the words are corrupt. Acquire: with
 * the tail come the slots before it and the observation rows. */
static gv_status ready_in(const struct counterpart *from, uint32_t *ready)
{
    *ready = atomic_load_explicit(&from->words->tail, memory_order_acquire) - from->head;
    return *ready <= from->pending ? GV_OK : GV_CORRUPT;
}

static gv_status count_ready(const gv_parent *self, uint32_t *sum)
{
    *sum = 0;
    for (uint32_t i = 0; i < self->queues; i++) {
        uint32_t ready;
        if (self->queue[i].gone)
            continue;
        if (ready_in(&self->queue[i], &ready) != GV_OK)
            return GV_CORRUPT;
        *sum += ready;
    }
    return GV_OK;
}

gv_status gv_parent_wait(gv_parent *self, uint32_t count, uint64_t ns, bool gil_held,
                         uint32_t *available)
{
    struct shared_header *header = self->header;
    uint64_t until = 0;
    bool begun = false; /* answers that are there already need no clock */
    for (;;) {
        /* The doorbell before the look: a ring after this load ends the sleep below. `done` before
         * the tails: what it counts is then seen in the tails (acquire, as part of sequential
         * consistency), so that `target` is never beyond the answers that are still to come and
         * every alarm that is not exact is early. */
        uint32_t heard = atomic_load_explicit(&header->doorbell, memory_order_acquire);
        uint32_t done = atomic_load_explicit(&header->done, memory_order_seq_cst);
        gv_status status = count_ready(self, available);
        if (status != GV_OK)
            return status;
        if (*available >= count) {
            gv_waiter_end(&self->waiter);
            return GV_OK;
        }
        if (count > self->pending)
            return GV_NOT_PENDING;
        if (!begun) {
            until = gv_waiter_begin(&self->waiter, ns, gil_held);
            begun = true;
        } else if (gv_now() >= until) {
            /* `done` moved and no tail did. Honest workers do that for a moment, which the wait
             * outlasts; one that goes on must not keep the caller, nor its GIL, for ever. */
            return GV_TIMEOUT;
        }
        /* Sequentially consistent: a worker adds to `done`, then loads `target`; here `target` is
         * stored, then `done` loaded (in gv_sleep). One of the two sees the other. */
        uint32_t target = done + (count - *available);
        atomic_store_explicit(&header->target, target, memory_order_seq_cst);
        if (gv_spin(&self->waiter, &header->done, target, &header->published_at, until))
            continue;
        if (gil_held)
            return GV_TIMEOUT;
        status = gv_sleep(&self->waiter, &header->asleep, &header->done, target, &header->doorbell,
                          heard, until);
        if (status == GV_OK)
            continue;
        /* The tails are the truth: a worker that died before it published did answer. */
        gv_status truth = count_ready(self, available);
        if (truth != GV_OK)
            return truth;
        return *available >= count ? GV_OK : status;
    }
}

gv_status gv_drain(gv_parent *self, int64_t *envs, uint32_t limit, uint32_t *count,
                   uint32_t *queue_index)
{
    uint32_t taken = 0;
    gv_status status = GV_OK;
    uint32_t index = self->start;
    for (uint32_t i = 0; i < self->queues && taken < limit && status == GV_OK; i++) {
        struct counterpart *from = &self->queue[index];
        uint32_t ready = 0;
        *queue_index = index;
        if (!from->gone)
            status = ready_in(from, &ready);
        while (status == GV_OK && ready > 0 && taken < limit) {
            /* Relaxed: the tail's acquire has ordered them. */
            const struct completion *answer = &from->ring[from->head & from->mask];
            uint32_t e = atomic_load_explicit(&answer->env, memory_order_relaxed);
            uint32_t seq = atomic_load_explicit(&answer->seq, memory_order_relaxed);
            if (e >= from->envs || self->slot[from->first + e].state != SENT ||
                self->slot[from->first + e].seq != seq) {
                status = GV_CORRUPT;
                break;
            }
            self->slot[from->first + e].state = IDLE;
            if (envs != NULL)
                envs[taken] = from->first + e;
            from->head++;
            from->pending--;
            self->pending--;
            ready--;
            taken++;
        }
        index = index + 1 == self->queues ? 0 : index + 1;
    }
    self->start = self->start + 1 == self->queues ? 0 : self->start + 1;
    *count = taken;
    return status;
}

gv_status gv_mark_dead(gv_parent *self, uint32_t queue_index, int64_t *envs, uint32_t *count)
{
    *count = 0;
    if (queue_index >= self->queues)
        return GV_BAD_QUEUE;
    struct counterpart *from = &self->queue[queue_index];
    for (uint32_t env = from->first; env < from->first + from->envs; env++) {
        if (self->slot[env].state == SENT)
            envs[(*count)++] = env;
        self->slot[env].state = GONE;
    }
    self->pending -= from->pending;
    from->pending = 0;
    from->gone = true;
    return GV_OK;
}

gv_status gv_reset_queue(gv_parent *self, uint32_t queue_index)
{
    if (queue_index >= self->queues)
        return GV_BAD_QUEUE;
    struct counterpart *queue = &self->queue[queue_index];
    /* Plain stores: the old worker is gone, and starting the new one orders them before its reads.
     */
    memset(queue->words, 0, gv_queue_size(queue->envs));
    for (uint32_t env = queue->first; env < queue->first + queue->envs; env++) {
        self->slot[env].seq = 0;
        self->slot[env].state = IDLE;
    }
    self->pending -= queue->pending;
    queue->pending = 0;
    queue->head = 0;
    queue->gone = false;
    return GV_OK;
}

uint32_t gv_num_envs(const gv_parent *self)
{
    return self->envs;
}

uint32_t gv_num_queues(const gv_parent *self)
{
    return self->queues;
}

uint32_t gv_num_pending(const gv_parent *self)
{
    return self->pending;
}

gv_status gv_pending(const gv_parent *self, uint32_t env, bool *pending)
{
    if (env >= self->envs)
        return GV_BAD_ENV;
    *pending = self->slot[env].state == SENT;
    return GV_OK;
}

gv_status gv_queue_pending(const gv_parent *self, uint32_t queue_index, uint32_t *pending)
{
    if (queue_index >= self->queues)
        return GV_BAD_QUEUE;
    *pending = self->queue[queue_index].pending;
    return GV_OK;
}

gv_status gv_queue_lacking(const gv_parent *self, uint32_t queue_index, uint32_t *lacking)
{
    uint32_t ready = 0;
    *lacking = 0;
    if (queue_index >= self->queues)
        return GV_BAD_QUEUE;
    const struct counterpart *queue = &self->queue[queue_index];
    if (!queue->gone && ready_in(queue, &ready) != GV_OK)
        return GV_CORRUPT;
    *lacking = queue->pending - ready;
    return GV_OK;
}

gv_counts gv_parent_counts(const gv_parent *self)
{
    return self->waiter.counts;
}
