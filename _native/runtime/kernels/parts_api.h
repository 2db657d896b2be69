/* A part of a sparse operand: its generated kernel, its packed entries, the rows that one iteration of the kernel's
 * parallel loop computes, the kernel's chunk and most threads, and rows of C to be zeroed before it (it adds to them). */
typedef struct {
    uintptr_t kernel;
    const asp_operand *A;
    int64_t rows_per_iteration, chunk, most_threads;
    const int32_t *zeroed;
    int64_t n_zeroed;
} asp_part;
/* Address of what stands for the thread pool in operands of parts that take turns (asp_run_parts). */
void *asp_range_address(void);
/* C = A B, A in parts. The first n_alone parts run one after the other, each on all threads. The others are parts of the
 * same n_rows rows, of which the first writes C and the others add to it: they take turns on windows of `window` rows, a
 * multiple of every such part's rows_per_iteration; windows are handed out to threads. The loop over rows is the outermost
 * one of their kernels, and the parallel one. Rows of B are read n_reads times by all parts together, which decides
 * whether B is copied, panel by panel of its columns: all parts compute one panel before the next. serial_ns is what one
 * thread takes for the windows, roughly. Returns 1 when a kernel that looks saw a result that is not finite, else 0. */
int asp_run_parts(const asp_part *parts, int64_t n_parts, int64_t n_alone, int64_t n_rows, int64_t window, uintptr_t B,
                  int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t value_bytes,
                  int64_t n_reads, double serial_ns);
/* The windows of sampled products: each part writes entries of its own, so that nothing is added. */
int asp_run_sampled_windows(const asp_part *parts, int64_t n_parts, int64_t n_rows, int64_t window, uintptr_t X,
                            int64_t ldX, uintptr_t Y, int64_t ldY, uintptr_t vals, uintptr_t out, int64_t n_j,
                            int64_t n_threads, double serial_ns);
/* fill[e]: entries in the aligned r x c block of cells that entry e lies in, of a matrix by rows with 32-bit (itype 0) or
 * 64-bit (1) indices. Returns 0, or a negative number without memory. */
int asp_block_fill(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                   int64_t c, uint16_t *fill);
