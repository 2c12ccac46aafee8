/* Plain asserts for the C sources, run without Python under the sanitizers. Blocks are
 * allocated to the byte, so that AddressSanitizer sees the first one read or written beyond. */
#undef NDEBUG
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

static char *bytes(size_t size, char first)
{
    char *block = malloc(size ? size : 1);
    assert(block != NULL);
    for (size_t i = 0; i < size; i++)
        block[i] = (char)(first + (char)(i % 100));
    return block;
}

static void test_total_bytes(void)
{
    size_t total = 7;
    assert(gv_total_bytes(3, 4, &total) && total == 12);
    assert(gv_total_bytes(0, 4, &total) && total == 0);
    assert(gv_total_bytes(SIZE_MAX, 0, &total) && total == 0);
    assert(gv_total_bytes(0, SIZE_MAX, &total) && total == 0);
    assert(gv_total_bytes(SIZE_MAX, 1, &total) && total == SIZE_MAX);
    assert(gv_total_bytes(SIZE_MAX / 2, 2, &total) && total == SIZE_MAX - 1);
    total = 7;
    assert(!gv_total_bytes(SIZE_MAX / 2 + 1, 2, &total) && total == 7);
    assert(!gv_total_bytes(SIZE_MAX, SIZE_MAX, &total) && total == 7);
    assert(!gv_total_bytes(2, SIZE_MAX, &total) && total == 7);
}

static void test_stack_rows(size_t row_bytes, size_t n)
{
    char *block = bytes(n * row_bytes, 1);
    char **rows = malloc((n ? n : 1) * sizeof *rows);
    assert(rows != NULL);
    for (size_t i = 0; i < n; i++)
        rows[i] = bytes(row_bytes, (char)(10 + i));
    gv_stack_rows(block, (const char *const *)rows, n, row_bytes);
    for (size_t i = 0; i < n; i++) {
        assert(memcmp(block + i * row_bytes, rows[i], row_bytes) == 0);
        free(rows[i]);
    }
    free(rows);
    free(block);
}

static void test_stack_rows_misaligned(size_t row_bytes)
{
    char *source = bytes(row_bytes + 1, 5);
    char *target = bytes(2 * row_bytes + 1, 50);
    const char *rows[2] = {source + 1, source};
    gv_stack_rows(target + 1, rows, 2, row_bytes);
    assert(target[0] == 50);
    assert(memcmp(target + 1, source + 1, row_bytes) == 0);
    assert(memcmp(target + 1 + row_bytes, source, row_bytes) == 0);
    free(source);
    free(target);
}

/* Rows are moved one by one, in order: what was moved is read again as it is then. */
static void test_stack_rows_overlap(size_t row_bytes)
{
    const size_t order[3] = {1, 2, 0};
    char *block = bytes(3 * row_bytes, 1);
    char *expected = bytes(3 * row_bytes, 1);
    char *row = bytes(row_bytes, 0);
    const char *rows[3];
    for (size_t i = 0; i < 3; i++)
        rows[i] = block + order[i] * row_bytes;
    gv_stack_rows(block, rows, 3, row_bytes);
    for (size_t i = 0; i < 3; i++) {
        memcpy(row, expected + order[i] * row_bytes, row_bytes);
        memcpy(expected + i * row_bytes, row, row_bytes);
    }
    assert(memcmp(block, expected, 3 * row_bytes) == 0);
    free(block);
    free(expected);

    /* A row that overlaps its own target by all but one byte. */
    block = bytes(row_bytes + 1, 1);
    expected = bytes(row_bytes, 1);
    rows[0] = block;
    gv_stack_rows(block + 1, rows, 1, row_bytes);
    assert(memcmp(block + 1, expected, row_bytes) == 0);
    free(block);
    free(expected);
    free(row);
}

static void test_gather_rows(size_t row_bytes)
{
    const int64_t index[4] = {2, 0, 2, 1};
    char *block = bytes(3 * row_bytes, 1);
    char *out = bytes(4 * row_bytes, 60);
    assert(gv_gather_rows(out, block, 3, index, 4, row_bytes));
    for (size_t i = 0; i < 4; i++)
        assert(memcmp(out + i * row_bytes, block + (size_t)index[i] * row_bytes, row_bytes) == 0);
    free(block);
    free(out);
}

static void test_gather_rows_outside(void)
{
    const int64_t bad[5] = {3, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    for (size_t i = 0; i < 5; i++)
        for (size_t place = 0; place < 3; place++) {
            int64_t index[3] = {0, 1, 2};
            char *block = bytes(3 * 8, 1);
            char *out = bytes(3 * 8, 60);
            char *before = bytes(3 * 8, 60);
            index[place] = bad[i];
            assert(!gv_gather_rows(out, block, 3, index, 3, 8));
            assert(memcmp(out, before, 3 * 8) == 0);
            free(block);
            free(out);
            free(before);
        }
    assert(gv_gather_rows(NULL, NULL, 0, NULL, 0, 8));
    const int64_t zero = 0;
    char out[1];
    assert(!gv_gather_rows(out, out, 0, &zero, 1, 1));
}

static void test_narrow_row(void)
{
    const double fine[] = {0.0, -0.0, 1.0, 0.1, -3.0e38, FLT_MAX, -FLT_MAX, FLT_MIN, -FLT_MIN};
    const double odd[] = {NAN,    -NAN,  INFINITY, -INFINITY,    3.5e38,
                          -1e300, 1e-40, -1e-46,   DBL_TRUE_MIN, DBL_MAX};
    const size_t n = sizeof fine / sizeof *fine;
    float *out = malloc(n * sizeof *out);
    double *values = malloc(n * sizeof *values);
    assert(out != NULL && values != NULL);
    memcpy(values, fine, sizeof fine);
    assert(gv_narrow_row(out, values, n));
    for (size_t i = 0; i < n; i++)
        assert(out[i] == (float)fine[i] && !signbit(out[i]) == !signbit(fine[i]));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (size_t place = 0; place < n; place++) {
            memcpy(values, fine, sizeof fine);
            values[place] = odd[i];
            for (size_t j = 0; j < n; j++)
                out[j] = 7;
            assert(!gv_narrow_row(out, values, n));
            for (size_t j = 0; j < n; j++)
                assert(out[j] == 7);
        }
    assert(gv_narrow_row(out, values, 0));
    free(out);
    free(values);
}

static void puts_integer(size_t size, int is_signed, int64_t value, int fits)
{
    char *out = bytes(size, 50);
    char *before = bytes(size, 50);
    assert(gv_put_integer(out, size, is_signed, value) == fits);
    if (fits) {
        uint64_t found = 0;
        /* Put together from memory as the host orders it. */
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        switch (size) {
        case 1:
            memcpy(&u8, out, 1);
            found = u8;
            break;
        case 2:
            memcpy(&u16, out, 2);
            found = u16;
            break;
        case 4:
            memcpy(&u32, out, 4);
            found = u32;
            break;
        default:
            memcpy(&found, out, 8);
        }
        const uint64_t mask = size == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
        assert(found == ((uint64_t)value & mask));
    } else {
        assert(memcmp(out, before, size) == 0);
    }
    free(out);
    free(before);
}

static void test_put_integer(void)
{
    for (size_t size = 1; size <= 4; size *= 2) {
        const int64_t top = (int64_t)1 << (8 * size - 1);
        puts_integer(size, 1, top - 1, 1);
        puts_integer(size, 1, top, 0);
        puts_integer(size, 1, -top, 1);
        puts_integer(size, 1, -top - 1, 0);
        puts_integer(size, 0, 2 * top - 1, 1);
        puts_integer(size, 0, 2 * top, 0);
    }
    for (size_t size = 1; size <= 8; size *= 2)
        for (int is_signed = 0; is_signed < 2; is_signed++) {
            puts_integer(size, is_signed, 0, 1);
            puts_integer(size, is_signed, 1, 1);
            puts_integer(size, is_signed, -1, is_signed);
            puts_integer(size, is_signed, INT64_MAX, size == 8);
            puts_integer(size, is_signed, INT64_MIN, size == 8 && is_signed);
        }
    const size_t odd[] = {3, 5, 16, SIZE_MAX};
    char out[1] = {50};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert(!gv_put_integer(out, odd[i], 1, 1) && out[0] == 50);
    assert(!gv_put_integer(out, 0, 1, 1) && out[0] == 50);
}

int main(void)
{
    const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 32, 33, 64, 1000, 65537};
    const size_t counts[] = {0, 1, 2, 7, 300};
    test_total_bytes();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < sizeof counts / sizeof *counts; j++)
            test_stack_rows(sizes[i], counts[j]);
        test_stack_rows_misaligned(sizes[i]);
        test_stack_rows_overlap(sizes[i]);
        test_gather_rows(sizes[i]);
    }
    test_gather_rows_outside();
    test_narrow_row();
    test_put_integer();
    puts("csrc: all passed");
    return 0;
}
