/* MTTKRP's kernels of one instruction set, for the sources csf_isa<level>.c. */
#include ASP_INTRINSICS

#include "csf.h"

#define ISA_WIDE_LOOPS
#include "isa_begin.h"
#define G_BODY "csf_body.h"
#include "graph_types.h"

#define TABLE_OF(isa) TABLE_OF_(isa)
#define TABLE_OF_(isa) asp_csf_kernels_##isa
#define KERNELS(R, I) {ASP_GLUE(csf_part, ISA, R, I), ASP_GLUE(csf_rows, ISA, R, I)}
const csf_kernels TABLE_OF(ISA)[2][2] = {
    {KERNELS(float, int32_t), KERNELS(float, int64_t)},
    {KERNELS(double, int32_t), KERNELS(double, int64_t)},
};

#include "isa_end.h"
