/* Any sizes, counts and indices into the copies of rows: the result of a slow copy, or untouched.
 */
#include "check.h"
#include "fuzz.h"
#include "rows.h"

#include <float.h>
#include <math.h>

#define MOST_ROWS 9
#define MOST_BYTES 70

/* Memory of exactly this size, so that AddressSanitizer sees what lies outside. */
static char *bytes_of(fuzz_input *in, size_t size)
{
    char *bytes = malloc(size == 0 ? 1 : size);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)fuzz_take(in, 1);
    return bytes;
}

static void stack(fuzz_input *in)
{
    size_t n = fuzz_below(in, MOST_ROWS), row_bytes = fuzz_below(in, MOST_BYTES);
    char *block = bytes_of(in, n * row_bytes);
    char *own[MOST_ROWS];
    const char *rows[MOST_ROWS] = {NULL};
    for (size_t i = 0; i < n; i++) {
        own[i] = bytes_of(in, row_bytes);
        rows[i] = own[i];
    }
    gv_stack_rows(block, rows, n, row_bytes);
    for (size_t i = 0; i < n; i++) {
        CHECK(memcmp(block + i * row_bytes, rows[i], row_bytes) == 0);
        /* Rows of the block itself: legal, and inside whatever comes of it. */
        rows[i] = block + fuzz_below(in, n) * row_bytes;
    }
    gv_stack_rows(block, rows, n, row_bytes);
    for (size_t i = 0; i < n; i++)
        free(own[i]);
    free(block);
}

static void gather(fuzz_input *in)
{
    size_t rows = fuzz_below(in, MOST_ROWS), n = fuzz_below(in, MOST_ROWS);
    size_t row_bytes = fuzz_below(in, MOST_BYTES);
    char *block = bytes_of(in, rows * row_bytes), *out = bytes_of(in, n * row_bytes);
    int64_t index[MOST_ROWS];
    int inside = 1;
    for (size_t i = 0; i < n; i++) {
        index[i] =
            fuzz_below(in, 8) ? (int64_t)fuzz_below(in, rows + 1) : (int64_t)fuzz_take(in, 8);
        inside = inside && index[i] >= 0 && (uint64_t)index[i] < rows;
    }
    char *before = malloc(n * row_bytes + 1);
    CHECK(before != NULL);
    memcpy(before, out, n * row_bytes);
    bool done = gv_gather_rows(out, block, rows, index, n, row_bytes);
    CHECK(done == inside);
    if (!done)
        CHECK(memcmp(before, out, n * row_bytes) == 0);
    for (size_t i = 0; done && i < n; i++) {
        const char *row = block + (size_t)index[i] * row_bytes;
        CHECK(memcmp(out + i * row_bytes, row, row_bytes) == 0);
    }
    free(before);
    free(out);
    free(block);
}

static void narrow(fuzz_input *in)
{
    size_t n = fuzz_below(in, MOST_ROWS);
    double values[MOST_ROWS] = {0};
    float *out = malloc(n * sizeof *out + 1);
    CHECK(out != NULL);
    memset(out, 0x55, n * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = fuzz_take(in, 8);
        memcpy(&values[i], &bits, sizeof bits);
        if (bits & 1)
            values[i] = (double)(float)(int8_t)bits;
    }
    bool done = gv_narrow_row(out, values, n);
    for (size_t i = 0; i < n; i++) {
        if (done)
            CHECK(fabs(values[i]) <= FLT_MAX && out[i] == (float)values[i]);
        else
            CHECK(memcmp(&out[i], "\x55\x55\x55\x55", 4) == 0);
    }
    free(out);
}

static void integers(fuzz_input *in)
{
    size_t size = fuzz_below(in, 10);
    int is_signed = (int)fuzz_below(in, 2);
    int64_t value = (int64_t)fuzz_take(in, 8);
    char *out = bytes_of(in, size);
    int64_t back = 0;
    if (gv_put_integer(out, size, is_signed, value)) {
        CHECK(size == 1 || size == 2 || size == 4 || size == 8);
        memcpy(&back, out, size); /* little-endian, as every machine that this runs on */
        if (is_signed && size < 8 && value < 0)
            back |= (int64_t)(UINT64_MAX << (8 * size));
        CHECK(back == value);
    }
    free(out);
}

static void sizes(fuzz_input *in)
{
    size_t count = (size_t)fuzz_take(in, 8), size = (size_t)fuzz_take(in, 8), total = 0;
    if (gv_total_bytes(count, size, &total))
        CHECK(size == 0 || total / size == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void (*const all[])(fuzz_input *) = {stack, gather, narrow, integers, sizes};
    fuzz_input in = {data, size};
    while (in.left > 0)
        all[fuzz_below(&in, sizeof all / sizeof *all)](&in);
    return 0;
}
