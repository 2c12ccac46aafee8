/* Feeds a fuzz_*.c file with inputs that only depend on a seed: PROGRAM [SECONDS [SEED]].
 *
 * Where libFuzzer or AFL++ is at hand, link the fuzz_*.c file with that instead. */
#define _DEFAULT_SOURCE /* alarm */
#include "fuzz.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES 512
/* An input that takes so long hangs; it takes a millisecond. */
#define HANG_SECONDS 60

static uint64_t state;
static volatile uint64_t inputs;

/* Which input it was: with the same seed it is the same again. */
static void report(int number)
{
    fprintf(stderr, "input %llu: signal %d\n", (unsigned long long)inputs, number);
    _exit(1);
}

/* xorshift64*: enough to reach every branch, and the same everywhere. */
static uint64_t next_number(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

/* Mostly small numbers, now and then any: both ends of what is checked. */
static uint8_t next_byte(void)
{
    uint64_t number = next_number();
    switch (number >> 60) {
    case 0:
        return (uint8_t)(number >> 8);
    case 1:
        return 0xff;
    case 2:
    case 3:
    case 4:
        return (uint8_t)(number >> 8) & 7;
    default:
        return (uint8_t)(number >> 8) & ((number & 0x10000) ? 1 : 0x1f);
    }
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1.0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    time_t begun = time(NULL);
    signal(SIGABRT, report);
    signal(SIGALRM, report);
    while (difftime(time(NULL), begun) < seconds || inputs == 0) {
        for (int i = 0; i < 200; i++, inputs++) {
            /* Each input has a seed of its own, so that a failure is found by its number. */
            state = (seed << 40) + inputs + 0x9e3779b97f4a7c15u;
            size_t size = (size_t)(next_number() % MOST_BYTES);
            uint8_t *data = malloc(size == 0 ? 1 : size); /* exact, so that ASan sees its end */
            if (data == NULL)
                return 1;
            for (size_t j = 0; j < size; j++)
                data[j] = next_byte();
            alarm(HANG_SECONDS);
            LLVMFuzzerTestOneInput(data, size);
            alarm(0);
            free(data);
        }
    }
    printf("%s: %llu inputs, seed %llu\n", argv[0], (unsigned long long)inputs,
           (unsigned long long)seed);
    return 0;
}
