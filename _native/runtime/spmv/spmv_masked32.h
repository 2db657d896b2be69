/* y[i] = A[i] x with 32-byte vectors and gathers or one load per element (register_gather.h). Sixteen short rows are computed at a time, as
 * in spmv_masked64.h: the products of all their nonzeros go to a buffer, then each row's part is loaded under a mask, so
 * that row ends cause no branches. */
#include "spmv_base.h" /* spmv_plain: for more columns than a 32-bit gather reaches */

#if RBYTES == 4
#if IBYTES == 4
#define INDEX(p) _mm256_loadu_si256((const __m256i *)(p))
#else
#define INDEX_HALF(p)                                                                           \
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(p)), \
                                                       _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))
#define INDEX(p) _mm256_inserti128_si256(_mm256_castsi128_si256(INDEX_HALF(p)), INDEX_HALF((p) + 4), 1)
#endif
#define INSTRUCTION(p) _mm256_i32gather_ps(x, INDEX(p), 4)
#define MULTIPLY _mm256_mul_ps
#define ADD _mm256_add_ps
#else
#if IBYTES == 4
#define INDEX(p) _mm_loadu_si128((const __m128i *)(p))
#else
#define INDEX(p)                                                                                \
    _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(p)), \
                                                       _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)))
#endif
#define INSTRUCTION(p) _mm256_i32gather_pd(x, INDEX(p), 8)
#define MULTIPLY _mm256_mul_pd
#define ADD _mm256_add_pd
#endif
#if GATHERS
#define GATHER(p) INSTRUCTION(p)
#else
#define GATHER(p) LOOKUP(p, x)
#endif

/* Return the sum of the lanes of a. */
ASP_INLINE R NAME(total)(V a)
{
#if RBYTES == 4
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#else
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
#endif
}

/* Return the sums of the lanes of each of the VL vectors at `part`, in order. */
ASP_INLINE V NAME(totals)(const V *part)
{
#if RBYTES == 4
    const __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(part[0], part[1]), _mm256_hadd_ps(part[2], part[3]));
    const __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(part[4], part[5]), _mm256_hadd_ps(part[6], part[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
#else
    const __m256d a = _mm256_hadd_pd(part[0], part[1]), b = _mm256_hadd_pd(part[2], part[3]);
    return _mm256_add_pd(_mm256_permute2f128_pd(a, b, 0x20), _mm256_permute2f128_pd(a, b, 0x31));
#endif
}

/* Return the dot product of the nonzeros [k, stop) with x. */
ASP_INLINE R NAME(one_row)(int64_t k, int64_t stop, const I *indices, const R *data, const R *x,
                               int fetch)
{
    V a = v_zero(), b = a;
    for (; k + 2 * VL <= stop; k += 2 * VL) {
        FETCH_AHEAD(indices + k, 2 * VL);
        FETCH_AHEAD(data + k, 2 * VL);
        a = v_fma(v_load(data + k), GATHER(indices + k), a);
        b = v_fma(v_load(data + k + VL), GATHER(indices + k + VL), b);
    }
    FETCH_AHEAD(indices + k, 2 * VL);
    FETCH_AHEAD(data + k, 2 * VL);
    if (k + VL <= stop) {
        a = v_fma(v_load(data + k), GATHER(indices + k), a);
        k += VL;
    }
    R rest = 0;
    for (; k < stop; k++) rest += data[k] * x[indices[k]];
    return NAME(total)(ADD(a, b)) + rest;
}

/* Return the number of rows of a group that have another length than its first row. */
ASP_INLINE int NAME(deviating)(const I *indptr)
{
    const I n = indptr[1] - indptr[0];
#if IBYTES == 4
    const __m256i first = _mm256_set1_epi32(n);
    unsigned equal = 0;
    ASP_UNROLL for (int r = 0; r < ROW_GROUP; r += 8)
    {
        const __m256i ends = _mm256_loadu_si256((const __m256i *)(indptr + r + 1));
        const __m256i lengths = _mm256_sub_epi32(ends, _mm256_loadu_si256((const __m256i *)(indptr + r)));
        equal |= (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lengths, first))) << r;
    }
    return ROW_GROUP - __builtin_popcount(equal);
#else
    int n_deviating = 0;
    for (int r = 1; r < ROW_GROUP; r++) n_deviating += indptr[r + 1] - indptr[r] != n;
    return n_deviating;
#endif
}

/* Whether the sixteen rows at p have n nonzeros each, and the maximum of n for which scalar sums are faster. */
#define ARE_EQUAL(p, n) ((p)[1] - (p)[0] == (n) && !NAME(deviating)(p))
#define EQUAL_MAX (RBYTES == 8 ? GROUP_NONZEROS / ROW_GROUP : VL - 1)
#include "spmv_equal_rows.h"

#if RBYTES == 4
#define LANES_BELOW(n, from) _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n)), _mm256_add_epi32(lane, _mm256_set1_epi32(from)))
#else
#define LANES_BELOW(n, from) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_add_epi64(lane, _mm256_set1_epi64x(from)))
#endif

/* Compute VL partial sums of each of four rows from their products. All rows take as many steps as the longest one, so
 * that row ends cause few branches. */
ASP_INLINE void NAME(sum_four)(const I *indptr, const R *products, V *part)
{
#if RBYTES == 4
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
#else
    const __m256i lane = _mm256_setr_epi64x(0, 1, 2, 3);
#endif
    const R *row[4];
    int64_t n[4];
    ASP_UNROLL for (int r = 0; r < 4; r++)
    {
        row[r] = products + indptr[r];
        n[r] = indptr[r + 1] - indptr[r];
        part[r] = v_loadm(row[r], LANES_BELOW(n[r], 0));
    }
    const int64_t longest = asp_max(asp_max(n[0], n[1]), asp_max(n[2], n[3]));
    for (int k = VL; k < longest; k += VL)
        ASP_UNROLL for (int r = 0; r < 4; r++) part[r] = ADD(part[r], v_loadm(row[r] + k, LANES_BELOW(n[r], k)));
}
#undef LANES_BELOW

/* Compute y[0..15] for sixteen rows with at most GROUP_NONZEROS nonzeros. */
ASP_INLINE void NAME(sixteen_rows)(const I *indptr, const I *indices, const R *data, const R *x, R *y, int add, int fetch)
{
    R buffer[GROUP_NONZEROS + 16] __attribute__((aligned(64)));
    const int64_t start = indptr[0], stop = indptr[16];
    const int n_deviating = NAME(deviating)(indptr);
    if (n_deviating <= NAME(DEVIATING) && (RBYTES == 8 || indptr[1] - start < VL)) {
        NAME(fetch_group)(start, stop, indices, data, fetch);
        if (n_deviating) NAME(alike_rows)(indptr, indices, data, x, y, add);
        else NAME(equal_rows)(indptr, indices, data, x, y, add, 0, ROW_GROUP);
        return;
    }
    int64_t k = start;
    for (; k + 2 * VL <= stop; k += 2 * VL) {
        FETCH_AHEAD(indices + k, 2 * VL);
        FETCH_AHEAD(data + k, 2 * VL);
        v_store(buffer + (k - start), MULTIPLY(v_load(data + k), GATHER(indices + k)));
        v_store(buffer + (k + VL - start), MULTIPLY(v_load(data + k + VL), GATHER(indices + k + VL)));
    }
    if (k < stop) {
        FETCH_AHEAD(indices + k, 2 * VL);
        FETCH_AHEAD(data + k, 2 * VL);
    }
    if (k + VL <= stop) {
        v_store(buffer + (k - start), MULTIPLY(v_load(data + k), GATHER(indices + k)));
        k += VL;
    }
    for (; k < stop; k++) buffer[k - start] = data[k] * x[indices[k]];
    for (int first = 0; first < 16; first += VL) {
        V part[VL];
        ASP_UNROLL for (int r = 0; r < VL; r += 4) NAME(sum_four)(indptr + first + r, buffer - start, part + r);
        const V sums = NAME(totals)(part);
        v_store(y + first, add ? ADD(v_load(y + first), sums) : sums);
    }
}

#include "spmv_groups.h"

#undef INDEX
#undef INDEX_HALF
#undef GATHER
#undef ARE_EQUAL
#undef EQUAL_MAX
#undef INSTRUCTION
#undef MULTIPLY
#undef ADD
