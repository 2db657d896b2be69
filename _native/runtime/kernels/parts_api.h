/* A part of a sparse operand: its generated kernel, its packed entries, the rows that one iteration of the kernel's
 * parallel loop computes, the kernel's chunk and maximum number of threads, and the rows of C that are cleared before
 * it, because it adds to them. */
typedef struct {
    uintptr_t kernel;
    const asp_operand *A;
    int64_t rows_per_iteration, chunk, most_threads;
    const int32_t *zeroed;
    int64_t n_zeroed;
} asp_part;
/* Return the address of the replacement of the thread pool, for operands of parts that are run by windows
 * (asp_run_parts). */
void *asp_range_address(void);
/* Compute C = A B for an A in several parts. The first n_alone parts run one after the other, each on all threads. The
 * others cover the same n_rows rows; the first of them writes C and the others add to it. They are applied in turn to
 * windows of `window` rows, a multiple of every such part's rows_per_iteration; windows are distributed over threads.
 * The outermost loop of their kernels must run over rows and be the parallel one.
 *
 * All parts together read rows of B n_reads times, which decides whether B is copied in panels of its columns; all
 * parts compute one panel before the next. serial_ns is the estimated time of the windows on one thread. Returns 1 if
 * a kernel that checks its results found a value that is not finite, else 0.
 */
int asp_run_parts(const asp_part *parts, int64_t n_parts, int64_t n_alone, int64_t n_rows, int64_t window, uintptr_t B,
                  int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j, int64_t n_threads, int64_t value_bytes,
                  int64_t n_reads, double serial_ns);
/* Compute SDDMM by windows of rows; each part writes its own entries, so nothing is added. */
int asp_run_sampled_windows(const asp_part *parts, int64_t n_parts, int64_t n_rows, int64_t window, uintptr_t X,
                            int64_t ldX, uintptr_t Y, int64_t ldY, uintptr_t vals, uintptr_t out, int64_t n_j,
                            int64_t n_threads, double serial_ns);
/* Compute fill[e], the number of entries in the aligned r x c block that contains entry e, for a CSR matrix with
 * 32-bit (itype 0) or 64-bit (1) indices. Returns 0, or -1 without memory. */
int asp_block_fill(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t r,
                   int64_t c, uint16_t *fill);
