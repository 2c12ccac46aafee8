/* Tests of the control words without Python: one thread, every status.
 *
 * Sleeps have no time limit here, so a lost wake-up is a hang; the alarm makes it a failure.
 */
#include "test_control.h"
#include "control_words.h"

#include <signal.h>
#include <string.h>

static const gv_policy BLOCK = {0, false};

static void test_sizes(void)
{
    CHECK(gv_header_size() % GV_LINE == 0 && gv_header_size() > 0);
    CHECK(gv_queue_size(0) == 0 && gv_queue_size(GV_MAX_ENVS + 1) == 0);
    CHECK(gv_queue_size(UINT32_MAX) == 0);
    CHECK(gv_queue_size(1) == 128 + 64 + 64);
    CHECK(gv_queue_size(9) == 128 + 128 + 128);
    CHECK(gv_queue_size(GV_MAX_ENVS) == 128 + 16 * (size_t)GV_MAX_ENVS);
    for (uint32_t envs = 1; envs < 300; envs++)
        CHECK(gv_queue_size(envs) % GV_LINE == 0);
}

static void test_places(void)
{
    struct world world = make_world(2, (uint32_t[]){3, 5});
    gv_parent *parent;
    gv_worker *worker;
    uint32_t bad_index;
#define OPEN(length, header, places, queues)                                                       \
    gv_parent_open(world.base, length, header, places, queues, BLOCK, &parent, &bad_index)
    CHECK(OPEN(world.length, 0, world.places, 0) == GV_BAD_SIZE);
    CHECK(OPEN(world.length, 8, world.places, 2) == GV_MISALIGNED && bad_index == 2);
    CHECK(OPEN(world.length - 1, 0, world.places, 2) == GV_OUTSIDE && bad_index == 1);
    CHECK(OPEN(64, 0, world.places, 2) == GV_OUTSIDE && bad_index == 2);
    CHECK(OPEN(world.length, SIZE_MAX - 63, world.places, 2) == GV_OUTSIDE);
    gv_region bad[2] = {world.places[0], {SIZE_MAX - 63, 5}};
    CHECK(OPEN(world.length, 0, bad, 2) == GV_OUTSIDE && bad_index == 1);
    bad[1] = (gv_region){world.places[1].offset - 4, 1};
    CHECK(OPEN(world.length, 0, bad, 2) == GV_MISALIGNED);
    bad[1] = (gv_region){world.places[0].offset + 64, 1};
    CHECK(OPEN(world.length, 0, bad, 2) == GV_OVERLAP);
    bad[1] = (gv_region){128, 1};
    CHECK(OPEN(world.length, 0, bad, 2) == GV_OVERLAP);
    bad[1] = (gv_region){world.places[1].offset, 0};
    CHECK(OPEN(world.length, 0, bad, 2) == GV_BAD_SIZE && parent == NULL);
    CHECK(gv_worker_open(world.base, world.length, 0, bad[1], BLOCK, &worker) == GV_BAD_SIZE);
    CHECK(gv_worker_open(world.base, world.length, 0, (gv_region){64, 1}, BLOCK, &worker) ==
          GV_OVERLAP);
    CHECK(gv_worker_open(world.base, world.length, 0, (gv_region){200, 1}, BLOCK, &worker) ==
          GV_MISALIGNED);
    CHECK(gv_worker_open(world.base, 64, 0, world.places[0], BLOCK, &worker) == GV_OUTSIDE);
#undef OPEN
    drop_world(&world);
}

static uint32_t wait_now(gv_parent *parent, uint32_t count, gv_status expected)
{
    uint32_t available = 12345;
    CHECK(gv_parent_wait(parent, count, 0, false, &available) == expected);
    return available;
}

static void test_protocol(void)
{
    struct world world = make_world(2, (uint32_t[]){3, 2});
    gv_parent *parent = open_parent(&world, BLOCK);
    gv_worker *workers[2] = {open_worker(&world, 0, BLOCK), open_worker(&world, 1, BLOCK)};
    uint32_t bad_index = 99, opcode = 99, count = 99, queue = 99;
    size_t index = 99;
    bool pending;
    CHECK(gv_num_envs(parent) == 5 && gv_num_queues(parent) == 2 && gv_num_pending(parent) == 0);
    CHECK(gv_worker_wait(workers[0], 0, false) == GV_TIMEOUT);
    CHECK(wait_now(parent, 0, GV_OK) == 0);
    CHECK(wait_now(parent, 1, GV_NOT_PENDING) == 0);

    /* A refused send sends nothing, and leaves no marks. */
    CHECK(gv_send(parent, (int64_t[]){1, 4, 5}, 3, 7, false, &index) == GV_BAD_ENV && index == 2);
    CHECK(gv_send(parent, (int64_t[]){1, -1}, 2, 7, false, &index) == GV_BAD_ENV && index == 1);
    CHECK(gv_send(parent, (int64_t[]){1, 4, 1}, 3, 7, false, &index) == GV_DUPLICATE && index == 2);
    CHECK(gv_num_pending(parent) == 0 && gv_take(workers[0], &opcode) == -1);

    CHECK(gv_send(parent, (int64_t[]){4, 1}, 2, 7, false, &index) == GV_OK);
    CHECK(gv_send(parent, (int64_t[]){0, 1}, 2, 7, false, &index) == GV_PENDING && index == 1);
    CHECK(gv_send_all(parent, 7, false, &bad_index) == GV_PENDING && bad_index == 1);
    CHECK(gv_pending(parent, 4, &pending) == GV_OK && pending);
    CHECK(gv_pending(parent, 0, &pending) == GV_OK && !pending);
    CHECK(gv_pending(parent, 5, &pending) == GV_BAD_ENV);
    CHECK(gv_queue_pending(parent, 1, &count) == GV_OK && count == 1);
    CHECK(gv_queue_pending(parent, 2, &count) == GV_BAD_QUEUE &&
          gv_notify_worker(parent, 2) == GV_BAD_QUEUE);
    CHECK(gv_queue_lacking(parent, 0, &count) == GV_OK && count == 1);
    CHECK(gv_queue_lacking(parent, 2, &count) == GV_BAD_QUEUE);

    CHECK(gv_worker_wait(workers[0], 0, false) == GV_OK);
    CHECK(gv_complete(workers[0], 1) == GV_NOT_PENDING);
    CHECK(gv_take(workers[0], &opcode) == 1 && opcode == 7);
    CHECK(gv_worker_wait(workers[0], 0, false) == GV_OK); /* in mid-pass */
    CHECK(gv_take(workers[0], &opcode) == -1);
    CHECK(gv_worker_wait(workers[0], 0, false) == GV_TIMEOUT);
    CHECK(gv_complete(workers[0], 3) == GV_BAD_ENV && gv_complete(workers[0], 1) == GV_OK);
    CHECK(gv_complete(workers[0], 1) == GV_NOT_PENDING);
    /* Not published, as if the worker died here: the tail is enough. */
    CHECK(wait_now(parent, 2, GV_TIMEOUT) == 1 && wait_now(parent, 1, GV_OK) == 1);
    CHECK(gv_queue_lacking(parent, 0, &count) == GV_OK && count == 0);
    CHECK(gv_queue_lacking(parent, 1, &count) == GV_OK && count == 1);
    int64_t envs[5];
    CHECK(gv_drain(parent, envs, 5, &count, &queue) == GV_OK && count == 1 && envs[0] == 1);
    CHECK(gv_drain(parent, envs, 5, &count, &queue) == GV_OK && count == 0);

    /* A ring without a command. */
    CHECK(gv_notify_worker(parent, 0) == GV_OK && gv_worker_wait(workers[0], 0, false) == GV_OK);
    CHECK(gv_take(workers[0], &opcode) == -1 && gv_worker_wait(workers[0], 0, false) == GV_TIMEOUT);

    /* A worker that is given up owes nothing, and gets nothing. */
    CHECK(gv_mark_dead(parent, 2, envs, &count) == GV_BAD_QUEUE);
    CHECK(gv_mark_dead(parent, 1, envs, &count) == GV_OK && count == 1 && envs[0] == 4);
    CHECK(gv_num_pending(parent) == 0);
    CHECK(gv_queue_lacking(parent, 1, &count) == GV_OK && count == 0);
    CHECK(gv_send(parent, (int64_t[]){3}, 1, 7, false, &index) == GV_DEAD);
    CHECK(gv_send_all(parent, 7, false, &bad_index) == GV_DEAD && bad_index == 3);
    CHECK(gv_send(parent, (int64_t[]){2, 0, 1}, 3, GV_MAX_OPCODE, true, &index) == GV_OK);
    for (int32_t env = 0; env < 3; env++) {
        CHECK(gv_take(workers[0], &opcode) == env && opcode == GV_MAX_OPCODE);
        CHECK(gv_complete(workers[0], (uint32_t)env) == GV_OK);
    }
    CHECK(wait_now(parent, 3, GV_OK) == 3);
    CHECK(gv_drain(parent, NULL, 2, &count, &queue) == GV_OK && count == 2);
    CHECK(gv_drain(parent, envs, 2, &count, &queue) == GV_OK && count == 1 && envs[0] == 2);

    CHECK(gv_parent_counts(parent).wakes == 0); /* no side slept */
    CHECK(gv_worker_counts(workers[0]).wakes == 0);
    gv_worker_close(workers[0]);
    gv_worker_close(workers[1]);
    gv_parent_close(parent);
    drop_world(&world);
}

/* A worker dies with answers given, unpublished, taken and owed; another one takes its queue. */
static void test_revival(void)
{
    struct world world = make_world(2, (uint32_t[]){3, 2});
    gv_parent *parent = open_parent(&world, BLOCK);
    gv_worker *workers[2] = {open_worker(&world, 0, BLOCK), open_worker(&world, 1, BLOCK)};
    uint32_t bad_index, opcode, count, queue;
    size_t index;
    int64_t envs[5];
    bool pending;
    CHECK(gv_reset_queue(parent, 2) == GV_BAD_QUEUE);
    for (int round = 0; round < 3; round++) {
        CHECK(gv_send_all(parent, 1, round == 1, &bad_index) == GV_OK);
        for (uint32_t env = 0; env < 2; env++) {
            CHECK(gv_take(workers[0], &opcode) == (int32_t)env);
            CHECK(gv_complete(workers[0], env) == GV_OK);
        }
        CHECK(gv_drain(parent, envs, 1, &count, &queue) == GV_OK);
        if (round == 2)
            CHECK(gv_mark_dead(parent, 0, envs, &count) == GV_OK);
        memset(world.base + world.places[0].offset, 0xa5, gv_queue_size(3)); /* its last words */
        gv_worker_close(workers[0]);
        CHECK(gv_reset_queue(parent, 0) == GV_OK);
        CHECK(gv_queue_pending(parent, 0, &count) == GV_OK && count == 0);
        CHECK(gv_num_pending(parent) == 2); /* the other worker's */
        CHECK(gv_pending(parent, 2, &pending) == GV_OK && !pending);
        CHECK(wait_now(parent, 1, GV_TIMEOUT) == 0);

        /* Sent before the new worker is there. */
        CHECK(gv_send(parent, (int64_t[]){2, 0}, 2, 9, false, &index) == GV_OK);
        workers[0] = open_worker(&world, 0, BLOCK);
        CHECK(gv_worker_wait(workers[0], 0, false) == GV_OK);
        CHECK(gv_take(workers[0], &opcode) == 0 && opcode == 9);
        CHECK(gv_complete(workers[0], 0) == GV_OK);
        CHECK(gv_take(workers[0], &opcode) == 2 && opcode == 9);
        CHECK(gv_complete(workers[0], 2) == GV_OK);
        CHECK(gv_take(workers[0], &opcode) == -1);
        gv_flush(workers[0]);
        while (gv_take(workers[1], &opcode) >= 0)
            continue;
        CHECK(gv_complete(workers[1], 0) == GV_OK && gv_complete(workers[1], 1) == GV_OK);
        gv_flush(workers[1]);
        CHECK(wait_now(parent, 4, GV_OK) == 4);
        CHECK(gv_drain(parent, envs, 5, &count, &queue) == GV_OK && count == 4);
        CHECK(gv_num_pending(parent) == 0);
    }
    gv_worker_close(workers[0]);
    gv_worker_close(workers[1]);
    gv_parent_close(parent);
    drop_world(&world);
}

/* Whatever a worker scribbles over its queue, the parent only ever says GV_CORRUPT. */
static void test_corruption(void)
{
    struct world world = make_world(2, (uint32_t[]){3, 2});
    int64_t envs[5];
    uint32_t bad_index, count, queue, opcode;
    uint32_t random = 12345;
    for (int round = 0; round < 20000; round++) {
        gv_parent *parent = open_parent(&world, BLOCK);
        gv_worker *worker = open_worker(&world, 0, BLOCK);
        CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
        while (gv_take(worker, &opcode) >= 0)
            continue;
        for (uint32_t env = 0; env < 3; env++)
            CHECK(gv_complete(worker, env) == GV_OK);
        uint32_t *words = (uint32_t *)(world.base + world.places[0].offset);
        size_t size = gv_queue_size(3) / sizeof(uint32_t);
        for (int i = 0; i < 4; i++)
            words[next_random(&random) % size] = next_random(&random);
        for (int i = 0; i < 3; i++) {
            uint32_t available;
            gv_status status = gv_parent_wait(parent, 5, 0, false, &available);
            CHECK(status == GV_TIMEOUT || status == GV_CORRUPT || status == GV_NOT_PENDING);
            status = gv_drain(parent, envs, 5, &count, &queue);
            CHECK(status == GV_OK || (status == GV_CORRUPT && queue == 0));
            CHECK(count <= 3);
        }
        gv_worker_close(worker);
        gv_parent_close(parent);
    }
    gv_parent *parent = open_parent(&world, BLOCK);
    struct worker_queue *words = (struct worker_queue *)(world.base + world.places[0].offset);
    atomic_store(&words->tail, 1);
    CHECK(gv_drain(parent, envs, 5, &count, &queue) == GV_CORRUPT && count == 0 && queue == 0);
    CHECK(wait_now(parent, 1, GV_CORRUPT) == 0);
    CHECK(gv_queue_lacking(parent, 0, &count) == GV_CORRUPT && count == 0);
    CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
    CHECK(gv_drain(parent, envs, 5, &count, &queue) == GV_CORRUPT); /* the right number, no seq */
    gv_parent_close(parent);
    drop_world(&world);
}

/* A worker or parent that has been at work for a long time: all counters about to wrap. */
static void test_wrap(void)
{
    CHECK(gv_reached(5, 5) && gv_reached(6, 5) && !gv_reached(4, 5));
    CHECK(gv_reached(2, UINT32_MAX) && !gv_reached(UINT32_MAX, 2));
    struct world world = make_world(1, (uint32_t[]){1});
    gv_parent *parent = open_parent(&world, BLOCK);
    gv_worker *worker = open_worker(&world, 0, BLOCK);
    struct shared_header *header = (struct shared_header *)world.base;
    uint32_t bad_index, opcode, count, queue;
    for (uint32_t start = UINT32_MAX - 3; start != 4; start++) {
        atomic_store(&header->done, start);
        atomic_store(&header->doorbell, start);
        uint32_t rung = atomic_load(&header->doorbell);
        CHECK(gv_send_all(parent, 1, false, &bad_index) == GV_OK);
        CHECK(wait_now(parent, 1, GV_TIMEOUT) == 0);
        CHECK(gv_take(worker, &opcode) == 0 && gv_complete(worker, 0) == GV_OK);
        gv_flush(worker);
        CHECK(atomic_load(&header->doorbell) == rung + 1);
        CHECK(wait_now(parent, 1, GV_OK) == 1);
        CHECK(gv_drain(parent, NULL, 1, &count, &queue) == GV_OK && count == 1);
        CHECK(gv_take(worker, &opcode) == -1);
    }
    gv_worker_close(worker);
    gv_parent_close(parent);
    drop_world(&world);
}

int main(void)
{
    signal(SIGALRM, lost);
    alarm(ALARM_S);
    test_sizes();
    test_places();
    test_protocol();
    test_revival();
    test_corruption();
    test_wrap();
    printf("doorbell: all passed\n");
    return 0;
}
