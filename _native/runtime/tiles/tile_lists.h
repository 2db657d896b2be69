/* Tiles of a window of rows, in lists by the number of new entries that they cover. */
#pragma once
#include <stdint.h>
#include "tiles_api.h"

enum { BLOCK, CSR, ELL };

typedef struct {
    int32_t gain, next, before, group;
} planned_tile;

typedef struct {
    int64_t key;
    int32_t entry;
} keyed_entry;

typedef struct {
    const asp_tile_operator *operators;
    const asp_tile_options *options;
    int64_t n_operators, most_gain;
    /* of the window: */
    int64_t n_rows, n_entries, n_left, n_taken, n_iterations;
    double tiles_cost;
    int64_t *row_begin; /* by row: its first entry; n_rows + 1 */
    int64_t *columns;
    int32_t *row_of, *owner;
    int64_t *row_left;  /* entries of the row that no tile covers */
    int64_t *touched;   /* (operators, rows): tiles that touch the row */
    /* by operator, of families 0 and 2: */
    int32_t *tile_of;   /* (operators, entries), -1: none */
    planned_tile *tiles;        /* (operators, entries): at most one for each entry */
    int32_t *begin;     /* (operators, entries + 1): of blocks, where entries of each begin in `order` */
    int32_t *order;     /* (operators, entries) */
    int64_t *n_tiles;   /* (operators): of blocks */
    int32_t *heads;     /* (operators, rows, gains) */
    int64_t *top;       /* (operators, rows): no list above this gain holds a tile */
    keyed_entry *keys;
} tile_planner;

/* Rows of a tile of operator `one`, and runs of as many rows in the window. */
int64_t asp_tile_height(const asp_tile_operator *one);
int64_t asp_tile_groups(const tile_planner *p, int64_t k);
/* The first of operator k's tiles in a run of rows that cover so many new entries; -1: none. */
int32_t *asp_tile_list(const tile_planner *p, int64_t k, int64_t group, int64_t gain);
/* Put a tile into the list of its gain, or take it out: before its gain changes. */
void asp_join_list(tile_planner *p, int64_t k, int32_t at);
void asp_leave_list(tile_planner *p, int64_t k, int32_t at);
/* Make the tiles of operator k: blocks of the window, or runs of what is left of a row. */
void asp_cut_blocks(tile_planner *p, int64_t k);
void asp_cut_runs(tile_planner *p, int64_t k, int64_t row);
