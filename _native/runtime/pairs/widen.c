/* Conversion of stored values to the type of a product, block by block.
 *
 * A thread converts the values of as many rows as fit into a buffer on its stack and passes the buffer to the kernel,
 * whose results are the same as with converted values of the whole matrix. A row that is longer than the buffer is
 * computed piece by piece, and the pieces are added in order. Their boundaries depend only on the row, so results do
 * not depend on the number of threads.
 */
#include "widen.h"

#include "pairs_api.h"
#include "pool_api.h"

enum { BLOCK_BYTES = 16 << 10 }; /* converted values of a block, bytes; half of a 32-KiB L1 cache */
/* Maximum values of a block of a product with one column. The next block is fetched while the kernel computes this one,
 * which more lines than a core can fetch at once would not be. At least GROUP_NONZEROS. */
enum { COLUMN_BLOCK = 512 };
enum { LINE_BYTES = 64 };
/* Values behind the block that kernels may read without using them. */
enum { PADDING = 64 };
enum { MAX_BYTES = 16 };        /* bytes of the largest value */
enum { MIN_CONVERTED = 1 << 14 }; /* minimum values of a range of asp_widen_values */
static const double CONVERT_NS = 0.5; /* estimated time per value, ns */

#define WIDEN(T, S, VALUE)                                                  \
    static void T##_of_##S(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                       \
        T *restrict wide = to;                                              \
        const S *restrict narrow = from;                                    \
        for (int64_t k = 0; k < n; k++) wide[k] = (T)(VALUE);               \
    }
/* Define the conversion of complex values (`words` 2) or real values (1) to a complex type with parts of type R. */
#define WIDEN_COMPLEX(T, R, S, words, VALUE, IMAGINARY)                     \
    static void T##_of_##S(void *restrict to, const void *restrict from, int64_t n) \
    {                                                                       \
        R *restrict wide = to;                                              \
        const words *restrict narrow = from;                                \
        for (int64_t k = 0; k < n; k++) {                                   \
            wide[2 * k] = (R)(VALUE);                                       \
            wide[2 * k + 1] = (R)(IMAGINARY);                               \
        }                                                                   \
    }

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

#define OF_8(T) WIDEN(T, u8, narrow[k]) WIDEN(T, i8, narrow[k])
#define OF_16(T) OF_8(T) WIDEN(T, u16, narrow[k]) WIDEN(T, i16, narrow[k])
#define OF_32(T) OF_16(T) WIDEN(T, u32, narrow[k]) WIDEN(T, i32, narrow[k])
WIDEN(u8, bool_, narrow[k] != 0)
WIDEN(u16, bool_, narrow[k] != 0) OF_8(u16)
WIDEN(u32, bool_, narrow[k] != 0) OF_16(u32)
WIDEN(u64, bool_, narrow[k] != 0) OF_32(u64)
WIDEN(f32, bool_, narrow[k] != 0) OF_16(f32)
WIDEN(f64, bool_, narrow[k] != 0) OF_32(f64)
WIDEN(f64, u64, narrow[k]) WIDEN(f64, i64, narrow[k]) WIDEN(f64, f32, narrow[k])

#define REAL(T, R, S) WIDEN_COMPLEX(T, R, S, S, narrow[k], 0)
#define REAL_OF_16(T, R) REAL(T, R, u8) REAL(T, R, i8) REAL(T, R, u16) REAL(T, R, i16) REAL(T, R, f32)
WIDEN_COMPLEX(c64, f32, bool_, bool_, narrow[k] != 0, 0) REAL_OF_16(c64, f32)
WIDEN_COMPLEX(c128, f64, bool_, bool_, narrow[k] != 0, 0) REAL_OF_16(c128, f64)
REAL(c128, f64, u32) REAL(c128, f64, i32) REAL(c128, f64, u64) REAL(c128, f64, i64) REAL(c128, f64, f64)
WIDEN_COMPLEX(c128, f64, c64, f32, narrow[2 * k], narrow[2 * k + 1])

/* Conversions by [dtype][stored]. */
#define AT_8(T) [4] = T##_of_bool_, [5] = T##_of_u8, [9] = T##_of_i8
#define AT_16(T) AT_8(T), [6] = T##_of_u16, [10] = T##_of_i16
#define AT_32(T) AT_16(T), [7] = T##_of_u32, [11] = T##_of_i32
#define AT_64(T) AT_32(T), [8] = T##_of_u64, [12] = T##_of_i64
static const asp_widen widenings[9][13] = {
    [ASP_F32] = {AT_16(f32)},
    [ASP_F64] = {[ASP_F32] = f64_of_f32, AT_64(f64)},
    [ASP_C64] = {[ASP_F32] = c64_of_f32, AT_16(c64)},
    [ASP_C128] = {[ASP_F32] = c128_of_f32, [ASP_F64] = c128_of_f64, [ASP_C64] = c128_of_c64, AT_64(c128)},
    [ASP_U8] = {[ASP_BOOL] = u8_of_bool_},
    [ASP_U16] = {AT_8(u16)},
    [ASP_U32] = {AT_16(u32)},
    [ASP_U64] = {AT_32(u64)},
};

int asp_find_widening(int stored, int dtype, asp_widen *widen)
{
    *widen = NULL;
    if (dtype < 0 || dtype > ASP_U64 || stored < 0 || stored > ASP_I64_STORED) return 0;
    /* Sums and products modulo a power of two do not depend on the sign. */
    if (stored == dtype || (stored >= ASP_I8_STORED && stored - ASP_I8_STORED == dtype - ASP_U8)) return 1;
    *widen = widenings[dtype][stored];
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
    int64_t low = row, high = end;
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
