#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "control_words.h"

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#endif

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#if defined(__linux__) && defined(SYS_futex) && !defined(GV_PORTABLE)
#define HAVE_FUTEX 1
#else
#define HAVE_FUTEX 0
#endif

#if defined(_M_X64) || defined(_M_IX86)
#include <intrin.h>
#endif

/* Pauses between two yields, for a side that has its core to itself. A side that shares its core
 * with the side that it waits for yields after a single look, because each pause keeps the other
 * side from its work: with 32 pauses, eight CartPoles took 3 percent longer. */
#define PAUSES 8
/* After a longer lap (pauses and a yield) the core is taken for shared. A wrong guess costs a few
 * looks. */
#define LONE_LAP_NS 1000u
/* No lap takes longer by itself. The rest of a longer one belonged to another thread on the same
 * core, so it is not charged as spinning. */
#define LAP_NS 4000u
/* A spin that sees a change this long after it was made had lost its core to another process. A
 * spin with a core sees it within a microsecond. A slice of another process is 1 to 4 ms. */
#define LATE_NS 200000u
/* A change that seems older has a stamp that no side wrote. */
#define LATE_MOST_NS (60u * 1000000000ull)
/* No spin lasts longer, even if it had a core for little of that time. After so long a wait, the 5
 * to 70 us of a wake-up do not matter. */
#define SPIN_MOST_NS 20000000u
/* The shortest and the longest spell without spinning. A spin that loses its core costs a slice, 4
 * ms, which is less than a hundredth of the longest spell. If FRESH_SPELLS times the length of a
 * spell has passed since its end, the next spell is the shortest again. */
#define SPELL_LEAST_NS (10u * 1000000u)
#define SPELL_MOST_NS (640u * 1000000u)
#define FRESH_SPELLS 8u
/* A worker that had no core for a fifth of its work shares the core with a process of another
 * program. Its parent and the other workers yield, so they take less. */
#define PRESENCE_NS (10u * 1000000u)
#define LACK_SHARE 5u
#define NAP_LEAST_NS 20000u
#define NAP_MOST_NS 1000000u

bool gv_has_futex(void)
{
    return HAVE_FUTEX;
}

#ifdef _WIN32

uint64_t gv_now(void)
{
    LARGE_INTEGER count, rate;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&rate);
    uint64_t whole = (uint64_t)(count.QuadPart / rate.QuadPart);
    uint64_t rest = (uint64_t)(count.QuadPart % rate.QuadPart);
    return whole * 1000000000u + rest * 1000000000u / (uint64_t)rate.QuadPart;
}

static void yield_core(void)
{
    SwitchToThread();
}

gv_usage gv_thread_usage(void)
{
    return (gv_usage){0, 0}; /* only known in ticks of 16 ms */
}

static bool sleep_for(uint64_t ns)
{
    Sleep((DWORD)((ns + 999999u) / 1000000u));
    return true;
}

#else

uint64_t gv_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void yield_core(void)
{
    sched_yield();
}

#ifdef RUSAGE_THREAD
#define USAGE_OF RUSAGE_THREAD
#else
#define USAGE_OF RUSAGE_SELF /* counts preemptions of the other threads, too */
#endif

gv_usage gv_thread_usage(void)
{
    struct timespec time;
    struct rusage usage;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0 || getrusage(USAGE_OF, &usage) != 0)
        return (gv_usage){0, 0};
    return (gv_usage){(uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec,
                      (uint64_t)usage.ru_nivcsw};
}

/* Sleeps for less than a second; false when a signal cut it short. */
static bool sleep_for(uint64_t ns)
{
    struct timespec time = {0, (long)ns};
    return nanosleep(&time, NULL) == 0;
}

#endif

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(_M_X64) || defined(_M_IX86)
    _mm_pause();
#elif defined(__aarch64__) && !defined(_MSC_VER)
    __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores */
#endif
}

uint64_t gv_later(uint64_t time, uint64_t ns)
{
    return ns > UINT64_MAX - time ? UINT64_MAX : time + ns;
}

bool gv_contended(const struct shared_header *header, uint64_t now)
{
    /* Relaxed here and below: advice. A spell that is over, even long ago, does not end within its
     * own length from now. */
    uint32_t length = atomic_load_explicit(&header->contended_for, memory_order_relaxed);
    uint32_t until = atomic_load_explicit(&header->contended_until, memory_order_relaxed);
    return length <= gv_moment(SPELL_MOST_NS) && until - gv_moment(now) - 1 < length;
}

void gv_contend(struct shared_header *header, uint64_t now)
{
    uint32_t length = atomic_load_explicit(&header->contended_for, memory_order_relaxed);
    uint32_t ended = atomic_load_explicit(&header->contended_until, memory_order_relaxed);
    uint32_t moment = gv_moment(now);
    if (!gv_contended(header, now)) {
        if (moment - ended >= length * FRESH_SPELLS)
            length = gv_moment(SPELL_LEAST_NS);
        else if (length < gv_moment(SPELL_MOST_NS))
            length *= 2;
    }
    if (length > gv_moment(SPELL_MOST_NS))
        length = gv_moment(SPELL_MOST_NS);
    atomic_store_explicit(&header->contended_for, length, memory_order_relaxed);
    atomic_store_explicit(&header->contended_until, moment + length, memory_order_relaxed);
}

bool gv_presence_pass(gv_presence *self, uint64_t from, uint64_t now)
{
    self->working += now - from;
    return now - self->begun >= PRESENCE_NS;
}

bool gv_presence_lacked(gv_presence *self, uint64_t now, gv_usage usage)
{
    uint64_t ran = usage.ran - self->usage.ran, worked = self->working;
    /* A clock that stood still during a pass only counts ticks, or fails. */
    bool known = self->begun != 0 && ran != 0;
    bool preempted = usage.preempted != self->usage.preempted;
    *self = (gv_presence){now, usage, 0};
    return known && preempted && worked > ran && worked - ran > worked / LACK_SHARE;
}

gv_waiter gv_waiter_new(gv_policy policy, struct shared_header *header)
{
    gv_waiter fresh = {.policy = policy, .header = header, .budget = policy.spin_ns};
    fresh.policy.polling |= !HAVE_FUTEX;
    return fresh;
}

uint64_t gv_waiter_begin(gv_waiter *self, uint64_t ns, bool gil_held)
{
    uint64_t now = gv_now();
    if (gil_held || !self->waiting) {
        self->waiting = true;
        self->slept = false;
        self->begun = now;
        self->spent = 0;
    }
    return gv_later(now, gil_held && ns > GV_GIL_HELD_NS ? GV_GIL_HELD_NS : ns);
}

/* If waits outlast the full spin, spinning only burns the core: each such wait halves the spin. The
 * first wait that ended within a spin, or that a full spin would have caught, makes it full again.
 */
void gv_waiter_end(gv_waiter *self)
{
    if (!self->waiting)
        return;
    self->waiting = false;
    uint64_t full = self->policy.spin_ns;
    if (full <= GV_SPIN_LEAST_NS || full == GV_NO_LIMIT)
        return;
    if (!self->slept || gv_now() - self->begun <= full) {
        self->budget = full;
    } else {
        self->budget /= 2;
        if (self->budget < GV_SPIN_LEAST_NS)
            self->budget = GV_SPIN_LEAST_NS;
    }
}

bool gv_waiter_spins(const gv_waiter *self, uint64_t now, uint64_t until)
{
    if (now >= until)
        return false;
    if (self->policy.spin_ns == GV_NO_LIMIT)
        return true;
    return self->spent < self->budget && now - self->begun < SPIN_MOST_NS &&
           !gv_contended(self->header, now);
}

void gv_waiter_lap(gv_waiter *self, uint64_t lap)
{
    self->shares = lap > LONE_LAP_NS;
    self->spent = gv_later(self->spent, lap < LAP_NS ? lap : LAP_NS);
}

void gv_waiter_caught(gv_waiter *self, uint64_t now, uint64_t lap, uint32_t moment)
{
    uint64_t late = (uint64_t)(gv_moment(now) - moment) << 10;
    if (lap >= LATE_NS && late >= LATE_NS && late < LATE_MOST_NS)
        gv_contend(self->header, now);
}

/* The yields make spinning right with more processes than cores: a side with work gets the core. A
 * parent that shares a core with a busy worker spins little, and runs as soon as the worker
 * yields. If it slept, it would have to be woken, perhaps on the wrong core. Acquire: what was
 * written before the word reached its goal is seen. */
bool gv_spin(gv_waiter *self, const word *watched, uint32_t goal, const word *changed_at,
             uint64_t until)
{
    uint64_t now = gv_now();
    uint64_t lap = 0;
    while (gv_waiter_spins(self, now, until)) {
        for (int pauses = self->shares ? 1 : PAUSES; pauses > 0; pauses--) {
            if (gv_reached(atomic_load_explicit(watched, memory_order_acquire), goal)) {
                uint32_t moment = atomic_load_explicit(changed_at, memory_order_relaxed);
                gv_waiter_caught(self, now, lap, moment);
                return true;
            }
            relax();
        }
        yield_core();
        uint64_t before = now;
        now = gv_now();
        lap = now - before;
        gv_waiter_lap(self, lap);
    }
    return gv_reached(atomic_load_explicit(watched, memory_order_acquire), goal);
}

static gv_status sleep_polling(gv_waiter *self, const word *watched, uint32_t goal, uint64_t until)
{
    uint64_t length = NAP_LEAST_NS;
    while (!gv_reached(atomic_load_explicit(watched, memory_order_acquire), goal)) {
        uint64_t now = gv_now();
        if (now >= until)
            return GV_TIMEOUT;
        self->counts.sleeps++;
        if (!sleep_for(length < until - now ? length : until - now))
            return GV_INTERRUPTED;
        length = length < NAP_MOST_NS / 2 ? length * 2 : NAP_MOST_NS;
    }
    return GV_OK;
}

#if HAVE_FUTEX

/* Not FUTEX_PRIVATE_FLAG: the two sides are different processes. The kernel's timespec of this
 * call has two longs, also where the C library's has not. */
static gv_status futex_wait(gv_waiter *self, word *doorbell, uint32_t heard, const long *timeout)
{
    self->counts.sleeps++;
    if (syscall(SYS_futex, doorbell, FUTEX_WAIT, heard, timeout, NULL, 0) == 0)
        return GV_OK;
    if (errno == ETIMEDOUT)
        return GV_TIMEOUT;
    if (errno == EINTR)
        return GV_INTERRUPTED;
    if (errno != EAGAIN)
        self->policy.polling = true; /* a sandbox without futexes */
    return GV_OK;
}

#endif

/* The sleeper stores `asleep`, then loads `watched`; the other side changes `watched` and
 * `doorbell`, then loads `asleep`. All of these are sequentially consistent, so that at least one
 * of the two sees the other's change. With release and acquire each load may come before its own
 * side's store is visible, both miss, and the sleeper is not woken. A doorbell rung between the
 * check and the system call fails the kernel's own comparison. */
gv_status gv_sleep(gv_waiter *self, word *asleep, const word *watched, uint32_t goal,
                   word *doorbell, uint32_t heard, uint64_t until)
{
    self->slept = true;
    if (self->policy.polling)
        return sleep_polling(self, watched, goal, until);
    gv_status status = GV_OK;
#if HAVE_FUTEX
    long timeout[2] = {0, 0};
    if (until != UINT64_MAX) {
        uint64_t now = gv_now();
        if (now >= until)
            return GV_TIMEOUT;
        timeout[0] = (long)((until - now) / 1000000000u);
        timeout[1] = (long)((until - now) % 1000000000u);
    }
    atomic_store_explicit(asleep, 1, memory_order_seq_cst);
    if (!gv_reached(atomic_load_explicit(watched, memory_order_seq_cst), goal))
        status = futex_wait(self, doorbell, heard, until == UINT64_MAX ? NULL : timeout);
    /* Relaxed: a side that still reads 1 makes one system call too many, and no more. */
    atomic_store_explicit(asleep, 0, memory_order_relaxed);
#else
    (void)asleep, (void)doorbell, (void)heard;
#endif
    return status;
}

/* Sequentially consistent: the other half of the hand-shake in gv_sleep. As a release, the add also
 * publishes what was written before to the side that hears the doorbell. */
void gv_notify(gv_waiter *self, word *doorbell, const word *asleep)
{
    atomic_fetch_add_explicit(doorbell, 1, memory_order_seq_cst);
    if (atomic_load_explicit(asleep, memory_order_seq_cst) == 0)
        return;
#if HAVE_FUTEX
    self->counts.wakes++;
    syscall(SYS_futex, doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
#else
    (void)self; /* a polling sleeper never says that it sleeps */
#endif
}
