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
static int32_t NAME(count_diagonals)(const asp_slice_rows *a, const asp_slicing *how, int64_t row, int32_t *stamp)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    const int32_t mark = (int32_t)(row / how->lanes) + 1;
    const int64_t most = (int64_t)(ASP_DIAGONAL_CELLS * (double)(indptr[row + how->lanes] - indptr[row]) / (double)how->lanes);
    int64_t n = 0;
    for (int64_t lane = 0; lane < how->lanes; lane++)
        for (int64_t p = indptr[row + lane]; p < indptr[row + lane + 1]; p++) {
            const int64_t first = indices[p] - lane; /* column of the diagonal in lane 0 */
            if (first < 0 || first + how->lanes > a->n_cols)
                return -1;
            n += stamp[first] != mark;
            stamp[first] = mark;
            if (n > most)
                return -1;
        }
    return (int32_t)n;
}

/* The diagonals of the groups of rows begin .. end; `stamp`: n_cols + lanes, zeroed. */
static void NAME(count_groups)(asp_layout_job *job, int64_t begin, int64_t end, int32_t *stamp)
{
    const asp_slice_rows *a = job->a;
    for (int64_t group = begin; group < end; group++) {
        const int64_t row = group * job->how->lanes;
        job->n_diagonals[group] =
            row + job->how->lanes <= a->n_rows ? NAME(count_diagonals)(a, job->how, row, stamp) : -1;
    }
}

/* Slots and kind of the slices begin .. end, whose rows are known: pos[s + 1] is the number of slots of slice s. */
static void NAME(measure_slices)(asp_layout_job *job, int64_t begin, int64_t end)
{
    const asp_slice_rows *a = job->a;
    const asp_layout *out = job->out;
    const INDEX *indptr = a->indptr, *indices = a->indices;
    const int64_t lanes = job->how->lanes;
    const int looks = job->how->bits == 16 && a->n_cols > UINT16_MAX + 1;
    INDEX *pos = out->pos;
    for (int64_t s = begin; s < end; s++) {
        if ((out->what[s] & ASP_KIND) == ASP_DIAGONAL)
            continue;
        const int is_listed = out->first && !(out->what[s] & ASP_IN_ORDER);
        const int64_t row0 = out->first ? out->first[s] : s * lanes;
        const int32_t *rows = is_listed ? out->rows + row0 * lanes : NULL;
        int64_t n_slots = 0, low = INT64_MAX, high = 0;
        for (int64_t lane = 0; lane < lanes; lane++) {
            const int64_t row = rows ? rows[lane] : row0 + lane;
            if (row >= a->n_rows)
                continue;
            const int64_t length = indptr[row + 1] - indptr[row];
            n_slots = length > n_slots ? length : n_slots;
            if (looks)
                for (int64_t p = indptr[row]; p < indptr[row + 1]; p++) {
                    low = indices[p] < low ? indices[p] : low;
                    high = indices[p] > high ? indices[p] : high;
                }
        }
        /* Of few columns they are counted from 0: nothing to look for. */
        const int64_t base = looks && low <= high ? low : 0;
        const int is_narrow = job->how->bits == 16 && high - base <= UINT16_MAX;
        pos[s + 1] = (INDEX)n_slots;
        out->what[s] |= is_narrow ? base << ASP_BASE_SHIFT | ASP_NARROW : ASP_WIDE;
    }
}

/* One more slice: `n` rows, at most `lanes`; n_diagonals >= 0 where it lists diagonals. */
static void NAME(add_slice)(const asp_slicing *how, asp_layout *out, const int32_t *rows, int64_t n, int64_t n_diagonals)
{
    const int64_t s = out->n_slices++;
    int in_order = n == how->lanes;
    for (int64_t lane = 0; lane < n; lane++)
        in_order &= rows[lane] == rows[0] + lane;
    if (out->first)
        out->first[s] = in_order ? rows[0] : (int32_t)out->n_listed;
    if (out->first && !in_order)
        for (int64_t lane = 0, at = out->n_listed++ * how->lanes; lane < how->lanes; lane++)
            out->rows[at + lane] = lane < n ? rows[lane] : INT32_MAX;
    out->what[s] = (in_order ? ASP_IN_ORDER : 0) | (n_diagonals >= 0 ? ASP_DIAGONAL : 0);
    if (n_diagonals >= 0)
        ((INDEX *)out->pos)[s + 1] = (INDEX)n_diagonals;
}

/* The rows of the window become slices. */
static void NAME(flush_window)(const asp_slice_rows *a, const asp_slicing *how, asp_layout *out, int64_t n)
{
    if (how->sigma > 1 && n > 0)
        NAME(sort_window)(a->indptr, out, n);
    for (int64_t at = 0; at < n; at += how->lanes)
        NAME(add_slice)(how, out, out->window + at, n - at < how->lanes ? n - at : how->lanes, -1);
}

/* Rows of slices. Groups of rows that lie on few diagonals are slices of their own; the others are sorted, a window at a
 * time. */
static void NAME(list_rows)(asp_layout_job *job)
{
    const asp_slice_rows *a = job->a;
    const asp_slicing *how = job->how;
    asp_layout *out = job->out;
    const int64_t most = asp_window_rows(how);
    int64_t n = 0;
    for (int64_t row = 0; row < a->n_rows; row += how->lanes) {
        const int64_t n_group = row + how->lanes <= a->n_rows ? how->lanes : a->n_rows - row;
        const int64_t n_diagonals = how->diagonals ? job->n_diagonals[row / how->lanes] : -1;
        int32_t *group = out->window + n; /* there is room for a group beyond the window */
        for (int64_t lane = 0; lane < n_group; lane++)
            group[lane] = (int32_t)(row + lane);
        if (n_diagonals >= 0) {
            NAME(add_slice)(how, out, group, n_group, n_diagonals);
        } else if ((n += n_group) >= most) {
            NAME(flush_window)(a, how, out, n);
            n = 0;
        }
    }
    NAME(flush_window)(a, how, out, n);
}

/* From numbers of slots to where slots and columns begin. */
static void NAME(place_slices)(asp_layout_job *job)
{
    asp_layout *out = job->out;
    INDEX *pos = out->pos;
    pos[0] = 0;
    out->begin[0] = 0;
    for (int64_t s = 0; s < out->n_slices; s++) {
        const int64_t units = asp_slot_units(out->what[s] & ASP_KIND, job->how->lanes, job->how->bits);
        out->begin[s + 1] = out->begin[s] + pos[s + 1] * units;
        pos[s + 1] += pos[s];
    }
}
