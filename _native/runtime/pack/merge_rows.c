/* A + B, A - B and A * B (by elements) of two matrices with compressed rows in canonical format.
 *
 * Entries that are 0 are left out, as by SciPy's loops, or kept, as by einsum. The place of a row is therefore known
 * only after all rows before it were merged. Threads first merge each row into work space that holds all entries of both
 * rows, and then copy the rows, divided as a product with the result divides them (select_rows.c says why).
 */
#include "kernels.h"

#include <stdatomic.h>

#include "merge_rows_api.h"
#include "pool_api.h"

enum { PLUS = 0, MINUS = 1, TIMES = 2, PLUS_ALL = 3, MINUS_ALL = 4 };
enum { RANGE_NS = 4000 }; /* minimum duration of a range, as in matmul.c */
/* Estimated time per row and per entry of both operands for merging, and per entry of the result for copying, ns. */
#define ROW_NS 4.0
#define MERGED_NS 2.0
#define COPIED_NS 0.6

typedef struct {
    int itype, operation;
    int64_t n_rows, element_bytes;
    const void *const *left, *const *right; /* indptr, indices, data */
    const void *starts;                     /* row starts of the result */
    void *counts;                           /* element k + 1: number of entries of row k */
    char *loose_indices, *loose_data;       /* row k begins where as many entries of both operands precede it */
    char *indices, *data;
    _Atomic int is_bad; /* indices of a row do not rise */
} merging;

/* Return the first row k before which at least `weight` rows and entries of both operands lie. */
static int64_t row_of_both(const merging *job, int64_t weight)
{
    int64_t low = 0, high = job->n_rows;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int64_t before = asp_index_at(job->itype, job->left[0], middle) + asp_index_at(job->itype, job->right[0], middle);
        if (before + middle < weight) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Merge rows of nl and nr entries into (to, values) and return the number of entries that are kept. Without branches
 * that depend on the indices: half of those would be mispredicted. */
#define DEFINE_MERGE(code, T, INDEX)                                                                                 \
    ASP_INLINE T combine_##code##_##INDEX(T a, T b, int operation)                                                   \
    {                                                                                                                \
        return operation == TIMES ? a * b : operation == MINUS || operation == MINUS_ALL ? a - b : a + b;            \
    }                                                                                                                \
    ASP_INLINE int64_t merge_##code##_##INDEX(const INDEX *l, const T *lv, int64_t nl, const INDEX *r, const T *rv,  \
                                              int64_t nr, INDEX *to, T *values, int operation, int *is_bad)          \
    {                                                                                                                \
        int64_t i = 0, j = 0, n = 0;                                                                                 \
        INDEX last = -1;                                                                                             \
        const int keep = operation >= PLUS_ALL;                                                                      \
        int bad = 0;                                                                                                 \
        while (i < nl && j < nr) {                                                                                   \
            const INDEX at = l[i] < r[j] ? l[i] : r[j];                                                              \
            const int in_left = l[i] == at, in_right = r[j] == at;                                                   \
            const T a = lv[i], b = rv[j];                                                                            \
            const T value = combine_##code##_##INDEX(in_left ? a : 0, in_right ? b : 0, operation);                  \
            to[n] = at, values[n] = value;                                                                           \
            n += keep || value != 0, bad |= at <= last, last = at, i += in_left, j += in_right;                      \
        }                                                                                                            \
        for (; i < nl; i++) {                                                                                        \
            const T value = combine_##code##_##INDEX(lv[i], 0, operation);                                           \
            to[n] = l[i], values[n] = value;                                                                         \
            n += keep || value != 0, bad |= l[i] <= last, last = l[i];                                               \
        }                                                                                                            \
        for (; j < nr; j++) {                                                                                        \
            const T value = combine_##code##_##INDEX(0, rv[j], operation);                                           \
            to[n] = r[j], values[n] = value;                                                                         \
            n += keep || value != 0, bad |= r[j] <= last, last = r[j];                                               \
        }                                                                                                            \
        *is_bad |= bad;                                                                                              \
        return n;                                                                                                    \
    }                                                                                                                \
    static int merge_rows_##code##_##INDEX(const merging *job, int64_t first, int64_t end, int operation)            \
    {                                                                                                                \
        const INDEX *l = job->left[0], *r = job->right[0];                                                           \
        const INDEX *li = job->left[1], *ri = job->right[1];                                                         \
        const T *lv = job->left[2], *rv = job->right[2];                                                             \
        INDEX *counts = job->counts;                                                                                 \
        int bad = 0;                                                                                                 \
        for (int64_t k = first; k < end; k++) {                                                                      \
            const int64_t at = (int64_t)l[k] + r[k];                                                                 \
            INDEX *to = (INDEX *)job->loose_indices + at;                                                            \
            T *values = (T *)job->loose_data + at;                                                                   \
            counts[k + 1] = (INDEX)merge_##code##_##INDEX(li + l[k], lv + l[k], l[k + 1] - l[k], ri + r[k], rv + r[k], \
                                                          r[k + 1] - r[k], to, values, operation, &bad);             \
        }                                                                                                            \
        return bad;                                                                                                  \
    }                                                                                                                \
    static int by_operation_##code##_##INDEX(const merging *job, int64_t first, int64_t end)                         \
    {                                                                                                                \
        if (job->operation == PLUS) return merge_rows_##code##_##INDEX(job, first, end, PLUS);                       \
        if (job->operation == MINUS) return merge_rows_##code##_##INDEX(job, first, end, MINUS);                     \
        if (job->operation == PLUS_ALL) return merge_rows_##code##_##INDEX(job, first, end, PLUS_ALL);               \
        if (job->operation == MINUS_ALL) return merge_rows_##code##_##INDEX(job, first, end, MINUS_ALL);             \
        return merge_rows_##code##_##INDEX(job, first, end, TIMES);                                                  \
    }
#define DEFINE_NARROW(code, T) DEFINE_MERGE(code, T, int32_t)
#define DEFINE_WIDE(code, T) DEFINE_MERGE(code, T, int64_t)
ASP_EACH_DTYPE(DEFINE_NARROW)
ASP_EACH_DTYPE(DEFINE_WIDE)

#define TABLE(INDEX) {by_operation_0_##INDEX, by_operation_1_##INDEX, by_operation_2_##INDEX, by_operation_3_##INDEX}

/* Pool tasks: merge, and copy, the rows that begin in [begin, end) of "rows plus entries". One for each dtype would
 * only help the call-interval tuner, to which jobs of equal size are the same. */
typedef struct {
    merging *job;
    int dtype;
    int64_t total;
} piece;

static void merge_task(void *context, int64_t begin, int64_t end)
{
    static int (*const functions[2][4])(const merging *, int64_t, int64_t) = {TABLE(int32_t), TABLE(int64_t)};
    const piece *all = context;
    const int64_t last = end >= all->total ? all->job->n_rows : row_of_both(all->job, end);
    if (functions[all->job->itype][all->dtype](all->job, row_of_both(all->job, begin), last))
        atomic_store_explicit(&all->job->is_bad, 1, memory_order_relaxed);
}

static void copy_task(void *context, int64_t begin, int64_t end)
{
    const piece *all = context;
    const merging *job = all->job;
    const int itype = job->itype;
    const int64_t index_bytes = itype == ASP_I32 ? 4 : 8, element_bytes = job->element_bytes;
    const int64_t last = end >= all->total ? job->n_rows : asp_row_at(itype, job->starts, job->n_rows, end);
    for (int64_t k = asp_row_at(itype, job->starts, job->n_rows, begin); k < last; k++) {
        const int64_t from = asp_index_at(itype, job->left[0], k) + asp_index_at(itype, job->right[0], k);
        const int64_t to = asp_index_at(itype, job->starts, k), n = asp_index_at(itype, job->starts, k + 1) - to;
        memcpy(job->indices + to * index_bytes, job->loose_indices + from * index_bytes, (size_t)(n * index_bytes));
        memcpy(job->data + to * element_bytes, job->loose_data + from * element_bytes, (size_t)(n * element_bytes));
    }
}

static void share(asp_task task, piece *all, double serial_ns, int n_threads)
{
    const int64_t least = asp_max(1, (int64_t)((double)all->total * RANGE_NS / (serial_ns + 1)));
    asp_parallel(task, all, all->total, least, asp_max(least, all->total), n_threads > 0 ? n_threads : asp_max_threads(),
                 serial_ns);
}

/* Merge the rows of two matrices, each given by the addresses of indptr, indices and data, into work space for the
 * entries of both, write the row starts of the result to to_indptr, and return its number of entries; -1 where the
 * indices of a row do not rise. `operation`: 0 for A + B, 1 for A - B, 2 for A * B of real values; 3 and 4 for A + B and
 * A - B with the entries that are 0. */
int64_t asp_merge_rows(int dtype, int itype, int operation, int64_t n_rows, const uintptr_t *left, const uintptr_t *right,
                       void *to_indptr, void *loose_indices, void *loose_data, int n_threads)
{
    const void *const l[] = {(const void *)left[0], (const void *)left[1], (const void *)left[2]};
    const void *const r[] = {(const void *)right[0], (const void *)right[1], (const void *)right[2]};
    merging job = {.itype = itype, .operation = operation, .n_rows = n_rows, .left = l, .right = r, .counts = to_indptr,
                   .loose_indices = loose_indices, .loose_data = loose_data};
    const int64_t n_both = asp_index_at(itype, l[0], n_rows) + asp_index_at(itype, r[0], n_rows);
    piece all = {&job, dtype, n_rows + n_both};
    share(merge_task, &all, ROW_NS * (double)n_rows + MERGED_NS * (double)n_both, n_threads);
    if (job.is_bad) return -1;
    int64_t nnz = 0;
    if (itype == ASP_I32) {
        int32_t *starts = to_indptr;
        starts[0] = 0;
        for (int64_t k = 1; k <= n_rows; k++) starts[k] = (int32_t)(nnz += starts[k]);
    } else {
        int64_t *starts = to_indptr;
        starts[0] = 0;
        for (int64_t k = 1; k <= n_rows; k++) starts[k] = nnz += starts[k];
    }
    return nnz;
}

/* Copy the rows that asp_merge_rows has merged to arrays without gaps between them. */
void asp_pack_merged(int element_bytes, int itype, int64_t n_rows, const void *left_indptr, const void *right_indptr,
                     const void *loose_indices, const void *loose_data, const void *to_indptr, void *to_indices,
                     void *to_data, int n_threads)
{
    const void *const l[] = {left_indptr}, *const r[] = {right_indptr};
    merging job = {.itype = itype, .n_rows = n_rows, .element_bytes = element_bytes, .left = l, .right = r,
                   .starts = to_indptr, .loose_indices = (char *)loose_indices, .loose_data = (char *)loose_data,
                   .indices = to_indices, .data = to_data};
    const int64_t nnz = asp_index_at(itype, to_indptr, n_rows);
    piece all = {&job, 0, n_rows + nnz};
    share(copy_task, &all, ROW_NS * (double)n_rows + COPIED_NS * (double)nnz, n_threads);
}
