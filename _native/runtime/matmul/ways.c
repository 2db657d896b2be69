/* Non-temporal stores and prefetching of products with several columns, chosen by sizes. */
#include "matmul.h"

#include "matmul_api.h"

enum { STREAM_BYTES = 30 << 20 };      /* a larger result is no longer in a cache when it is read again, bytes */
enum { TILE_VECTORS = 16 };             /* vectors of the widest tile */
/* Prefetch distance with a contended last-level cache: bytes of B, maximum in nonzeros. */
enum { AHEAD_BYTES = 16 << 10, AHEAD_MAX = 64 };
enum { ZEN_5 = 0x1a };                  /* CPU family of Zen 5; later ones are larger */
enum { FEW_ENTRIES = 8 };               /* mean entries per row below which Zen 5 cannot run ahead to later rows of B */

ASP_FORCIBLE(forced_llc_contention, asp_force_llc_contention)

int asp_llc_contention(int64_t n_rows, int64_t n_cols, int64_t row_bytes)
{
    const int wish = ASP_FORCED(forced_llc_contention);
    if (wish >= 0) return wish ? 2 : 0;
    const int64_t bytes = (n_rows + n_cols) * row_bytes;
    if (4 * bytes <= ASP_MIN_LAST_CACHE || !asp_amd_family()) return 0;
    const int64_t cache = asp_last_cache_bytes();
    return 2 * bytes > cache ? 2 : 4 * bytes > cache;
}

int asp_prefetches_early(void)
{
    const int wish = ASP_FORCED(forced_llc_contention);
    return wish >= 0 ? wish == 2 : asp_amd_family() >= ZEN_5;
}

int asp_prefetches_to_l2(int64_t nnz, int64_t n_rows, int64_t most_entries)
{
    /* Written so that it does not overflow. */
    return nnz / (asp_prefetches_early() ? asp_min(most_entries, FEW_ENTRIES) : most_entries) < n_rows;
}

/* Choose non-temporal stores and prefetching. Non-temporal stores of a large result are neutral when the result is
 * read at once, and a third faster when it is not. Only then does prefetching rows of B pay; the CPU runs ahead by
 * itself otherwise (for results that stay in the caches, prefetching costs 5 to 35 %).
 *
 * The last-level cache of AMD's processors is filled by evictions from the cores' caches, including the result. When B
 * and C fill half of it, non-temporal stores and a long prefetch distance are 1.1 to 2 times as fast, even if the
 * result is the next product's B. With smaller operands that next product may take twice as long if rows of C have few
 * entries.
 */
void asp_choose_ways(asp_args *args, int dtype)
{
    const int64_t element_bytes = asp_element_bytes(dtype);
    const int64_t row_bytes = args->n_vecs * element_bytes, result_bytes = args->n_rows * row_bytes;
    const int64_t tile_bytes = asp_min(row_bytes, TILE_VECTORS * asp_vector_bytes());
    const int64_t B_bytes = args->n_cols * row_bytes;
    const int contention = asp_llc_contention(args->n_rows, args->n_cols, row_bytes);
    const int has_many = args->nnz >= 12 * args->n_rows && B_bytes > asp_private_cache_bytes();
    const int is_large = contention == 2 || (contention == 1 && has_many) ||
                         (result_bytes >= STREAM_BYTES && args->nnz < 16 * args->n_rows);
    const int has_whole_lines = args->ldc * element_bytes % 64 == 0;
    /* Rows that follow each other share lines, which tiles of all columns join. Of wider rows, only whole lines are stored
     * non-temporally; results that fit the last-level cache then took up to 1.24 times as long (Zen 4). */
    const int is_wide = row_bytes > 64 * TILE_VECTORS, follows = args->ldc == args->n_vecs && !args->places;
    const int has_parts = dtype <= ASP_F64 && asp_vector_bytes() == 64 &&
                          (is_wide ? result_bytes >= STREAM_BYTES : follows && row_bytes > 64);
    args->stream = is_large && !args->accumulate && (has_whole_lines || has_parts) &&
                   (uintptr_t)args->C % (uintptr_t)element_bytes == 0;
    const int is_streaming = contention == 2 && (B_bytes > asp_private_cache_bytes() || ASP_FORCED(forced_llc_contention) > 0) &&
                       asp_prefetches_to_l2(args->nnz, args->n_rows, INT32_MAX);
    if (args->asked) {
        args->fetch = args->prefetch >= L2_AHEAD ? FETCH_L2 : FETCH_L1;
    } else if (is_streaming) {
        args->prefetch = (int)asp_min(AHEAD_MAX, asp_max(4, AHEAD_BYTES / tile_bytes));
        args->fetch = FETCH_L2;
    } else {
        args->prefetch = !args->stream ? 0 : tile_bytes <= 256 ? 12 : 4;
        args->fetch = FETCH_L1;
    }
}
