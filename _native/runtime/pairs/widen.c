/* Conversion of stored values to the type of a product, block by block.
 *
 * A thread converts the values of as many rows as fit into a buffer on its stack and passes the buffer to the kernel,
 * whose results are the same as with converted values of the whole matrix. A row that is longer than the buffer is
 * computed piece by piece, and the pieces are added in order. Their boundaries depend only on the row, so results do
 * not depend on the number of threads.
 */
#include "widen.h"

#include "matmul_api.h"
#include "pairs_api.h"
#include "pool_api.h"

enum { BLOCK_BYTES = 16 << 10 }; /* converted values of a block, bytes; half of a 32-KiB L1 cache */
/* Maximum values of a block of a product with one column, at least GROUP_NONZEROS. Blocks of 512 values take 1.2 times
 * as long: the kernel looks for equal rows at the beginning of each. */
enum { COLUMN_BLOCK = 2048 };
enum { LINE_BYTES = 64 };
/* Values behind the block that kernels may read without using them. */
enum { PADDING = 64 };
enum { MAX_BYTES = 16 };        /* bytes of the largest value */
enum { MIN_CONVERTED = 1 << 14 }; /* minimum values of a range of asp_widen_values */
static const double CONVERT_NS = 0.5; /* estimated time per value, ns */

/* Names of types as in NumPy. The type code `bool_` has bytes of any value, where all but 0 mean true. */
typedef float f32;
typedef double f64;
typedef uint8_t bool_, u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define WIDENINGS(isa) WIDENINGS_(isa)
#define WIDENINGS_(isa) widenings_##isa
#define ISA_WIDE_LOOPS
#define ISA_BODY "widen_body.h"
#include "each_isa.h"
#undef ISA_WIDE_LOOPS

int asp_find_widening(int stored, int dtype, asp_widen *widen)
{
    *widen = NULL;
    if (dtype < 0 || dtype > ASP_U64 || stored < 0 || stored > ASP_I64_STORED) return 0;
    /* Sums and products modulo a power of two do not depend on the sign. */
    if (stored == dtype || (stored >= ASP_I8_STORED && stored - ASP_I8_STORED == dtype - ASP_U8)) return 1;
    static const asp_widen(*const tables[])[13] = ASP_ISA_TABLE(widenings);
    *widen = tables[asp_isa()][dtype][stored];
    return *widen != NULL;
}

/* Return the pointer to element 0 of an array whose element `first` is at `block`. */
static const void *shifted(const char *block, int64_t first, int64_t bytes)
{
    return (const void *)((uintptr_t)block - (uintptr_t)(first * bytes));
}

/* Return the end of the rows from `row` on, at most `end`, whose entries fit into `capacity`; `row` if the first does
 * not fit. Rows that kernels sum together stay together. */
static int64_t block_end(const asp_args *args, int itype, int64_t row, int64_t end, int64_t capacity)
{
    const int64_t limit = asp_index_at(itype, args->indptr, row) + capacity;
    if (asp_index_at(itype, args->indptr, end) <= limit) return end;
    /* Blocks have few of the rows: a search that begins in the middle of them would miss the caches. */
    int64_t low = row, high = end, step = 1;
    while (row + step < end && asp_index_at(itype, args->indptr, row + step) <= limit) low = row + step, step *= 2;
    high = asp_min(row + step, end);
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (asp_index_at(itype, args->indptr, middle) <= limit) low = middle;
        else high = middle;
    }
    const int64_t group = low / ROW_GROUP * ROW_GROUP;
    return group > row ? group : low;
}

/* Compute a row that does not fit into `buffer`, piece by piece. */
static void run_pieces(const asp_args *args, asp_kernel kernel, int itype, int64_t row, char *buffer, int64_t capacity,
                       int scatters)
{
    const int64_t last = asp_index_at(itype, args->indptr, row + 1);
    asp_args one = *args;
    one.n_rows = 1;
    if (scatters) one.B = (const char *)args->B + row * args->ldb * args->element_bytes;
    else one.C = (char *)args->C + row * args->ldc * args->element_bytes;
    one.stream = 0;
    one.long_row_length = INT64_MAX;
    for (int64_t from = asp_index_at(itype, args->indptr, row); from < last; from += capacity) {
        const int64_t to = asp_min(from + capacity, last);
        const int32_t narrow[2] = {(int32_t)from, (int32_t)to};
        const int64_t wide[2] = {from, to};
        args->widen(buffer, (const char *)args->data + from * args->stored_bytes, to - from);
        one.indptr = itype == ASP_I32 ? (const void *)narrow : wide;
        one.data = shifted(buffer, from, args->element_bytes);
        kernel(&one, 0, 1);
        one.accumulate = 1;
    }
}

/* Fetch memory that is read next. */
static void fetch(const char *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LINE_BYTES) __builtin_prefetch(from + at);
}

static void run(const asp_args *args, asp_kernel kernel, int itype, int64_t begin, int64_t end, int scatters)
{
    _Alignas(64) char buffer[BLOCK_BYTES + PADDING * MAX_BYTES];
    const int64_t most = BLOCK_BYTES / args->element_bytes;
    const int64_t capacity = args->n_vecs == 1 ? asp_min(COLUMN_BLOCK, most) : most;
    asp_args part = *args;
    for (int64_t row = begin, stop; row < end; row = stop) {
        const int64_t first = asp_index_at(itype, args->indptr, row);
        stop = block_end(args, itype, row, end, capacity);
        if (stop > row) {
            const int64_t n = asp_index_at(itype, args->indptr, stop) - first;
            args->widen(buffer, (const char *)args->data + first * args->stored_bytes, n);
            const char *next = (const char *)args->data + (first + n) * args->stored_bytes;
            if (args->n_vecs == 1) fetch(next, n * args->stored_bytes);
            part.data = shifted(buffer, first, args->element_bytes);
            kernel(&part, row, stop);
            continue;
        }
        stop = row + 1;
        const int64_t length = asp_index_at(itype, args->indptr, stop) - first;
        if (!scatters && length > args->long_row_length) asp_note_long_row(args, row);
        else run_pieces(args, kernel, itype, row, buffer, capacity, scatters);
    }
}

void asp_run_rows(const asp_args *args, asp_kernel kernel, int itype, int64_t begin, int64_t end)
{
    if (args->widen) run(args, kernel, itype, begin, end, 0);
    else kernel(args, begin, end);
}

void asp_run_scatter(const asp_args *args, asp_kernel kernel, int itype, int64_t begin, int64_t end)
{
    if (args->widen) run(args, kernel, itype, begin, end, 1);
    else kernel(args, begin, end);
}

/* Arguments of convert_task. */
typedef struct {
    const char *from;
    char *to;
    asp_widen widen;
    int64_t from_bytes, to_bytes;
} conversion;

/* Pool task: convert the values [begin, end). */
static void convert_task(void *context, int64_t begin, int64_t end)
{
    const conversion *job = context;
    job->widen(job->to + begin * job->to_bytes, job->from + begin * job->from_bytes, end - begin);
}

int asp_widen_values(int stored, int dtype, int64_t n, const void *from, void *to, int n_threads)
{
    conversion job = {.from = from, .to = to};
    if (!asp_find_widening(stored, dtype, &job.widen) || !job.widen) return ASP_BAD_CODE;
    job.from_bytes = asp_element_bytes(stored);
    job.to_bytes = asp_element_bytes(dtype);
    asp_parallel(convert_task, &job, n, MIN_CONVERTED, asp_max(n, 1), n_threads, CONVERT_NS * (double)n);
    return ASP_OK;
}

#define ADD(T, OP)                                                                                            \
    do {                                                                                                      \
        T *restrict sum = to;                                                                                 \
        const T *restrict term = from;                                                                        \
        for (int64_t k = 0; k < n; k++) sum[k] = (T)(sum[k] OP term[k]);                                      \
    } while (0)

void asp_add_integers(int dtype, void *to, const void *from, int64_t n)
{
    switch (dtype) {
    case ASP_BOOL: ADD(uint8_t, |); break;
    case ASP_U8: ADD(uint8_t, +); break;
    case ASP_U16: ADD(uint16_t, +); break;
    case ASP_U32: ADD(uint32_t, +); break;
    default: ADD(uint64_t, +); break;
    }
}
