/* Return the address of a kernel with the signature that asp_run_kernel calls, or 0 if there is none: C = A B for an
 * operand in panels of c columns (256) with block rows of r rows (1, 4 or 8) and 32-bit indices, the storage of long
 * rows. dtype is 0 or 1. */
uintptr_t asp_ready_row_panels(int dtype, int64_t r, int64_t c);
/* A part consisting of whole rows, computed in one sweep with others. It is stored in panels with block rows of r
 * rows, or, with r = 0, by rows sorted by their first column, of which [starts[p], starts[p + 1]) begin in panel p.
 * Rows of B are prefetched `prefetch` entries ahead. */
typedef struct {
    const asp_operand *A;
    int64_t r;
    const int32_t *starts;
    int64_t prefetch;
} asp_swept;
/* Compute C = A B for an A in parts of whole rows: all parts read one panel of `panel` rows of B, which a core's own
 * cache holds, before the next. Slices of columns of C are distributed over threads; with more threads than slices,
 * parts are computed one by one, with identical results. Returns 1 if some result is not finite, else 0. */
int asp_run_sweep(int dtype, int64_t panel, const asp_swept *parts, int64_t n_parts, uintptr_t B, int64_t ldB, uintptr_t C,
                  int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads);
