/* Definitions that the graph kernels (sddmm, max aggregation, softmax, attention) share: operand types, vector types,
 * and loops over ranges of work on several threads.
 *
 * A body header is included once per instruction set and type by `graph_each.h`. Inside it NAME(x) makes a unique
 * name, R is the real type, I the index type and VBYTES the number of bytes of the widest vector.
 */
#ifndef ASP_GRAPH_COMMON_H
#define ASP_GRAPH_COMMON_H

#include <math.h>

#include "common.h"
#include "graph_api.h"
#include "kernels.h"
#include "matmul_api.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* every function that takes vectors is inlined */
#endif

#ifndef __has_builtin
#define __has_builtin(x) 0
#endif

/* Return the row that holds nonzero p, that is the first row that ends behind p. */
ASP_INLINE int64_t g_row_of(int itype, const void *indptr, int64_t n_rows, int64_t p)
{
    int64_t low = 0, high = n_rows;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (asp_index_at(itype, indptr, middle + 1) <= p) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Operands of sampled dot products: X (n_rows x K) and Y (n_cols x K) are stored by rows, with heads `head_step`
 * elements apart. Results are out[p * n_heads + h] = (alpha * dot + beta * in[...]) * times[p]. A NULL `in` means beta
 * = 0. A NULL `times` means 1; otherwise n_heads must be 1. A non-NULL `indices_out` receives a copy of the indices as
 * they are read (real values only).
 *
 * The matrix's rows may be permuted (one head, no `indices_out`): rows[i] is the row of X of row i, and entry p is
 * read and written at places[p], consecutively within a row. NULL means the identity. A positive `ahead` sets the
 * number of entries by which rows of Y are prefetched.
 */
typedef struct {
    const void *indptr, *indices, *X, *Y, *in, *times;
    void *out, *indices_out;
    const int32_t *rows, *places;
    int64_t ahead;
    int64_t n_rows, n_cols, nnz, K, ldx, ldy, n_heads, head_step;
    double alpha, beta;
    double alpha_im, beta_im;
    int dtype, itype;
    int is_fixed; /* the summation order must not depend on the address of Y */
} g_sddmm;

/* Compute the dot products of the entries [p, end), which may span several rows; `row` is the row of entry p or an
 * earlier one. Handles all heads; dtype is ASP_F32 or ASP_F64. Defined in dots.c. */
void g_dots_at(const g_sddmm *s, int64_t row, int64_t p, int64_t end);

/* Variant that iterates over rows of the sparse matrix, for operands for which g_dots_by_row returns nonzero. Defined
 * in dots_rows.c. */
int g_dots_by_row(const g_sddmm *s, int isa);
void g_dots_of_rows(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end);

/* Compute all entries on up to n_threads threads. Defined in sddmm.c. */
void g_dots_shared(const g_sddmm *s, int n_threads);

/* A piece of work on items (or rows) [begin, end); called concurrently with disjoint ranges. */
typedef void (*g_range_fn)(const void *args, int64_t begin, int64_t end);

/* Call work(args, begin, end) over [0, n_items) in ranges of at least `least` items, on at most n_threads threads (0:
 * asp_max_threads()). serial_ns is the estimated time on one thread. */
void g_for_items(g_range_fn work, const void *args, int64_t n_items, int64_t least, double serial_ns, int n_threads);

/* Variant over rows, with ranges that hold equal numbers of rows plus nonzeros. n_steps is the total number of
 * multiply-adds. */
void g_for_rows(g_range_fn work, const void *args, const void *indptr, int itype, int64_t n_rows, double n_steps,
                int n_threads);

#ifdef __clang__
#define G_UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define G_UNROLL_4 _Pragma("GCC unroll 4")
#endif

enum { G_AHEAD = 8 }; /* prefetch distance of rows of the dense operand, in nonzeros */

#endif
