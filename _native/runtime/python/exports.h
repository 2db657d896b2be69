/* Functions of the C runtime that the extension module calls. It finds them by the symbol `asp_exported`, or gets their
 * addresses from Python. */
#ifndef ASP_EXPORTS_H
#define ASP_EXPORTS_H

#include "dense_api.h"
#include "identity_api.h"
#include "kernel_api.h"
#include "look_api.h"
#include "matmul_api.h"
#include "output_api.h"
#include "pool_api.h"
#include "structure_api.h"
#include "sweeps_api.h"

/* asp_headers is the first: it is called before the others are known to fit. */
#define ASP_FUNCTIONS(FUNCTION)                                                                                  \
    FUNCTION(asp_headers) FUNCTION(asp_csr_check) FUNCTION(asp_csr_mm) FUNCTION(asp_csr_t_mm)                    \
    FUNCTION(asp_dense_rows) FUNCTION(asp_look_at_all) FUNCTION(asp_max_threads) FUNCTION(asp_output_allocator)  \
    FUNCTION(asp_output_limit) FUNCTION(asp_run_kernel) FUNCTION(asp_sweep_chunks) FUNCTION(asp_sweep_run)       \
    FUNCTION(asp_sweep_run_after) FUNCTION(asp_sweep_run_after_kernel) FUNCTION(asp_sweep_serial_ns)
#define ASP_MEMBER(name) __typeof__(&name) name;
typedef struct asp_functions {
    ASP_FUNCTIONS(ASP_MEMBER)
} asp_functions;
#undef ASP_MEMBER

#endif
