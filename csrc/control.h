/* Control words of the vector environment's pool: commands, answers, waiting and waking.
 *
 * The words lie in memory that the caller shares between processes: one header for the parent, one
 * queue for each worker. They are found by offset only, since every process maps them elsewhere.
 * A handle (gv_parent, gv_worker) is private to its process and used by one thread at a time.
 * What is read from shared memory is checked before it is used as an index.
 */
#ifndef GYMVEC_CONTROL_H
#define GYMVEC_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GV_LINE 64u               /* alignment of header and queues; no two writers share a line */
#define GV_MAX_ENVS (1u << 24)    /* of one worker and in all: sizes then fit a 32-bit size_t */
#define GV_MAX_OPCODE 0x7fffffffu /* the top bit of an opcode word says "immediate" */
#define GV_NO_LIMIT UINT64_MAX    /* a wait without a time-out; a spin that never sleeps */
#define GV_ORPHANED 113           /* exit code of a worker whose parent is gone */

/* How long each side spins, with its core to itself, before it sleeps. A wake-up takes 5 to 70 us,
 * and sometimes a whole pass of another worker, if the system puts both on one core. A worker spins
 * longer than it waits for the other workers and for a loop that does little besides stepping, but
 * is off the core while a learner computes. The parent has nothing else to do, and all wait for it:
 * with a spin longer than the steps of most environments, steps of 0.8 ms took 6 percent less. With
 * no more cores than workers, a parent that spins crowds two workers onto one core, and the system
 * sees no reason to move one. Then the parent must sleep soon: CartPoles took 5 to 10 percent less
 * time. */
#define GV_WORKER_SPIN_NS 500000u
#define GV_PARENT_SPIN_NS 2000000u
#define GV_CROWDED_SPIN_NS 50000u
/* What remains of the spin of a waiter whose waits keep being longer than the whole. */
#define GV_SPIN_LEAST_NS 10000u
/* The part of a spin during which a Python caller keeps the GIL. */
#define GV_GIL_HELD_NS 50000u

typedef enum gv_status {
    GV_OK = 0,
    GV_TIMEOUT,     /* the time given is over */
    GV_INTERRUPTED, /* a signal arrived */
    GV_NO_MEMORY,
    GV_BAD_SIZE,    /* no environment, too many, or no queue */
    GV_MISALIGNED,  /* not on a GV_LINE boundary of memory */
    GV_OUTSIDE,     /* header or queue does not fit into the mapping */
    GV_OVERLAP,     /* header and queues share bytes */
    GV_BAD_ENV,     /* no such environment */
    GV_BAD_QUEUE,   /* no such worker */
    GV_DUPLICATE,   /* the same environment twice in one call */
    GV_PENDING,     /* an environment whose last command is unanswered */
    GV_NOT_PENDING, /* an answer to no command, or a wait for more answers than are due */
    GV_DEAD,        /* an environment of a worker that was given up */
    GV_CORRUPT      /* shared words hold what no worker writes */
} gv_status;

/* Where a worker's words lie in the mapping, and how many environments it has. */
typedef struct gv_region {
    size_t offset;
    uint32_t envs;
} gv_region;

/* spin_ns: longest spin before sleeping: 0 sleeps at once, GV_NO_LIMIT never sleeps.
 * polling: sleep by naps instead of futexes. Always so where there are none. The two sides need
 * not agree. */
typedef struct gv_policy {
    uint64_t spin_ns;
    bool polling;
} gv_policy;

typedef struct gv_counts {
    uint64_t wakes;  /* system calls that wake the other side */
    uint64_t sleeps; /* system calls that sleep */
} gv_counts;

typedef struct gv_parent gv_parent;
typedef struct gv_worker gv_worker;

/* Bytes of a header and of a queue, multiples of GV_LINE. 0 for a number of environments that is 0
 * or above GV_MAX_ENVS. */
size_t gv_header_size(void);
size_t gv_queue_size(uint32_t envs);

/* Whether this platform has futexes. */
bool gv_has_futex(void);

/* Nanoseconds of a clock that never goes back, and a later time that does not wrap. */
uint64_t gv_now(void);
uint64_t gv_later(uint64_t time, uint64_t ns);

/* Takes a mapping over as parent and puts all its words into their first state: before any worker
 * opens its queue. Environments are numbered queue by queue. *bad_index is the queue at fault
 * (queues: the header). */
gv_status gv_parent_open(void *base, size_t length, size_t header, const gv_region *places,
                         uint32_t queues, gv_policy policy, gv_parent **out, uint32_t *bad_index);
void gv_parent_close(gv_parent *parent);

/* Publishes one command to each environment named, and rings each worker concerned once. The
 * caller wrote the rest (actions) before. All or nothing: *bad_index is the index in `envs` of the
 * first environment at fault (gv_send_all: the environment). An immediate command's answer is
 * published at once, another's with the worker's whole pass. */
gv_status gv_send_all(gv_parent *parent, uint32_t opcode, bool immediate, uint32_t *bad_index);
gv_status gv_send(gv_parent *parent, const int64_t *envs, size_t count, uint32_t opcode,
                  bool immediate, size_t *bad_index);

/* Wakes a worker without a command. */
gv_status gv_notify_worker(gv_parent *parent, uint32_t queue);

/* Waits until `count` answers are there, for at most `ns`; *available is how many are. With
 * `gil_held` it only spins, for at most GV_GIL_HELD_NS, and GV_TIMEOUT asks for a second call
 * without. */
gv_status gv_parent_wait(gv_parent *parent, uint32_t count, uint64_t ns, bool gil_held,
                         uint32_t *available);

/* Takes up to `limit` answers, from another worker first at each call. `envs` (may be NULL) gets
 * the environments, *count their number, also when the status is GV_CORRUPT because of *queue. */
gv_status gv_drain(gv_parent *parent, int64_t *envs, uint32_t limit, uint32_t *count,
                   uint32_t *queue);

/* Gives up a worker that died: what it still owes is no longer pending (`envs`, room for its
 * environments, gets which, *count how many) and nothing can be sent to it. Drain first: answers
 * that were not taken count as not given. */
gv_status gv_mark_dead(gv_parent *parent, uint32_t queue, int64_t *envs, uint32_t *count);

/* Puts a queue into its first state, for a new worker in place of one that is dead and reaped,
 * given up or not: nothing is pending there, and answers that were not taken are dropped. Before
 * the new worker opens it. The header stays: its counters only ever grow. */
gv_status gv_reset_queue(gv_parent *parent, uint32_t queue);

uint32_t gv_num_envs(const gv_parent *parent);
uint32_t gv_num_queues(const gv_parent *parent);
uint32_t gv_num_pending(const gv_parent *parent);
gv_status gv_pending(const gv_parent *parent, uint32_t env, bool *pending);
gv_status gv_queue_pending(const gv_parent *parent, uint32_t queue, uint32_t *pending);
/* How many answers of a queue are due and not there yet. At 0 all that its worker wrote before it
 * answered is seen. */
gv_status gv_queue_lacking(const gv_parent *parent, uint32_t queue, uint32_t *lacking);
gv_counts gv_parent_counts(const gv_parent *parent);

gv_status gv_worker_open(void *base, size_t length, size_t header, gv_region place,
                         gv_policy policy, gv_worker **out);
void gv_worker_close(gv_worker *worker);

/* Waits until the doorbell rang since the last pass began; publishes first what is unpublished.
 * `ns` and `gil_held` as in gv_parent_wait. */
gv_status gv_worker_wait(gv_worker *worker, uint64_t ns, bool gil_held);

/* The next environment of this pass that has a new command, in order, or -1 at the pass's end. */
int32_t gv_take(gv_worker *worker, uint32_t *opcode);

/* Replies an environment's command. The caller wrote the rest (observation, reward) before. */
gv_status gv_complete(gv_worker *worker, uint32_t env);

/* Announces the answers that are not yet published. */
void gv_flush(gv_worker *worker);

gv_counts gv_worker_counts(const gv_worker *worker);

/* Whether process `pid` is there. One that is dead and not reaped is. */
bool gv_parent_alive(int64_t pid);

/* Ends this process with GV_ORPHANED as soon as process `pid` is gone (at once if it is already),
 * from a thread that needs nothing of the rest of the process: by a pidfd on Linux, elsewhere and
 * with `polling` by looking several times a second. GV_BAD_ENV for what is no process number.
 * On Windows it only looks once; ask gv_parent_alive between steps. */
gv_status gv_watch_parent(int64_t pid, bool polling);

#endif
