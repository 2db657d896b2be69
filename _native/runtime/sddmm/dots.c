/* Dot products of rows of X with rows of Y at the entries of a sparse matrix (SDDMM), for real values.
 *
 * Entries are processed in blocks that may span several rows: while one block is computed, the rows of the next one
 * are looked up and prefetched. Groups of four share their row of X where the sparse row is long enough.
 */
#include "graph_common.h"
#include "sddmm.h"

/* Entries per block; sizes of Y that count as cache-resident and as streaming, bytes. */
enum { BLOCK = 32, RESIDENT_BYTES = 1 << 20, STREAMING_BYTES = 1 << 25 };
/* Mean entries per row from which panels pay: a row of X is read once per panel, and serves all entries of its row. */
enum { PANEL_ENTRIES = 16 };

/* Addresses of the rows of X and Y of n entries, from entry `first` on. */
typedef struct {
    const char *x[BLOCK], *y[BLOCK];
    int64_t first, n;
} g_block;

/* Arguments of dots_body.h for one head and panel of features. */
typedef struct {
    const char *const *x, *const *y;
    const void *in, *times;
    void *out;
    int64_t n, K, step; /* step: values between consecutive results */
    double alpha, beta;
} g_dots;

#define G_INDEX_FREE
#define G_BODY "dots_body.h"
#include "graph_each.h"

typedef void (*g_dots_fn)(const g_dots *dots);
static const g_dots_fn dots_table[][2] = G_TABLE(dots);

static int64_t value_bytes(const g_sddmm *s) { return s->dtype == ASP_F32 ? 4 : 8; }

/* Define the function that fills `block` with the rows of entries [p, end). `row` is the row of p and is set to that
 * of the next entry. */
#define LOOK_UP(I)                                                                                    \
    static void look_up_##I(const g_sddmm *s, g_block *block, int64_t p, int64_t end, int64_t *row)   \
    {                                                                                                 \
        const I *indptr = s->indptr, *indices = s->indices;                                           \
        const int64_t width = value_bytes(s), ldx = s->ldx * width, ldy = s->ldy * width;             \
        const char *Y = s->Y;                                                                         \
        int64_t i = *row;                                                                             \
        block->first = p;                                                                             \
        block->n = asp_min(BLOCK, end - p);                                                           \
        for (int64_t q = 0; q < block->n;) {                                                          \
            while ((int64_t)indptr[i + 1] <= p + q) ++i;                                              \
            const char *x = (const char *)s->X + i * ldx;                                             \
            const int64_t stop = asp_min((int64_t)indptr[i + 1] - p, block->n);                       \
            for (; q < stop; ++q) {                                                                   \
                const char *y = Y + (int64_t)indices[p + q] * ldy;                                    \
                block->x[q] = x;                                                                      \
                block->y[q] = y;                                                                      \
            }                                                                                         \
        }                                                                                             \
        *row = i;                                                                                     \
        if (s->indices_out) memcpy((I *)s->indices_out + p, indices + p, (size_t)block->n * sizeof(I)); \
    }
LOOK_UP(int32_t)
LOOK_UP(int64_t)

/* Return how many bytes of each row of Y are prefetched: none while Y fits the L2 cache, the beginning while it may
 * fit the last-level cache (the hardware prefetcher then follows), and more beyond. */
static int64_t bytes_ahead(const g_sddmm *s)
{
    const int64_t row = s->K * s->n_heads * value_bytes(s), all = s->n_cols * row;
    return all <= RESIDENT_BYTES ? 0 : asp_min(row, all <= STREAMING_BYTES ? 128 : 1024);
}

/* Prefetch the rows of Y of a block. */
static void ask_for(const g_block *block, int64_t bytes)
{
    for (int64_t q = 0; q < block->n; ++q)
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(block->y[q] + at);
}

/* Advance the block's row addresses from offset *at to offset `to`, in bytes. */
static void move(g_block *block, int64_t *at, int64_t to)
{
    const int64_t by = to - *at;
    for (int64_t q = 0; by && q < block->n; ++q) {
        block->x[q] += by;
        block->y[q] += by;
    }
    *at = to;
}

/* Compute the results of a block for all heads, panel by panel of features. */
static void compute(const g_sddmm *s, g_block *block, g_dots_fn run)
{
    const int64_t width = value_bytes(s);
    /* Panel of long rows: stays in registers or in the L1 cache. */
    const int64_t panel = 16 * asp_vector_bytes() / width;
    int64_t place = 0;
    g_dots dots = {.x = block->x, .y = block->y, .n = block->n, .step = s->n_heads, .alpha = s->alpha};
    for (int64_t h = 0; h < s->n_heads; ++h) {
        const int64_t at = (block->first * s->n_heads + h) * width;
        dots.in = s->in ? (const char *)s->in + at : NULL;
        dots.out = (char *)s->out + at;
        dots.beta = s->beta;
        for (int64_t k = 0; k < s->K || k == 0; k += panel) {
            move(block, &place, (h * s->head_step + k) * width);
            dots.K = asp_min(s->K - k, panel);
            dots.times = s->times && k + panel >= s->K ? (const char *)s->times + at : NULL;
            run(&dots);
            dots.in = dots.out; /* further panels add to the first */
            dots.beta = 1;
        }
    }
}

/* Process permuted rows: each is treated as a matrix of one row. */
static void ordered_rows(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    const int64_t width = value_bytes(s);
    for (; p < end; ++row) {
        const int64_t stop = asp_min(asp_index_at(s->itype, s->indptr, row + 1), end);
        if (stop <= p) continue;
        const int64_t n = stop - p, shift = s->places ? s->places[p] * width : p * width;
        const int32_t narrow[2] = {0, (int32_t)n};
        const int64_t wide[2] = {0, n};
        g_sddmm one = *s;
        one.indptr = s->itype == ASP_I32 ? (const void *)narrow : wide;
        one.indices = (const char *)s->indices + p * (s->itype == ASP_I32 ? 4 : 8);
        one.X = (const char *)s->X + s->rows[row] * s->ldx * width;
        one.in = s->in ? (const char *)s->in + shift : NULL;
        one.times = s->times ? (const char *)s->times + shift : NULL;
        one.out = (char *)s->out + shift;
        one.rows = one.places = NULL;
        one.n_rows = 1;
        one.nnz = n;
        g_dots_at(&one, 0, 0, n);
        p = stop;
    }
}

/* Compute the entries [p, end) in panels of `panel` columns, of which the row kernels keep a row of X in registers. A
 * panel adds to the sums of the panels before it, so that the order of a sum does not depend on the range. */
static void by_panels(const g_sddmm *s, int64_t panel, int64_t row, int64_t p, int64_t end)
{
    const int64_t width = value_bytes(s);
    g_sddmm part = *s;
    for (int64_t k = 0; k < s->K; k += panel) {
        part.X = (const char *)s->X + k * width;
        part.Y = (const char *)s->Y + k * width;
        part.K = asp_min(panel, s->K - k);
        part.times = k + panel >= s->K ? s->times : NULL;
        g_dots_at(&part, row, p, end);
        part.in = part.out;
        part.beta = 1;
        part.indices_out = NULL;
    }
}

void g_dots_at(const g_sddmm *s, int64_t row, int64_t p, int64_t end)
{
    void (*const look_up)(const g_sddmm *, g_block *, int64_t, int64_t, int64_t *) =
        s->itype == ASP_I32 ? look_up_int32_t : look_up_int64_t;
    /* Short products are dominated by the sum across a vector, which is cheaper in 32 bytes than in 64. */
    const int isa = asp_isa_within(s->K * value_bytes(s) <= 64 ? 32 : INT64_MAX);
    const g_dots_fn run = dots_table[isa][s->dtype];
    g_block blocks[2];
    if (p >= end) return;
    if (g_dots_by_row(s, isa)) {
        g_dots_of_rows(s, isa, row, p, end);
        return;
    }
    const int64_t panel = 16 * asp_vector_bytes() / value_bytes(s);
    if (s->K > panel && s->nnz >= PANEL_ENTRIES * s->n_rows && g_dots_by_any(s, isa) && s->times != s->out) {
        by_panels(s, panel, row, p, end);
        return;
    }
    if (g_dots_by_any(s, isa)) {
        g_dots_of_any(s, isa, row, p, end);
        return;
    }
    if (s->rows) {
        ordered_rows(s, row, p, end);
        return;
    }
    look_up(s, &blocks[0], p, end, &row);
    const int64_t ahead = bytes_ahead(s);
    for (int turn = 0; p < end; turn = !turn) {
        p += blocks[turn].n;
        if (p < end) {
            look_up(s, &blocks[!turn], p, end, &row);
            if (ahead) ask_for(&blocks[!turn], ahead);
        }
        compute(s, &blocks[turn], run);
    }
}
