/* Instantiate mostly_empty_body.h for one instruction set, and list its kernels by [dtype][itype]. */
#if ASP_X86 && ASP_ISA_LEVEL == 1
/* Store the first n elements of v in parts: on AMD's processors a masked store of AVX2 takes 6 to 12 cycles. */
ASP_INLINE void asp_store_first_f32(float *p, int64_t n, __m256 v)
{
    if (n & 8) _mm256_storeu_ps(p, v);
    __m128 part = _mm256_castps256_ps128(v);
    if (n & 4) _mm_storeu_ps(p, part), part = _mm256_extractf128_ps(v, 1), p += 4;
    if (n & 2) _mm_storel_pi((__m64 *)p, part), part = _mm_movehl_ps(part, part), p += 2;
    if (n & 1) _mm_store_ss(p, part);
}
ASP_INLINE void asp_store_first_f64(double *p, int64_t n, __m256d v)
{
    if (n & 4) _mm256_storeu_pd(p, v);
    __m128d part = _mm256_castpd256_pd128(v);
    if (n & 2) _mm_storeu_pd(p, part), part = _mm256_extractf128_pd(v, 1), p += 2;
    if (n & 1) _mm_store_sd(p, part);
}
#define STORE_FIRST_(tag) asp_store_first_##tag
#define STORE_FIRST(tag) STORE_FIRST_(tag)
#define PUT_FIRST(p, n, m, v) STORE_FIRST(RTAG)(p, n, v)
#else
#define PUT_FIRST(p, n, m, v) v_storem(p, m, v)
#endif

#define NAME(x) ASP_GLUE(ISA, RTAG, ITAG, x)
#define REAL_BODY "short_rows_each.h"
#include "real_types.h"
#undef NAME

#define KERNELS_OF(tag) {ASP_GLUE(ISA, tag, i32, short_rows), ASP_GLUE(ISA, tag, i64, short_rows)}
#define TABLE_(isa) short_rows_##isa
#define TABLE(isa) TABLE_(isa)
static const asp_kernel TABLE(ISA)[2][2] = {KERNELS_OF(f32), KERNELS_OF(f64)};
#undef TABLE_
#undef TABLE
#undef KERNELS_OF
#undef PUT_FIRST
#undef STORE_FIRST
#undef STORE_FIRST_
