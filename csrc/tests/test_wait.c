/* Tests of waiting, of signals and of the watchdog, without Python. */
#include "test_control.h"

#include "control_words.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const gv_policy BLOCK = {0, false};
static const gv_policy SPIN = {GV_NO_LIMIT, false};

struct announcer {
    struct shared_header *header;
    atomic_bool stop;
};

static void *publish_on(void *argument)
{
    struct announcer *self = argument;
    while (!atomic_load(&self->stop))
        atomic_fetch_add(&self->header->done, 1);
    return NULL;
}

/* A worker that publishes without end what it does not answer: every wait still ends in its time.
 */
static void test_false_alarms(void)
{
    struct world world = make_world(1, (uint32_t[]){2});
    gv_parent *parent = open_parent(&world, SPIN);
    struct announcer other = {(struct shared_header *)world.base, false};
    pthread_t thread;
    uint32_t bad_index, available;
    CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
    CHECK(pthread_create(&thread, NULL, publish_on, &other) == 0);
    for (int i = 0; i < 50; i++) {
        CHECK(gv_parent_wait(parent, 1, 1000000, i % 2, &available) == GV_TIMEOUT);
        CHECK(available == 0);
    }
    atomic_store(&other.stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    gv_parent_close(parent);
    drop_world(&world);
}

static void test_time(void)
{
    static const gv_policy policies[] = {
        {0, false}, {0, true}, {50000, false}, {50000, true}, {GV_NO_LIMIT, false}};
    struct world world = make_world(1, (uint32_t[]){1});
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        gv_parent *parent = open_parent(&world, policies[i]);
        gv_worker *worker = open_worker(&world, 0, policies[i]);
        uint32_t bad_index, available;
        uint64_t begin = gv_now();
        if (policies[i].spin_ns == GV_NO_LIMIT) {
            CHECK(gv_worker_wait(worker, 20000000, true) == GV_TIMEOUT);
        } else {
            CHECK(gv_worker_wait(worker, 10000000000, true) == GV_TIMEOUT);
            CHECK(gv_now() - begin < 5000000000);
        }
        begin = gv_now();
        CHECK(gv_worker_wait(worker, 20000000, false) == GV_TIMEOUT);
        CHECK(gv_now() - begin >= 20000000);
        CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
        /* So long that the spin ends before the wait does, though other processes take the core. */
        begin = gv_now();
        CHECK(gv_parent_wait(parent, 1, 100000000, false, &available) == GV_TIMEOUT);
        CHECK(gv_now() - begin >= 100000000 && available == 0);
        uint64_t sleeps = gv_parent_counts(parent).sleeps;
        CHECK(policies[i].spin_ns == GV_NO_LIMIT ? sleeps == 0 : sleeps > 0);
        gv_worker_close(worker);
        gv_parent_close(parent);
    }
    CHECK(gv_later(UINT64_MAX - 1, 5) == UINT64_MAX && gv_later(1, 5) == 6);
    drop_world(&world);
}

#define MS 1000000ull

/* The policies below take the time from their caller. This one begins where gv_moment wraps soon.
 */
static const uint64_t START = (1ull << 42) - 5 * MS;

static gv_waiter fresh_waiter(struct shared_header *header, uint64_t now)
{
    gv_waiter waiter = gv_waiter_new((gv_policy){50000, false}, header);
    waiter.begun = now;
    return waiter;
}

/* A spin whose change was made `late` ago, and that has had its core back for a moment. */
static void catch_late(gv_waiter *waiter, uint64_t now, uint64_t lap, uint64_t late)
{
    gv_waiter_caught(waiter, now, lap, gv_moment(now - late));
}

static void test_a_lap_of_ours(void)
{
    struct shared_header header = {0};
    uint64_t now = START;
    gv_waiter waiter = fresh_waiter(&header, now);
    CHECK(gv_waiter_spins(&waiter, now, GV_NO_LIMIT));
    /* The core was a worker's for its whole pass, which ended just now. */
    catch_late(&waiter, now + 8 * MS, 8 * MS, 1000);
    CHECK(!gv_contended(&header, now + 8 * MS));
    /* Late, but not for want of the core: it was caught without a long lap. */
    catch_late(&waiter, now, 1000, 4 * MS);
    CHECK(!gv_contended(&header, now));
    /* Of long laps little is charged, however many there are. */
    for (int i = 0; i < 10; i++)
        gv_waiter_lap(&waiter, MS);
    CHECK(waiter.shares && waiter.spent < waiter.budget);
    CHECK(gv_waiter_spins(&waiter, now + 10 * MS, GV_NO_LIMIT));
    /* But no spin lasts for ever. */
    CHECK(!gv_waiter_spins(&waiter, now + 20 * MS, GV_NO_LIMIT));
    /* A lap of its own is charged whole. */
    for (int i = 0; i < 100; i++)
        gv_waiter_lap(&waiter, 600);
    CHECK(!waiter.shares && waiter.spent >= waiter.budget);
    CHECK(!gv_waiter_spins(&waiter, now, GV_NO_LIMIT));
    CHECK(!gv_waiter_spins(&waiter, now, now));
}

static void test_a_lap_of_others(void)
{
    struct shared_header header = {0};
    uint64_t now = START;
    gv_waiter parent = fresh_waiter(&header, now), worker = fresh_waiter(&header, now);
    gv_waiter always = gv_waiter_new(SPIN, &header), never = gv_waiter_new(BLOCK, &header);
    never.begun = now;
    CHECK(gv_waiter_spins(&parent, now, GV_NO_LIMIT) && !gv_waiter_spins(&never, now, GV_NO_LIMIT));
    catch_late(&parent, now, 4 * MS, 4 * MS);
    /* All sides know it, and `wait="spin"` does as it is told. */
    CHECK(gv_contended(&header, now) && gv_contended(&header, now + 9 * MS));
    CHECK(!gv_waiter_spins(&parent, now, GV_NO_LIMIT));
    CHECK(!gv_waiter_spins(&worker, now, GV_NO_LIMIT));
    CHECK(gv_waiter_spins(&always, now, GV_NO_LIMIT));
    /* It is tried again after 10 ms. */
    now += 11 * MS;
    CHECK(!gv_contended(&header, now) && gv_waiter_spins(&worker, now, GV_NO_LIMIT));
    /* Late again and again: each spell is twice as long as the one before, up to a limit. */
    uint64_t spell = 10 * MS;
    for (int i = 0; i < 10; i++) {
        catch_late(&worker, now, 4 * MS, 4 * MS);
        spell = spell < 640 * MS ? 2 * spell : spell;
        CHECK(gv_contended(&header, now + spell - spell / 16));
        now += spell + spell / 16;
        CHECK(!gv_contended(&header, now));
    }
    /* What is noted within a spell makes it last from then on, and no longer. */
    catch_late(&worker, now, 4 * MS, 4 * MS);
    now += 600 * MS;
    catch_late(&parent, now, 4 * MS, 4 * MS);
    CHECK(gv_contended(&header, now + 600 * MS));
    now += 680 * MS;
    CHECK(!gv_contended(&header, now));
    /* The machine was free for long: the next spell is short. */
    now += 8 * 680 * MS;
    CHECK(gv_waiter_spins(&parent, now, GV_NO_LIMIT) == (now - parent.begun < 20 * MS));
    catch_late(&parent, now, 4 * MS, 4 * MS);
    CHECK(gv_contended(&header, now + 9 * MS) && !gv_contended(&header, now + 11 * MS));
}

/* What no honest side writes there costs a spell at most. */
static void test_hostile_moments(void)
{
    struct shared_header header = {0};
    uint64_t now = START;
    gv_waiter waiter = fresh_waiter(&header, now);
    gv_waiter_caught(&waiter, now, 4 * MS, gv_moment(now) + 5);
    gv_waiter_caught(&waiter, now, 4 * MS, gv_moment(now) - 0x80000000u);
    CHECK(!gv_contended(&header, now));
    uint32_t random = 1;
    for (int i = 0; i < 100000; i++) {
        atomic_store(&header.contended_until, next_random(&random));
        atomic_store(&header.contended_for, next_random(&random) >> (next_random(&random) % 32));
        if (i % 2)
            gv_contend(&header, now);
        CHECK(!(gv_contended(&header, now) && gv_contended(&header, now + 700 * MS)));
        now += next_random(&random);
    }
}

static void test_presence(void)
{
    gv_presence worker = {0};
    uint64_t now = START;
    gv_usage usage = {7 * MS, 3};
    /* What came before the first question is not known. */
    CHECK(gv_presence_pass(&worker, now - 90 * MS, now));
    CHECK(!gv_presence_lacked(&worker, now, usage));
    /* At work for 9 of 10 ms, with a core throughout. */
    for (unsigned i = 0; i < 9; i++)
        CHECK(!gv_presence_pass(&worker, now + i * MS, now + (i + 1) * MS));
    now += 10 * MS, usage.ran += 9 * MS;
    CHECK(gv_presence_pass(&worker, now, now));
    CHECK(!gv_presence_lacked(&worker, now, usage));
    /* Passes of 10 ms each. */
    static const struct {
        uint64_t ran, preempted;
        bool lacked;
    } passes[] = {
        {11 * MS, 1, false},  /* it spun, too, which is time on a core besides */
        {9 * MS, 1, false},   /* its parent took a little of its core */
        {6 * MS, 1, true},    /* another process took 4 ms */
        {6 * MS, 0, false},   /* the environment waited for something by itself */
        {MS / 100, 0, false}, /* or slept all the time */
        {0, 1, false},        /* the clock counts only ticks */
        {MS / 100, 9, true},
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        uint64_t from = now;
        now += 10 * MS, usage.ran += passes[i].ran, usage.preempted += passes[i].preempted;
        CHECK(gv_presence_pass(&worker, from, now));
        CHECK(gv_presence_lacked(&worker, now, usage) == passes[i].lacked);
    }
    /* Where the system does not say, nothing is known, nor when it does again. */
    CHECK(!gv_presence_pass(&worker, now, now + 9 * MS));
    CHECK(!gv_presence_lacked(&worker, now + 10 * MS, (gv_usage){0, 0}));
    CHECK(!gv_presence_pass(&worker, now + 10 * MS, now + 19 * MS));
    CHECK(!gv_presence_lacked(&worker, now + 20 * MS, usage));
}

static void test_usage(void)
{
    gv_usage before = gv_thread_usage();
    CHECK(before.ran > 0);
    for (uint64_t end = gv_now() + MS; gv_now() < end;)
        continue;
    gv_usage after = gv_thread_usage();
    CHECK(after.ran > before.ran && after.preempted >= before.preempted);
}

/* A side that would spin for long sleeps at once. */
static void test_contended_waits(void)
{
    static const gv_policy patient = {1000000 * MS, false};
    struct world world = make_world(1, (uint32_t[]){1});
    gv_parent *parent = open_parent(&world, patient);
    gv_worker *worker = open_worker(&world, 0, patient);
    uint32_t bad_index, available;
    CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
    for (uint64_t i = 1; i < 4; i++) {
        gv_contend((struct shared_header *)world.base, gv_now());
        CHECK(gv_parent_wait(parent, 1, 1000, false, &available) == GV_TIMEOUT);
        CHECK(gv_parent_counts(parent).sleeps <= i);
    }
    CHECK(gv_parent_counts(parent).sleeps > 0);
    uint32_t opcode;
    while (gv_take(worker, &opcode) >= 0)
        continue;
    gv_contend((struct shared_header *)world.base, gv_now());
    CHECK(gv_worker_wait(worker, MS, false) == GV_TIMEOUT);
    CHECK(gv_worker_counts(worker).sleeps > 0);
    gv_worker_close(worker);
    gv_parent_close(parent);
    drop_world(&world);
}

struct interrupter {
    pthread_t target;
    atomic_bool stop;
};

static void *interrupt(void *argument)
{
    struct interrupter *self = argument;
    while (!atomic_load(&self->stop)) {
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        pthread_kill(self->target, SIGUSR1);
    }
    return NULL;
}

static void nothing(int signal_number)
{
    (void)signal_number;
}

static void test_signals(void)
{
    struct sigaction action = {0};
    action.sa_handler = nothing;
    sigaction(SIGUSR1, &action, NULL);
    struct world world = make_world(1, (uint32_t[]){1});
    gv_parent *parent = open_parent(&world, BLOCK);
    uint32_t bad_index, available;
    struct interrupter self = {pthread_self(), false};
    pthread_t other;
    CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
    CHECK(pthread_create(&other, NULL, interrupt, &self) == 0);
    for (int polling = 0; polling < 2; polling++) {
        gv_worker *worker = open_worker(&world, 0, (gv_policy){0, polling != 0});
        CHECK(gv_parent_wait(parent, 1, GV_NO_LIMIT, false, &available) == GV_INTERRUPTED);
        uint32_t opcode;
        while (gv_take(worker, &opcode) >= 0)
            continue;
        CHECK(gv_worker_wait(worker, GV_NO_LIMIT, false) == GV_INTERRUPTED);
        gv_worker_close(worker);
    }
    atomic_store(&self.stop, true);
    CHECK(pthread_join(other, NULL) == 0);
    gv_parent_close(parent);
    drop_world(&world);
}

static void test_watch(bool polling)
{
    CHECK(gv_watch_parent(0, polling) == GV_BAD_ENV);
    CHECK(gv_watch_parent(-1, polling) == GV_BAD_ENV);
    CHECK(gv_watch_parent(INT64_MAX, polling) == GV_BAD_ENV);
    CHECK(!gv_parent_alive(0) && !gv_parent_alive(-1) && !gv_parent_alive(INT64_MAX));
    CHECK(gv_parent_alive(getpid()) && gv_parent_alive(getppid()));
    int status;
    /* Too late: the process watched is gone. */
    pid_t gone = fork();
    CHECK(gone >= 0);
    if (gone == 0)
        _exit(0);
    CHECK(waitpid(gone, &status, 0) == gone && !gv_parent_alive(gone));
    pid_t late = fork();
    CHECK(late >= 0);
    if (late == 0) {
        gv_watch_parent(gone, polling);
        _exit(0);
    }
    CHECK(waitpid(late, &status, 0) == late && WEXITSTATUS(status) == GV_ORPHANED);
    /* Not its parent: a sibling. */
    pid_t target = fork();
    CHECK(target >= 0);
    if (target == 0) {
        pause();
        _exit(0);
    }
    pid_t watcher = fork();
    CHECK(watcher >= 0);
    if (watcher == 0) {
        CHECK(gv_watch_parent(target, polling) == GV_OK);
        for (;;)
            pause();
    }
    struct timespec moment = {0, 50000000};
    nanosleep(&moment, NULL);
    CHECK(waitpid(watcher, &status, WNOHANG) == 0);
    kill(target, SIGKILL);
    CHECK(waitpid(target, &status, 0) == target);
    CHECK(waitpid(watcher, &status, 0) == watcher && WEXITSTATUS(status) == GV_ORPHANED);

    /* Its parent, killed. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t parent = fork();
    CHECK(parent >= 0);
    if (parent == 0) {
        pid_t self = getpid();
        if (fork() == 0) {
            gv_watch_parent(self, polling);
            CHECK(write(ends[1], "x", 1) == 1);
            for (;;)
                pause();
        }
        for (;;)
            pause();
    }
    char message;
    close(ends[1]);
    CHECK(read(ends[0], &message, 1) == 1);
    kill(parent, SIGKILL);
    CHECK(waitpid(parent, &status, 0) == parent);
    CHECK(read(ends[0], &message, 1) == 0); /* the grandchild's end closed with it */
    close(ends[0]);
}

int main(void)
{
    signal(SIGALRM, lost);
    alarm(ALARM_S);
    test_false_alarms();
    test_time();
    test_a_lap_of_ours();
    test_a_lap_of_others();
    test_hostile_moments();
    test_presence();
    test_usage();
    test_contended_waits();
    test_signals();
    test_watch(false);
    test_watch(true);
    printf("waiting: all passed\n");
    return 0;
}
