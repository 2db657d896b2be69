/* Terms of Taylor series, fused with the norms that end a series (taylor_api.h). */
#include <math.h>

#include "common.h"

#include "matmul_api.h"
#include "pool_api.h"
#include "taylor_api.h"

enum { CHUNK_BYTES = 16384 }; /* of one block: three of them share an L1 cache of 48 KB */
#define NS_PER_BYTE 0.04      /* on one thread, for all blocks together */

#if defined(__clang__)
#define ASP_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define ASP_IVDEP _Pragma("GCC ivdep")
#endif

/* Arguments of the tasks. */
typedef struct {
    int64_t n, k, chunk;
    void *Q, *F;
    const void *B;
    double scale, shift[2];
    double *norms; /* two per chunk */
    int is_step;
} asp_taylor;

/* Return the larger of two numbers; nan is kept. */
ASP_INLINE double asp_larger(double a, double b) { return !(b > a) && b == b ? a : b; }

#define GLUED(x, isa, r, parts) ASP_GLUE(x, isa, r, parts)
#define N(x) GLUED(x, ISA, R, PARTS)
#define ISA_BODY "taylor_each.h"
#include "each_isa.h"

#define BY_TYPE(x, isa) {x##_##isa##_float_1, x##_##isa##_double_1, x##_##isa##_float_2, x##_##isa##_double_2},
static const asp_task tasks[][4] = {ASP_EACH_ISA(BY_TYPE, task)};

static int run(asp_taylor *s, int dtype, double *norms, int n_threads)
{
    static const int64_t sizes[] = {4, 8, 8, 16};
    if (dtype < 0 || dtype > 3) return ASP_BAD_CODE;
    if (s->n < 0 || s->k < 1) return ASP_BAD_SIZE;
    s->chunk = asp_max(1, CHUNK_BYTES / (s->k * sizes[dtype]));
    const int64_t n_chunks = (s->n + s->chunk - 1) / s->chunk;
    s->norms = calloc((size_t)asp_max(1, 2 * n_chunks), sizeof(double));
    if (!s->norms) return ASP_NO_MEMORY;
    const double serial_ns = NS_PER_BYTE * (double)(5 * s->n * s->k * sizes[dtype]);
    asp_parallel(tasks[asp_isa()][dtype], s, n_chunks, 1, n_chunks, n_threads, serial_ns);
    norms[0] = norms[1] = 0;
    for (int64_t at = 0; at < n_chunks; at++) {
        norms[0] = asp_larger(norms[0], s->norms[2 * at]);
        norms[1] = asp_larger(norms[1], s->norms[2 * at + 1]);
    }
    free(s->norms);
    return ASP_OK;
}

int asp_taylor_step(int dtype, int64_t n, int64_t k, void *Q, const void *B, void *F, double scale, const double *shift,
                    double *norms, int n_threads)
{
    asp_taylor s = {.n = n, .k = k, .Q = Q, .B = B, .F = F, .scale = scale, .shift = {shift[0], shift[1]}, .is_step = 1};
    return run(&s, dtype, norms, n_threads);
}

int asp_taylor_add(int dtype, int64_t n, int64_t k, const void *K, const void *G, void *F, double factor, double *norm,
                   int n_threads)
{
    asp_taylor s = {.n = n, .k = k, .Q = (void *)K, .B = G, .F = F, .scale = factor};
    double norms[2] = {0, 0};
    const int status = run(&s, dtype, norms, n_threads);
    *norm = norms[1];
    return status;
}
