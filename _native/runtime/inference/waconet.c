/* Sparse convolutions of WACONet: fibres of cells, coarser fibres, the cells that a convolution connects, and the
 * sequence of layers. All traversals are merges of sorted lists; nothing is hashed or sorted. */
#include "waconet.h"

#include "matmul_api.h"
#include "pool_api.h"
#include "waconet_api.h"

static void free_cells(asp_cells *cells)
{
    free(cells->i);
    free(cells->j);
    free(cells->k);
    free(cells->ptr);
    memset(cells, 0, sizeof *cells);
}

/* Allocate n_fibres fibres with n_cells cells in total; return ASP_OK or ASP_NO_MEMORY. */
static int alloc_cells(asp_cells *cells, int64_t n_fibres, int64_t n_cells)
{
    cells->n_fibres = cells->n_cells = 0;
    cells->i = malloc((size_t)(n_fibres + 1) * sizeof *cells->i);
    cells->j = malloc((size_t)(n_fibres + 1) * sizeof *cells->j);
    cells->k = malloc((size_t)(n_cells + 1) * sizeof *cells->k);
    cells->ptr = malloc((size_t)(n_fibres + 1) * sizeof *cells->ptr);
    if (cells->i && cells->j && cells->k && cells->ptr) {
        cells->ptr[0] = 0;
        return ASP_OK;
    }
    free_cells(cells);
    return ASP_NO_MEMORY;
}

/* Group n sorted cells into fibres. */
static int gather_fibres(asp_cells *cells, int64_t n, const int32_t *i, const int32_t *j, const int32_t *k)
{
    int64_t n_fibres = n > 0;
    for (int64_t p = 1; p < n; p++) n_fibres += j[p] != j[p - 1] || (i && i[p] != i[p - 1]);
    if (alloc_cells(cells, n_fibres, n) != ASP_OK) return ASP_NO_MEMORY;
    int64_t f = -1;
    for (int64_t p = 0; p < n; p++) {
        if (p == 0 || j[p] != j[p - 1] || (i && i[p] != i[p - 1])) {
            cells->i[++f] = i ? i[p] : 0;
            cells->j[f] = j[p];
            cells->ptr[f] = p;
        }
        cells->k[p] = k[p];
    }
    cells->ptr[n_fibres] = n;
    cells->n_fibres = n_fibres;
    cells->n_cells = n;
    return ASP_OK;
}

/* Merge up to four fine fibres into a coarse one: the distinct values of k / 2 in order. */
static void merge_fibres(const asp_cells *fine, const int64_t *sources, int n, asp_cells *coarse)
{
    int64_t at[4], end[4], n_cells = coarse->n_cells;
    for (int s = 0; s < n; s++) at[s] = fine->ptr[sources[s]], end[s] = fine->ptr[sources[s] + 1];
    for (;;) {
        int32_t least = INT32_MAX;
        for (int s = 0; s < n; s++)
            if (at[s] < end[s] && fine->k[at[s]] >> 1 < least) least = fine->k[at[s]] >> 1;
        if (least == INT32_MAX) break;
        coarse->k[n_cells++] = least;
        for (int s = 0; s < n; s++)
            while (at[s] < end[s] && fine->k[at[s]] >> 1 == least) at[s]++;
    }
    coarse->n_cells = n_cells;
    coarse->ptr[++coarse->n_fibres] = n_cells;
}

/* Compute floor(c / 2) of every coordinate. Fine fibres with i = 2u come before those with 2u + 1: two lists,
 * ascending by j. */
static int coarsen(const asp_cells *fine, asp_cells *coarse)
{
    if (alloc_cells(coarse, fine->n_fibres, fine->n_cells) != ASP_OK) return ASP_NO_MEMORY;
    int64_t begin = 0;
    while (begin < fine->n_fibres) {
        const int32_t u = fine->i[begin] >> 1;
        int64_t middle = begin;
        while (middle < fine->n_fibres && fine->i[middle] == 2 * u) middle++;
        int64_t end = middle;
        while (end < fine->n_fibres && fine->i[end] == 2 * u + 1) end++;
        int64_t lists[2] = {begin, middle}, ends[2] = {middle, end};
        for (;;) {
            int32_t v = INT32_MAX;
            for (int s = 0; s < 2; s++)
                if (lists[s] < ends[s] && fine->j[lists[s]] >> 1 < v) v = fine->j[lists[s]] >> 1;
            if (v == INT32_MAX) break;
            int64_t sources[4];
            int n = 0;
            for (int s = 0; s < 2; s++)
                while (lists[s] < ends[s] && fine->j[lists[s]] >> 1 == v) sources[n++] = lists[s]++;
            coarse->i[coarse->n_fibres] = u;
            coarse->j[coarse->n_fibres] = v;
            merge_fibres(fine, sources, n, coarse);
        }
        begin = end;
    }
    return ASP_OK;
}

/* Return whether fibre f of `cells` comes before (i, j). */
static int is_before(const asp_cells *cells, int64_t f, int64_t i, int64_t j)
{
    return cells->i[f] < i || (cells->i[f] == i && cells->j[f] < j);
}

/* Return the first fibre from `from` on that does not come before (i, j), by exponential and then binary search. */
static int64_t seek(const asp_cells *cells, int64_t from, int64_t i, int64_t j)
{
    int64_t step = 1, low = from;
    while (low + step < cells->n_fibres && is_before(cells, low + step, i, j)) low += step, step *= 2;
    int64_t high = asp_min(low + step, cells->n_fibres);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (is_before(cells, middle, i, j)) low = middle + 1;
        else high = middle;
    }
    return low;
}

void asp_cursors_begin(asp_cursors *c, const asp_layer *layer, int64_t fibre)
{
    (void)fibre;
    const int width = 2 * layer->reach + 1;
    c->n = layer->n_dims == 3 ? width * width : width;
    for (int f = 0; f < c->n; f++) {
        c->at[f] = 0;
        c->first_offset[f] = f; /* the first coordinate's offset varies fastest, the last one's slowest */
    }
}

void asp_cursors_fibre(asp_cursors *c, const asp_layer *layer, int64_t fibre, int32_t first_k)
{
    const asp_cells *in = layer->in;
    const int width = 2 * layer->reach + 1;
    const int32_t low = first_k * layer->stride - layer->reach;
    for (int f = 0; f < c->n; f++) {
        const int di = layer->n_dims == 3 ? f % width - layer->reach : 0;
        const int dj = (layer->n_dims == 3 ? f / width : f) - layer->reach;
        const int64_t i = (int64_t)layer->out->i[fibre] * layer->stride + di;
        const int64_t j = (int64_t)layer->out->j[fibre] * layer->stride + dj;
        const int64_t at = c->at[f] = seek(in, c->at[f], i, j);
        c->cursor[f] = c->end[f] = 0;
        if (at == in->n_fibres || in->i[at] != i || in->j[at] != j) continue;
        int64_t begin = in->ptr[at], end = in->ptr[at + 1];
        c->end[f] = end;
        while (begin < end) { /* a block may begin in the middle of a long fibre */
            const int64_t middle = begin + (end - begin) / 2;
            if (in->k[middle] < low) begin = middle + 1;
            else end = middle;
        }
        c->cursor[f] = begin;
    }
}

/* Return the convolution for the instruction set in use. */
static asp_convolve *convolve(void)
{
    static asp_convolve *const of_isa[] = ASP_ISA_TABLE(asp_convolve);
    return of_isa[asp_isa()];
}

/* Compute one layer and the mean of its results per channel. */
static int run_layer(asp_layer *layer, float *pooled, int n_threads)
{
    const int64_t n = layer->out->n_cells, n_blocks = (n + BLOCK_CELLS - 1) / BLOCK_CELLS;
    layer->sums = malloc((size_t)(n_blocks + 1) * CHANNELS * sizeof *layer->sums);
    if (!layer->sums) return ASP_NO_MEMORY;
    const double cell_ns = layer->features ? 50.0 : 20.0;
    asp_parallel(convolve(), layer, n_blocks, 1, n_blocks, n_threads, cell_ns * (double)n);
    for (int c = 0; c < CHANNELS; c++) {
        double sum = 0.0; /* by blocks, in order: the same result for any number of threads */
        for (int64_t b = 0; b < n_blocks; b++) sum += layer->sums[b * CHANNELS + c];
        pooled[c] = n ? (float)(sum / (double)n) : 0.0f;
    }
    free(layer->sums);
    return ASP_OK;
}

static float *alloc_features(int64_t n_cells)
{
    return asp_take_aligned(64, (size_t)(n_cells + 1) * CHANNELS * sizeof(float));
}

int asp_waconet(int n_dims, int64_t n_cells, const int32_t *i, const int32_t *j, const int32_t *k, int n_layers,
                const float *weights, float *pooled, int n_threads)
{
    if ((n_dims != 2 && n_dims != 3) || (n_dims == 3 && !i) || n_cells < 0 || n_layers < 1) return ASP_BAD_SIZE;
    asp_cells cells[2] = {{0}, {0}}; /* input and output of the current layer */
    float *features[2] = {NULL, NULL};
    int status = gather_fibres(&cells[0], n_cells, n_dims == 3 ? i : NULL, j, k);
    if (status == ASP_OK && !(features[0] = alloc_features(n_cells))) status = ASP_NO_MEMORY;
    const int64_t n_first = n_dims == 3 ? 125 : 25, n_later = n_dims == 3 ? 27 : 9;
    if (status == ASP_OK) {
        asp_layer first = {&cells[0], &cells[0], n_dims, 1, 2, NULL, weights, features[0], NULL};
        status = run_layer(&first, pooled, n_threads);
    }
    weights += n_first * CHANNELS;
    for (int at = 1; at < n_layers && status == ASP_OK; at++) {
        status = coarsen(&cells[0], &cells[1]);
        if (status == ASP_OK && !(features[1] = alloc_features(cells[1].n_cells))) status = ASP_NO_MEMORY;
        if (status != ASP_OK) break;
        asp_layer layer = {&cells[0], &cells[1], n_dims, 2, 1, features[0], weights, features[1], NULL};
        status = run_layer(&layer, pooled + (size_t)at * CHANNELS, n_threads);
        weights += n_later * CHANNELS * CHANNELS;
        free_cells(&cells[0]);
        asp_free_aligned(features[0]);
        cells[0] = cells[1];
        features[0] = features[1];
        memset(&cells[1], 0, sizeof cells[1]);
        features[1] = NULL;
    }
    for (int s = 0; s < 2; s++) free_cells(&cells[s]), asp_free_aligned(features[s]);
    return status;
}
