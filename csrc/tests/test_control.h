/* A world of control words and rows in one process, for the tests that include this. */
#ifndef GYMVEC_TEST_CONTROL_H
#define GYMVEC_TEST_CONTROL_H

/* Before any header of the system: this file is to be included first. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE
#endif

#include "check.h"
#include "control.h"

#include <sys/mman.h>
#include <unistd.h>

#define MAX_LANES 8
#define ALARM_S 60

static inline void lost(int signal_number)
{
    static const char text[] = "no progress: a wake-up was lost, or a worker ended\n";
    (void)signal_number;
    if (write(2, text, sizeof text - 1) < 0)
        _exit(3);
    _exit(2);
}

static inline uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* One mapping with header, queues and a row an environment: the action, and the worker's reply to
 * it, written without atomics so that only the words order them. */
struct row {
    uint64_t action;
    uint64_t reply;
};

struct world {
    char *base;
    size_t length;
    gv_region places[MAX_LANES];
    uint32_t queues;
    uint32_t envs;
    struct row *rows;
};

static inline struct world make_world(uint32_t queues, const uint32_t *envs)
{
    struct world world = {0};
    size_t offset = gv_header_size();
    world.queues = queues;
    for (uint32_t i = 0; i < queues; i++) {
        world.places[i] = (gv_region){offset, envs[i]};
        offset += gv_queue_size(envs[i]);
        world.envs += envs[i];
    }
    world.length = offset;
    size_t all = offset + world.envs * sizeof(struct row);
    world.base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(world.base != MAP_FAILED);
    world.rows = (struct row *)(world.base + offset);
    return world;
}

static inline void drop_world(struct world *world)
{
    munmap(world->base, world->length + world->envs * sizeof(struct row));
}

static inline gv_parent *open_parent(const struct world *world, gv_policy policy)
{
    gv_parent *parent;
    uint32_t bad_index;
    CHECK(gv_parent_open(world->base, world->length, 0, world->places, world->queues, policy,
                         &parent, &bad_index) == GV_OK);
    return parent;
}

static inline gv_worker *open_worker(const struct world *world, uint32_t queue, gv_policy policy)
{
    gv_worker *worker;
    CHECK(gv_worker_open(world->base, world->length, 0, world->places[queue], policy, &worker) ==
          GV_OK);
    return worker;
}

#endif
