/* Choice of the algorithm for A^T B. Included by matmul_t.c, which defines `product`. */

/* Return whether transposing A is faster. Adding to C is faster while C stays in the cache or is much smaller than B,
 * which is then read once. Where the last-level cache does not hold C, each addition reads and writes memory, but the
 * transposed product only reads it. */
static int worth_transposing(const asp_args *args, int64_t row_bytes)
{
    const int64_t result_bytes = args->n_cols * row_bytes;
    if (2 * result_bytes > ASP_MIN_LAST_CACHE && 2 * result_bytes > asp_last_cache_bytes() &&
        args->n_rows / STREAMING_ROWS < args->n_cols)
        return 1;
    return row_bytes >= TRANSPOSE_FROM_BYTES && result_bytes > asp_private_cache_bytes() &&
           2 * args->n_rows < 3 * args->n_cols;
}

/* Return whether partitioning dense columns, where each thread reads all of A, is faster than partitioning rows into
 * n_parts parts, where each clears and adds private sums. */
static int columns_are_faster(const product *job, int64_t n_parts)
{
    const asp_args *args = &job->args;
    const double row_bytes = (double)(args->n_vecs * job->element_bytes), nnz = (double)args->nnz;
    const double columns_ns = nnz * (READ_NS + BYTE_NS * row_bytes / (double)job->n_tiles);
    const double parts_ns = nnz * (READ_NS + BYTE_NS * row_bytes) / (double)n_parts;
    if (columns_ns >= parts_ns + OWN_BYTE_NS * row_bytes * (double)args->n_cols) return 0;
    int64_t touched = 0;
    for (int64_t p = 1; p < n_parts; p++) {
        int64_t low, high;
        find_touched(job, part_begin(job, p, n_parts), part_begin(job, p + 1, n_parts), &low, &high);
        touched = asp_max(touched, high - low);
    }
    return columns_ns < parts_ns + OWN_BYTE_NS * row_bytes * (double)touched;
}

/* Return whether one thread should compute C in private memory, because vectors of C fall on two cache lines each. Such
 * additions take up to three times as long where an earlier one of the same row has just been stored. */
static int worth_aligning(const product *job)
{
    const asp_args *args = &job->args;
    const int64_t row_bytes = args->n_vecs * job->element_bytes, step = args->ldc * job->element_bytes;
    const int is_crossing = row_bytes % LINE_BYTES == 0 && step % LINE_BYTES == 0 && (uintptr_t)args->C % LINE_BYTES;
    return is_crossing && args->nnz >= ALIGN_FROM * args->n_cols && 2 * args->n_cols * row_bytes <= asp_private_cache_bytes();
}

/* Return whether threads with private tiles are faster than one thread without. */
static int tiles_are_faster(const product *job)
{
    const asp_args *args = &job->args;
    const double private_ns = OWN_BYTE_NS * (double)(args->n_vecs * job->element_bytes * args->n_cols);
    return (double)(job->n_tiles - 1) * serial_ns(job) > private_ns;
}

/* Choose the algorithm. The choice may depend on n_threads only where results may (`parts_for`). */
static int way_of(product *job, int n_threads, int flags)
{
    const asp_args *args = &job->args;
    const int64_t row_bytes = args->n_vecs * job->element_bytes, result_bytes = asp_own_bytes(args->n_cols * row_bytes);
    const int wish = ASP_FORCED(forced_way);
    const int is_cut = cut_columns(job, n_threads);
    if (wish > WAY_TRANSPOSE || (wish == WAY_TRANSPOSE && !args->is_pair)) return wish == WAY_COLUMNS && !is_cut ? WAY_TILES : wish;
    const int64_t n_parts = parts_for(job, n_threads, flags);
    if (n_parts == 1 && worth_aligning(job)) {
        cut_columns(job, 1);
        return WAY_TILES;
    }
    if (row_bytes < SPLIT_FROM_BYTES) return WAY_PARTS;
    if (!args->is_pair && worth_transposing(args, row_bytes)) return WAY_TRANSPOSE;
    const int may_choose = is_cut && job->n_tiles > 1 && !(flags & ASP_FLAG_DETERMINISTIC);
    if (n_parts > 1 && (n_parts - 1) * result_bytes <= OWN_MAX_BYTES && !(may_choose && columns_are_faster(job, n_parts)))
        return WAY_PARTS;
    if (!args->is_pair && result_bytes > OWN_MAX_BYTES && (!is_cut || flags & ASP_FLAG_DETERMINISTIC)) return WAY_TRANSPOSE;
    if (!is_cut && tiles_are_faster(job)) return WAY_TILES; /* the order of each sum is the same */
    if (!is_cut) cut_columns(job, 1);
    return WAY_COLUMNS;
}
