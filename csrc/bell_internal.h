/* Shared by the bell_*.c files: the words in the mapping, and one side's way of waiting. */
#ifndef GYMVEC_BELL_INTERNAL_H
#define GYMVEC_BELL_INTERNAL_H

#include "bell.h"

#include <stdatomic.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "words shared by processes must not need a lock");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is four bytes");

typedef _Atomic uint32_t word;

/* Each line has one writer, named behind its words; all workers add to `done` and to the hub's
 * `bell`. All zero is the first state. */
struct hub {
    word done; /* workers: answers announced */
    char pad0[60];
    word target; /* parent: the `done` at which it wants to be woken */
    word asleep; /* parent */
    char pad1[56];
    word bell; /* workers */
    char pad2[60];
};

struct command {
    word seq;    /* changes with each command */
    word opcode; /* of the command `seq`; GV_EAGER may be added */
};

struct answer {
    word env; /* index in the lane */
    word seq; /* of the command answered */
};

struct lane {
    word bell; /* parent */
    char pad0[60];
    word asleep; /* worker */
    word tail;   /* worker: answers given; the next one goes to slot tail % capacity */
    char pad1[56];
    struct command commands[]; /* parent: one an environment; then, on its own line, the ring */
};

_Static_assert(sizeof(struct hub) == 3 * GV_LINE, "three lines");
_Static_assert(offsetof(struct lane, commands) == 2 * GV_LINE, "two lines");

#define GV_EAGER 0x80000000u

/* At most one answer an environment is unread, so a ring never overruns. A power of two, so that
 * the slot stays right when the 32-bit tail wraps. */
static inline uint32_t gv_ring_capacity(uint32_t envs)
{
    uint32_t capacity = 1;
    while (capacity < envs)
        capacity *= 2;
    return capacity;
}

static inline size_t gv_whole_lines(size_t bytes)
{
    return (bytes + GV_LINE - 1) / GV_LINE * GV_LINE;
}

static inline struct answer *gv_ring_of(struct lane *lane, uint32_t envs)
{
    size_t commands = gv_whole_lines(sizeof(struct lane) + envs * sizeof(struct command));
    return (struct answer *)((char *)lane + commands);
}

/* Whether `size` bytes at `offset` lie in the mapping, on a line boundary. */
static inline gv_status gv_check_span(const char *base, size_t length, size_t offset, size_t size)
{
    if (offset > length || size > length - offset)
        return GV_OUTSIDE;
    if ((uintptr_t)(base + offset) % GV_LINE != 0)
        return GV_MISALIGNED;
    return GV_OK;
}

static inline bool gv_overlap(size_t a, size_t a_size, size_t b, size_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

/* Counters wrap: `value` has reached `goal` when it is less than half the circle ahead of it. */
static inline bool gv_reached(uint32_t value, uint32_t goal)
{
    return value - goal < 0x80000000u;
}

typedef struct gv_waiter {
    gv_policy policy;
    bool waiting;    /* a wait is under way, perhaps over several calls */
    bool slept;      /* in this wait */
    bool shares;     /* the core, as it seemed at the last yield, of this wait or another */
    uint64_t begun;  /* when it began */
    uint64_t spent;  /* of this wait's spin: time on the core that nobody else wanted */
    uint64_t budget; /* most of that */
    gv_counts counts;
} gv_waiter;

gv_waiter gv_waiter_new(gv_policy policy);

/* Begins a wait, or goes on with the one under way unless `held` says that this is a new one.
 * Returns when this call ends. */
uint64_t gv_waiter_begin(gv_waiter *self, uint64_t ns, bool held);

/* Ends the wait under way, if there is one, and sets the next one's budget by how long it took. */
void gv_waiter_end(gv_waiter *self);

/* Spins until `watched` reaches `goal` (true), the time is over or the budget is spent. What was
 * written before the word reached it is seen after. */
bool gv_spin(gv_waiter *self, const word *watched, uint32_t goal, uint64_t until);

/* Sleeps until `bell` is no longer `heard`, unless `watched` has reached `goal` already.
 * GV_OK may come early: look again. */
gv_status gv_doze(gv_waiter *self, word *asleep, const word *watched, uint32_t goal, word *bell,
                  uint32_t heard, uint64_t until);

/* Changes `bell`, and wakes whoever said that it is asleep. */
void gv_ring_bell(gv_waiter *self, word *bell, const word *asleep);

#endif
