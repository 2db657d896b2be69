/* Operands of the CSR products and the table of kernels that each instruction set provides.
 *
 * Kernels are serial and compute the rows [begin, end) of A. Threads, ranges and very long rows are handled by their
 * callers (matmul.c, matmul_t.c).
 */
#ifndef ASP_KERNELS_H
#define ASP_KERNELS_H

#include <stdatomic.h>

#include "common.h"
#include "identical_rows.h"

/* A row longer than nnz / LONG_ROWS_MAX is divided among threads, so there are fewer than LONG_ROWS_MAX such long rows.
 * Rows of up to LONG_ROW_MIN nonzeros are never divided. */
enum { LONG_ROWS_MAX = 256, LONG_ROW_MIN = 8192 };

/* SpMV kernels may sum the ROW_GROUP rows from a multiple of ROW_GROUP together when these hold at most
 * GROUP_NONZEROS. Callers never divide such a group. The sums of rows of any other group must not depend on their
 * neighbours. */
enum { ROW_GROUP = 16, GROUP_NONZEROS = 384 };

/* Target of prefetching rows of B: none, the L1 cache, or, for rows used much later, only the L2 cache. */
enum { FETCH_NONE, FETCH_L1, FETCH_L2 };

/* Long rows that kernels leave out, collected concurrently. */
typedef struct {
    _Atomic int64_t count;
    int64_t rows[LONG_ROWS_MAX];
} asp_long_rows;

/* A function that converts n values to another type. */
typedef void (*asp_widen)(void *restrict to, const void *restrict from, int64_t n);

/* Operands of a product C (+)= A B. */
typedef struct {
    int64_t n_rows, n_cols, nnz, n_vecs;
    const void *indptr, *indices, *data, *B;
    void *C;
    const int32_t *places; /* spmm only: row of C per row of A; NULL: the identity */
    int64_t ldb, ldc;
    int accumulate;
    int prefetch;         /* prefetch distance of rows of B (or C), in nonzeros; 0: none */
    int asked;            /* the caller chose the prefetch distance */
    int fetch;            /* spmm only: target of prefetching, FETCH_... */
    int stream;           /* store C with non-temporal stores */
    int has_identical_rows;        /* spmm only: enough rows are identical to search for them (identical_rows.h) */
    int64_t long_row_length; /* longer rows are left out and recorded in `long_rows` */
    asp_long_rows *long_rows;
    int is_pair;                      /* a product of integers, or of two value types (pairs/) */
    int stored_bytes, element_bytes;  /* bytes of a stored value, and of an element of B and C, if widen is set */
    asp_widen widen;                  /* converts stored values; NULL: they have the type of the product */
} asp_args;

/* Record a row that a kernel leaves out. Called concurrently. */
ASP_INLINE void asp_note_long_row(const asp_args *args, int64_t row)
{
    int64_t place = atomic_fetch_add_explicit(&args->long_rows->count, 1, memory_order_relaxed);
    if (place < LONG_ROWS_MAX) args->long_rows->rows[place] = row;
}

typedef void (*asp_kernel)(const asp_args *args, int64_t begin, int64_t end);

/* Kernels of one instruction set, value type and index type. */
typedef struct {
    asp_kernel spmv;    /* C[i] = A[i] B for one dense column, unit strides */
    asp_kernel spmv_by_loads; /* the same results, bit for bit, without gather instructions */
    asp_kernel spmm;    /* C[i, :] = A[i] B */
    asp_kernel scatter; /* C += A[rows]^T B[rows]; C is not cleared */
    /* Minimum and maximum of n > 0 indices. */
    void (*extent)(const void *indices, int64_t n, int64_t *low, int64_t *high);
} asp_kernels;

/* Maximum number of vectors of a tile of identical rows with a partial last vector. */
enum { MAX_IDENTICAL_MASKED = 9 };

/* Tables by [dtype][itype]. */
#define ASP_DECLARE(x, isa) extern const asp_kernels x##_##isa[4][2];
ASP_EACH_ISA(ASP_DECLARE, asp_kernels)
#undef ASP_DECLARE

/* Return the kernels for rows of B of row_bytes bytes. */
const asp_kernels *asp_kernels_for(int dtype, int itype, int64_t row_bytes);
/* Variant of `scatter` for one dense column with unit strides, the same for every instruction set; [dtype][itype]. */
extern const asp_kernel asp_scatter_vector[4][2];

/* Return the kernel of C[i, :] = A[i] B for rows of B of so few bytes that tiles are slow, or NULL: use tiles. */
asp_kernel asp_narrow_kernel(int dtype, int itype, int64_t n_vecs);
/* The same for one column of complex numbers with unit strides, whose results are written in the order of A's rows. */
asp_kernel asp_complex_kernel(int dtype, int itype, int64_t n_vecs);

/* Return the end of the rows whose partial last vector may be stored whole: its `surplus` lanes fall on later rows of the
 * range, which are stored afterwards. `width` is the number of reals in a row. On Zen 2 to Zen 4 a masked store of 32 bytes
 * takes 12 cycles, a whole one takes one. */
ASP_INLINE int64_t asp_whole_end(const asp_args *args, int64_t end, int64_t width, int64_t surplus)
{
    return args->accumulate || args->places || args->ldc != width ? 0 : end - (surplus + width - 1) / width;
}

/* Return the bytes of one element of any type that values may be stored in. */
ASP_INLINE int64_t asp_element_bytes(int dtype)
{
    static const int8_t bytes[] = {4, 8, 8, 16, 1, 1, 2, 4, 8, 1, 2, 4, 8};
    return bytes[dtype];
}

/* Return the first row i with indptr[i] - indptr[0] + i >= weight: rows and nonzeros count alike. */
ASP_INLINE int64_t asp_row_at(int itype, const void *indptr, int64_t n_rows, int64_t weight)
{
    int64_t low = 0, high = n_rows, base = asp_index_at(itype, indptr, 0);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (asp_index_at(itype, indptr, middle) - base + middle < weight) low = middle + 1;
        else high = middle;
    }
    return low;
}

#endif
