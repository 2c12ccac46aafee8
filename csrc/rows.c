#include "rows.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool gv_total_bytes(size_t count, size_t size, size_t *total)
{
    if (size != 0 && count > SIZE_MAX / size)
        return false;
    *total = count * size;
    return true;
}

/* A constant size lets the compiler turn memmove into loads and stores. */
#define STACK_ROWS_OF(bytes)                                                                       \
    case bytes:                                                                                    \
        for (size_t i = 0; i < n; i++)                                                             \
            memmove(block + i * (bytes), rows[i], (bytes));                                        \
        return

void gv_stack_rows(char *block, const char *const *rows, size_t n, size_t row_bytes)
{
    switch (row_bytes) {
    case 0:
        return;
        STACK_ROWS_OF(1);
        STACK_ROWS_OF(2);
        STACK_ROWS_OF(4);
        STACK_ROWS_OF(8);
        STACK_ROWS_OF(16);
        STACK_ROWS_OF(32);
    default:
        for (size_t i = 0; i < n; i++)
            memmove(block + i * row_bytes, rows[i], row_bytes);
    }
}

bool gv_gather_rows(char *out, const char *block, size_t block_rows, const int64_t *index, size_t n,
                    size_t row_bytes)
{
    for (size_t i = 0; i < n; i++)
        if (index[i] < 0 || (uint64_t)index[i] >= block_rows)
            return false;
    for (size_t i = 0; i < n; i++)
        memmove(out + i * row_bytes, block + (size_t)index[i] * row_bytes, row_bytes);
    return true;
}

bool gv_narrow_row(float *out, const double *values, size_t n)
{
    /* The range is tested instead of the floating-point flags: it needs no fenv access, which
     * compilers honour differently, and vectorizes. The test declines a little more than the
     * flags would (exact subnormals, quiet NaN), which costs time there and never a result. */
    unsigned outside = 0;
    for (size_t i = 0; i < n; i++) {
        const double size = fabs(values[i]);
        outside |= (unsigned)!(size <= (double)FLT_MAX);
        outside |= (unsigned)(size < (double)FLT_MIN) & (unsigned)(size != 0.0);
    }
    if (outside)
        return false;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)values[i];
    return true;
}

#define PUT_INTEGER_OF(type)                                                                       \
    do {                                                                                           \
        const type number = (type)value;                                                           \
        if ((int64_t)number != value)                                                              \
            return false;                                                                          \
        memcpy(out, &number, sizeof number);                                                       \
        return true;                                                                               \
    } while (0)

bool gv_put_integer(char *out, size_t size, bool is_signed, int64_t value)
{
    if (!is_signed && value < 0)
        return false;
    switch (size) {
    case 1:
        if (is_signed)
            PUT_INTEGER_OF(int8_t);
        PUT_INTEGER_OF(uint8_t);
    case 2:
        if (is_signed)
            PUT_INTEGER_OF(int16_t);
        PUT_INTEGER_OF(uint16_t);
    case 4:
        if (is_signed)
            PUT_INTEGER_OF(int32_t);
        PUT_INTEGER_OF(uint32_t);
    case 8:
        PUT_INTEGER_OF(int64_t);
    default:
        return false;
    }
}
