/* Integer statistics of a sparsity pattern for tuner/features/statistics.py: row lengths, padded sizes of sliced ELL, and
 * blocks, diagonals and gaps between columns in a sample of row panels. The sizes below repeat those of the Python
 * module; tests recompute every number with NumPy.
 *
 * itype is 0 for int32 and 1 for int64. Functions return 0, or -1 without memory.
 */
#include "common.h"

#include "counts_api.h"
#include "pool_api.h"

/* PANEL: rows whose diagonals are counted together; SAMPLE_ROWS: rows of a sampled panel. N_SIZES block sizes, N_LANES
 * slice heights and N_WINDOWS sorting windows are examined. */
enum { PANEL = 16, SAMPLE_ROWS = 48, N_SIZES = 6, N_LANES = 4, N_WINDOWS = 3 };
/* Rows examined for slices; minimum number of panels; minimum number of entries taken from a panel. */
enum { MAX_SAMPLED_ROWS = 16384, MIN_PANELS = 8, MIN_OF_PANEL = 256 };
enum { SMALL_LENGTH = 1024 };           /* row lengths below this are sorted by counting */
enum { ROW_BITS = 6, DIGIT_BITS = 11 }; /* bits of a row within its panel; bits per pass of the radix sort */
/* Maximum ratio of cells to entries for which entries count as lying on few diagonals. */
#define MAX_DIAGONAL_CELLS 1.5
/* Slice heights. Heights and widths of blocks are 1, 2, 3, 4, 8 and 16. */
static const int64_t slice_lanes[N_LANES] = {4, 8, 16, 32};
/* Numbers of consecutive rows that are sorted by length; 1: unsorted. */
static const int64_t windows[N_WINDOWS] = {1, 512, 8192};

/* Layout of the result of asp_pattern_counts for row lengths: longest row, sum of squared lengths, empty rows, and,
 * for each window and slice height, the slots and the entries of all whole slices. */
enum { LONGEST = 0, SQUARES = 1, EMPTY = 2, CELLS = 3 };
/* Layout of the result for the sample: entries, sum and number of gaps, entries on few diagonals, cells of these
 * diagonals, and blocks by rows and columns. */
enum { ENTRIES = 0, GAPS = 1, N_GAPS = 2, ON_FEW = 3, FEW_CELLS = 4, BLOCKS = 5 };

/* Sampled entries, each packed as panel << (column_bits + ROW_BITS) | column << ROW_BITS | row. */
typedef struct {
    uint64_t *entries, *spare;
    int64_t n, room;
    int column_bits, panel_bits;
} asp_sample;

/* Return the i-th of n numbers spread evenly over 0 .. last. */
static inline int64_t asp_spread(int64_t i, int64_t n, int64_t last) { return n > 1 ? i * last / (n - 1) : 0; }

/* Return the number of bits of `most`. */
static int asp_bits(uint64_t most)
{
    int bits = 0;
    while (bits < 64 && most >> bits)
        bits++;
    return bits;
}

/* Compare two int64 for qsort, in descending order. */
static int asp_falling(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Add the slots and entries of whole slices for n rows of equal length that follow `at` longer rows, of n_all. */
static inline void asp_add_lengths(int64_t length, int64_t at, int64_t n, int64_t n_all, int64_t *cells)
{
    for (int l = 0; l < N_LANES; l++) {
        const int64_t lanes = slice_lanes[l], whole = n_all / lanes * lanes;
        const int64_t stop = at + n < whole ? at + n : whole;
        if (stop <= at)
            continue;
        cells[2 * l] += length * ((stop + lanes - 1) / lanes - (at + lanes - 1) / lanes);
        cells[2 * l + 1] += length * (stop - at);
    }
}

/* Radix-sort the sample by panel and column. */
static void asp_sort_sample(asp_sample *s)
{
    int64_t counts[1 << DIGIT_BITS];
    const int end = ROW_BITS + s->column_bits + s->panel_bits;
    for (int shift = ROW_BITS; shift < end; shift += DIGIT_BITS) {
        const int bits = end - shift < DIGIT_BITS ? end - shift : DIGIT_BITS;
        const uint64_t mask = ((uint64_t)1 << bits) - 1;
        memset(counts, 0, ((size_t)1 << bits) * sizeof *counts);
        for (int64_t e = 0; e < s->n; e++)
            counts[s->entries[e] >> shift & mask]++;
        int64_t before = 0;
        for (uint64_t digit = 0; digit <= mask; digit++) {
            const int64_t here = counts[digit];
            counts[digit] = before;
            before += here;
        }
        for (int64_t e = 0; e < s->n; e++)
            s->spare[counts[s->entries[e] >> shift & mask]++] = s->entries[e];
        uint64_t *const sorted = s->spare;
        s->spare = s->entries;
        s->entries = sorted;
    }
}

/* Count, for each block height r, the blocks that contain an entry of `rows` (bit i: row i of the panel), for the c-th
 * block width. A single row lies in one block whatever r is; such cases are counted in `singles`. */
#define COUNT_GROUPS(rows, c)                                                                                       \
    do {                                                                                                            \
        const uint64_t one_ = (rows);                                                                               \
        if (!(one_ & (one_ - 1))) {                                                                                 \
            singles[c]++;                                                                                           \
        } else {                                                                                                    \
            const uint64_t two_ = (one_ | one_ >> 1) & 0x555555555555u;                                             \
            const uint64_t four_ = (two_ | two_ >> 2) & 0x111111111111u;                                            \
            const uint64_t eight_ = (four_ | four_ >> 4) & 0x010101010101u;                                         \
            const uint64_t sixteen_ = (eight_ | eight_ >> 8) & 0x000100010001u;                                     \
            const uint64_t three_ = (one_ | one_ >> 1 | one_ >> 2) & 0x249249249249u;                               \
            blocks[0 * N_SIZES + (c)] += __builtin_popcountll(one_);                                                    \
            blocks[1 * N_SIZES + (c)] += __builtin_popcountll(two_);                                                    \
            blocks[2 * N_SIZES + (c)] += __builtin_popcountll(three_);                                                  \
            blocks[3 * N_SIZES + (c)] += __builtin_popcountll(four_);                                                   \
            blocks[4 * N_SIZES + (c)] += __builtin_popcountll(eight_);                                                  \
            blocks[5 * N_SIZES + (c)] += __builtin_popcountll(sixteen_);                                                \
        }                                                                                                           \
    } while (0)

/* Count blocks of every size and diagonals of every PANEL rows in one pass over the sorted sample. */
static inline __attribute__((always_inline)) void asp_walk_sample(const asp_sample *s, int64_t *found)
{
    const uint64_t column_mask = ((uint64_t)1 << s->column_bits) - 1;
    int64_t *const blocks = found + BLOCKS, singles[N_SIZES] = {0};
    for (int64_t e = 0; e < s->n;) {
        const uint64_t panel = s->entries[e] >> (ROW_BITS + s->column_bits);
        uint64_t rows_of[N_SIZES] = {0}, block_of[N_SIZES] = {0};
        /* Diagonals met so far that pass through `column`: bit f is the diagonal that row f of the part has there. */
        uint64_t met[SAMPLE_ROWS / PANEL] = {0}, last = 0;
        int64_t n_met[SAMPLE_ROWS / PANEL] = {0}, n_here[SAMPLE_ROWS / PANEL] = {0};
        while (e < s->n && s->entries[e] >> (ROW_BITS + s->column_bits) == panel) {
            const uint64_t column = s->entries[e] >> ROW_BITS & column_mask, step = column - last;
            uint64_t rows = 0;
            for (int part = 0; part < SAMPLE_ROWS / PANEL; part++)
                met[part] = step < PANEL ? met[part] << step & 0xffff : 0;
            last = column;
            for (; e < s->n && s->entries[e] >> ROW_BITS == (panel << s->column_bits | column); e++) {
                const unsigned row = s->entries[e] & ((1 << ROW_BITS) - 1), part = row / PANEL, bit = row % PANEL;
                rows |= (uint64_t)1 << row;
                n_met[part] += ~met[part] >> bit & 1;
                met[part] |= (uint64_t)1 << bit;
                n_here[part]++;
            }
            COUNT_GROUPS(rows, 0);
            const uint64_t here[N_SIZES] = {column, column >> 1, column / 3, column >> 2, column >> 3, column >> 4};
            for (int c = 1; c < N_SIZES; c++) {
                if (here[c] != block_of[c]) {
                    if (rows_of[c])
                        COUNT_GROUPS(rows_of[c], c);
                    rows_of[c] = 0;
                    block_of[c] = here[c];
                }
                rows_of[c] |= rows;
            }
        }
        for (int c = 1; c < N_SIZES; c++)
            if (rows_of[c])
                COUNT_GROUPS(rows_of[c], c);
        for (int part = 0; part < SAMPLE_ROWS / PANEL; part++) {
            const int64_t n_cells = n_met[part] * PANEL;
            if (n_here[part] && (double)n_cells <= MAX_DIAGONAL_CELLS * (double)n_here[part]) {
                found[ON_FEW] += n_here[part];
                found[FEW_CELLS] += n_cells;
            }
        }
    }
    for (int r = 0; r < N_SIZES; r++)
        for (int c = 0; c < N_SIZES; c++)
            blocks[r * N_SIZES + c] += singles[c];
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("popcnt"))) static void asp_walk_with_popcnt(const asp_sample *s, int64_t *found)
{
    asp_walk_sample(s, found);
}
#endif

static void asp_walk(const asp_sample *s, int64_t *found)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("popcnt")) {
        asp_walk_with_popcnt(s, found);
        return;
    }
#endif
    asp_walk_sample(s, found);
}

#define BODY "counts_body.h"
#include "each_index.h"

/* Compute the length statistics of the columns of a pattern: 3 + 2 * N_WINDOWS * N_LANES numbers. */
int asp_column_length_counts(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices,
                             void *found)
{
    int64_t *const starts = calloc((size_t)n_cols + 2, sizeof *starts);
    if (!starts)
        return -1;
    ASP_BY_INDEX(itype, count_columns, n_rows, indptr, indices, starts + 1);
    for (int64_t column = 0; column < n_cols; column++)
        starts[column + 1] += starts[column];
    const int status = length_counts_int64(n_cols, starts, found);
    free(starts);
    return status;
}

/* Arguments of a job of two items: the sample, and the row lengths. */
typedef struct {
    int itype;
    int64_t n_rows, n_cols, n_sample;
    const void *indptr, *indices;
    void *lengths, *sample;
    int status[2];
} asp_counting;

static void asp_count_items(void *context, int64_t begin, int64_t end)
{
    asp_counting *j = context;
    for (int64_t item = begin; item < end; item++)
        j->status[item] = item == 0 ? ASP_BY_INDEX(j->itype, sample_counts, j->n_rows, j->n_cols, j->indptr, j->indices,
                                                   j->n_sample, j->sample)
                                    : ASP_BY_INDEX(j->itype, length_counts, j->n_rows, j->indptr, j->lengths);
}

/* Compute the row-length statistics (layout as for columns) and the statistics of about n_sample entries in panels of
 * SAMPLE_ROWS rows, 5 + N_SIZES * N_SIZES numbers. Uses up to two threads. */
int asp_pattern_counts(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t n_sample,
                       void *lengths, void *sample, int n_threads)
{
    asp_counting job = {itype, n_rows, n_cols, n_sample, indptr, indices, lengths, sample, {0, 0}};
    memset(sample, 0, (BLOCKS + N_SIZES * N_SIZES) * sizeof(int64_t));
    asp_parallel(asp_count_items, &job, 2, 1, 1, n_threads, 20.0 * (double)n_sample + (double)n_rows);
    return job.status[0] ? job.status[0] : job.status[1];
}

/* Count the distinct columns in each of n_windows (at most 7) evenly spread windows of n_entries entries; coinciding
 * windows count once. Returns the sum << 3 | number of different windows, or -1 without memory. */
int64_t asp_distinct_columns(int itype, int64_t n_cols, const void *indices, int64_t nnz, int64_t n_entries,
                             int64_t n_windows)
{
    uint64_t *const met = malloc(((size_t)n_cols / 64 + 1) * sizeof *met);
    if (!met)
        return -1;
    int64_t n_found = 0, n_different = 0, before = -1;
    for (int64_t w = 0; w < n_windows; w++) {
        const int64_t start = asp_spread(w, n_windows, nnz - n_entries);
        if (start == before)
            continue;
        before = start;
        n_different++;
        memset(met, 0, ((size_t)n_cols / 64 + 1) * sizeof *met);
        n_found += itype == 0 ? distinct_int32((const int32_t *)indices + start, n_entries, met)
                              : distinct_int64((const int64_t *)indices + start, n_entries, met);
    }
    free(met);
    return n_found << 3 | n_different;
}
