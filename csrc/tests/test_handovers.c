/* Hand-overs between a parent and workers that are threads or processes, without Python:
 *     test_handovers [hand-overs [threads|processes|all]]
 *
 * Sleeps have no time limit here, so a lost wake-up is a hang; the alarm makes it a failure.
 */
#include "test_control.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define SHUTDOWN 77u

static const gv_policy MIX[] = {{0, false}, {5000, false}, {0, false}, {200000, false}};
static const gv_policy POLLING_MIX[] = {{0, true}, {0, false}, {20000, true}, {5000, false}};
#define POLICIES 4

static uint64_t reply_to(uint64_t action, uint32_t env)
{
    return action * 3 + env;
}

static void serve(const struct world *world, uint32_t queue, gv_policy policy)
{
    gv_worker *worker = open_worker(world, queue, policy);
    uint32_t first = 0, opcode = 0, shut = 0;
    int32_t env;
    for (uint32_t i = 0; i < queue; i++)
        first += world->places[i].envs;
    /* Commands are seen before the doorbell rings, so a pass may find only some of a send's. */
    while (shut < world->places[queue].envs) {
        CHECK(gv_worker_wait(worker, GV_NO_LIMIT, false) == GV_OK);
        while ((env = gv_take(worker, &opcode)) >= 0) {
            struct row *row = &world->rows[first + (uint32_t)env];
            row->reply = reply_to(row->action, first + (uint32_t)env);
            CHECK(gv_complete(worker, (uint32_t)env) == GV_OK);
            shut += opcode == SHUTDOWN;
        }
        gv_flush(worker);
    }
    gv_worker_close(worker);
}

/* Full steps, partial receives, immediate and not, drained in pieces; every reply is checked. */
static void drive(const struct world *world, gv_parent *parent, uint64_t hand_overs, uint32_t seed)
{
    int64_t *ready = malloc(world->envs * sizeof *ready);
    uint64_t *actions = calloc(world->envs, sizeof *actions);
    CHECK(ready != NULL && actions != NULL);
    uint32_t random = seed, idle = world->envs, bad_index, available, taken, queue;
    uint64_t next_alarm = 0;
    for (uint32_t env = 0; env < world->envs; env++)
        ready[env] = env;
    for (uint64_t handed = 0; handed < hand_overs;) {
        if (handed >= next_alarm) {
            alarm(ALARM_S);
            next_alarm = handed + 1000;
        }
        bool partial = next_random(&random) % 4 != 0;
        for (uint32_t i = 0; i < idle; i++) {
            actions[ready[i]] = next_random(&random);
            world->rows[ready[i]].action = actions[ready[i]];
        }
        if (idle == world->envs) {
            CHECK(gv_send_all(parent, 1, partial, &bad_index) == GV_OK);
        } else {
            size_t index;
            CHECK(gv_send(parent, ready, idle, 1, partial, &index) == GV_OK);
        }
        uint32_t want = partial ? 1 + next_random(&random) % world->envs : world->envs;
        CHECK(gv_parent_wait(parent, want, GV_NO_LIMIT, false, &available) == GV_OK);
        CHECK(available >= want);
        for (idle = 0; idle < want; idle += taken) {
            uint32_t limit = 1 + next_random(&random) % (want - idle);
            CHECK(gv_drain(parent, ready + idle, limit, &taken, &queue) == GV_OK);
            CHECK(taken == limit);
        }
        for (uint32_t i = 0; i < idle; i++) {
            uint32_t env = (uint32_t)ready[i];
            CHECK(world->rows[env].reply == reply_to(actions[env], env));
        }
        handed += idle;
    }
    uint32_t pending = gv_num_pending(parent);
    CHECK(gv_parent_wait(parent, pending, GV_NO_LIMIT, false, &available) == GV_OK);
    CHECK(gv_drain(parent, NULL, world->envs, &taken, &queue) == GV_OK && taken == pending);
    CHECK(gv_send_all(parent, SHUTDOWN, false, &bad_index) == GV_OK);
    CHECK(gv_parent_wait(parent, world->envs, GV_NO_LIMIT, false, &available) == GV_OK);
    free(ready);
    free(actions);
}

struct env_slot_at {
    const struct world *world;
    uint32_t queue;
    gv_policy policy;
};

static void *serve_in_thread(void *argument)
{
    struct env_slot_at *env_slot = argument;
    serve(env_slot->world, env_slot->queue, env_slot->policy);
    return NULL;
}

/* `hand_overs` in a world of this shape; parent and workers take their policies in turn from the
 * mix, beginning with number `turn`. */
static void hand_over(const uint32_t *shape, uint32_t queues, const gv_policy *mix, uint32_t turn,
                      uint64_t hand_overs, bool processes)
{
    struct world world = make_world(queues, shape);
    struct env_slot_at env_slots[MAX_LANES];
    pthread_t threads[MAX_LANES];
    pid_t children[MAX_LANES], self = getpid();
    /* It clears the words, so it comes before the workers. */
    gv_parent *parent = open_parent(&world, mix[turn % POLICIES]);
    for (uint32_t i = 0; i < queues; i++) {
        env_slots[i] = (struct env_slot_at){&world, i, mix[(turn + 1 + i) % POLICIES]};
        if (!processes) {
            CHECK(pthread_create(&threads[i], NULL, serve_in_thread, &env_slots[i]) == 0);
            continue;
        }
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            CHECK(gv_watch_parent(self, false) == GV_OK);
            serve_in_thread(&env_slots[i]);
            _exit(0);
        }
    }
    drive(&world, parent, hand_overs, 1 + turn);
    for (uint32_t i = 0; i < queues; i++) {
        int status = 0;
        if (processes)
            CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
        else
            pthread_join(threads[i], NULL);
    }
    gv_parent_close(parent);
    drop_world(&world);
}

static const uint32_t SHAPES[][MAX_LANES] = {
    {1}, {1, 1}, {3, 1, 2}, {16, 16}, {1, 1, 1, 1, 5, 4, 2, 9}};
static const uint32_t LANES[] = {1, 2, 3, 2, 8};
#define NUM_SHAPES 5

/* All shapes and turns share the hand-overs; naps of a millisecond get a thousandth more. */
static void test_hand_overs(uint64_t hand_overs, bool processes)
{
    uint64_t share = hand_overs / (NUM_SHAPES * POLICIES) + 1;
    for (uint32_t i = 0; i < NUM_SHAPES; i++) {
        for (uint32_t turn = 0; turn < POLICIES; turn++) {
            hand_over(SHAPES[i], LANES[i], MIX, turn, share, processes);
            hand_over(SHAPES[i], LANES[i], POLLING_MIX, turn, share / 1000 + 10, processes);
        }
    }
    alarm(0);
}

int main(int argc, char **argv)
{
    char *end = NULL;
    uint64_t hand_overs = argc > 1 ? strtoull(argv[1], &end, 10) : 300000;
    const char *part = argc > 2 ? argv[2] : "all";
    bool all = strcmp(part, "all") == 0;
    if ((argc > 1 && *end != '\0') || argc > 3) {
        fprintf(stderr, "usage: %s [hand-overs [threads|processes|all]]\n", argv[0]);
        return 64;
    }
    signal(SIGALRM, lost);
    if (all || strcmp(part, "processes") == 0)
        test_hand_overs(hand_overs, true);
    if (all || strcmp(part, "threads") == 0)
        test_hand_overs(hand_overs, false);
    printf("%s: ok\n", part);
    return 0;
}
