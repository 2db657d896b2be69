/* State of the tile planner (tiles.c) for one window of rows: candidate tiles, in lists by their gain, the number of
 * uncovered entries that each covers. */
#pragma once
#include <stdint.h>
#include "tiles_api.h"

/* Families of operators, as in asp_tile_operator. */
enum { BLOCK, CSR, ELL };

/* A candidate tile: its gain, its neighbours in the list (-1: none), and its group of rows. */
typedef struct {
    int32_t gain, next, before, group;
} planned_tile;

/* Sort key of an entry. */
typedef struct {
    int64_t key;
    int32_t entry;
} keyed_entry;

/* All state; one thread uses it. */
typedef struct {
    const asp_tile_operator *operators;
    const asp_tile_options *options;
    int64_t n_operators, most_gain;
    /* State of the current window: */
    int64_t n_rows, n_entries, n_left, n_taken, n_iterations;
    double tiles_cost;
    int64_t *row_begin; /* first entry of each row; n_rows + 1 */
    int64_t *columns;
    int32_t *row_of, *owner; /* row of each entry, and operator of the tile that covers it (-1: none) */
    int64_t *row_left;  /* uncovered entries per row */
    int64_t *touched;   /* (operators, rows): number of tiles that touch the row */
    /* Per operator of the families 0 and 2: */
    int32_t *tile_of;   /* (operators, entries): tile that contains the entry; -1: none */
    planned_tile *tiles;        /* (operators, entries): at most one per entry */
    int32_t *begin;     /* (operators, entries + 1): where the entries of each block begin in `order` */
    int32_t *order;     /* (operators, entries) */
    int64_t *n_tiles;   /* (operators): number of blocks */
    int32_t *heads;     /* (operators, rows, gains): first tile of each list */
    int64_t *top;       /* (operators, rows): no list above this gain contains a tile */
    keyed_entry *keys;
} tile_planner;

/* Return the number of rows of a tile of operator `one`, and the number of groups of as many rows in the window. */
int64_t asp_tile_height(const asp_tile_operator *one);
int64_t asp_tile_groups(const tile_planner *p, int64_t k);
/* Return the head of the list of operator k's tiles in a group of rows with this gain; -1: empty. */
int32_t *asp_tile_list(const tile_planner *p, int64_t k, int64_t group, int64_t gain);
/* Insert a tile into the list of its gain, or remove it. It must be removed before its gain changes. */
void asp_join_list(tile_planner *p, int64_t k, int32_t at);
void asp_leave_list(tile_planner *p, int64_t k, int32_t at);
/* Create the tiles of operator k: the blocks of the window, or runs of the uncovered entries of a row. */
void asp_cut_blocks(tile_planner *p, int64_t k);
void asp_cut_runs(tile_planner *p, int64_t k, int64_t row);
