/* Functions that the products A B (matmul.c) and A^T B (matmul_t.c) share. */
#ifndef ASP_MATMUL_H
#define ASP_MATMUL_H

#include "kernels.h"

/* Flags of asp_csr_mm and asp_csr_t_mm. */
enum { ASP_FLAG_ACCUMULATE = 1, ASP_FLAG_DETERMINISTIC = 2 };
/* Prefetch distance in nonzeros from which the L2 cache is the target: lines would not stay in L1 that long. */
enum { L2_AHEAD = 16 };

/* Return the bytes of a core's own (L2) cache, and of the last-level cache, which cores share. */
int64_t asp_private_cache_bytes(void);
int64_t asp_last_cache_bytes(void);
#define ASP_MIN_LAST_CACHE (1 << 20) /* asp_last_cache_bytes() returns at least this; its first call reads a file */
/* Return the family of an AMD processor, whose caches work best with other strategies than Intel's; 0 for other
 * vendors. */
int asp_amd_family(void);
/* Return the contention of two dense operands of n_rows and n_cols rows for a last-level cache that holds evictions of
 * the cores' caches (AMD). 0: none; 1: non-temporal stores pay if the result is a small part of the traffic; 2: they
 * always pay, and a long prefetch distance may. */
int asp_llc_contention(int64_t n_rows, int64_t n_cols, int64_t row_bytes);
/* Return whether the processor runs so far ahead (Zen 5) that prefetching indexed rows gains only with few entries per
 * row, and costs otherwise. */
int asp_prefetches_early(void);
/* Return whether indexed rows are prefetched far ahead where dense operands contend for the last-level cache. The mean
 * number of entries per row must be below `most_entries`, and small if the processor runs far ahead itself. */
int asp_prefetches_to_l2(int64_t nnz, int64_t n_rows, int64_t most_entries);

/* Set stores and prefetching of a product (ways.c). */
void asp_choose_ways(asp_args *args, int dtype);

/* Observer of a product's rows. `done` is called from several threads with disjoint ranges of rows that are complete, of
 * at most `step` rows. Ranges that are not reported are complete when the product returns. */
typedef struct {
    void (*done)(void *context, int64_t begin, int64_t end);
    void *context;
    int64_t step;
} asp_row_observer;
/* asp_csr_mm without flags, for contiguous rows of B and C, with an observer. */
int asp_csr_mm_observed(int dtype, int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                        const void *data, const void *B, void *C, int64_t n_vecs, int n_threads,
                        const asp_row_observer *observer);

/* Return the reals of a value of a floating-point type. */
ASP_INLINE int64_t asp_words(int dtype) { return dtype == ASP_C64 || dtype == ASP_C128 ? 2 : 1; }

/* One dense column with any stride as contiguous elements: the original, or a copy (`owned`) that the caller frees. */
typedef struct {
    char *elements;
    void *owned;
} asp_column;

/* Make `column`, n elements `stride` apart, contiguous; it is copied only if stride != 1. Returns ASP_OK or
 * ASP_NO_MEMORY. */
int asp_column_in(asp_column *out, const void *column, int64_t n, int64_t stride, int64_t element_bytes);
/* Write the contiguous elements back to `column` and free the copy. */
void asp_column_out(asp_column *in, void *column, int64_t n, int64_t stride, int64_t element_bytes);

#endif
