/* Conversion of coordinates to CSF: a stable radix sort, least significant digit first, and one pass over the sorted
 * entries. */
#include "common.h"

#include "csf_api.h"

enum { DIGIT_BITS = 11, BUCKETS = 1 << DIGIT_BITS };

#define DEFINE(I)                                                                                                \
    /* Sort by one digit of one mode: permutation `from` to permutation `to`. */                                 \
    static void pass_##I(const I *coords, int shift, int64_t nnz, const I *from, I *to)                          \
    {                                                                                                            \
        int64_t start[BUCKETS + 1] = {0};                                                                        \
        for (int64_t q = 0; q < nnz; ++q) ++start[1 + (((uint64_t)coords[q] >> shift) & (BUCKETS - 1))];         \
        for (int b = 0; b < BUCKETS; ++b) start[b + 1] += start[b];                                              \
        for (int64_t q = 0; q < nnz; ++q)                                                                        \
            to[start[((uint64_t)coords[from[q]] >> shift) & (BUCKETS - 1)]++] = from[q];                         \
    }                                                                                                            \
    static int sort_##I(int64_t n_modes, int64_t nnz, const I *const *coords, const int64_t *sizes, I *perm)     \
    {                                                                                                            \
        I *spare = malloc((size_t)(nnz + 1) * sizeof(I)), *from = perm, *to = spare;                             \
        if (!spare) return ASP_NO_MEMORY;                                                                        \
        for (int64_t q = 0; q < nnz; ++q) perm[q] = (I)q;                                                        \
        for (int64_t d = n_modes - 1; d >= 0; --d)                                                               \
            for (int shift = 0; shift < 63 && (sizes[d] - 1) >> shift > 0; shift += DIGIT_BITS) {                \
                pass_##I(coords[d], shift, nnz, from, to);                                                       \
                I *swap = from;                                                                                  \
                from = to;                                                                                       \
                to = swap;                                                                                       \
            }                                                                                                    \
        if (from != perm) memcpy(perm, from, (size_t)nnz * sizeof(I));                                           \
        free(spare);                                                                                             \
        return ASP_OK;                                                                                           \
    }                                                                                                            \
    static void levels_##I(int64_t n_modes, int64_t nnz, const I *const *coords, const I *perm, int64_t *n_nodes, \
                           I *const *ids, I *const *ptr)                                                         \
    {                                                                                                            \
        for (int64_t d = 0; d < n_modes; ++d) n_nodes[d] = 0;                                                    \
        for (int64_t q = 0; q < nnz; ++q) {                                                                      \
            int64_t d = 0; /* the outermost level in which this entry opens a node; every entry is a leaf */ \
            while (q > 0 && d < n_modes - 1 && coords[d][perm[q]] == coords[d][perm[q - 1]]) ++d;                \
            for (; d < n_modes; ++d) {                                                                           \
                const int64_t node = n_nodes[d]++;                                                               \
                if (!ids) continue;                                                                              \
                ids[d][node] = coords[d][perm[q]];                                                               \
                if (d < n_modes - 1) ptr[d][node] = (I)n_nodes[d + 1];                                           \
            }                                                                                                    \
        }                                                                                                        \
        for (int64_t d = 0; ids && d < n_modes - 1; ++d) ptr[d][n_nodes[d]] = (I)n_nodes[d + 1];                 \
    }
DEFINE(int32_t)
DEFINE(int64_t)

int asp_tensor_sort(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const int64_t *sizes, void *perm)
{
    return itype == ASP_I32 ? sort_int32_t(n_modes, nnz, (const int32_t *const *)coords, sizes, perm)
                            : sort_int64_t(n_modes, nnz, (const int64_t *const *)coords, sizes, perm);
}

void asp_tensor_levels(int itype, int64_t n_modes, int64_t nnz, const void *const *coords, const void *perm,
                       int64_t *n_nodes, void *const *ids, void *const *ptr)
{
    if (itype == ASP_I32)
        levels_int32_t(n_modes, nnz, (const int32_t *const *)coords, perm, n_nodes, (int32_t *const *)ids,
                       (int32_t *const *)ptr);
    else
        levels_int64_t(n_modes, nnz, (const int64_t *const *)coords, perm, n_nodes, (int64_t *const *)ids,
                       (int64_t *const *)ptr);
}
