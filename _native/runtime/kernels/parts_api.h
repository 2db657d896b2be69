/* A part of a sparse operand: its generated kernel, its packed entries, and the rows that one iteration of the kernel's
 * parallel loop computes. */
typedef struct {
    uintptr_t kernel;
    const asp_operand *A;
    int64_t rows_per_iteration;
} asp_part;
/* Address of what stands for the thread pool in operands of parts that take turns (asp_run_windows). */
void *asp_range_address(void);
/* Parts of the same n_rows rows, of which the first writes C and the others add to it, take turns on windows of
 * `window` rows, a multiple of every part's rows_per_iteration; windows are handed out to threads. The loop over rows is
 * the outermost one of every kernel, and the parallel one. Rows of B are read n_reads times, serial_ns is what one thread
 * takes, roughly. Returns 1 when a kernel that looks saw a result that is not finite, else 0. */
int asp_run_windows(const asp_part *parts, int64_t n_parts, int64_t n_rows, int64_t window, uintptr_t B, int64_t ldB,
                    uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t value_bytes, int64_t n_reads,
                    double serial_ns);
/* The same for sampled products: each part writes entries of its own, so that nothing is added. */
int asp_run_sampled_windows(const asp_part *parts, int64_t n_parts, int64_t n_rows, int64_t window, uintptr_t X,
                            int64_t ldX, uintptr_t Y, int64_t ldY, uintptr_t vals, uintptr_t out, int64_t n_j,
                            int64_t n_threads, double serial_ns);
/* Zero row_bytes bytes of each of the n rows of C that `rows` lists, ld_bytes apart. */
void asp_zero_rows(uintptr_t C, int64_t ld_bytes, int64_t row_bytes, const int32_t *rows, int64_t n);
/* fill[e]: entries in the aligned r x c block of cells that entry e lies in, of a matrix by rows with 32-bit (itype 0) or
 * 64-bit (1) indices. Returns 0, or a negative number without memory. */
int asp_block_fill(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                   int64_t c, uint16_t *fill);
