/* Definitions of MTTKRP that csf.c and the kernels of each instruction set share. */
#ifndef ASP_CSF_H
#define ASP_CSF_H

#include <stdatomic.h>

#include "graph_common.h"

#include "csf_api.h"

/* Arguments of the tasks. */
typedef struct {
    const asp_csf *csf;
    const void *const *factors;
    const int64_t *ld;
    int64_t rank, ldm, n_leaves, ahead;
    int itype, item_bytes;
    void *M;
    atomic_flag *lock;
} csf_task;

/* Size of the last factor from which its rows are prefetched, bytes; prefetch distances in leaves and in nodes. */
enum { STREAMING_BYTES = 1 << 19, AHEAD = 12, NODES_AHEAD = 4 };

ASP_INLINE char *row_of(const csf_task *t, int64_t i) { return (char *)t->M + i * t->ldm * t->item_bytes; }

ASP_INLINE void clear_rows(const csf_task *t, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; ++i) memset(row_of(t, i), 0, (size_t)(t->rank * t->item_bytes));
}

/* Kernels of one instruction set, value type and index type. */
typedef struct {
    /* to[0..rank) = the contribution of the children [p, end) of one row. */
    void (*part)(const csf_task *task, int64_t p, int64_t end, void *to);
    /* Compute the rows [begin, end) of level 0 and clear the rows without entries before each of them. */
    void (*rows)(const csf_task *task, int64_t begin, int64_t end);
} csf_kernels;

/* Tables by [dtype][itype]. */
#define ASP_DECLARE(x, isa) extern const csf_kernels x##_##isa[2][2];
ASP_EACH_ISA(ASP_DECLARE, asp_csf_kernels)
#undef ASP_DECLARE

#endif
