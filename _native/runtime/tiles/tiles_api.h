/* An operator of a tile plan. family: 0 blocks of r x c cells, 1 all entries of a row, 2 runs of at most c entries of
 * a row. A tile costs `tile`, and with family 1 `entry` more per entry. */
typedef struct {
    int64_t family, r, c;
    double tile, entry;
} asp_tile_operator;
/* Options of the planner; see autosparse.tuner.research.hybrid.greedy.GreedyOptions. `window` rows are planned at a time; it
 * must be a multiple of every block's height. */
typedef struct {
    int64_t window, levels, batches, local, withdraw, sweeps;
    double r, first_row, further_row;
} asp_tile_options;
/* Plan the tiles of a CSR matrix. owner[e] receives the number of the operator whose tile covers entry e. totals
 * receives three numbers: cost of the plan, iterations, tiles. single[k] receives the cost of operator k alone
 * (families 0 and 1). itype 0: 32-bit indices, 1: 64-bit. Returns 0, or -1 without memory. */
int asp_plan_tiles(int itype, int64_t n_rows, const void *indptr, const void *indices, const asp_tile_operator *operators,
                   int64_t n_operators, const asp_tile_options *options, int32_t *owner, double *totals, double *single);
