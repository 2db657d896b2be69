/* Products of tall blocks, as block eigensolvers need them (tall_api.h): few columns, so that results fit into registers,
 * and rows that are read once, in chunks of a fixed length whose sums are added in their order. */
#include "common.h"

#include "matmul_api.h"
#include "pool_api.h"
#include "tall_api.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* every function that takes vectors is inlined */
#endif

enum { CHUNK_ROWS = 512, TILE_ROWS = 8, MAX_COLUMNS = 256, MAX_TERMS = 4, MAX_PAIRS = 16 };
#define NS_PER_PRODUCT 0.06 /* of one thread, a multiplication and its addition */

typedef struct {
    int64_t a, b, at; /* at: where its Gram matrix begins among those of a chunk */
    const void *U, *V;
} asp_tall_pair;

typedef struct {
    int64_t n, n_pairs, size;
    asp_tall_pair pairs[MAX_PAIRS];
    double *sums; /* n_chunks x size, the Gram matrices of each chunk; NULL: combine */
    int64_t k, padded, n_terms;
    const void *blocks[MAX_TERMS];
    int64_t widths[MAX_TERMS];
    void *factors[MAX_TERMS];
    int is_identity[MAX_TERMS];
    void *out;
} asp_tall;

/* Columns that are computed together where so many are left; zeros fill the last ones up. */
static int64_t panel_width(int64_t left) { return left > 12 ? 16 : left > 4 ? 8 : 4; }

#define GLUED(x, isa, r) ASP_GLUE(tall, x, isa, r)
#define N(x) GLUED(x, ISA, R)
#define ISA_BODY "tall_each.h"
#include "each_isa.h"
#define OF_ISA(x, isa) {tall_##x##_##isa##_float, tall_##x##_##isa##_double},
#define TABLE(x) {ASP_EACH_ISA(OF_ISA, x)}
static const asp_task tasks[][2] = TABLE(task);
static void (*const converters[][2])(void *, const double *, int64_t, int64_t, int64_t) = TABLE(convert);

static void run(asp_tall *s, int dtype, double n_products, int n_threads)
{
    const int64_t n_chunks = (s->n + CHUNK_ROWS - 1) / CHUNK_ROWS;
    asp_parallel(tasks[asp_isa()][dtype], s, n_chunks, 1, n_chunks, n_threads, NS_PER_PRODUCT * n_products);
}

int asp_tall_grams(int dtype, int64_t n, int64_t n_pairs, const void *const *U, const int64_t *a, const void *const *V,
                   const int64_t *b, double *G, int n_threads)
{
    if (dtype < 0 || dtype > 1) return ASP_BAD_CODE;
    if (n < 0 || n_pairs < 1 || n_pairs > MAX_PAIRS) return ASP_BAD_SIZE;
    const int64_t n_chunks = (n + CHUNK_ROWS - 1) / CHUNK_ROWS;
    asp_tall s = {.n = n, .n_pairs = n_pairs};
    for (int64_t i = 0; i < n_pairs; i++) {
        if (a[i] < 1 || b[i] < 1 || b[i] > MAX_COLUMNS) return ASP_BAD_SIZE;
        s.pairs[i] = (asp_tall_pair){.a = a[i], .b = b[i], .at = s.size, .U = U[i], .V = V[i]};
        s.size += a[i] * b[i];
    }
    s.sums = calloc((size_t)asp_max(1, n_chunks * s.size), sizeof(double));
    if (!s.sums) return ASP_NO_MEMORY;
    run(&s, dtype, (double)n * (double)s.size, n_threads);
    memset(G, 0, (size_t)s.size * sizeof *G);
    for (int64_t at = 0; at < n_chunks; at++)
        for (int64_t i = 0; i < s.size; i++) G[i] += s.sums[at * s.size + i];
    free(s.sums);
    return ASP_OK;
}

int asp_tall_combine(int dtype, int64_t n, int64_t k, int64_t n_terms, const void *const *blocks, const int64_t *widths,
                     const double *const *factors, void *out, int n_threads)
{
    if (dtype < 0 || dtype > 1) return ASP_BAD_CODE;
    if (n < 0 || k < 1 || k > MAX_COLUMNS || n_terms < 1 || n_terms > MAX_TERMS) return ASP_BAD_SIZE;
    asp_tall s = {.n = n, .k = k, .n_terms = n_terms, .out = out};
    for (int64_t j = 0; j < k; j += panel_width(k - j)) s.padded = j + panel_width(k - j);
    double n_products = 0;
    int status = ASP_OK;
    for (int64_t t = 0; t < n_terms && status == ASP_OK; t++) {
        s.blocks[t] = blocks[t];
        s.widths[t] = widths[t];
        s.is_identity[t] = !factors[t];
        n_products += (double)n * (double)k * (double)(factors[t] ? widths[t] : 1);
        if (!factors[t]) continue;
        s.factors[t] = malloc((size_t)(widths[t] * s.padded) * sizeof(double));
        if (s.factors[t]) converters[asp_isa()][dtype](s.factors[t], factors[t], widths[t], k, s.padded);
        else status = ASP_NO_MEMORY;
    }
    if (status == ASP_OK) run(&s, dtype, n_products, n_threads);
    for (int64_t t = 0; t < n_terms; t++) free(s.factors[t]);
    return status;
}
