/* Structure of triangles for one type of indices (not guarded). */

static void NAME(split)(void *context, int64_t begin, int64_t end)
{
    splitting *it = context;
    const INDEX *indptr = it->indptr, *indices = it->indices;
    INDEX *lower_stop = it->lower_stop, *upper_start = it->upper_start;
    int64_t unsorted = 0, left = 0, right = 0, missing = it->n;
    const int64_t stop_row = asp_min(end * ROWS_OF_CHUNK, it->n);
    for (int64_t i = begin * ROWS_OF_CHUNK; i < stop_row; i++) {
        const int64_t first = indptr[i], last = indptr[i + 1];
        int64_t n_left = 0, n_diagonal = 0;
        for (int64_t q = first; q < last; q++) {
            unsorted |= q > first && indices[q] <= indices[q - 1];
            n_left += indices[q] < i;
            n_diagonal += indices[q] == i;
        }
        if (!n_diagonal && i < missing) missing = i;
        left += n_left;
        right += last - first - n_left - n_diagonal;
        lower_stop[i] = (INDEX)(first + n_left);
        upper_start[i] = (INDEX)(first + n_left + n_diagonal);
    }
    atomic_fetch_or(&it->unsorted, unsorted);
    atomic_fetch_add(&it->left, left);
    atomic_fetch_add(&it->right, right);
    int64_t before = atomic_load(&it->missing);
    while (missing < before && !atomic_compare_exchange_weak(&it->missing, &before, missing)) {}
}

static void NAME(take)(int item_bytes, int64_t n, const void *start, const void *stop, const void *indices,
                       const void *data, void *indptr, void *out_indices, void *out_data)
{
    const INDEX *starts = start, *stops = stop, *from = indices;
    INDEX *ends = indptr, *to = out_indices;
    int64_t at = 0;
    ends[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = starts[i], count = stops[i] - first;
        memcpy(to + at, from + first, (size_t)count * sizeof *to);
        memcpy((char *)out_data + at * item_bytes, (const char *)data + first * item_bytes, (size_t)(count * item_bytes));
        at += count;
        ends[i + 1] = (INDEX)at;
    }
}

/* Levels of one chunk of rows. Levels of earlier chunks may not be known yet: 0 stands for an unknown level. */
static void NAME(level_chunk)(leveling *it)
{
    const asp_triangle *triangle = it->triangle;
    const INDEX *start = (const INDEX *)triangle->start, *stop = (const INDEX *)triangle->stop;
    const INDEX *indices = (const INDEX *)triangle->indices;
    const int64_t n = triangle->n;
    const int64_t chunk = atomic_fetch_add_explicit(&it->claims.next, 1, memory_order_relaxed);
    int32_t highest = 0;
    for (int64_t at = chunk * ROWS_OF_CHUNK; at < asp_min((chunk + 1) * ROWS_OF_CHUNK, n); at++) {
        const int64_t row = triangle->is_backward ? n - 1 - at : at;
        int32_t found = 0;
        for (int64_t q = start[row]; q < stop[row]; q++) {
            int32_t other = atomic_load_explicit(&it->level[indices[q]], memory_order_relaxed);
            for (int turn = 0; !other; turn++) {
                asp_pause(turn);
                other = atomic_load_explicit(&it->level[indices[q]], memory_order_relaxed);
            }
            if (other > found) found = other;
        }
        atomic_store_explicit(&it->level[row], found + 1, memory_order_relaxed);
        if (found + 1 > highest) highest = found + 1;
    }
    int32_t before = atomic_load(&it->highest);
    while (highest > before && !atomic_compare_exchange_weak(&it->highest, &before, highest)) {}
}

static void NAME(level)(void *context, int64_t begin, int64_t end)
{
    for (int64_t chunk = begin; chunk < end; chunk++) NAME(level_chunk)(context);
}

/* Counting sort: first[l] is the position of the first row of level l + 1 afterwards, works[l] the level's work. */
static void NAME(sort_by_level)(const asp_triangle *triangle, const int32_t *level, int64_t n_levels, INDEX *order,
                                int64_t *first, int64_t *works)
{
    const INDEX *start = (const INDEX *)triangle->start, *stop = (const INDEX *)triangle->stop;
    const int64_t n = triangle->n;
    for (int64_t i = 0; i < n; i++) {
        first[level[i]]++;
        works[level[i] - 1] += stop[i] - start[i] + ROW_WORK;
    }
    for (int64_t l = 1; l <= n_levels; l++) first[l] += first[l - 1];
    for (int64_t at = 0; at < n; at++) {
        const int64_t i = triangle->is_backward ? n - 1 - at : at;
        order[first[level[i] - 1]++] = (INDEX)i;
    }
    for (int64_t l = n_levels; l > 0; l--) first[l] = first[l - 1];
    first[0] = 0;
}

static int NAME(schedule)(const asp_triangle *triangle, const int32_t *level, int64_t n_levels, void *to, int64_t *chunks,
                          int32_t *stage_of, int64_t *counts)
{
    const INDEX *start = (const INDEX *)triangle->start, *stop = (const INDEX *)triangle->stop;
    INDEX *order = to;
    int64_t *first = calloc((size_t)(2 * n_levels + 2), sizeof *first), *works = first + n_levels + 1;
    if (!first) return ASP_NO_MEMORY;
    NAME(sort_by_level)(triangle, level, n_levels, order, first, works);
    int64_t n_chunks = 0, serial = 0, shared = 0;
    int32_t stage = -1;
    int is_open = 0; /* whether the last stage takes further small levels */
    for (int64_t l = 0; l < n_levels; l++) {
        if (works[l] <= SERIAL_WORK || first[l + 1] - first[l] < 2) {
            if (!is_open) {
                stage_of[n_chunks] = ++stage;
                chunks[n_chunks++] = first[l];
            }
            is_open = 1;
            serial += works[l];
            continue;
        }
        const int64_t least = asp_max(CHUNK_WORK, works[l] / CHUNKS_OF_LEVEL);
        stage++;
        for (int64_t at = first[l], work = least; at < first[l + 1]; at++) {
            if (work >= least) {
                stage_of[n_chunks] = stage;
                chunks[n_chunks++] = at;
                work = 0;
            }
            work += stop[order[at]] - start[order[at]] + ROW_WORK;
        }
        is_open = 0;
        shared += works[l];
    }
    chunks[n_chunks] = triangle->n;
    int64_t jumps = 0;
    const INDEX step = triangle->is_backward ? -1 : 1;
    for (int64_t at = 1; at < triangle->n; at++) jumps += order[at] != order[at - 1] + step;
    const int64_t found[] = {n_chunks, stage + 1, serial, shared, jumps};
    memcpy(counts, found, sizeof found);
    free(first);
    return ASP_OK;
}
