/* What the two drivers, A B and A^T B, share. */
#ifndef ASP_MATMUL_H
#define ASP_MATMUL_H

#include "kernels.h"

enum { ASP_FLAG_ACCUMULATE = 1, ASP_FLAG_DETERMINISTIC = 2 };
enum { L2_AHEAD = 16 }; /* nonzeros: what a caller asks for earlier would not stay in the first cache */

/* Bytes of a core's own cache, and of the last one, which cores share. */
int64_t asp_private_cache_bytes(void);
int64_t asp_last_cache_bytes(void);
/* The family of a processor of AMD's, whose caches want to be used in other ways than Intel's; 0 for others. */
int asp_amd_family(void);
/* How much two dense operands of n_rows and n_cols rows are for the last cache, in a processor where what the cores' own
 * caches throw out goes there: 0, 1 when a result stored past it pays if it is a small part of what is moved, 2 when it
 * pays always, and fetching rows long before they are read may. */
int asp_llc_contention(int64_t n_rows, int64_t n_cols, int64_t row_bytes);
/* Whether the processor looks so far ahead (Zen 5) that fetching rows which entries name gains only where few entries
 * follow each other in a row, and otherwise costs: docs/design/dense-operands.md. */
int asp_prefetches_early(void);
/* Whether, where dense operands crowd the last cache, rows that entries name are fetched far ahead: with fewer than
 * `most_entries` in a row on average, and few where the processor looks far itself. */
int asp_prefetches_to_l2(int64_t nnz, int64_t n_rows, int64_t most_entries);

/* One dense column with any stride, as adjacent elements: the original, or a copy that the caller frees. */
typedef struct {
    char *elements;
    void *owned;
} asp_column;

/* `column` of n elements `stride` apart; copied only when stride != 1. Returns ASP_OK or ASP_NO_MEMORY. */
int asp_column_in(asp_column *out, const void *column, int64_t n, int64_t stride, int64_t element_bytes);
/* Write the adjacent elements back to `column` and free the copy. */
void asp_column_out(asp_column *in, void *column, int64_t n, int64_t stride, int64_t element_bytes);

#endif
