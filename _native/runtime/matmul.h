/* What the two drivers, A B and A^T B, share. */
#ifndef ASP_MATMUL_H
#define ASP_MATMUL_H

#include "kernels.h"

enum { ASP_FLAG_ACCUMULATE = 1, ASP_FLAG_DETERMINISTIC = 2 };

/* Bytes of a core's own cache, and from where the result is stored past the caches. */
int64_t asp_private_cache_bytes(void);

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
