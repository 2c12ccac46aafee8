/* What a fuzz_*.c file shares with its driver: bytes of input, taken one after another. */
#ifndef GYMVEC_FUZZ_H
#define GYMVEC_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As libFuzzer and AFL++ call it; without them csrc/fuzz/fuzz_driver.c does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const uint8_t *next;
    size_t left;
} fuzz_input;

/* Zeros when the input is used up. */
static inline uint64_t fuzz_take(fuzz_input *in, size_t bytes)
{
    uint64_t value = 0;
    size_t count = bytes < in->left ? bytes : in->left;
    memcpy(&value, in->next, count);
    in->next += count;
    in->left -= count;
    return value;
}

static inline size_t fuzz_below(fuzz_input *in, size_t limit)
{
    return (size_t)(fuzz_take(in, 4) % limit);
}

#endif
