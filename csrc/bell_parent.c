#include "bell_internal.h"

#include <stdlib.h>
#include <string.h>

size_t gv_hub_size(void)
{
    return sizeof(struct hub);
}

size_t gv_lane_size(uint32_t envs)
{
    if (envs == 0 || envs > GV_MAX_ENVS)
        return 0;
    return gv_whole_lines(sizeof(struct lane) + envs * sizeof(struct command)) +
           gv_whole_lines(gv_ring_capacity(envs) * sizeof(struct answer));
}

enum { IDLE = 0, SENT = 1, MARKED = 2, GONE = 3 };

struct slot {
    uint32_t seq; /* of the last command; the parent never reads it back from shared memory */
    uint32_t lane;
    uint8_t state;
};

struct counterpart {
    struct lane *words;
    struct answer *ring;
    uint32_t first; /* environment */
    uint32_t envs;
    uint32_t mask;
    uint32_t head;    /* answers taken */
    uint32_t pending; /* commands whose answer was not taken */
    bool touched;     /* to be rung by the send under way */
    bool gone;
};

struct gv_parent {
    struct hub *hub;
    gv_waiter waiter;
    uint32_t lanes;
    uint32_t envs;
    uint32_t pending;
    uint32_t start; /* lane that the next drain begins with */
    struct counterpart *lane;
    struct slot *slot;
};

static gv_status check_places(const char *base, size_t length, size_t hub_offset,
                              const gv_place *places, uint32_t lanes, uint32_t *culprit)
{
    uint32_t envs = 0;
    *culprit = lanes;
    if (lanes == 0)
        return GV_BAD_SIZE;
    gv_status status = gv_check_span(base, length, hub_offset, sizeof(struct hub));
    if (status != GV_OK)
        return status;
    for (uint32_t i = 0; i < lanes; i++) {
        size_t size = gv_lane_size(places[i].envs);
        *culprit = i;
        if (size == 0 || places[i].envs > GV_MAX_ENVS - envs)
            return GV_BAD_SIZE;
        envs += places[i].envs;
        status = gv_check_span(base, length, places[i].offset, size);
        if (status != GV_OK)
            return status;
        if (gv_overlap(places[i].offset, size, hub_offset, sizeof(struct hub)))
            return GV_OVERLAP;
        for (uint32_t j = 0; j < i; j++) {
            if (gv_overlap(places[i].offset, size, places[j].offset, gv_lane_size(places[j].envs)))
                return GV_OVERLAP;
        }
    }
    return GV_OK;
}

gv_status gv_parent_open(void *base, size_t length, size_t hub_offset, const gv_place *places,
                         uint32_t lanes, gv_policy policy, gv_parent **out, uint32_t *culprit)
{
    *out = NULL;
    gv_status status = check_places(base, length, hub_offset, places, lanes, culprit);
    if (status != GV_OK)
        return status;
    uint32_t envs = 0;
    for (uint32_t i = 0; i < lanes; i++)
        envs += places[i].envs;

    gv_parent *self = calloc(1, sizeof *self);
    if (self == NULL)
        return GV_NO_MEMORY;
    self->hub = (struct hub *)((char *)base + hub_offset);
    self->waiter = gv_waiter_new(policy, self->hub);
    self->lanes = lanes;
    self->envs = envs;
    self->lane = calloc(lanes, sizeof *self->lane);
    self->slot = calloc(envs, sizeof *self->slot);
    if (self->lane == NULL || self->slot == NULL) {
        gv_parent_close(self);
        return GV_NO_MEMORY;
    }
    memset(self->hub, 0, sizeof(struct hub));
    uint32_t env = 0;
    for (uint32_t i = 0; i < lanes; i++) {
        struct counterpart *lane = &self->lane[i];
        lane->words = (struct lane *)((char *)base + places[i].offset);
        memset(lane->words, 0, gv_lane_size(places[i].envs));
        lane->ring = gv_ring_of(lane->words, places[i].envs);
        lane->first = env;
        lane->envs = places[i].envs;
        lane->mask = gv_ring_capacity(places[i].envs) - 1;
        for (uint32_t e = 0; e < lane->envs; e++)
            self->slot[env++].lane = i;
    }
    *out = self;
    return GV_OK;
}

void gv_parent_close(gv_parent *self)
{
    if (self == NULL)
        return;
    free(self->lane);
    free(self->slot);
    free(self);
}

static void ring(gv_parent *self, struct lane *words, uint32_t moment)
{
    /* Relaxed: ordered by the bell, and only advice. */
    atomic_store_explicit(&words->rung_at, moment, memory_order_relaxed);
    gv_ring_bell(&self->waiter, &words->bell, &words->asleep);
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
    return state == SENT ? GV_PENDING : state == MARKED ? GV_DUPLICATE : GV_ABANDONED;
}

gv_status gv_send_all(gv_parent *self, uint32_t opcode, bool eager, uint32_t *culprit)
{
    for (uint32_t env = 0; env < self->envs; env++) {
        if (self->slot[env].state != IDLE) {
            *culprit = env;
            return refusal(self->slot[env].state);
        }
    }
    opcode = (opcode & GV_MAX_OPCODE) | (eager ? GV_EAGER : 0);
    uint32_t moment = gv_moment(gv_now());
    for (uint32_t i = 0; i < self->lanes; i++) {
        struct counterpart *to = &self->lane[i];
        for (uint32_t e = 0; e < to->envs; e++)
            publish(self, to, to->first + e, opcode);
        ring(self, to->words, moment);
    }
    return GV_OK;
}

gv_status gv_send(gv_parent *self, const int64_t *envs, size_t count, uint32_t opcode, bool eager,
                  size_t *culprit)
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
        *culprit = checked;
        return status;
    }
    opcode = (opcode & GV_MAX_OPCODE) | (eager ? GV_EAGER : 0);
    uint32_t moment = gv_moment(gv_now());
    for (size_t i = 0; i < count; i++) {
        struct counterpart *to = &self->lane[self->slot[envs[i]].lane];
        publish(self, to, (uint32_t)envs[i], opcode);
        to->touched = true;
    }
    /* After all commands, and in the order of the commands: one ring a worker, and a worker that
     * is woken finds all of its commands. */
    for (size_t i = 0; i < count; i++) {
        struct counterpart *to = &self->lane[self->slot[envs[i]].lane];
        if (!to->touched)
            continue;
        to->touched = false;
        ring(self, to->words, moment);
    }
    return GV_OK;
}

gv_status gv_ring(gv_parent *self, uint32_t lane_index)
{
    if (lane_index >= self->lanes)
        return GV_BAD_LANE;
    ring(self, self->lane[lane_index].words, gv_moment(gv_now()));
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
    for (uint32_t i = 0; i < self->lanes; i++) {
        uint32_t ready;
        if (self->lane[i].gone)
            continue;
        if (ready_in(&self->lane[i], &ready) != GV_OK)
            return GV_CORRUPT;
        *sum += ready;
    }
    return GV_OK;
}

gv_status gv_parent_wait(gv_parent *self, uint32_t count, uint64_t ns, bool held,
                         uint32_t *available)
{
    struct hub *hub = self->hub;
    uint64_t until = 0;
    bool begun = false; /* answers that are there already need no clock */
    for (;;) {
        /* The bell before the look: a ring after this load ends the sleep below. `done` before the
         * tails: what it counts is then seen in the tails (acquire, as part of sequential
         * consistency), so that `target` is never beyond the answers that are still to come and
         * every alarm that is not exact is early. */
        uint32_t heard = atomic_load_explicit(&hub->bell, memory_order_acquire);
        uint32_t done = atomic_load_explicit(&hub->done, memory_order_seq_cst);
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
            until = gv_waiter_begin(&self->waiter, ns, held);
            begun = true;
        } else if (gv_now() >= until) {
            /* `done` moved and no tail did. Honest workers do that for a moment, which the wait
             * outlasts; one that goes on must not keep the caller, nor its GIL, for ever. */
            return GV_TIMEOUT;
        }
        /* Sequentially consistent: a worker adds to `done`, then loads `target`; here `target` is
         * stored, then `done` loaded (in gv_doze). One of the two sees the other. */
        uint32_t target = done + (count - *available);
        atomic_store_explicit(&hub->target, target, memory_order_seq_cst);
        if (gv_spin(&self->waiter, &hub->done, target, &hub->announced_at, until))
            continue;
        if (held)
            return GV_TIMEOUT;
        status = gv_doze(&self->waiter, &hub->asleep, &hub->done, target, &hub->bell, heard, until);
        if (status == GV_OK)
            continue;
        /* The tails are the truth: a worker that died before it announced did answer. */
        gv_status truth = count_ready(self, available);
        if (truth != GV_OK)
            return truth;
        return *available >= count ? GV_OK : status;
    }
}

gv_status gv_drain(gv_parent *self, int64_t *envs, uint32_t limit, uint32_t *count,
                   uint32_t *lane_index)
{
    uint32_t taken = 0;
    gv_status status = GV_OK;
    uint32_t index = self->start;
    for (uint32_t i = 0; i < self->lanes && taken < limit && status == GV_OK; i++) {
        struct counterpart *from = &self->lane[index];
        uint32_t ready = 0;
        *lane_index = index;
        if (!from->gone)
            status = ready_in(from, &ready);
        while (status == GV_OK && ready > 0 && taken < limit) {
            /* Relaxed: the tail's acquire has ordered them. */
            const struct answer *answer = &from->ring[from->head & from->mask];
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
        index = index + 1 == self->lanes ? 0 : index + 1;
    }
    self->start = self->start + 1 == self->lanes ? 0 : self->start + 1;
    *count = taken;
    return status;
}

gv_status gv_abandon(gv_parent *self, uint32_t lane_index, int64_t *envs, uint32_t *count)
{
    *count = 0;
    if (lane_index >= self->lanes)
        return GV_BAD_LANE;
    struct counterpart *from = &self->lane[lane_index];
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

gv_status gv_revive(gv_parent *self, uint32_t lane_index)
{
    if (lane_index >= self->lanes)
        return GV_BAD_LANE;
    struct counterpart *lane = &self->lane[lane_index];
    /* Plain stores: the old worker is gone, and starting the new one orders them before its reads.
     */
    memset(lane->words, 0, gv_lane_size(lane->envs));
    for (uint32_t env = lane->first; env < lane->first + lane->envs; env++) {
        self->slot[env].seq = 0;
        self->slot[env].state = IDLE;
    }
    self->pending -= lane->pending;
    lane->pending = 0;
    lane->head = 0;
    lane->gone = false;
    return GV_OK;
}

uint32_t gv_num_envs(const gv_parent *self)
{
    return self->envs;
}

uint32_t gv_num_lanes(const gv_parent *self)
{
    return self->lanes;
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

gv_status gv_lane_pending(const gv_parent *self, uint32_t lane_index, uint32_t *pending)
{
    if (lane_index >= self->lanes)
        return GV_BAD_LANE;
    *pending = self->lane[lane_index].pending;
    return GV_OK;
}

gv_status gv_lane_lacking(const gv_parent *self, uint32_t lane_index, uint32_t *lacking)
{
    uint32_t ready = 0;
    *lacking = 0;
    if (lane_index >= self->lanes)
        return GV_BAD_LANE;
    const struct counterpart *lane = &self->lane[lane_index];
    if (!lane->gone && ready_in(lane, &ready) != GV_OK)
        return GV_CORRUPT;
    *lacking = lane->pending - ready;
    return GV_OK;
}

gv_counts gv_parent_counts(const gv_parent *self)
{
    return self->waiter.counts;
}
