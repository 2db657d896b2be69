/* Statistics for one index type; included by counts.c with INDEX and NAME(x) defined. */

/* Add the slots and entries of whole slices of n rows from `row` on, sorted by descending length; `large` has room for
 * n. */
static void NAME(add_window)(const INDEX *indptr, int64_t row, int64_t n, int64_t *large, int64_t *cells)
{
    int32_t counts[SMALL_LENGTH] = {0};
    int64_t n_large = 0, at = 0, longest = 0;
    for (int64_t i = row; i < row + n; i++) {
        const int64_t length = (int64_t)indptr[i + 1] - indptr[i];
        if (length < SMALL_LENGTH) {
            counts[length]++;
            longest = length > longest ? length : longest;
        } else {
            large[n_large++] = length;
        }
    }
    if (n_large > 1)
        qsort(large, (size_t)n_large, sizeof *large, asp_falling);
    for (; at < n_large; at++)
        asp_add_lengths(large[at], at, 1, n, cells);
    for (int64_t length = longest; length > 0; length--)
        if (counts[length]) {
            asp_add_lengths(length, at, counts[length], n, cells);
            at += counts[length];
        }
}

/* Compute the slots and entries of whole slices of the first rows in their given order. */
static void NAME(add_unsorted)(const INDEX *indptr, int64_t n_rows, int64_t *cells)
{
    const int64_t n = n_rows < MAX_SAMPLED_ROWS ? n_rows : MAX_SAMPLED_ROWS;
    for (int l = 0; l < N_LANES; l++) {
        const int64_t lanes = slice_lanes[l], whole = n / lanes * lanes;
        int64_t n_slots = 0;
        for (int64_t row = 0; row < whole; row += lanes) {
            int64_t longest = 0;
            for (int64_t lane = 0; lane < lanes; lane++) {
                const int64_t length = (int64_t)indptr[row + lane + 1] - indptr[row + lane];
                longest = length > longest ? length : longest;
            }
            n_slots += longest;
        }
        cells[2 * l] = n_slots;
        cells[2 * l + 1] = (int64_t)indptr[whole] - indptr[0];
    }
}

/* Compute all statistics of row lengths. */
static int NAME(length_counts)(int64_t n_rows, const INDEX *indptr, int64_t *found)
{
    int64_t longest = 0, n_empty = 0;
    unsigned __int128 squares = 0;
    memset(found, 0, (CELLS + 2 * N_WINDOWS * N_LANES) * sizeof *found);
    for (int64_t row = 0; row < n_rows; row++) {
        const INDEX length = indptr[row + 1] - indptr[row];
        longest = length > longest ? length : longest;
        squares += (unsigned __int128)length * (uint64_t)length;
        n_empty += length == 0;
    }
    found[LONGEST] = longest;
    found[SQUARES] = squares < INT64_MAX ? (int64_t)squares : INT64_MAX;
    found[EMPTY] = n_empty;
    NAME(add_unsorted)(indptr, n_rows, found + CELLS);
    int64_t *const large = malloc(MAX_SAMPLED_ROWS * sizeof *large);
    if (!large)
        return -1;
    for (int w = 1; w < N_WINDOWS; w++) {
        const int64_t window = windows[w], n_windows = n_rows / window;
        int64_t *const cells = found + CELLS + 2 * N_LANES * w;
        if (n_windows == 0) {
            NAME(add_window)(indptr, 0, n_rows, large, cells);
            continue;
        }
        const int64_t most = MAX_SAMPLED_ROWS / window, n_sampled = n_windows < most ? n_windows : most;
        for (int64_t i = 0; i < n_sampled; i++)
            NAME(add_window)(indptr, asp_spread(i, n_sampled, n_windows - 1) * window, window, large, cells);
    }
    free(large);
    return 0;
}

/* Count the entries of each column. */
static void NAME(count_columns)(int64_t n_rows, const INDEX *indptr, const INDEX *indices, int64_t *counts)
{
    for (int64_t e = indptr[0]; e < (int64_t)indptr[n_rows]; e++)
        counts[indices[e]]++;
}

/* Append at most `limit` entries of a panel to the sample and add up the gaps between their columns. */
static void NAME(take_panel)(int64_t n_rows, const INDEX *indptr, const INDEX *indices, int64_t panel, int64_t ordinal,
                             int64_t limit, asp_sample *s, int64_t *found)
{
    const int64_t low = panel * SAMPLE_ROWS, high = low + SAMPLE_ROWS < n_rows ? low + SAMPLE_ROWS : n_rows;
    const int64_t stop = (int64_t)indptr[low] + limit;
    const uint64_t head = (uint64_t)ordinal << s->column_bits, kept = ((uint64_t)1 << s->column_bits) - 1;
    for (int64_t row = low; row < high && indptr[row] < stop; row++) {
        const int64_t begin = indptr[row], end = indptr[row + 1] < stop ? (int64_t)indptr[row + 1] : stop;
        int64_t gaps = 0;
        for (int64_t e = begin; e < end; e++) {
            s->entries[s->n++] = (head | ((uint64_t)indices[e] & kept)) << ROW_BITS | (uint64_t)(row - low);
            if (e > begin)
                gaps += indices[e] > indices[e - 1] ? (int64_t)indices[e] - indices[e - 1]
                                                    : (int64_t)indices[e - 1] - indices[e];
        }
        found[GAPS] += gaps;
        found[N_GAPS] += end > begin ? end - begin - 1 : 0;
    }
}

/* Draw the sample, sort it and count blocks and diagonals. */
static int NAME(sample_counts)(int64_t n_rows, int64_t n_cols, const INDEX *indptr, const INDEX *indices,
                               int64_t n_sample, int64_t *found)
{
    const int64_t nnz = indptr[n_rows], n_all = (n_rows + SAMPLE_ROWS - 1) / SAMPLE_ROWS;
    if (nnz == 0 || n_all == 0)
        return 0;
    double per_panel = (double)nnz / (double)n_all;
    per_panel = per_panel < 1.0 ? 1.0 : per_panel;
    const double wanted = (double)n_sample / per_panel;
    int64_t n_panels = wanted > MIN_PANELS ? (int64_t)(wanted < (double)n_all ? wanted : (double)n_all) : MIN_PANELS;
    n_panels = n_panels < n_all ? n_panels : n_all;
    int64_t limit = 2 * n_sample / n_panels;
    limit = limit > MIN_OF_PANEL ? limit : MIN_OF_PANEL;
    asp_sample s = {.column_bits = asp_bits((uint64_t)n_cols - 1), .panel_bits = asp_bits((uint64_t)n_panels - 1)};
    const int room_bits = 63 - ROW_BITS - s.panel_bits; /* higher bits of the column are dropped */
    s.column_bits = s.column_bits < room_bits ? s.column_bits : room_bits;
    for (int64_t i = 0; i < n_panels; i++) { /* n_panels <= n_all, so no panel comes twice */
        const int64_t low = asp_spread(i, n_panels, n_all - 1) * SAMPLE_ROWS;
        const int64_t high = low + SAMPLE_ROWS < n_rows ? low + SAMPLE_ROWS : n_rows;
        const int64_t n = (int64_t)indptr[high] - indptr[low];
        s.room += n < limit ? n : limit;
    }
    uint64_t *const room = malloc((size_t)(2 * s.room + 1) * sizeof *room);
    if (!room)
        return -1;
    s.entries = room;
    s.spare = room + s.room;
    for (int64_t i = 0; i < n_panels; i++)
        NAME(take_panel)(n_rows, indptr, indices, asp_spread(i, n_panels, n_all - 1), i, limit, &s, found);
    found[ENTRIES] = s.n;
    asp_sort_sample(&s);
    asp_walk(&s, found);
    free(room);
    return 0;
}

/* Return the number of distinct columns among n; `met` is a zeroed bit set of columns. */
static int64_t NAME(distinct)(const INDEX *columns, int64_t n, uint64_t *met)
{
    int64_t n_found = 0;
    for (int64_t e = 0; e < n; e++) {
        uint64_t *const word = met + columns[e] / 64;
        const uint64_t bit = (uint64_t)1 << (columns[e] % 64);
        n_found += !(*word & bit);
        *word |= bit;
    }
    return n_found;
}
