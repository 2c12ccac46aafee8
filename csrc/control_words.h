/* Shared by the control_*.c files: the words in the mapping, and one side's way of waiting. */
#ifndef GYMVEC_CONTROL_INTERNAL_H
#define GYMVEC_CONTROL_INTERNAL_H

#include "control.h"

#include <stdatomic.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "words shared by processes must not need a lock");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is four bytes");

typedef _Atomic uint32_t word;

/* Each line has one writer, named behind its words; all workers write the lines of `done` and of
 * the header's `doorbell`, and every side may write the line of `contended_until`. All zero is the
 * first state.
 */
struct shared_header {
    word done;         /* workers: answers published */
    word published_at; /* workers: when, as gv_moment */
    char pad0[56];
    word target; /* parent: the `done` at which it wants to be woken */
    word asleep; /* parent */
    char pad1[56];
    word doorbell; /* workers */
    char pad2[60];
    word contended_until; /* any: no side spins before this gv_moment */
    word contended_for;   /* any: the length of that, in the same unit */
    char pad3[56];
};

struct command {
    word seq;    /* changes with each command */
    word opcode; /* of the command `seq`; GV_IMMEDIATE may be added */
};

struct completion {
    word env; /* index in the queue */
    word seq; /* of the command answered */
};

struct worker_queue {
    word doorbell; /* parent */
    word rung_at;  /* parent: when, as gv_moment */
    char pad0[56];
    word asleep; /* worker */
    word tail;   /* worker: answers given; the next one goes to slot tail % capacity */
    char pad1[56];
    struct command commands[]; /* parent: one an environment; then, on its own line, the ring */
};

_Static_assert(sizeof(struct shared_header) == 4 * GV_LINE, "four lines");
_Static_assert(offsetof(struct worker_queue, commands) == 2 * GV_LINE, "two lines");

#define GV_IMMEDIATE 0x80000000u

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

static inline struct completion *gv_ring_of(struct worker_queue *queue, uint32_t envs)
{
    size_t commands = gv_whole_lines(sizeof(struct worker_queue) + envs * sizeof(struct command));
    return (struct completion *)((char *)queue + commands);
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

/* A time of gv_now in units of 1,024 ns. It wraps after 73 minutes, so only near ones compare. */
static inline uint32_t gv_moment(uint64_t now)
{
    return (uint32_t)(now >> 10);
}

/* What the system says of this thread; both numbers are 0 where it cannot say. */
typedef struct gv_usage {
    uint64_t ran;       /* nanoseconds on a core */
    uint64_t preempted; /* times that another thread was given its core */
} gv_usage;

gv_usage gv_thread_usage(void);

/* No wait spins while the header says that the cores are contended, unless its policy never sleeps.
 * Then other programs use the cores, too: a spinner that yields to one of their processes gets the
 * core back milliseconds later, but a sleeper that is woken preempts it. The first such spell is
 * short. A spell that follows soon after another is twice as long, so that trying again costs
 * little, and a free machine is found again. */
bool gv_contended(const struct shared_header *header, uint64_t now);
void gv_contend(struct shared_header *header, uint64_t now);

/* Whether a worker has a core while it is at work, asked once in GV_PRESENCE_NS. */
typedef struct gv_presence {
    uint64_t begun;   /* of the stretch that is under way; 0 before the first */
    gv_usage usage;   /* of this thread, then */
    uint64_t working; /* time in passes since */
} gv_presence;

/* Takes a pass from `from` to `now` into account; true when it is time to ask. */
bool gv_presence_pass(gv_presence *self, uint64_t from, uint64_t now);

/* Whether the passes since the last question took much longer than the thread ran, because another
 * thread had its core. An environment that sleeps or waits for a socket does not run either, but
 * is not preempted. */
bool gv_presence_lacked(gv_presence *self, uint64_t now, gv_usage usage);

typedef struct gv_waiter {
    gv_policy policy;
    struct shared_header *header;
    bool waiting;    /* a wait is under way, perhaps over several calls */
    bool slept;      /* in this wait */
    bool shares;     /* the core, as it seemed at the last yield, of this wait or another */
    uint64_t begun;  /* when it began */
    uint64_t spent;  /* of this wait's spin: time that it had the core */
    uint64_t budget; /* most of that */
    gv_counts counts;
} gv_waiter;

gv_waiter gv_waiter_new(gv_policy policy, struct shared_header *header);

/* Begins a wait, or goes on with the one under way unless `gil_held` says that this is a new one.
 * Returns when this call ends. */
uint64_t gv_waiter_begin(gv_waiter *self, uint64_t ns, bool gil_held);

/* Ends the wait under way, if there is one, and sets the next one's budget by how long it took. */
void gv_waiter_end(gv_waiter *self);

/* Whether this wait may spin on. */
bool gv_waiter_spins(const gv_waiter *self, uint64_t now, uint64_t until);

/* Charges a lap of pauses and a yield that took `lap`. */
void gv_waiter_lap(gv_waiter *self, uint64_t lap);

/* Ends a spin that found its word changed at `now`, after a last lap of `lap`. The other side had
 * changed it at `moment`. */
void gv_waiter_caught(gv_waiter *self, uint64_t now, uint64_t lap, uint32_t moment);

/* Spins until `watched` reaches `goal` (true), or may not spin on. `changed_at` is the moment of
 * the last change. What was written before the word reached its goal is seen after. */
bool gv_spin(gv_waiter *self, const word *watched, uint32_t goal, const word *changed_at,
             uint64_t until);

/* Sleeps until `doorbell` is no longer `heard`, unless `watched` has reached `goal` already.
 * GV_OK may come early: look again. */
gv_status gv_sleep(gv_waiter *self, word *asleep, const word *watched, uint32_t goal,
                   word *doorbell, uint32_t heard, uint64_t until);

/* Changes `doorbell`, and wakes the other side if that said that it is asleep. */
void gv_notify(gv_waiter *self, word *doorbell, const word *asleep);

#endif
