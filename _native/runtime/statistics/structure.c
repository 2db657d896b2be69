/* Validation, transposition and permutation of CSR structures on several threads. */
#include <stdatomic.h>

#include "kernels.h"

#include "copies.h"
#include "matmul_api.h"
#include "pool_api.h"
#include "structure_api.h"

/* Maximum number of parts of a transposition; minimum number of elements per range. */
enum { PARTS_MAX = 16, PIECE = 16384 };

typedef struct {
    char bytes[16];
} asp_sixteen;

/* --- check ------------------------------------------------------------------------------------------------------- */

/* Arguments of a validation; `bad` is set by any thread that finds a fault. */
typedef struct {
    const void *array;
    uint64_t bound;
    _Atomic int bad;
} check;

/* Return a number whose sign bit is set if row starts decrease or are negative, or an index lies outside the bound, in
 * the elements [begin, end). */
typedef uint64_t (*find_faults)(const void *array, int64_t begin, int64_t end, uint64_t bound);
enum { OF_ROWS = 0, OF_INDICES = 2 }; /* numbers of functions for 32-bit integers; those for 64 bits follow them */

#include ASP_INTRINSICS

#define ISA_BODY "structure_faults.h"
#include "each_isa.h"

/* Set `bad` if there is a fault of the given kind in the elements [begin, end). */
static void check_range(check *job, int kind, int wide, int64_t begin, int64_t end)
{
    static const find_faults *const versions[] = ASP_ISA_TABLE(faults);
    if (versions[asp_isa()][kind + wide](job->array, begin, end, job->bound) >> 63)
        atomic_store_explicit(&job->bad, 1, memory_order_relaxed);
}

#define CHECK(NAME, KIND, WIDE) \
    static void NAME(void *context, int64_t begin, int64_t end) { check_range(context, KIND, WIDE, begin, end); }
CHECK(indices_task_i32, OF_INDICES, 0)
CHECK(indices_task_i64, OF_INDICES, 1)
CHECK(indptr_task_i32, OF_ROWS, 0)
CHECK(indptr_task_i64, OF_ROWS, 1)

/* Beyond the index type, n_cols bounds only the sign. */
static uint64_t bound_of_indices(int itype, int64_t n_cols)
{
    return itype == ASP_I32 && n_cols > INT32_MAX ? (uint64_t)1 << 31 : (uint64_t)n_cols;
}

int asp_csr_check(int itype, int64_t n_rows, int64_t n_cols, const void *indptr, const void *indices, int64_t n_stored,
                  int n_threads)
{
    const int wide = itype != ASP_I32;
    check rows = {.array = indptr}, columns = {.array = indices, .bound = bound_of_indices(itype, n_cols)};
    if (asp_index_at(itype, indptr, 0) != 0) return 1;
    asp_parallel(wide ? indptr_task_i64 : indptr_task_i32, &rows, n_rows, PIECE, n_rows + 1, n_threads,
                 0.3 * (double)n_rows);
    if (rows.bad) return 2;
    const int64_t nnz = asp_index_at(itype, indptr, n_rows);
    if (nnz > n_stored) return 3;
    asp_parallel(wide ? indices_task_i64 : indices_task_i32, &columns, nnz, PIECE, nnz + 1, n_threads,
                 0.2 * (double)nnz);
    return columns.bad ? 4 : 0;
}

/* Arguments of the validation of a copy: the copied arrays and their sizes in bytes. */
typedef struct {
    check rows, columns;
    const int64_t *bytes;
    int itype;
} copy_check;

/* Validate a piece of copied row starts and indices, which are in this core's cache. Pairs of row starts in two pieces
 * are left out. */
static void check_piece(void *context, int64_t piece, int64_t n_pieces)
{
    copy_check *job = context;
    const int wide = job->itype != ASP_I32;
    const int64_t item = wide ? 8 : 4;
    const int64_t row = asp_piece_begin(job->bytes[0], piece, n_pieces) / item;
    const int64_t last_row = asp_piece_begin(job->bytes[0], piece + 1, n_pieces) / item - 1;
    const int64_t k = asp_piece_begin(job->bytes[1], piece, n_pieces) / item;
    const int64_t last_k = asp_piece_begin(job->bytes[1], piece + 1, n_pieces) / item;
    check_range(&job->rows, OF_ROWS, wide, row, last_row);
    check_range(&job->columns, OF_INDICES, wide, k, last_k);
}

int asp_csr_copy(int itype, int64_t n_rows, int64_t n_cols, const uintptr_t *from, const uintptr_t *to,
                 const int64_t *bytes, int n_threads)
{
    const int64_t item = itype == ASP_I32 ? 4 : 8;
    const void *indptr = (const void *)to[0];
    copy_check job = {{.array = indptr}, {(const void *)to[1], bound_of_indices(itype, n_cols), 0}, bytes, itype};
    const int64_t n_pieces = asp_copy_pieces(3, from, to, bytes, n_threads, check_piece, &job);
    for (int64_t piece = 1; piece < n_pieces; piece++) {
        const int64_t row = asp_piece_begin(bytes[0], piece, n_pieces) / item;
        if (row > 0 && asp_index_at(itype, indptr, row - 1) > asp_index_at(itype, indptr, row)) return 2;
    }
    if (asp_index_at(itype, indptr, 0) != 0) return 1;
    if (job.rows.bad || asp_index_at(itype, indptr, n_rows) < 0) return 2;
    return asp_index_at(itype, indptr, n_rows) * item > bytes[1] ? 3 : job.columns.bad ? 4 : 0;
}

/* --- transpose --------------------------------------------------------------------------------------------------- */

/* Operands of a transposition; the rows of A are divided into n_parts parts. */
typedef struct {
    int64_t n_rows, n_cols, nnz, n_parts;
    int element_bytes;
    const void *indptr, *indices, *data;
    void *t_indptr, *t_indices, *t_data, *perm;
    void *places; /* [part][column]: number of nonzeros, later the position of the next one */
    int64_t step; /* elements between the arrays of consecutive parts */
} transposition;

/* Return the first row of a part; parts have equal numbers of rows plus nonzeros. */
static int64_t part_begin(const transposition *job, int itype, int64_t part)
{
    if (part == 0) return 0;
    if (part == job->n_parts) return job->n_rows;
    return asp_row_at(itype, job->indptr, job->n_rows, (job->nnz + job->n_rows) * part / job->n_parts);
}

/* Move the rows [first, last) of a part to their transposed positions. */
#define MOVE(T)                                                                                   \
    {                                                                                             \
        const T *data = job->data;                                                                \
        T *t_data = job->t_data;                                                                  \
        for (int64_t i = first; i < last; i++)                                                    \
            for (int64_t k = indptr[i], end = indptr[i + 1]; k < end; k++) {                      \
                const int64_t place = places[indices[k]]++;                                       \
                t_indices[place] = (INDEX)i;                                                      \
                if (perm) perm[place] = (INDEX)k;                                                 \
                if (t_data) t_data[place] = data[k];                                              \
            }                                                                                     \
    }

/* The three passes: count columns per part, turn counts into positions, move the entries. */
#define DEFINE_TRANSPOSE(suffix, ITYPE)                                                           \
    static void count_##suffix(void *context, int64_t begin, int64_t end)                         \
    {                                                                                             \
        const transposition *job = context;                                                       \
        const INDEX *indptr = job->indptr, *indices = job->indices;                               \
        for (int64_t part = begin; part < end; part++) {                                          \
            INDEX *places = (INDEX *)job->places + part * job->step;                            \
            const int64_t first = indptr[part_begin(job, ITYPE, part)];                           \
            const int64_t last = indptr[part_begin(job, ITYPE, part + 1)];                        \
            memset(places, 0, (size_t)job->n_cols * sizeof(INDEX));                               \
            for (int64_t k = first; k < last; k++) places[indices[k]]++;                          \
        }                                                                                         \
    }                                                                                             \
    static void add_up_##suffix(const transposition *job)                                         \
    {                                                                                             \
        INDEX *t_indptr = job->t_indptr, *places = job->places, total = 0;                        \
        for (int64_t j = 0; j < job->n_cols; j++) {                                               \
            t_indptr[j] = total;                                                                  \
            for (int64_t part = 0; part < job->n_parts; part++) {                                 \
                const INDEX here = places[part * job->step + j];                                \
                places[part * job->step + j] = total;                                           \
                total += here;                                                                    \
            }                                                                                     \
        }                                                                                         \
        t_indptr[job->n_cols] = total;                                                            \
    }                                                                                             \
    static void move_##suffix(void *context, int64_t begin, int64_t end)                          \
    {                                                                                             \
        const transposition *job = context;                                                       \
        const INDEX *indptr = job->indptr, *indices = job->indices;                               \
        INDEX *t_indices = job->t_indices, *perm = job->perm;                                     \
        for (int64_t part = begin; part < end; part++) {                                          \
            INDEX *places = (INDEX *)job->places + part * job->step;                            \
            const int64_t first = part_begin(job, ITYPE, part), last = part_begin(job, ITYPE, part + 1); \
            if (job->element_bytes == 4) MOVE(int32_t)                                            \
            else if (job->element_bytes == 8) MOVE(int64_t)                                       \
            else if (job->element_bytes == 1) MOVE(int8_t)                                        \
            else if (job->element_bytes == 2) MOVE(int16_t)                                       \
            else MOVE(asp_sixteen)                                                                \
        }                                                                                         \
    }

#define INDEX int32_t
DEFINE_TRANSPOSE(i32, ASP_I32)
#undef INDEX
#define INDEX int64_t
DEFINE_TRANSPOSE(i64, ASP_I64)
#undef INDEX

int asp_csr_transpose(int element_bytes, int itype, int64_t n_rows, int64_t n_cols, const void *indptr,
                      const void *indices, const void *data, void *t_indptr, void *t_indices, void *t_data, void *perm,
                      int n_threads)
{
    if (element_bytes < 1 || element_bytes > 16 || (element_bytes & (element_bytes - 1))) return ASP_BAD_CODE;
    const int wide = itype != ASP_I32;
    transposition job = {.n_rows = n_rows, .n_cols = n_cols, .nnz = asp_index_at(itype, indptr, n_rows),
                         .element_bytes = element_bytes, .indptr = indptr, .indices = indices, .data = data,
                         .t_indptr = t_indptr, .t_indices = t_indices, .t_data = data ? t_data : NULL, .perm = perm};
    /* Each part counts every column separately, which pays only if nonzeros outnumber columns. */
    job.n_parts = asp_max(1, asp_min(asp_min(n_threads, PARTS_MAX), job.nnz / (n_cols + PIECE)));
    job.step = asp_own_bytes(n_cols * (wide ? 8 : 4)) / (wide ? 8 : 4);
    job.places = asp_take_own(job.n_parts, n_cols * (wide ? 8 : 4));
    if (!job.places) return ASP_NO_MEMORY;
    asp_parallel(wide ? count_i64 : count_i32, &job, job.n_parts, 1, 1, n_threads, 1.0 * (double)job.nnz);
    (wide ? add_up_i64 : add_up_i32)(&job);
    asp_parallel(wide ? move_i64 : move_i32, &job, job.n_parts, 1, 1, n_threads, 3.0 * (double)job.nnz);
    asp_free_aligned(job.places);
    return ASP_OK;
}

/* --- gather ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const void *perm, *source;
    void *target;
    int element_bytes;
} permutation;

#define GATHER(T) \
    for (int64_t k = begin; k < end; k++) ((T *)job->target)[k] = ((const T *)job->source)[perm[k]];
#define DEFINE_GATHER(suffix, INDEX)                                          \
    static void gather_##suffix(void *context, int64_t begin, int64_t end)    \
    {                                                                         \
        const permutation *job = context;                                     \
        const INDEX *perm = job->perm;                                        \
        if (job->element_bytes == 4) GATHER(int32_t)                          \
        else if (job->element_bytes == 8) GATHER(int64_t)                     \
        else GATHER(asp_sixteen)                                              \
    }
DEFINE_GATHER(i32, int32_t)
DEFINE_GATHER(i64, int64_t)

int asp_gather(int element_bytes, int itype, const void *perm, const void *source, void *target, int64_t n,
               int n_threads)
{
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) return ASP_BAD_CODE;
    permutation job = {.perm = perm, .source = source, .target = target, .element_bytes = element_bytes};
    asp_parallel(itype == ASP_I32 ? gather_i32 : gather_i64, &job, n, PIECE / 4, n + 1, n_threads, 0.8 * (double)n);
    return ASP_OK;
}
