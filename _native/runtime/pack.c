/* Packing of CSR arrays into formats: blocks of rows (levels i1:U,k1:C then any of i0:U,k0:U) and column panels
 * (k1:U,i1:U,k0:C). Everything is O(nnz + rows + columns), by counting; nothing compares except the rows
 * of a block, which are merged. dtype: 0 float, 1 double, 2/3 their complex; itype: 0 int32, 1 int64.
 * Every function returns 0, or -1 when its scratch memory could not be had (nothing useful is written then). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t n_rows, n_cols;
    const void *indptr, *indices, *data;
} asp_pattern;

typedef struct {
    int64_t by;
    int shift;      /* by == 1 << shift, or -1 */
    uint64_t magic; /* floor(2^64 / by) + 1: exact for dividends below 2^32 */
} asp_divisor;

typedef struct {
    int64_t r;
    asp_divisor c;
    int64_t size, step_i, step_k; /* values per block, and steps of i0 and k0 inside it */
    const void *pos, *crd;
    int bits;
} asp_blocks;

static asp_divisor asp_divisor_of(int64_t by)
{
    asp_divisor d = {by, -1, by > 1 ? UINT64_MAX / (uint64_t)by + 1 : 0};
    for (int shift = 0; shift < 62; shift++)
        if (by == (int64_t)1 << shift)
            d.shift = shift;
    return d;
}

static inline int64_t asp_quotient(int64_t x, asp_divisor d)
{
    if (d.shift >= 0)
        return x >> d.shift;
#ifdef __SIZEOF_INT128__
    if ((uint64_t)x >> 32 == 0)
        return (int64_t)(((unsigned __int128)(uint64_t)x * d.magic) >> 64);
#endif
    return (int64_t)((uint64_t)x / (uint64_t)d.by);
}

static inline void asp_put(void *crd, int bits, int64_t at, int64_t value)
{
    switch (bits) {
    case 16: ((uint16_t *)crd)[at] = (uint16_t)value; break;
    case 32: ((int32_t *)crd)[at] = (int32_t)value; break;
    default: ((int64_t *)crd)[at] = value; break;
    }
}

static inline int64_t asp_get(const void *crd, int bits, int64_t at)
{
    switch (bits) {
    case 16: return ((const uint16_t *)crd)[at];
    case 32: return ((const int32_t *)crd)[at];
    default: return ((const int64_t *)crd)[at];
    }
}

/* Sort n values that come as a few ascending runs (the rows of a block), by merging neighbouring runs until one is
 * left. `spare` has room for n. */
static void asp_merge_runs(int64_t *values, int64_t n, int64_t *spare)
{
    for (int64_t n_runs = 2; n_runs > 1;) {
        n_runs = 0;
        for (int64_t begin = 0; begin < n; n_runs++) {
            int64_t middle = begin + 1, end;
            while (middle < n && values[middle - 1] <= values[middle])
                middle++;
            for (end = middle + (middle < n); end < n && values[end - 1] <= values[end];)
                end++;
            if (middle < end) {
                int64_t a = 0, b = middle, to = begin;
                const int64_t n_first = middle - begin;
                memcpy(spare, values + begin, (size_t)n_first * sizeof *values);
                while (a < n_first)
                    values[to++] = b < end && values[b] < spare[a] ? values[b++] : spare[a++];
            }
            begin = end;
        }
    }
}

#define INDEX int32_t
#define NAME(x) x##_int32
#include "pack_body.h"
#undef INDEX
#undef NAME
#define INDEX int64_t
#define NAME(x) x##_int64
#include "pack_body.h"
#undef INDEX
#undef NAME

/* Number of non-empty r x c blocks; with `pos` (ceil(n_rows / r) + 1 entries of the index type), where each block row
 * begins. */
int64_t asp_count_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                         int64_t c, void *pos)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    int64_t total = 0, *stamp = calloc((size_t)((n_cols + c - 1) / c + 1), sizeof *stamp);
    if (!stamp)
        return -1;
    if (itype == 0)
        count_blocks_int32(&a, asp_divisor_of(c), r, stamp, pos, &total);
    else
        count_blocks_int64(&a, asp_divisor_of(c), r, stamp, pos, &total);
    free(stamp);
    return total;
}

/* Block columns, for `pos` from asp_count_blocks. */
int asp_list_blocks(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                    int64_t c, int bits, void *crd)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const size_t n_k1 = (size_t)((n_cols + c - 1) / c + 1);
    int64_t *stamp = calloc(3 * n_k1, sizeof *stamp); /* stamps, found block columns, spare room */
    if (!stamp)
        return -1;
    if (itype == 0)
        list_blocks_int32(&a, asp_divisor_of(c), r, stamp, (int64_t)n_k1, bits, crd);
    else
        list_blocks_int64(&a, asp_divisor_of(c), r, stamp, (int64_t)n_k1, bits, crd);
    free(stamp);
    return 0;
}

/* Values of blocks whose structure exists: value (i0, k0) of block q is at q * size + i0 * step_i + k0 * step_k. */
int asp_fill_blocks(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t r, int64_t c, int64_t size, int64_t step_i, int64_t step_k, int bits,
                    const void *pos, const void *crd, void *vals)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    const asp_blocks b = {r, asp_divisor_of(c), size, step_i, step_k, pos, crd, bits};
    int64_t *slot = malloc((size_t)((n_cols + c - 1) / c + 1) * sizeof *slot);
    if (!slot)
        return -1;
    if (itype == 0)
        fill_blocks_int32(dtype, &a, &b, slot, vals);
    else
        fill_blocks_int64(dtype, &a, &b, slot, vals);
    free(slot);
    return 0;
}

/* pos of column panels: n_panels * n_rows + 1 entries of the index type. */
int asp_count_panels(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t split,
                     void *pos)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, NULL};
    const int64_t n_panels = (n_cols + split - 1) / split;
    if (itype == 0)
        count_panels_int32(&a, asp_divisor_of(split), n_panels, pos);
    else
        count_panels_int64(&a, asp_divisor_of(split), n_panels, pos);
    return 0;
}

/* Panel-relative columns (unless crd is NULL) and values, each row's entries in their own order. */
int asp_fill_panels(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                    const void *data, int64_t split, const void *pos, int bits, void *crd, void *vals)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    const int64_t n_panels = (n_cols + split - 1) / split;
    int64_t *next = malloc((size_t)(n_panels + 1) * sizeof *next);
    if (!next)
        return -1;
    if (itype == 0)
        fill_panels_int32(dtype, &a, asp_divisor_of(split), n_panels, pos, next, bits, crd, vals);
    else
        fill_panels_int64(dtype, &a, asp_divisor_of(split), n_panels, pos, next, bits, crd, vals);
    free(next);
    return 0;
}

/* CSR of A^T: indptr_t has n_cols + 1 entries; indices_t may be NULL (values only). */
int asp_pack_transpose(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                       const void *data, void *indptr_t, void *indices_t, void *data_t)
{
    const asp_pattern a = {n_rows, n_cols, indptr, indices, data};
    if (itype == 0)
        transpose_int32(dtype, &a, indptr_t, indices_t, data_t);
    else
        transpose_int64(dtype, &a, indptr_t, indices_t, data_t);
    return 0;
}
