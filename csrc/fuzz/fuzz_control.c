/* Any calls of both sides of the control words, over a mapping that a liar writes into.
 *
 * The liar writes any word anywhere between the calls, and as a thread also during them: a worker
 * whose memory is corrupt. Statuses may then be errors and environments may be named that did not
 * answer, but no index is outside, no count is above what is due, and every wait ends in its time.
 * The mapping lies at the end of its allocation, so that AddressSanitizer sees what is outside. */
#include "check.h"
#include "control.h"
#include "fuzz.h"

#include <pthread.h>
#include <stdatomic.h>

#define LANES 3u
#define MOST_ENVS 5u
#define WAIT_NS 200000u
/* A wait that takes so much longer than it was told is a hang. */
#define HANG_NS 20000000000u

typedef struct {
    char *base;
    size_t length;
    uint64_t state;
    bool counts; /* only ever publishes answers that it does not give */
    atomic_bool stop;
} liar;

static void lie(liar *self, uint64_t number)
{
    _Atomic uint32_t *words = (_Atomic uint32_t *)self->base;
    size_t at = (size_t)(number % (self->length / sizeof *words));
    uint32_t lies[] = {0, 1, 2, UINT32_MAX, (uint32_t)(number >> 32), 0x80000000u, 5, 3};
    /* Words of the same line are what a sleeping or spinning side looks at. */
    if ((number >> 20) % 4 == 0)
        at = at / 16 * 16;
    if ((number >> 24) % 2)
        atomic_fetch_add_explicit(&words[at], 1, memory_order_relaxed);
    else
        atomic_store_explicit(&words[at], lies[(number >> 28) % 8], memory_order_relaxed);
}

static void *lie_on(void *argument)
{
    liar *self = argument;
    while (!atomic_load(&self->stop)) {
        self->state = self->state * 6364136223846793005u + 1442695040888963407u;
        if (self->counts)
            atomic_fetch_add((_Atomic uint32_t *)self->base, 1);
        else
            lie(self, self->state >> 7);
    }
    return NULL;
}

static void use_parent(gv_parent *parent, fuzz_input *in, uint32_t envs, const gv_region *places)
{
    int64_t *ids = malloc(envs * sizeof *ids); /* exact */
    CHECK(ids != NULL);
    uint32_t count = 0, bad_index = 0, available = 0, queue = (uint32_t)fuzz_below(in, LANES + 1);
    size_t which = 0, named = fuzz_below(in, envs + 1);
    bool pending;
    switch (fuzz_below(in, 9)) {
    case 0:
        if (gv_send_all(parent, (uint32_t)fuzz_take(in, 4), queue & 1, &bad_index) != GV_OK)
            CHECK(bad_index < envs);
        break;
    case 1:
        for (size_t i = 0; i < named; i++)
            ids[i] = fuzz_below(in, 16) ? (int64_t)fuzz_below(in, envs) : (int64_t)fuzz_take(in, 8);
        if (gv_send(parent, ids, named, (uint32_t)fuzz_take(in, 4), queue & 1, &which) != GV_OK)
            CHECK(which < named);
        break;
    case 2: {
        uint32_t wanted = (uint32_t)fuzz_below(in, envs + 2), due = gv_num_pending(parent);
        uint64_t begun = gv_now();
        gv_status status =
            gv_parent_wait(parent, wanted, fuzz_below(in, WAIT_NS), queue & 1, &available);
        CHECK(gv_now() - begun < HANG_NS);
        if (status != GV_CORRUPT)
            CHECK(available <= due);
        break;
    }
    case 3: {
        uint32_t due = gv_num_pending(parent), limit = (uint32_t)fuzz_below(in, envs + 1);
        gv_drain(parent, named & 1 ? ids : NULL, limit, &count, &queue);
        CHECK(count <= limit && count <= due && gv_num_pending(parent) == due - count);
        for (uint32_t i = 0; (named & 1) && i < count; i++)
            CHECK(ids[i] >= 0 && ids[i] < (int64_t)envs);
        break;
    }
    case 4:
        if (fuzz_below(in, 8) == 0 && gv_mark_dead(parent, queue, ids, &count) == GV_OK)
            CHECK(count <= places[queue].envs);
        break;
    case 5:
        CHECK((gv_notify_worker(parent, queue) == GV_OK) == (queue < LANES));
        break;
    case 6: {
        uint32_t lacking;
        CHECK((gv_queue_pending(parent, queue, &count) == GV_OK) == (queue < LANES));
        if (gv_queue_lacking(parent, queue, &lacking) == GV_OK)
            CHECK(queue < LANES && lacking <= count);
        break;
    }
    case 7:
        count = (uint32_t)fuzz_take(in, 4);
        CHECK((gv_pending(parent, count, &pending) == GV_OK) == (count < envs));
        break;
    default:
        CHECK(gv_num_pending(parent) <= envs);
    }
    free(ids);
}

static void use_worker(gv_worker *worker, fuzz_input *in, uint32_t envs)
{
    uint32_t opcode = 0;
    uint64_t begun = gv_now();
    int32_t env;
    switch (fuzz_below(in, 4)) {
    case 0:
        gv_worker_wait(worker, fuzz_below(in, WAIT_NS), fuzz_below(in, 2));
        CHECK(gv_now() - begun < HANG_NS);
        break;
    case 1:
        while ((env = gv_take(worker, &opcode)) >= 0) {
            CHECK(env < (int32_t)envs && opcode <= GV_MAX_OPCODE);
            if (fuzz_below(in, 4))
                CHECK(gv_complete(worker, (uint32_t)env) == GV_OK);
        }
        CHECK(env == -1);
        break;
    case 2:
        CHECK(gv_complete(worker, envs + (uint32_t)fuzz_take(in, 2)) == GV_BAD_ENV);
        gv_complete(worker, (uint32_t)fuzz_below(in, envs));
        break;
    default:
        gv_flush(worker);
    }
}

/* Any places: either refused, or inside, aligned and apart. */
static void open_anywhere(fuzz_input *in, char *base, size_t length)
{
    gv_region places[LANES];
    gv_parent *parent = NULL;
    gv_worker *worker = NULL;
    gv_policy policy = {0, false};
    uint32_t bad_index = 0;
    size_t header = fuzz_below(in, 4) ? fuzz_below(in, 8) * GV_LINE : (size_t)fuzz_take(in, 8);
    for (uint32_t i = 0; i < LANES; i++) {
        places[i].offset = fuzz_below(in, 8) ? fuzz_below(in, length / GV_LINE + 2) * GV_LINE
                                             : (size_t)fuzz_take(in, 8);
        places[i].envs =
            fuzz_below(in, 8) ? (uint32_t)fuzz_below(in, MOST_ENVS) : (uint32_t)fuzz_take(in, 4);
    }
    if (gv_parent_open(base, length, header, places, 1 + (uint32_t)fuzz_below(in, LANES), policy,
                       &parent, &bad_index) == GV_OK)
        gv_parent_close(parent);
    else
        CHECK(parent == NULL && bad_index <= LANES);
    if (gv_worker_open(base, length, header, places[0], policy, &worker) == GV_OK)
        gv_worker_close(worker);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    gv_region places[LANES];
    gv_policy policy = {fuzz_below(&in, 3) * 1000u, fuzz_below(&in, 2)};
    uint32_t envs = 0, bad_index = 0;
    size_t length = gv_header_size();
    for (uint32_t i = 0; i < LANES; i++) {
        places[i].offset = length;
        places[i].envs = 1 + (uint32_t)fuzz_below(&in, MOST_ENVS);
        length += gv_queue_size(places[i].envs);
        envs += places[i].envs;
    }
    liar other = {aligned_alloc(GV_LINE, length), length, fuzz_take(&in, 8), false, false};
    CHECK(other.base != NULL);
    open_anywhere(&in, other.base, length);
    gv_parent *parent = NULL;
    gv_worker *workers[LANES] = {NULL};
    CHECK(gv_parent_open(other.base, length, 0, places, LANES, policy, &parent, &bad_index) ==
          GV_OK);
    for (uint32_t i = 0; i < LANES; i++)
        CHECK(gv_worker_open(other.base, length, 0, places[i], policy, &workers[i]) == GV_OK);
    /* A thread costs a hundred inputs. */
    pthread_t thread;
    bool liar_is_thread = fuzz_below(&in, 16) == 0;
    bool lies = liar_is_thread || fuzz_below(&in, 2);
    other.counts = fuzz_below(&in, 2);
    if (liar_is_thread)
        CHECK(pthread_create(&thread, NULL, lie_on, &other) == 0);
    while (in.left > 0) {
        uint32_t who = (uint32_t)fuzz_below(&in, 2 * LANES);
        if (who < LANES)
            use_worker(workers[who], &in, places[who].envs);
        else
            use_parent(parent, &in, envs, places);
        if (lies && !liar_is_thread && fuzz_below(&in, 2))
            lie(&other, fuzz_take(&in, 8));
    }
    if (liar_is_thread) {
        atomic_store(&other.stop, true);
        pthread_join(thread, NULL);
    }
    for (uint32_t i = 0; i < LANES; i++)
        gv_worker_close(workers[i]);
    gv_parent_close(parent);
    free(other.base);
    return 0;
}
