/* Address of a kernel as asp_run_kernel calls them: C = A B of a blocked operand, r x c cells in each block (2, 4 or 8 by 2,
 * 4 or 8) by rows of blocks, 32-bit indices. dtype 0 or 1. 0 when there is no such kernel. */
uintptr_t asp_ready_blocks(int dtype, int64_t r, int64_t c);
/* The same for panels of c columns (256) in which r rows (4 or 8) stand side by side, as long rows of a part are stored. */
uintptr_t asp_ready_row_panels(int dtype, int64_t r, int64_t c);
/* C = A B of an A in two parts that share rows: `blocks`, and the other entries by rows. Both are added up in registers,
 * window of rows by window; windows are handed out to threads. Rows of B are read n_reads times, which decides whether B is
 * copied, panel by panel. Returns 1 when some result is not finite, else 0; -1 when there is no such kernel. */
int asp_run_blocks(int dtype, int64_t r, int64_t c, int64_t window, const asp_operand *blocks, const asp_operand *rest,
                   uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t n_reads);
