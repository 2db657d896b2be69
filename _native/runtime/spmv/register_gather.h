/* In-register gather: load elements of x at given indices, one load per element, into a vector.
 *
 * Gather instructions consist of many micro-operations on AMD's processors, and on Intel's where microcode mitigates
 * gather data sampling; see gathers.c. Two 32-bit indices, which are never negative, are loaded at once. Included once
 * per instruction set.
 */
#ifndef ASP_REGISTER_GATHER_H
#define ASP_REGISTER_GATHER_H

/* Load as many elements as 32 bytes hold, for the current types R and I. */
#define LOOKUP(at, x) ASP_GLUE(asp, lookup, RTAG, ITAG)(at, x)

ASP_INLINE uint64_t asp_two_indices(const int32_t *at)
{
    uint64_t both;
    memcpy(&both, at, sizeof both);
    return both;
}

ASP_INLINE __m128 asp_four_f32(const float *a, const float *b, const float *c, const float *d)
{
    const __m128 low = _mm_insert_ps(_mm_load_ss(a), _mm_load_ss(b), 0x10);
    return _mm_insert_ps(_mm_insert_ps(low, _mm_load_ss(c), 0x20), _mm_load_ss(d), 0x30);
}

ASP_INLINE __m128 asp_quarter_f32_i32(const int32_t *at, const float *x)
{
    const uint64_t low = asp_two_indices(at), high = asp_two_indices(at + 2);
    return asp_four_f32(x + (uint32_t)low, x + (low >> 32), x + (uint32_t)high, x + (high >> 32));
}

ASP_INLINE __m128 asp_quarter_f32_i64(const int64_t *at, const float *x)
{
    return asp_four_f32(x + at[0], x + at[1], x + at[2], x + at[3]);
}

ASP_INLINE __m256 asp_lookup_f32_i32(const int32_t *at, const float *x)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(asp_quarter_f32_i32(at, x)), asp_quarter_f32_i32(at + 4, x), 1);
}

ASP_INLINE __m256 asp_lookup_f32_i64(const int64_t *at, const float *x)
{
    return _mm256_insertf128_ps(_mm256_castps128_ps256(asp_quarter_f32_i64(at, x)), asp_quarter_f32_i64(at + 4, x), 1);
}

ASP_INLINE __m256d asp_four_f64(const double *a, const double *b, const double *c, const double *d)
{
    const __m128d low = _mm_loadh_pd(_mm_load_sd(a), b), high = _mm_loadh_pd(_mm_load_sd(c), d);
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1);
}

ASP_INLINE __m256d asp_lookup_f64_i32(const int32_t *at, const double *x)
{
    const uint64_t low = asp_two_indices(at), high = asp_two_indices(at + 2);
    return asp_four_f64(x + (uint32_t)low, x + (low >> 32), x + (uint32_t)high, x + (high >> 32));
}

ASP_INLINE __m256d asp_lookup_f64_i64(const int64_t *at, const double *x)
{
    return asp_four_f64(x + at[0], x + at[1], x + at[2], x + at[3]);
}

#endif
