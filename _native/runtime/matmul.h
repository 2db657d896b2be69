/* What the two drivers, A B and A^T B, share. */
#ifndef ASP_MATMUL_H
#define ASP_MATMUL_H

#include "kernels.h"

enum { ASP_FLAG_ACCUMULATE = 1, ASP_FLAG_DETERMINISTIC = 2 };

/* Bytes of a core's own cache, and of the last one, which cores share. */
int64_t asp_private_cache_bytes(void);
int64_t asp_last_cache_bytes(void);
/* Whether the processor is AMD's: its caches want to be used in another way than Intel's. */
int asp_is_amd(void);
/* How much two dense operands of n_rows and n_cols rows are for the last cache, in a processor where what the cores' own
 * caches throw out goes there: 0, 1 when a result stored past it pays if it is a small part of what is moved, 2 when it
 * pays always, and so does fetching rows long before they are read. */
int asp_crowding(int64_t n_rows, int64_t n_cols, int64_t row_bytes);

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
