/* Convolutions for one instruction set: ISA names it, SETS is the number of independent sums that hides the latency of
 * additions. */
#define BODY(name) ASP_GLUE(name, waconet, ISA, f32)

typedef float BODY(v) __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t BODY(vi) __attribute__((vector_size(64), aligned(4), may_alias));
#define V BODY(v)

/* Return max(x, 0). A macro, because vectors wider than the instruction set's have no calling convention. */
#define positive(x) ((V)((BODY(vi))(x) & (BODY(vi))((x) > (V){0})))

/* Compute the sum over pairs of features[cell] @ weights[offset]. */
ASP_INLINE void BODY(sum_pairs)(const asp_layer *layer, int n, const int32_t *offsets, const int64_t *cells, V *total)
{
    V sums[SETS][2] = {{{0}}};
    for (int p = 0; p < n; p++) {
        const float *x = layer->features + cells[p] * CHANNELS;
        const float *w = layer->weights + (int64_t)offsets[p] * CHANNELS * CHANNELS;
        for (int c = 0; c < CHANNELS; c += SETS) {
            ASP_UNROLL for (int s = 0; s < SETS; s++)
            {
                const V *row = (const V *)(w + (c + s) * CHANNELS);
                sums[s][0] += x[c + s] * row[0];
                sums[s][1] += x[c + s] * row[1];
            }
        }
    }
    for (int half = 0; half < 2; half++) {
        total[half] = sums[0][half];
        for (int s = 1; s < SETS; s++) total[half] += sums[s][half];
    }
}

/* Compute the sum for the first layer, whose input is 1 with one channel. */
ASP_INLINE void BODY(sum_ones)(const asp_layer *layer, int n, const int32_t *offsets, V *total)
{
    total[0] = total[1] = (V){0};
    for (int p = 0; p < n; p++) {
        const V *row = (const V *)(layer->weights + (int64_t)offsets[p] * CHANNELS);
        total[0] += row[0];
        total[1] += row[1];
    }
}

/* Compute one block of output cells and the sums of its results. */
static void BODY(convolve_block)(const asp_layer *layer, int64_t block)
{
    const asp_cells *out = layer->out;
    int64_t cell = block * BLOCK_CELLS;
    const int64_t end = asp_min(cell + BLOCK_CELLS, out->n_cells);
    int64_t fibre = 0, high = out->n_fibres; /* the fibre of the first cell */
    while (fibre + 1 < high) {
        const int64_t middle = fibre + (high - fibre) / 2;
        if (out->ptr[middle] <= cell) fibre = middle;
        else high = middle;
    }
    asp_cursors cursors;
    asp_cursors_begin(&cursors, layer, fibre);
    V pooled[2] = {{0}};
    int32_t offsets[MAX_PAIRS];
    int64_t cells[MAX_PAIRS];
    for (; cell < end; fibre++) {
        const int64_t stop = asp_min(end, out->ptr[fibre + 1]);
        asp_cursors_fibre(&cursors, layer, fibre, out->k[cell]);
        for (; cell < stop; cell++) {
            V total[2];
            const int n = asp_cursors_pairs(&cursors, layer, out->k[cell], offsets, cells);
            if (layer->features) BODY(sum_pairs)(layer, n, offsets, cells, total);
            else BODY(sum_ones)(layer, n, offsets, total);
            V *result = (V *)(layer->results + cell * CHANNELS);
            for (int half = 0; half < 2; half++) pooled[half] += result[half] = positive(total[half]);
        }
    }
    for (int c = 0; c < CHANNELS; c++) layer->sums[block * CHANNELS + c] = pooled[c / 16][c % 16];
}

#define CONVOLVE_OF(isa) CONVOLVE_OF_(isa)
#define CONVOLVE_OF_(isa) asp_convolve_##isa
void CONVOLVE_OF(ISA)(void *context, int64_t begin, int64_t end)
{
    for (int64_t block = begin; block < end; block++) BODY(convolve_block)(context, block);
}
