/* Calls of generated kernels from Python: a direct call with the GIL released, without libffi. */
#include <stddef.h>
#include <stdint.h>
#include "kernel_api.h"
#include "panels.h"

typedef int (*asp_kernel_function)(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                                   int64_t n_j, int64_t n_threads, int64_t chunk);

int asp_run_kernel(uintptr_t kernel, const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                   int64_t n_j, int64_t n_threads, int64_t chunk, int64_t value_bytes, int64_t n_reads)
{
    const asp_kernel_function run = (asp_kernel_function)kernel;
    const int64_t row_bytes = n_j * value_bytes, ldb_bytes = ldB * value_bytes;
    if (n_j > 1) {
        const asp_panels panels = asp_choose_panels((const void *)B, A->size[1], row_bytes, ldb_bytes, n_reads);
        /* Several panels would mean several products: column tiling is part of the kernel's schedule. */
        char *panel = panels.width == row_bytes ? asp_take_panel(&panels, A->size[1]) : NULL;
        if (panel) {
            asp_copy_panel(panel, panels.ld, (const char *)B, ldb_bytes, A->size[1], row_bytes, (int)n_threads);
            const int found = run(A, (uintptr_t)panel, panels.ld / value_bytes, C, ldC, n_j, n_threads, chunk);
            asp_give_panel();
            return found;
        }
    }
    return run(A, B, ldB, C, ldC, n_j, n_threads, chunk);
}

/* Signature of kernels of other operations. `at` holds the addresses of the dense operands in the order of the
 * operation's expression, then the output, then the values of A; `ld` their leading dimensions. */
typedef int (*asp_dense_kernel_function)(const asp_operand *A, const uintptr_t *at, const int64_t *ld, int64_t n_j,
                                         int64_t n_threads, int64_t chunk);

int asp_run_sddmm(uintptr_t kernel, const asp_operand *A, uintptr_t X, int64_t ldX, uintptr_t Y, int64_t ldY,
                  uintptr_t vals, uintptr_t out, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    const uintptr_t at[] = {X, Y, out, vals};
    const int64_t ld[] = {ldX, ldY, 1, 1};
    return ((asp_dense_kernel_function)kernel)(A, at, ld, n_j, n_threads, chunk);
}

int asp_run_mttkrp(uintptr_t kernel, const asp_operand *A, const uintptr_t *factors, const int64_t *lds, int n_factors,
                   uintptr_t M, int64_t ldM, int64_t n_j, int64_t n_threads, int64_t chunk)
{
    uintptr_t at[8];
    int64_t ld[8];
    for (int f = 0; f < n_factors && f < 7; f++) {
        at[f] = factors[f];
        ld[f] = lds[f];
    }
    at[n_factors] = M;
    ld[n_factors] = ldM;
    return ((asp_dense_kernel_function)kernel)(A, at, ld, n_j, n_threads, chunk);
}
