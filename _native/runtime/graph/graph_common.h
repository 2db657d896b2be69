/* What the graph kernels (sddmm, reduce, softmax, attention) share: names per (instruction set, value type, index
 * type), vector types, and a loop over ranges of work handed out to threads.
 *
 * A body header is included once per instruction set and type by `graph_each.h`; inside it NAME(x) makes the name
 * unique, R is the real type, I the index type and VBYTES the bytes of the widest vector.
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

/* Rows with index < the answer end at or before nonzero p; the answer is the row that holds nonzero p. */
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

/* Operands of the dot products: X (n_rows x K) and Y (n_cols x K) by rows, heads `head_step` apart, results
 * out[p * n_heads + h] = (alpha * dot + beta * in[...]) * times[p]; no `in` means beta = 0, no `times` (it asks for one
 * head) means 1. `indices_out`, if any, takes a copy of the indices as they are read (real values only).
 *
 * Rows of the matrix may be in an order of their own (one head, no `indices_out`): `rows` names the row of X of each, and
 * what is read and written for entry p is at `places[p]`, one after the other within a row; NULL: row and p themselves.
 * `ahead` > 0: a caller's wish how many entries before its turn a row of Y is asked for. */
typedef struct {
    const void *indptr, *indices, *X, *Y, *in, *times;
    void *out, *indices_out;
    const int32_t *rows, *places;
    int64_t ahead;
    int64_t n_rows, n_cols, nnz, K, ldx, ldy, n_heads, head_step;
    double alpha, beta;
    double alpha_im, beta_im;
    int dtype, itype;
    int is_fixed; /* no sum depends on where Y lies */
} g_sddmm;

/* Dot products at the entries [p, end), which may run over several rows; `row` holds entry p or comes before its row.
 * All heads; dtype ASP_F32 or ASP_F64. In dots.c. */
void g_dots_at(const g_sddmm *s, int64_t row, int64_t p, int64_t end);

/* The same row by row of the sparse matrix, for operands of which g_dots_by_row tells that they suit; in dots_rows.c. */
int g_dots_by_row(const g_sddmm *s, int isa);
void g_dots_of_rows(const g_sddmm *s, int isa, int64_t row, int64_t p, int64_t end);

/* All of them, by several threads; in sddmm.c. */
void g_dots_shared(const g_sddmm *s, int n_threads);

typedef void (*g_range_fn)(const void *args, int64_t begin, int64_t end);

/* Call work(args, begin, end) over [0, n_items) in ranges of at least `least`, on at most n_threads threads (0: as many
 * as this process should use); serial_ns is what one thread would take. */
void g_for_items(g_range_fn work, const void *args, int64_t n_items, int64_t least, double serial_ns, int n_threads);

/* The same over rows, cut so that ranges hold equal numbers of rows and nonzeros together. */
void g_for_rows(g_range_fn work, const void *args, const void *indptr, int itype, int64_t n_rows, double n_steps,
                int n_threads);

#ifdef __clang__
#define G_UNROLL_4 _Pragma("clang loop unroll_count(4)")
#else
#define G_UNROLL_4 _Pragma("GCC unroll 4")
#endif

enum { G_AHEAD = 8 }; /* nonzeros from which a row of the dense operand is asked for early */

#endif
