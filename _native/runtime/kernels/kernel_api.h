/* A packed sparse operand as generated kernels read it, with one level of the storage format per index of the arrays.
 * `parallel` is asp_parallel_address() or NULL (one thread). */
typedef struct {
    /* size: extents of the indices; pos, crd and n_positions: positions, coordinates and number of positions per
     * level; bit d of `sorted`: level d lists ascending coordinates; origin: entry at each position of a structure
     * without values; repeats: next entry at the same position; take and give: allocator of work space; done: function
     * that is called with `observer` and ranges of rows that are complete, which may exceed the extent, or NULL. window:
     * number of rows within which rows are permuted: the numbers of complete rows of each window are right. 0: rows are
     * permuted in another way, and the ranges mean nothing. */
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
    void *done;
    void *observer;
    int64_t window;
} asp_operand;
/* Call a generated SpMV or SpMM kernel. B and C are addresses, ldB and ldC the elements between rows. chunk > 0 is the
 * number of iterations of the parallel loop per range; 0 divides entries equally. Rows of B are read n_reads times in
 * total, which decides whether B is copied. Returns 1 if a kernel that checks its results found a value that is not
 * finite, else 0. */
int asp_run_kernel(uintptr_t kernel, const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                   int64_t n_j, int64_t n_threads, int64_t chunk, int64_t value_bytes, int64_t n_reads);
/* Call generated kernels of other operations, which take their dense operands as arrays. */
int asp_run_sddmm(uintptr_t kernel, const asp_operand *A, uintptr_t X, int64_t ldX, uintptr_t Y, int64_t ldY,
                  uintptr_t vals, uintptr_t out, int64_t n_j, int64_t n_threads, int64_t chunk);
int asp_run_mttkrp(uintptr_t kernel, const asp_operand *A, const uintptr_t *factors, const int64_t *lds, int n_factors,
                   uintptr_t M, int64_t ldM, int64_t n_j, int64_t n_threads, int64_t chunk);
