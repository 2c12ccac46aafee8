/* Copies of rows: the bytes of one environment's value of one array leaf.
 *
 * A block is `n` rows of `row_bytes` bytes, one after another. Rows are copied as bytes,
 * so one function serves every dtype. Source and target may overlap: rows are moved one
 * by one, in order, as NumPy assigns them. Nothing here knows Python. */
#ifndef GYMVEC_ROWS_H
#define GYMVEC_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions that answer a bool did the whole job, or nothing at all and answer false. */

/* Bytes of `count` items of `size` bytes each. False where they do not fit size_t. */
bool gv_total_bytes(size_t count, size_t size, size_t *total);

/* block[i] = *rows[i] for i in [0, n). `block` holds n rows. */
void gv_stack_rows(char *block, const char *const *rows, size_t n, size_t row_bytes);

/* out[i] = block[index[i]] for i in [0, n). `out` holds n rows, `block` holds `block_rows`. False
 * where an index is outside its block. */
bool gv_gather_rows(char *out, const char *block, size_t block_rows, const int64_t *index, size_t n,
                    size_t row_bytes);

/* One float64 row as float32. False where NumPy's cast might warn: values that are not
 * finite, overflow, or lie below the normal range of float32. */
bool gv_narrow_row(float *out, const double *values, size_t n);

/* An integer of `size` bytes (1, 2, 4 or 8). False where the value does not fit. */
bool gv_put_integer(char *out, size_t size, bool is_signed, int64_t value);

#endif
