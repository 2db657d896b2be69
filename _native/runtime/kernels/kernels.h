/* The product's operands, and the table of kernels that each instruction set provides.
 *
 * Kernels are serial and work on rows [begin, end) of A; threads, ranges and long rows are the drivers' business.
 */
#ifndef ASP_KERNELS_H
#define ASP_KERNELS_H

#include <stdatomic.h>

#include "common.h"
#include "identical_rows.h"

/* A row longer than nnz / LONG_ROWS_MAX is split between threads, so that there are fewer of them than this. */
enum { LONG_ROWS_MAX = 256, LONG_ROW_MIN = 8192 };

/* SpMV kernels may sum the rows of a group, ROW_GROUP rows from a multiple of it, together when they hold at most
 * GROUP_NONZEROS. Such a group is never divided; rows of any other group must not depend on their neighbours. */
enum { ROW_GROUP = 16, GROUP_NONZEROS = 384 };

/* Rows of B that will be read are fetched into the first cache, or, what is read long after, only into the second. */
enum { FETCH_NONE, FETCH_L1, FETCH_L2 };

typedef struct {
    _Atomic int64_t count;
    int64_t rows[LONG_ROWS_MAX];
} asp_long_rows;

typedef struct {
    int64_t n_rows, n_cols, nnz, n_vecs;
    const void *indptr, *indices, *data, *B;
    void *C;
    const int32_t *places; /* spmm only: of A's row i the row of C; NULL: row i */
    int64_t ldb, ldc;
    int accumulate;
    int prefetch;         /* nonzeros ahead whose row of B (or C) is fetched; 0: none */
    int asked;            /* prefetch is the caller's */
    int fetch;            /* spmm only: into which cache, a FETCH_ */
    int stream;           /* store C past the caches */
    int has_identical_rows;        /* spmm only: it is worth while to look for them (identical_rows.h) */
    int64_t long_row_length; /* rows longer than this are left out and noted in giants */
    asp_long_rows *long_rows;
} asp_args;

ASP_INLINE void asp_note_long_row(const asp_args *args, int64_t row)
{
    int64_t place = atomic_fetch_add_explicit(&args->long_rows->count, 1, memory_order_relaxed);
    if (place < LONG_ROWS_MAX) args->long_rows->rows[place] = row;
}

typedef void (*asp_kernel)(const asp_args *args, int64_t begin, int64_t end);

typedef struct {
    asp_kernel spmv;    /* C[i] = A[i] B, one dense column, unit strides */
    asp_kernel spmv_by_loads; /* the same bits without gather instructions */
    asp_kernel spmm;    /* C[i, :] = A[i] B */
    asp_kernel scatter; /* C += A[rows]^T B[rows]; C is not cleared */
    void (*extent)(const void *indices, int64_t n, int64_t *low, int64_t *high); /* least and greatest of n > 0 */
} asp_kernels;

enum { N_ISAS = 3 };
/* [dtype][itype] */
extern const asp_kernels asp_kernels_base[4][2];
extern const asp_kernels asp_kernels_avx2[4][2];
extern const asp_kernels asp_kernels_avx512[4][2];

/* Kernels for rows of B of this many bytes. */
const asp_kernels *asp_kernels_for(int dtype, int itype, int64_t row_bytes);
/* As scatter, for one dense column with unit strides; the same for every instruction set. [dtype][itype] */
extern const asp_kernel asp_scatter_vector[4][2];

/* Bytes of one element, and of the vectors of the instruction set in force. */
ASP_INLINE int64_t asp_element_bytes(int dtype) { return dtype == ASP_F32 ? 4 : dtype == ASP_C128 ? 16 : 8; }
int asp_vector_bytes(void);

/* First row i with indptr[i] - indptr[0] + i >= weight: rows and nonzeros count alike. */
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
