/* Assignment of rows to slices for one index type; included by pack_slices.c with INDEX and NAME(x) defined. */

/* Sort the n rows of a window stably by decreasing length. The result is in `rows` or in `sorted`, whichever is
 * returned. */
static int32_t *NAME(sort_window)(const INDEX *indptr, int32_t *rows, int32_t *sorted, asp_sorting *room, int64_t n)
{
    int32_t *const lengths = room->lengths;
    int32_t longest = 0, shortest = INT32_MAX;
    for (int64_t at = 0; at < n; at++) {
        const int64_t length = indptr[rows[at] + 1] - indptr[rows[at]];
        lengths[at] = length > INT32_MAX ? INT32_MAX : (int32_t)length;
    }
    for (int64_t at = 0; at < n; at++) {
        longest = lengths[at] > longest ? lengths[at] : longest;
        shortest = lengths[at] < shortest ? lengths[at] : shortest;
    }
    if (longest <= shortest)
        return rows;
    const int32_t n_lengths = longest - shortest; /* minus one */
    if (n_lengths < ASP_MAX_BUCKETS) {
        int32_t *const counts = room->counts;
        memset(counts, 0, ((size_t)n_lengths + 2) * sizeof *counts);
        for (int64_t at = 0; at < n; at++)
            counts[longest - lengths[at] + 1]++;
        for (int32_t bucket = 0; bucket < n_lengths; bucket++)
            counts[bucket + 1] += counts[bucket];
        for (int64_t at = 0; at < n; at++)
            sorted[counts[longest - lengths[at]]++] = rows[at];
    } else {
        for (int64_t at = 0; at < n; at++)
            room->keys[at] = (uint64_t)(longest - lengths[at]) << 32 | (uint64_t)at;
        qsort(room->keys, (size_t)n, sizeof *room->keys, asp_by_key);
        for (int64_t at = 0; at < n; at++)
            sorted[at] = rows[(uint32_t)room->keys[at]];
    }
    return sorted;
}

/* Add the diagonals of a row, the `lane`th of its slice, to the n ascending ones in `firsts`, as columns in lane 0, until
 * there are more than `most`; return their number. At most *n_moves diagonals are moved to make room: below 0, it was not
 * enough. */
static int64_t NAME(add_diagonals)(const asp_pattern *a, int64_t row, int64_t lane, int32_t *firsts, int64_t n,
                                   int64_t most, int64_t *n_moves)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    int64_t guess = 0;
    for (int64_t p = indptr[row]; p < indptr[row + 1] && n <= most && *n_moves >= 0; p++) {
        const int64_t first = indices[p] - lane, at = asp_place_of_diagonal(firsts, n, guess, first);
        guess = at + 1;
        if (at < n && firsts[at] == first)
            continue;
        memmove(firsts + at + 1, firsts + at, (size_t)(n - at) * sizeof *firsts);
        firsts[at] = (int32_t)first;
        *n_moves -= n++ - at;
    }
    return n;
}

/* Return the number of diagonals of the rows from `row` on, or -1 if there are too many or one reaches outside the
 * columns. */
static int32_t NAME(count_diagonals)(const asp_pattern *a, const asp_slicing *how, int64_t row, int32_t *firsts)
{
    const INDEX *indptr = a->indptr;
    const int64_t n_entries = indptr[row + how->lanes] - indptr[row], most = asp_most_diagonals(n_entries, how->lanes);
    int64_t n = 0, n_moves = ASP_MOVED_DIAGONALS * n_entries;
    for (int64_t lane = 0; lane < how->lanes; lane++) {
        n = NAME(add_diagonals)(a, row + lane, lane, firsts, n, most, &n_moves);
        if (n > most || n_moves < 0)
            return -1;
    }
    const int is_inside = !n || (firsts[0] >= 0 && firsts[n - 1] + how->lanes <= a->n_cols);
    return is_inside ? (int32_t)n : -1;
}

/* Count the diagonals of the groups of rows begin .. end; `firsts` has room for those of one group, and one more. */
static void NAME(count_groups)(asp_layout_job *job, int64_t begin, int64_t end, int32_t *firsts)
{
    const asp_pattern *a = job->a;
    for (int64_t group = begin; group < end; group++) {
        const int64_t row = group * job->how->lanes;
        job->n_diagonals[group] =
            row + job->how->lanes <= a->n_rows ? NAME(count_diagonals)(a, job->how, row, firsts) : -1;
    }
}

/* Compute slots and kind of the slices begin .. end, whose rows are known; pos[s + 1] receives the number of slots of
 * slice s. */
static void NAME(measure_slices)(asp_layout_job *job, int64_t begin, int64_t end)
{
    const asp_pattern *a = job->a;
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
        const int is_known = (out->what[s] & ASP_KIND) == ASP_NARROW; /* decided for the whole window */
        int64_t n_slots = 0, low = INT64_MAX, high = 0;
        for (int64_t lane = 0; lane < lanes; lane++) {
            const int64_t row = rows ? rows[lane] : row0 + lane;
            if (row >= a->n_rows)
                continue;
            const int64_t length = indptr[row + 1] - indptr[row];
            n_slots = length > n_slots ? length : n_slots;
            if (looks && !is_known)
                for (int64_t p = indptr[row]; p < indptr[row + 1]; p++) {
                    low = indices[p] < low ? indices[p] : low;
                    high = indices[p] > high ? indices[p] : high;
                }
        }
        pos[s + 1] = (INDEX)n_slots;
        if (is_known)
            continue;
        /* With few columns they are counted from 0, so no search is necessary. */
        const int64_t base = looks && low <= high ? low : 0;
        const int is_narrow = job->how->bits == 16 && high - base <= UINT16_MAX;
        out->what[s] |= is_narrow ? base << ASP_BASE_SHIFT | ASP_NARROW : ASP_WIDE;
    }
}

/* Make slice s a group of consecutive rows; n_diagonals >= 0 if it stores diagonals. */
static void NAME(take_group)(const asp_layout *out, int64_t s, int64_t row, int is_whole, int64_t n_diagonals)
{
    if (out->first)
        out->first[s] = (int32_t)row;
    out->what[s] = (is_whole ? ASP_IN_ORDER : 0) | (n_diagonals >= 0 ? ASP_DIAGONAL : 0);
    if (n_diagonals >= 0)
        ((INDEX *)out->pos)[s + 1] = (INDEX)n_diagonals;
}

/* Divide the rows: groups of rows on few diagonals, and all groups if nothing is sorted, become slices. The other
 * groups are collected in windows, which become slices when they are full. */
static void NAME(divide_rows)(asp_layout_job *job)
{
    const int64_t lanes = job->how->lanes, n_rows = job->a->n_rows, n_groups = (n_rows + lanes - 1) / lanes;
    asp_layout *out = job->out;
    asp_window now = {0};
    for (int64_t group = 0; group < n_groups; group++) {
        const int64_t row = group * lanes, n = row + lanes <= n_rows ? lanes : n_rows - row;
        const int64_t n_diagonals = job->how->diagonals ? job->n_diagonals[group] : -1;
        if (n_diagonals >= 0 || job->how->sigma <= 1) {
            NAME(take_group)(out, out->n_slices++, row, n == lanes, n_diagonals);
            continue;
        }
        now.n += n;
        now.end = group + 1;
        if (now.n >= asp_window_rows(job->how))
            asp_close_window(job, &now);
    }
    if (now.n > 0)
        asp_close_window(job, &now);
}

/* Return the value of `what` for slices of the rows begin .. end if all their columns fit 16 bits relative to the
 * smallest one, else 0. One contiguous scan is faster than short loops over a slice's rows. */
static int64_t NAME(narrow_window)(const asp_layout_job *job, int64_t begin, int64_t end)
{
    const asp_pattern *a = job->a;
    const INDEX *indptr = a->indptr, *indices = a->indices;
    INDEX low = 0, high = 0;
    if (job->how->bits != 16)
        return 0;
    if (a->n_cols > UINT16_MAX + 1 && indptr[begin] < indptr[end]) {
        low = high = indices[indptr[begin]];
        for (INDEX p = indptr[begin]; p < indptr[end]; p++) {
            low = indices[p] < low ? indices[p] : low;
            high = indices[p] > high ? indices[p] : high;
        }
    }
    return high - low <= UINT16_MAX ? (int64_t)low << ASP_BASE_SHIFT | ASP_NARROW : 0;
}

/* Sort the rows of the windows begin .. end and determine which of their slices have consecutive rows. */
static void NAME(order_windows)(asp_layout_job *job, int64_t begin, int64_t end, asp_sorting *room)
{
    const int64_t lanes = job->how->lanes, n_rows = job->a->n_rows;
    const asp_layout *out = job->out;
    for (asp_window *w = job->windows + begin; w < job->windows + end; w++) {
        int32_t *rows = room->rows;
        int64_t n = 0;
        for (int64_t group = w->begin; group < w->end; group++) {
            if (job->how->diagonals && job->n_diagonals[group] >= 0)
                continue;
            const int64_t row = group * lanes, m = row + lanes <= n_rows ? lanes : n_rows - row;
            for (int64_t lane = 0; lane < m; lane++)
                rows[n++] = (int32_t)(row + lane);
        }
        int32_t *order = job->order + w->at;
        const int32_t *found = NAME(sort_window)(job->a->indptr, rows, order, room, n);
        if (found != order)
            memcpy(order, found, (size_t)n * sizeof *order);
        const int64_t last = w->end * lanes < n_rows ? w->end * lanes : n_rows;
        const int64_t mark = NAME(narrow_window)(job, w->begin * lanes, last);
        w->n_listed = 0;
        for (int64_t at = 0, s = w->slice; at < n; at += lanes, s++) {
            int in_order = n - at >= lanes;
            for (int64_t lane = 1; lane < lanes && in_order; lane++)
                in_order = order[at + lane] == order[at] + lane;
            out->what[s] = mark | (in_order ? ASP_IN_ORDER : 0);
            out->first[s] = order[at];
            w->n_listed += !in_order;
        }
    }
}

/* Write the lists of rows of the windows begin .. end, from list `lists` of each on. */
static void NAME(list_windows)(const asp_layout_job *job, int64_t begin, int64_t end)
{
    const int64_t lanes = job->how->lanes;
    const asp_layout *out = job->out;
    for (const asp_window *w = job->windows + begin; w < job->windows + end; w++) {
        int64_t list = w->lists;
        for (int64_t at = 0, s = w->slice; at < w->n; at += lanes, s++) {
            if (out->what[s] & ASP_IN_ORDER)
                continue;
            const int64_t n = w->n - at < lanes ? w->n - at : lanes;
            int32_t *to = out->rows + list * lanes;
            memcpy(to, job->order + w->at + at, (size_t)n * sizeof *to);
            for (int64_t lane = n; lane < lanes; lane++)
                to[lane] = INT32_MAX;
            out->first[s] = (int32_t)list++;
        }
    }
}

/* Turn numbers of slots into the positions where slots and columns begin. */
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
