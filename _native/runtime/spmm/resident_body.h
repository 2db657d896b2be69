/* Rows of A, one at a time, times a cached tile of B: entries are summed in ascending order, then C is added, as in
 * blocks_body.h. */
#include VEC_HEADER
#define NNAME(x) ASP_GLUE(ISA, RTAG, resident, x)

/* Compute nv vectors of columns from real j on. */
ASP_TILE void NNAME(tile)(const int nv, const asp_blocks_args *args, int64_t begin, int64_t end, int64_t j)
{
    const int32_t *const pos = args->pos, *const crd = args->crd, *const places = args->places;
    const R *const vals = args->vals, *const B = (const R *)args->B + j;
    R *const C = (R *)args->C + j;
    const int64_t ldc = args->ldc;
    const int adds = args->adds;
    for (int64_t i = begin; i < end; i++) {
        V sum[8];
        ASP_UNROLL for (int v = 0; v < nv; v++) sum[v] = v_zero();
        for (int64_t k = pos[i]; k < pos[i + 1]; k++) {
            const R *const x = B + (int64_t)crd[k] * (RESIDENT_BYTES / RBYTES);
            const V value = v_set1(vals[k]);
            ASP_UNROLL for (int v = 0; v < nv; v++) sum[v] = v_fma(value, v_load(x + v * VL), sum[v]);
        }
        R *const to = C + (places ? places[i] : i) * ldc;
        if (adds) {
            const V one = v_set1(1);
            ASP_UNROLL for (int v = 0; v < nv; v++) sum[v] = v_fma(one, v_load(to + v * VL), sum[v]);
        }
        ASP_UNROLL for (int v = 0; v < nv; v++) v_store(to + v * VL, sum[v]);
    }
}

static int64_t NNAME(rows)(const asp_blocks_args *args, int64_t begin, int64_t end)
{
    int64_t j = 0;
    for (; j + RESIDENT_MAX * VL <= args->n_vecs; j += RESIDENT_MAX * VL) NNAME(tile)(RESIDENT_MAX, args, begin, end, j);
    for (; j + 2 * VL <= args->n_vecs; j += 2 * VL) NNAME(tile)(2, args, begin, end, j);
    for (; j + VL <= args->n_vecs; j += VL) NNAME(tile)(1, args, begin, end, j);
    return j;
}
#undef NNAME
