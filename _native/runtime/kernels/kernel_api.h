/* A packed operand as generated kernels see it; `parallel` is asp_parallel_address() or NULL (one thread). */
typedef struct {
    int64_t size[6];
    const void *pos[12];
    const void *crd[12];
    const void *vals;
    int64_t n_positions[12];
    int64_t sorted;
    void *parallel;
    const void *origin;
    const void *repeats;
    void *take;
    void *give;
} asp_operand;
/* Call a generated kernel: B and C are addresses, ldB and ldC elements between rows; chunk > 0: iterations per hand-out
 * of the parallel loop, 0: equal numbers of entries; rows of B are read n_reads times in all. Returns 1 when a value that is not finite was seen by a kernel
 * that looks, else 0. */
int asp_run_kernel(uintptr_t kernel, const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                   int64_t n_j, int64_t n_threads, int64_t chunk, int64_t value_bytes, int64_t n_reads);
/* The same for kernels of other operations, which take their dense operands as arrays. */
int asp_run_sddmm(uintptr_t kernel, const asp_operand *A, uintptr_t X, int64_t ldX, uintptr_t Y, int64_t ldY,
                  uintptr_t vals, uintptr_t out, int64_t n_j, int64_t n_threads, int64_t chunk);
int asp_run_mttkrp(uintptr_t kernel, const asp_operand *A, const uintptr_t *factors, const int64_t *lds, int n_factors,
                   uintptr_t M, int64_t ldM, int64_t n_j, int64_t n_threads, int64_t chunk);
