/* A tiled sparse accelerator, simulated: tuner/targets/simulation.py says what is counted and what is assumed. */
struct asp_accelerator {
    int64_t n_pes, lanes, l1_bytes, llc_bytes, barrier_cycles, tile_cycles;
    double port_width, llc_width, dram_width; /* bytes per cycle: of one element, of all, of all */
};
/* What the operation moves and computes beside the entries' own vectors. */
struct asp_accelerated {
    int64_t n_columns;                               /* of the dense operands */
    int64_t row_vectors;                             /* vector operations per row and tile, times ceil(width / lanes) */
    int64_t first_moves, later_moves;                /* times a row's segment moves: in its first tile, in later ones */
    int64_t first_entry_bytes, later_entry_bytes;    /* of DRAM per entry: in the first split, in later ones */
};
struct asp_tiling {
    int64_t p_row, p_col, split;
    int64_t barrier, bypass;
};
struct asp_traffic {
    double cycles;
    int64_t dram_bytes, llc_bytes, port_bytes, l1_misses, llc_misses, vectors, n_tiles;
};
/* `order`: the rows in the order in which they stand, n_rows of them; columns of a row ascend. 0, or 2 without memory,
 * 1 for a number that must be positive and is not. */
int asp_accelerate(const struct asp_accelerator *machine, const struct asp_accelerated *operation,
                   const struct asp_tiling *tiling, int64_t n_rows, int64_t n_cols, const int32_t *indptr,
                   const int32_t *indices, const int32_t *order, struct asp_traffic *found);
