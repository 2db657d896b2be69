/* Which rows make up which slice, for one type of the user's index arrays: included by pack_slices.c with INDEX and
 * NAME(x) defined. */

/* Rows of the window by decreasing length, rows of one length in their order. */
static void NAME(sort_window)(const INDEX *indptr, asp_layout *out, int64_t n)
{
    int32_t *rows = out->window, *sorted = out->sorted;
    int64_t longest = 0, shortest = INT64_MAX;
    for (int64_t at = 0; at < n; at++) {
        const int64_t length = indptr[rows[at] + 1] - indptr[rows[at]];
        longest = length > longest ? length : longest;
        shortest = length < shortest ? length : shortest;
    }
    if (longest == shortest)
        return;
    if (longest - shortest < ASP_MAX_BUCKETS) {
        int64_t *counts = out->counts;
        memset(counts, 0, (size_t)(longest - shortest + 2) * sizeof *counts);
        for (int64_t at = 0; at < n; at++)
            counts[longest - (indptr[rows[at] + 1] - indptr[rows[at]]) + 1]++;
        for (int64_t bucket = 0; bucket < longest - shortest; bucket++)
            counts[bucket + 1] += counts[bucket];
        for (int64_t at = 0; at < n; at++)
            sorted[counts[longest - (indptr[rows[at] + 1] - indptr[rows[at]])]++] = rows[at];
    } else {
        for (int64_t at = 0; at < n; at++) {
            const int64_t missing = longest - (indptr[rows[at] + 1] - indptr[rows[at]]);
            out->keys[at] = (uint64_t)(missing > INT32_MAX ? INT32_MAX : missing) << 32 | (uint64_t)at;
        }
        qsort(out->keys, (size_t)n, sizeof *out->keys, asp_by_key);
        for (int64_t at = 0; at < n; at++)
            sorted[at] = rows[(uint32_t)out->keys[at]];
    }
    memcpy(rows, sorted, (size_t)n * sizeof *rows);
}

/* Number of diagonals of the rows from `row` on, or -1 where they are too many, or reach out of the columns. */
static int64_t NAME(count_diagonals)(const asp_slice_rows *a, const asp_slicing *how, int64_t row, int32_t *stamp)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    const int32_t mark = (int32_t)(row / how->lanes) + 1;
    const double most = ASP_DIAGONAL_CELLS * (double)(indptr[row + how->lanes] - indptr[row]) / (double)how->lanes;
    int64_t n = 0;
    for (int64_t lane = 0; lane < how->lanes; lane++)
        for (int64_t p = indptr[row + lane]; p < indptr[row + lane + 1]; p++) {
            const int64_t first = indices[p] - lane; /* column of the diagonal in lane 0 */
            if (first < 0 || first + how->lanes > a->n_cols)
                return -1;
            n += stamp[first] != mark;
            stamp[first] = mark;
            if ((double)n > most)
                return -1;
        }
    return n;
}

/* A column that all those of some rows are less than 2^16 above, if there is one. */
static int NAME(is_narrow)(const asp_slice_rows *a, const int32_t *rows, int64_t n, int64_t *base)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    int64_t low = INT64_MAX, high = 0;
    if (a->n_cols <= UINT16_MAX + 1) { /* counted from 0: nothing to look for */
        *base = 0;
        return 1;
    }
    for (int64_t lane = 0; lane < n; lane++)
        for (int64_t p = indptr[rows[lane]]; p < indptr[rows[lane] + 1]; p++) {
            low = indices[p] < low ? indices[p] : low;
            high = indices[p] > high ? indices[p] : high;
        }
    *base = low <= high ? low : 0;
    return high - *base <= UINT16_MAX;
}

/* One more slice: `n` rows, at most `lanes`; n_diagonals >= 0 where it lists diagonals. */
static void NAME(add_slice)(const asp_slice_rows *a, const asp_slicing *how, asp_layout *out, const int32_t *rows, int64_t n,
                            int64_t n_diagonals)
{
    const INDEX *indptr = a->indptr;
    const int64_t s = out->n_slices++;
    INDEX *pos = out->pos;
    int64_t n_slots = 0, base = 0;
    int in_order = n == how->lanes, kind = ASP_WIDE;
    for (int64_t lane = 0; lane < n; lane++) {
        const int64_t length = indptr[rows[lane] + 1] - indptr[rows[lane]];
        n_slots = length > n_slots ? length : n_slots;
        in_order &= rows[lane] == rows[0] + lane;
    }
    if (n_diagonals >= 0) {
        kind = ASP_DIAGONAL;
        n_slots = n_diagonals;
    } else if (how->bits == 16 && NAME(is_narrow)(a, rows, n, &base)) {
        kind = ASP_NARROW;
    } else {
        base = 0;
    }
    if (out->first)
        out->first[s] = in_order ? rows[0] : (int32_t)out->n_listed;
    if (out->first && !in_order)
        for (int64_t lane = 0, at = out->n_listed++ * how->lanes; lane < how->lanes; lane++)
            out->rows[at + lane] = lane < n ? rows[lane] : INT32_MAX;
    out->what[s] = base << ASP_BASE_SHIFT | (in_order ? ASP_IN_ORDER : 0) | kind;
    out->n_slots += n_slots;
    pos[s + 1] = (INDEX)out->n_slots;
    out->begin[s + 1] = out->begin[s] + n_slots * asp_slot_units(kind, how->lanes, how->bits);
}

/* The rows of the window become slices. */
static void NAME(flush_window)(const asp_slice_rows *a, const asp_slicing *how, asp_layout *out, int64_t n)
{
    if (how->sigma > 1 && n > 0)
        NAME(sort_window)(a->indptr, out, n);
    for (int64_t at = 0; at < n; at += how->lanes)
        NAME(add_slice)(a, how, out, out->window + at, n - at < how->lanes ? n - at : how->lanes, -1);
}

/* Groups of rows that lie on few diagonals are slices of their own; the others are sorted, a window at a time. */
static void NAME(lay_out)(const asp_slice_rows *a, const asp_slicing *how, asp_layout *out)
{
    const int64_t most = asp_window_rows(how);
    int64_t n = 0;
    ((INDEX *)out->pos)[0] = 0;
    out->begin[0] = 0;
    for (int64_t row = 0; row < a->n_rows; row += how->lanes) {
        const int64_t n_group = row + how->lanes <= a->n_rows ? how->lanes : a->n_rows - row;
        const int looks = how->diagonals && n_group == how->lanes;
        const int64_t n_diagonals = looks ? NAME(count_diagonals)(a, how, row, out->stamp) : -1;
        int32_t *group = out->window + n; /* there is room for a group beyond the window */
        for (int64_t lane = 0; lane < n_group; lane++)
            group[lane] = (int32_t)(row + lane);
        if (n_diagonals >= 0) {
            NAME(add_slice)(a, how, out, group, n_group, n_diagonals);
        } else if ((n += n_group) >= most) {
            NAME(flush_window)(a, how, out, n);
            n = 0;
        }
    }
    NAME(flush_window)(a, how, out, n);
}
