/* A part of a sparse operand: its kernel, its packed entries, and the kernel's chunk and maximum number of threads. */
typedef struct {
    uintptr_t kernel;
    const asp_operand *A;
    int64_t chunk, most_threads;
} asp_part;
/* Compute C = A B for an A in several parts of whole rows, which run one after the other, each on all threads.
 *
 * All parts together read rows of B n_reads times, which decides whether B is copied in panels of its columns; all
 * parts compute one panel before the next. Returns 1 if a kernel that checks its results found a value that is not
 * finite, else 0.
 */
int asp_run_parts(const asp_part *parts, int64_t n_parts, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC, int64_t n_j,
                  int64_t n_threads, int64_t value_bytes, int64_t n_reads);
