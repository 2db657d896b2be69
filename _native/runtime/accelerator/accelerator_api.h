/* A simulated tiled sparse accelerator; tuner/research/targets/simulation.py describes what is counted and assumed. */
struct asp_accelerator {
    int64_t n_pes, lanes, l1_bytes, llc_bytes, barrier_cycles, tile_cycles;
    double port_width, llc_width, dram_width; /* bytes per cycle: per element, in total, in total */
};
/* Data and work of the operation beside the entries' own vectors. */
struct asp_accelerated {
    int64_t n_columns;                               /* columns of the dense operands */
    int64_t row_vectors;                             /* vector operations per row and tile, times ceil(width / lanes) */
    /* How often a row's segment moves: in its first tile, in later ones. */
    int64_t first_moves, later_moves;
    int64_t first_entry_bytes, later_entry_bytes;    /* DRAM bytes per entry: in the first split, in later ones */
};
/* Tile sizes in rows and columns, columns per split, whether intervals end with a barrier, whether results bypass the
 * caches. */
struct asp_tiling {
    int64_t p_row, p_col, split;
    int64_t barrier, bypass;
};
/* Counts of the simulation. */
struct asp_traffic {
    double cycles;
    int64_t dram_bytes, llc_bytes, port_bytes, l1_misses, llc_misses, vectors, n_tiles;
};
/* Simulate the operation on a CSR matrix. `order` is a permutation of the n_rows rows; columns of a row ascend.
 * Returns 0, 1 if a number that must be positive is not, or 2 without memory. */
int asp_accelerate(const struct asp_accelerator *machine, const struct asp_accelerated *operation,
                   const struct asp_tiling *tiling, int64_t n_rows, int64_t n_cols, const int32_t *indptr,
                   const int32_t *indices, const int32_t *order, struct asp_traffic *found);
