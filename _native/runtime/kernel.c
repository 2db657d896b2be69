/* Calls of generated kernels from Python: a direct call with the GIL released, without libffi. */
#include <stdint.h>
#include "kernel_api.h"

typedef int (*asp_kernel_function)(const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                                   int64_t n_j, int64_t n_threads, int64_t chunk);

int asp_run_kernel(uintptr_t kernel, const asp_operand *A, uintptr_t B, int64_t ldB, uintptr_t C, int64_t ldC,
                   int64_t n_j, int64_t n_threads, int64_t chunk)
{
    return ((asp_kernel_function)kernel)(A, B, ldB, C, ldC, n_j, n_threads, chunk);
}
