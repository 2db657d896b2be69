/* MTTKRP of a tensor in CSF (SPLATT: Smith et al. 2015): the sum below a node is multiplied by the node's factor row
 * once, in registers. Rows are divided among threads. If one row holds much of the tensor, its children are divided,
 * and contributions to rows shared by ranges are added under a lock. */
#include "csf.h"
#include "pool_api.h"

static const csf_kernels (*const tables[])[2] = ASP_ISA_TABLE(asp_csf_kernels);

static int64_t at(const csf_task *t, const void *array, int64_t p) { return asp_index_at(t->itype, array, p); }

static int type_of(const csf_task *t) { return t->item_bytes == 4 ? ASP_F32 : ASP_F64; }

/* Return the widest instruction set whose vectors the columns fill. Kernels with 32-byte vectors mask fewer columns; the portable
 * ones compute them one by one. */
static int isa_of(const csf_task *t)
{
    const int64_t bytes = t->rank * t->item_bytes;
    return asp_isa_within(asp_max(bytes, 32));
}

/* Task: compute the rows [begin, end) of level 0, and clear rows without entries. */
static void by_rows(const void *args, int64_t begin, int64_t end)
{
    const csf_task *t = args;
    const asp_csf *csf = t->csf;
    tables[isa_of(t)][type_of(t)][t->itype].rows(t, begin, end);
    if (end == csf->n_nodes[0]) clear_rows(t, end ? at(t, csf->ids[0], end - 1) + 1 : 0, csf->n_rows);
}

#define ADD(T)                                                                  \
    static void add_##T(T *restrict to, const T *restrict from, int64_t n)      \
    {                                                                           \
        for (int64_t j = 0; j < n; ++j) to[j] += from[j];                       \
    }
ADD(float)
ADD(double)

/* Task: add the contributions of the nodes [begin, end) of level 1 to M, which was cleared. */
static void by_children(const void *args, int64_t begin, int64_t end)
{
    const csf_task *t = args;
    const asp_csf *csf = t->csf;
    const csf_kernels *kernels = &tables[isa_of(t)][type_of(t)][t->itype];
    int64_t p = g_row_of(t->itype, csf->ptr[0], csf->n_nodes[0], begin);
    char part[1 << 12];
    for (; begin < end; ++p) {
        const int64_t first = at(t, csf->ptr[0], p), next = at(t, csf->ptr[0], p + 1), stop = asp_min(next, end);
        char *to = row_of(t, at(t, csf->ids[0], p));
        if (begin == first && stop == next) {
            kernels->part(t, begin, stop, to);
        } else {
            kernels->part(t, begin, stop, part);
            while (atomic_flag_test_and_set_explicit(t->lock, memory_order_acquire)) continue;
            if (t->item_bytes == 4) add_float((float *)to, (const float *)part, t->rank);
            else add_double((double *)to, (const double *)part, t->rank);
            atomic_flag_clear_explicit(t->lock, memory_order_release);
        }
        begin = stop;
    }
}

int asp_csf_mttkrp(int dtype, int itype, const asp_csf *csf, const void *const *factors, const int64_t *ld, int64_t rank,
                   void *M, int64_t ldm, int n_threads, int flags)
{
    if (dtype < 0 || dtype > 1 || itype < 0 || itype > 1 || csf->n_modes < 2 || csf->n_modes > ASP_MAX_MODES) return -1;
    atomic_flag lock = ATOMIC_FLAG_INIT;
    const int64_t last = csf->n_modes - 1, n_leaves = csf->n_nodes[last];
    csf_task task = {.csf = csf, .factors = factors, .ld = ld, .rank = rank, .ldm = ldm, .n_leaves = n_leaves, .itype = itype,
                     .item_bytes = dtype == ASP_F32 ? 4 : 8, .M = M, .lock = &lock};
    const int allowed = n_threads > 0 ? n_threads : asp_max_threads();
    const double n_steps = (double)(n_leaves + (last > 1 ? csf->n_nodes[last - 1] : 0)) * (double)rank;
    task.ahead = n_leaves * rank * task.item_bytes > STREAMING_BYTES ? AHEAD : 0;
    const int is_cut = allowed > 1 && !(flags & 2) && csf->largest_row > n_leaves / (2 * allowed) &&
                       rank * task.item_bytes <= 1 << 12 && n_leaves > 4096;
    if (n_leaves == 0 || rank == 0) {
        clear_rows(&task, 0, csf->n_rows);
    } else if (is_cut) {
        clear_rows(&task, 0, csf->n_rows);
        g_for_items(by_children, &task, csf->n_nodes[1], 64, 0.1 * n_steps, n_threads);
    } else {
        g_for_rows(by_rows, &task, csf->first_leaf, itype, csf->n_nodes[0], n_steps, n_threads);
    }
    return 0;
}
