/* Fused passes over blocks of columns: chunks of rows stay in a core's L1 from step to step (columns_api.h).
 *
 * Rows lie without gaps, so a chunk is one run of memory in which coefficients repeat every k elements. They are written
 * out to a period of at least MIN_PERIOD elements, so that inner loops are long for any k. Chunks depend on k alone, and
 * sums of chunks are added in their order: results do not depend on the number of threads.
 */
#include <math.h>

#include "common.h"

#include "columns_api.h"
#include "matmul_api.h"
#include "pool_api.h"

enum { ASP_COLUMN_STEP = 7 };
enum { COMBINE = 0, SCALE = 1, DOT = 2, NORM = 3 };
enum { MIN_PERIOD = 128, MAX_PERIOD = 256 }; /* elements of a period; a block with dots has at most MAX_PERIOD columns */
enum { CHUNK_BYTES = 16384 };                /* of one block: three of them share an L1 of 48 KB */
#define NS_PER_BYTE 0.08                     /* of one thread, all blocks together: between L2 and memory */

#if defined(__clang__)
#define ASP_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define ASP_IVDEP _Pragma("GCC ivdep")
#endif

typedef struct {
    int64_t n, k, n_steps, period, chunk, n_results;
    const int64_t *program;
    void *const *blocks;
    void *expanded;
    double *partials;
} asp_columns;

/* The larger of two; what is not a number stays. */
ASP_INLINE double asp_larger(double a, double b) { return !(b > a) && b == b ? a : b; }

#define GLUED(x, isa, r, parts) ASP_GLUE(x, isa, r, parts)
#define N(x) GLUED(x, ISA, R, PARTS)
#define ISA base
#include "columns_each.h"
#undef ISA
#if ASP_X86
#include "target_avx2.h"
#define ISA avx2
#include "columns_each.h"
#undef ISA
#include "target_end.h"
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi,bmi2,prefer-vector-width=512")
#endif
#define ISA avx512
#include "columns_each.h"
#undef ISA
#include "target_end.h"
#endif

typedef void (*expand_function)(const asp_columns *, const double *, int64_t);
#define BY_TYPE(x, isa) {x##_##isa##_float_1, x##_##isa##_double_1, x##_##isa##_float_2, x##_##isa##_double_2}
#if ASP_X86
#define TABLE(x) {BY_TYPE(x, base), BY_TYPE(x, avx2), BY_TYPE(x, avx512)}
#else
#define TABLE(x) {BY_TYPE(x, base), BY_TYPE(x, base), BY_TYPE(x, base)}
#endif
static const asp_task tasks[3][4] = TABLE(task);
static const expand_function expansions[3][4] = TABLE(expand);

/* Add the partial results of all chunks in their order. */
static void add_up(const asp_columns *s, int64_t width, int64_t n_chunks, double *results)
{
    const double *from = s->partials;
    memset(results, 0, (size_t)(s->n_results * width) * sizeof *results);
    for (int64_t at = 0; at < n_chunks; at++) {
        double *to = results;
        for (int64_t t = 0; t < s->n_steps; t++) {
            const int64_t kind = s->program[t * ASP_COLUMN_STEP];
            if (kind < DOT) continue;
            if (kind == NORM) to[0] = asp_larger(to[0], from[0]);
            else
                for (int64_t j = 0; j < width; j++) to[j] += from[j];
            to += width;
            from += width;
        }
    }
}

int asp_column_sweep(int dtype, int64_t n, int64_t k, const int64_t *program, int64_t n_steps, void *const *blocks,
                     const double *coefficients, double *results, int n_threads)
{
    static const int sizes[] = {4, 8, 8, 16};
    if (dtype < 0 || dtype > 3) return ASP_BAD_CODE;
    if (n < 0 || k < 1) return ASP_BAD_SIZE;
    asp_columns s = {.n = n, .k = k, .n_steps = n_steps, .program = program, .blocks = blocks};
    const int parts = dtype < ASP_C64 ? 1 : 2;
    const int64_t width = k * parts, repeats = asp_max(1, MIN_PERIOD / k);
    int64_t n_terms = 0, n_read = 0;
    for (int64_t t = 0; t < n_steps; t++) {
        const int64_t *step = program + t * ASP_COLUMN_STEP;
        n_terms += step[0] == COMBINE ? step[2] : 0;
        n_read += step[2] + (step[0] < DOT);
        s.n_results += step[0] >= DOT;
        if (step[0] == DOT && k > MAX_PERIOD) return ASP_BAD_SIZE;
    }
    s.period = repeats * k;
    s.chunk = repeats * asp_max(1, CHUNK_BYTES / (s.period * sizes[dtype]));
    const int64_t n_chunks = (n + s.chunk - 1) / s.chunk, n_partial = n_chunks * s.n_results * width;
    s.partials = malloc((size_t)asp_max(1, n_partial) * sizeof(double));
    s.expanded = malloc((size_t)asp_max(1, n_terms * s.period) * (size_t)sizes[dtype]);
    if (s.partials && s.expanded) {
        expansions[asp_isa()][dtype](&s, coefficients, n_terms);
        const double serial_ns = NS_PER_BYTE * (double)(n_read * n * k * sizes[dtype]);
        asp_parallel(tasks[asp_isa()][dtype], &s, n_chunks, 1, n_chunks, n_threads, serial_ns);
        add_up(&s, width, n_chunks, results);
    }
    const int status = s.partials && s.expanded ? ASP_OK : ASP_NO_MEMORY;
    free(s.partials);
    free(s.expanded);
    return status;
}
