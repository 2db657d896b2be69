/* Address of a kernel as asp_run_kernel calls them: C = A B of a blocked operand, r x c cells in each block (2, 4 or 8 by 2,
 * 4 or 8) by rows of blocks, 32-bit indices. dtype 0 or 1. 0 when there is no such kernel. */
uintptr_t asp_ready_blocks(int dtype, int64_t r, int64_t c);
/* The same for panels of c columns (256) in which r rows (1, 4 or 8) stand side by side, as long rows of a part are stored. */
uintptr_t asp_ready_row_panels(int dtype, int64_t r, int64_t c);
/* C = A B of an A in two parts that share rows: `blocks`, and the other entries by rows. Both are added up in registers,
 * window of rows by window; windows are handed out to threads. Rows of B are read n_reads times, which decides whether B is
 * copied, panel by panel. Returns 1 when some result is not finite, else 0; -1 when there is no such kernel. */
int asp_run_blocks(int dtype, int64_t r, int64_t c, int64_t window, const asp_operand *blocks, const asp_operand *rest,
                   uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads);
/* A part of whole rows, of those that are computed in one sweep over B: panels in which r rows stand side by side, or (r 0)
 * rows by their first column, of which [starts[p], starts[p + 1]) have it in panel p; rows of B are fetched `prefetch`
 * entries ahead. */
typedef struct {
    const asp_operand *A;
    int64_t r;
    const int32_t *starts;
    int64_t prefetch;
} asp_swept;
/* C = A B of an A in parts of whole rows: panel after panel of `panel` rows of B, which a core's own cache holds, is read by
 * all parts. Slices of columns of C are handed out to
 * threads; with more threads than slices, parts are computed one by one, with the same bits. Returns 1 when some result is not finite, else 0. */
int asp_run_sweep(int dtype, int64_t panel, const asp_swept *parts, int64_t n_parts, uintptr_t B, int64_t ldB, uintptr_t C,
                  int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads);
