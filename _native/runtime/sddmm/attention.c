/* Softmax over sparse rows, multi-head weighted sums of rows, and both fused with the attention scores (graph
 * attention).
 *
 * Values of entry p are n_heads numbers, w[p * n_heads + h]; features of node j are n_heads blocks of F, V[j, h, :].
 * `perm` lets a transposed structure read values in the original order: w[perm[p]] belongs to its entry p. dtype is 0
 * float32 or 1 float64, itype 0 int32 or 1 int64. Functions return 0, or -1 for other codes. With n_heads < 1 nothing
 * is written.
 */
#include "graph_common.h"

/* Operands of the softmax. */
typedef struct {
    const void *indptr, *in, *y; /* y: forward result; if given, `in` is its gradient */
    void *out;
    int64_t n_heads;
} g_softmax;

/* Operands of weighted sums of rows of V. */
typedef struct {
    const void *indptr, *indices, *perm, *w, *V;
    void *out;
    int64_t nnz, n_heads, F, ldv, ldo;
    double scale;
} g_weighted;

/* Operands of fused attention: scores, and weighted sums. */
typedef struct {
    g_sddmm dots;
    g_weighted sums;
    const void *q, *k; /* additive scores: n_rows x n_heads, n_cols x n_heads */
    void *alpha, *dscore;
    double slope;
    int additive;
} g_attention;

#define G_BODY "attention_body.h"
#include "graph_each.h"

static const g_range_fn softmax_table[][2][2] = G_TABLE(softmax);
static const g_range_fn weighted_table[][2][2] = G_TABLE(weighted);
static const g_range_fn attention_table[][2][2] = G_TABLE(attention);
static const g_range_fn attention_backward_table[][2][2] = G_TABLE(attention_backward);

static int known(int dtype, int itype) { return dtype >= 0 && dtype <= 1 && itype >= 0 && itype <= 1; }

/* Compute out = softmax of `in` over each row or, if y (the softmax) is given, the gradient of its input for `in` =
 * dy. */
int asp_row_softmax(int dtype, int itype, int64_t n_rows, const void *indptr, int64_t nnz, int64_t n_heads,
                    const void *in, const void *y, void *out, int n_threads)
{
    if (!known(dtype, itype)) return -1;
    if (n_heads < 1) return 0;
    const g_softmax args = {indptr, in, y, out, n_heads};
    g_for_rows(softmax_table[asp_isa()][dtype][itype], &args, indptr, itype, n_rows, (double)(nnz * n_heads) * 4, n_threads);
    return 0;
}

/* Compute out[i, h, :] = scale * sum over entries p of row i of w[perm[p], h] * V[indices[p], h, :]; perm NULL: w[p,
 * h]. */
int asp_heads_mm(int dtype, int itype, int64_t n_rows, const void *indptr, const void *indices, const void *perm,
                 int64_t nnz, int64_t n_heads, const void *w, const void *V, int64_t ldv, int64_t F, double scale,
                 void *out, int n_threads)
{
    if (!known(dtype, itype)) return -1;
    if (n_heads < 1) return 0;
    const g_weighted args = {indptr, indices, perm, w, V, out, nnz, n_heads, F, ldv, n_heads * F, scale};
    g_for_rows(weighted_table[asp_isa()][dtype][itype], &args, indptr, itype, n_rows, (double)(nnz * n_heads) * (double)F,
               n_threads);
    return 0;
}

static g_attention attention_args(int dtype, int itype, const asp_attention *a)
{
    const int64_t H = a->n_heads;
    g_attention args = {
        .dots = {.indptr = a->indptr, .indices = a->indices, .X = a->q, .Y = a->k, .out = a->alpha,
                 .n_rows = a->n_rows, .n_cols = a->n_cols, .nnz = a->nnz, .K = a->D, .ldx = H * a->D, .ldy = H * a->D, .n_heads = H,
                 .head_step = a->D, .alpha = a->scale, .dtype = dtype, .itype = itype},
        .sums = {a->indptr, a->indices, NULL, a->alpha, a->V, a->out, a->nnz, H, a->F, H * a->F, H * a->F, 1.0},
        .q = a->q,
        .k = a->k,
        .alpha = a->alpha,
        .dscore = a->dscore,
        .slope = a->slope,
        .additive = a->additive,
    };
    return args;
}

/* Compute alpha = softmax of the scores over each row and out = alpha @ V. Scores are leaky_relu(q_i + k_j) or scale *
 * <q_i, k_j>. */
int asp_attention_forward(int dtype, int itype, const asp_attention *a, int n_threads)
{
    if (!known(dtype, itype)) return -1;
    if (a->n_heads < 1) return 0;
    const g_attention args = attention_args(dtype, itype, a);
    g_for_rows(attention_table[asp_isa()][dtype][itype], &args, a->indptr, itype, a->n_rows,
               (double)(a->nnz * a->n_heads) * (double)(a->F + a->D + 8), n_threads);
    return 0;
}

/* Compute dscore (nnz x n_heads) and dq from dout, alpha and V. The gradients of k and V are weighted sums over
 * columns, which the caller computes. */
int asp_attention_backward(int dtype, int itype, const asp_attention *a, int n_threads)
{
    if (!known(dtype, itype)) return -1;
    const int64_t H = a->n_heads;
    if (H < 1) return 0;
    g_attention args = attention_args(dtype, itype, a);
    args.dots.X = a->dout;
    args.dots.Y = a->V;
    args.dots.out = a->dscore;
    args.dots.K = args.dots.head_step = a->F;
    args.dots.ldx = args.dots.ldy = H * a->F;
    args.dots.alpha = 1.0;
    args.sums.w = a->dscore;
    args.sums.V = a->k;
    args.sums.out = a->dq;
    args.sums.F = a->D;
    args.sums.ldv = args.sums.ldo = H * a->D;
    args.sums.scale = a->scale;
    g_for_rows(attention_backward_table[asp_isa()][dtype][itype], &args, a->indptr, itype, a->n_rows,
               (double)(a->nnz * H) * (double)(a->F + a->D + 8), n_threads);
    return 0;
}
