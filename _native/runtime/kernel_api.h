/* A packed operand as generated kernels see it; `parallel` is asp_parallel_address() or NULL (one thread). */
typedef struct {
    int64_t size[4];
    const void *pos[8];
    const void *crd[8];
    const void *vals;
    int64_t n_positions[8];
    int64_t sorted;
    void *parallel;
} asp_operand;
/* Call a generated kernel: B and C are addresses, ldB and ldC elements between rows; chunk > 0: iterations per hand-out
 * of the parallel loop, 0: equal numbers of entries. Returns 1 when a value that is not finite was seen by a kernel
 * that looks, else 0. */
int asp_run_kernel(uintptr_t kernel, const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                   int64_t n_j, int64_t n_threads, int64_t chunk);
