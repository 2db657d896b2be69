/* Definitions of WACONet's sparse convolutions that waconet.c and the bodies for each instruction set share. */
#ifndef ASP_WACONET_H
#define ASP_WACONET_H

#include "common.h"

/* Channels of a layer; maximum input fibres and cells per output cell; output cells per unit of work. */
enum { CHANNELS = 32, MAX_FIBRES = 25, MAX_PAIRS = 125, BLOCK_CELLS = 1024 };

/* Cells grouped by all coordinates but the last: fibre f holds the coordinates k[ptr[f]] .. k[ptr[f + 1] - 1],
 * ascending. Fibres ascend by (i, j). A matrix has i = 0 everywhere. */
typedef struct {
    int64_t n_fibres, n_cells;
    int32_t *i, *j, *k;
    int64_t *ptr;
} asp_cells;

/* One layer; blocks of BLOCK_CELLS output cells are independent. */
typedef struct {
    const asp_cells *in, *out;
    int n_dims, stride, reach; /* offsets are -reach .. reach */
    const float *features;     /* (in->n_cells, CHANNELS); NULL: 1 channel, all ones */
    const float *weights;
    float *results;  /* (out->n_cells, CHANNELS) */
    double *sums;    /* (number of blocks, CHANNELS) */
} asp_layer;

/* A pool task on an asp_layer; items are blocks of cells. */
typedef void asp_convolve(void *layer, int64_t begin, int64_t end);
#define ASP_DECLARE(x, isa) extern asp_convolve x##_##isa;
ASP_EACH_ISA(ASP_DECLARE, asp_convolve)
#undef ASP_DECLARE

/* Search positions for the input cells of one output fibre. They are kept from fibre to fibre, because all searches
 * advance. */
typedef struct {
    int n;                      /* number of input fibres: 2 * reach + 1 per coordinate but the last */
    int64_t at[MAX_FIBRES];    /* first input fibre that does not come before the wanted one */
    int64_t cursor[MAX_FIBRES], end[MAX_FIBRES]; /* range within the fibre; empty: there is no such fibre */
    int first_offset[MAX_FIBRES];                 /* kernel offset of its cell with the smallest last coordinate */
} asp_cursors;

/* Begin at the first fibre; advance to an output fibre, of which first_k is the first cell to be computed. */
void asp_cursors_begin(asp_cursors *c, const asp_layer *layer, int64_t fibre);
void asp_cursors_fibre(asp_cursors *c, const asp_layer *layer, int64_t fibre, int32_t first_k);
/* List the pairs (kernel offset, input cell) of the output cell with last coordinate k of the current fibre; return
 * their number. */
ASP_INLINE int asp_cursors_pairs(asp_cursors *c, const asp_layer *layer, int32_t k, int32_t *offsets, int64_t *cells)
{
    const int width = 2 * layer->reach + 1;
    const int32_t *in = layer->in->k, low = k * layer->stride - layer->reach, high = low + width;
    int n = 0;
    for (int f = 0; f < c->n; f++) {
        int64_t at = c->cursor[f];
        const int64_t end = c->end[f];
        while (at < end && in[at] < low) at++;
        c->cursor[f] = at;
        for (; at < end && in[at] < high; at++) {
            offsets[n] = c->first_offset[f] + (in[at] - low) * c->n;
            cells[n++] = at;
        }
    }
    return n;
}

#endif
