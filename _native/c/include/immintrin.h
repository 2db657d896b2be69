/* Replacement for GCC's immintrin.h with only the intrinsics that generated kernels use: parsing GCC's header takes
 * 0.16 s, two thirds of the compile time of a kernel. The builtins are those of GCC's header; compilers other than GCC
 * 9 to 14 include their own header. */
#if defined __clang__ || !defined __GNUC__ || __GNUC__ < 9 || __GNUC__ > 14
#include_next <immintrin.h>
#else
#ifndef ASP_INTRINSICS_H
#define ASP_INTRINSICS_H

typedef float __m128 __attribute__((vector_size(16), may_alias));
typedef double __m128d __attribute__((vector_size(16), may_alias));
typedef long long __m128i __attribute__((vector_size(16), may_alias));
typedef long long __m128i_u __attribute__((vector_size(16), may_alias, aligned(1)));
typedef float asp_4sf __attribute__((vector_size(16)));
typedef double asp_2df __attribute__((vector_size(16)));
typedef long long asp_2di __attribute__((vector_size(16)));
typedef int asp_4si __attribute__((vector_size(16)));
typedef short asp_8hi __attribute__((vector_size(16)));
typedef char asp_16qi __attribute__((vector_size(16)));

#define ASP_INTRINSIC static inline __attribute__((always_inline, artificial))

ASP_INTRINSIC __m128 _mm_load_ss(const float *p) { return (__m128){*p, 0, 0, 0}; }
ASP_INTRINSIC __m128d _mm_load_sd(const double *p) { return (__m128d){*p, 0}; }
ASP_INTRINSIC __m128d _mm_loadh_pd(__m128d a, const double *p) { return (__m128d){a[0], *p}; }
ASP_INTRINSIC __m128i _mm_loadu_si128(const __m128i_u *p) { return *p; }
ASP_INTRINSIC __m128i _mm_loadl_epi64(const void *p)
{
    long long low;
    __builtin_memcpy(&low, p, 8);
    return (__m128i){low, 0};
}
ASP_INTRINSIC void _mm_storeu_si128(void *p, __m128i a) { *(__m128i_u *)p = a; }

#ifdef __AVX2__
typedef float __m256 __attribute__((vector_size(32), may_alias));
typedef double __m256d __attribute__((vector_size(32), may_alias));
typedef long long __m256i __attribute__((vector_size(32), may_alias));
typedef float __m256_u __attribute__((vector_size(32), may_alias, aligned(1)));
typedef long long __m256i_u __attribute__((vector_size(32), may_alias, aligned(1)));
typedef float asp_8sf __attribute__((vector_size(32)));
typedef double asp_4df __attribute__((vector_size(32)));
typedef long long asp_4di __attribute__((vector_size(32)));
typedef int asp_8si __attribute__((vector_size(32)));
typedef short asp_16hi __attribute__((vector_size(32)));

#define _mm_insert_ps(a, b, n) ((__m128)__builtin_ia32_insertps128((asp_4sf)(__m128)(a), (asp_4sf)(__m128)(b), n))
#define _mm256_insertf128_ps(a, b, n) \
    ((__m256)__builtin_ia32_vinsertf128_ps256((asp_8sf)(__m256)(a), (asp_4sf)(__m128)(b), n))
#define _mm256_insertf128_pd(a, b, n) \
    ((__m256d)__builtin_ia32_vinsertf128_pd256((asp_4df)(__m256d)(a), (asp_2df)(__m128d)(b), n))
#define _mm256_i32gather_ps(p, at, scale) \
    ((__m256)__builtin_ia32_gathersiv8sf((asp_8sf){0}, p, (asp_8si)(__m256i)(at), asp_all_ps(), scale))
#define _mm256_i32gather_pd(p, at, scale) \
    ((__m256d)__builtin_ia32_gathersiv4df((asp_4df){0}, p, (asp_4si)(__m128i)(at), asp_all_pd(), scale))

ASP_INTRINSIC asp_8sf asp_all_ps(void) { return __builtin_ia32_cmpps256((asp_8sf){0}, (asp_8sf){0}, 0); } /* 0 == 0 */
ASP_INTRINSIC asp_4df asp_all_pd(void) { return __builtin_ia32_cmppd256((asp_4df){0}, (asp_4df){0}, 0); }
ASP_INTRINSIC __m256 _mm256_castps128_ps256(__m128 a) { return (__m256)__builtin_ia32_ps256_ps((asp_4sf)a); }
ASP_INTRINSIC __m256d _mm256_castpd128_pd256(__m128d a) { return (__m256d)__builtin_ia32_pd256_pd((asp_2df)a); }
ASP_INTRINSIC __m256 _mm256_castsi256_ps(__m256i a) { return (__m256)a; }
ASP_INTRINSIC __m256 _mm256_loadu_ps(const float *p) { return *(const __m256_u *)p; }
ASP_INTRINSIC __m256i _mm256_loadu_si256(const void *p) { return *(const __m256i_u *)p; }
ASP_INTRINSIC void _mm256_storeu_si256(void *p, __m256i a) { *(__m256i_u *)p = a; }
ASP_INTRINSIC __m256i _mm256_cvtepu16_epi32(__m128i a) { return (__m256i)__builtin_ia32_pmovzxwd256((asp_8hi)a); }
ASP_INTRINSIC __m256i _mm256_cvtepu8_epi32(__m128i a) { return (__m256i)__builtin_ia32_pmovzxbd256((asp_16qi)a); }
ASP_INTRINSIC __m128i _mm_cvtepu16_epi32(__m128i a) { return (__m128i)__builtin_ia32_pmovzxwd128((asp_8hi)a); }
ASP_INTRINSIC __m256i _mm256_slli_epi32(__m256i a, int n) { return (__m256i)__builtin_ia32_pslldi256((asp_8si)a, n); }
ASP_INTRINSIC __m256i _mm256_set1_epi32(int x) { return (__m256i)(asp_8si){x, x, x, x, x, x, x, x}; }
ASP_INTRINSIC __m256 _mm256_permutevar8x32_ps(__m256 a, __m256i at)
{
    return (__m256)__builtin_ia32_permvarsf256((asp_8sf)a, (asp_8si)at);
}
ASP_INTRINSIC __m256 _mm256_blendv_ps(__m256 a, __m256 b, __m256 mask)
{
    return (__m256)__builtin_ia32_blendvps256((asp_8sf)a, (asp_8sf)b, (asp_8sf)mask);
}
#endif

#ifdef __AVX512F__
typedef unsigned char __mmask8;
typedef unsigned short __mmask16;
typedef float __m512 __attribute__((vector_size(64), may_alias));
typedef double __m512d __attribute__((vector_size(64), may_alias));
typedef long long __m512i __attribute__((vector_size(64), may_alias));
typedef float __m512_u __attribute__((vector_size(64), may_alias, aligned(1)));
typedef double __m512d_u __attribute__((vector_size(64), may_alias, aligned(1)));
typedef long long __m512i_u __attribute__((vector_size(64), may_alias, aligned(1)));
typedef float asp_16sf __attribute__((vector_size(64)));
typedef double asp_8df __attribute__((vector_size(64)));
typedef long long asp_8di __attribute__((vector_size(64)));
typedef int asp_16si __attribute__((vector_size(64)));

#define _mm512_mask_i32gather_ps(a, m, at, p, scale) \
    ((__m512)__builtin_ia32_gathersiv16sf((asp_16sf)(__m512)(a), p, (asp_16si)(__m512i)(at), (__mmask16)(m), scale))
#define _mm512_mask_i32gather_pd(a, m, at, p, scale) \
    ((__m512d)__builtin_ia32_gathersiv8df((asp_8df)(__m512d)(a), p, (asp_8si)(__m256i)(at), (__mmask8)(m), scale))
#define _mm512_i32gather_ps(at, p, scale) _mm512_mask_i32gather_ps(asp_any_ps(), 0xffff, at, p, scale)
#define _mm512_i32gather_pd(at, p, scale) _mm512_mask_i32gather_pd(asp_any_pd(), 0xff, at, p, scale)
#define _mm512_mask_i32scatter_ps(p, m, at, a, scale) \
    __builtin_ia32_scattersiv16sf(p, (__mmask16)(m), (asp_16si)(__m512i)(at), (asp_16sf)(__m512)(a), scale)
#define _mm512_mask_i32scatter_pd(p, m, at, a, scale) \
    __builtin_ia32_scattersiv8df(p, (__mmask8)(m), (asp_8si)(__m256i)(at), (asp_8df)(__m512d)(a), scale)
#define _mm512_insertf32x8(a, b, n)                                                                              \
    ((__m512)__builtin_ia32_insertf32x8_mask((asp_16sf)(__m512)(a), (asp_8sf)(__m256)(b), n, (asp_16sf){0}, \
                                             (__mmask16)-1))
#define _mm512_insertf64x4(a, b, n)                                                                                 \
    ((__m512d)__builtin_ia32_insertf64x4_mask((asp_8df)(__m512d)(a), (asp_4df)(__m256d)(b), n, (asp_8df)asp_any_pd(), \
                                              (__mmask8)-1))

/* An uninitialized vector for masked builtins whose mask selects all lanes. */
ASP_INTRINSIC __m512 asp_any_ps(void)
{
    __m512 any = any;
    return any;
}
ASP_INTRINSIC __m512d asp_any_pd(void)
{
    __m512d any = any;
    return any;
}
ASP_INTRINSIC asp_16si asp_any_si(void)
{
    asp_16si any = any;
    return any;
}

ASP_INTRINSIC __m512 _mm512_setzero_ps(void) { return (__m512){0}; }
ASP_INTRINSIC __m512d _mm512_setzero_pd(void) { return (__m512d){0}; }
ASP_INTRINSIC __m512i _mm512_set1_epi32(int x)
{
    return (__m512i)(asp_16si){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
ASP_INTRINSIC __m512 _mm512_castps256_ps512(__m256 a) { return __builtin_ia32_ps512_256ps((asp_8sf)a); }
ASP_INTRINSIC __m512d _mm512_castpd256_pd512(__m256d a) { return __builtin_ia32_pd512_256pd((asp_4df)a); }
ASP_INTRINSIC __m512 _mm512_mul_ps(__m512 a, __m512 b) { return (__m512)((asp_16sf)a * (asp_16sf)b); }
ASP_INTRINSIC __m512d _mm512_mul_pd(__m512d a, __m512d b) { return (__m512d)((asp_8df)a * (asp_8df)b); }
ASP_INTRINSIC __m512 _mm512_loadu_ps(const void *p) { return *(const __m512_u *)p; }
ASP_INTRINSIC __m512d _mm512_loadu_pd(const void *p) { return *(const __m512d_u *)p; }
ASP_INTRINSIC __m512i _mm512_loadu_si512(const void *p) { return *(const __m512i_u *)p; }
ASP_INTRINSIC void _mm512_storeu_si512(void *p, __m512i a) { *(__m512i_u *)p = a; }
ASP_INTRINSIC __m512i _mm512_cvtepu16_epi32(__m256i a)
{
    return (__m512i)__builtin_ia32_pmovzxwd512_mask((asp_16hi)a, asp_any_si(), (__mmask16)-1);
}
ASP_INTRINSIC __m512i _mm512_cvtepu8_epi32(__m128i a)
{
    return (__m512i)__builtin_ia32_pmovzxbd512_mask((asp_16qi)a, asp_any_si(), (__mmask16)-1);
}
ASP_INTRINSIC __m512i _mm512_cvtepu8_epi64(__m128i a)
{
    return (__m512i)__builtin_ia32_pmovzxbq512_mask((asp_16qi)a, (asp_8di)asp_any_si(), (__mmask8)-1);
}
ASP_INTRINSIC __m512 _mm512_permutexvar_ps(__m512i at, __m512 a)
{
    return (__m512)__builtin_ia32_permvarsf512_mask((asp_16sf)a, (asp_16si)at, (asp_16sf)asp_any_ps(), (__mmask16)-1);
}
ASP_INTRINSIC __m512d _mm512_permutex2var_pd(__m512d a, __m512i at, __m512d b)
{
    return (__m512d)__builtin_ia32_vpermt2varpd512_mask((asp_8di)at, (asp_8df)a, (asp_8df)b, (__mmask8)-1);
}
ASP_INTRINSIC __m512 _mm512_maskz_mov_ps(__mmask16 m, __m512 a)
{
    return (__m512)__builtin_ia32_movaps512_mask((asp_16sf)a, (asp_16sf){0}, m);
}
ASP_INTRINSIC __m512d _mm512_maskz_mov_pd(__mmask8 m, __m512d a)
{
    return (__m512d)__builtin_ia32_movapd512_mask((asp_8df)a, (asp_8df){0}, m);
}
ASP_INTRINSIC __m512 _mm512_maskz_loadu_ps(__mmask16 m, const void *p)
{
    return (__m512)__builtin_ia32_loadups512_mask((const float *)p, (asp_16sf){0}, m);
}
ASP_INTRINSIC __m512d _mm512_maskz_loadu_pd(__mmask8 m, const void *p)
{
    return (__m512d)__builtin_ia32_loadupd512_mask((const double *)p, (asp_8df){0}, m);
}
ASP_INTRINSIC __m512i _mm512_maskz_loadu_epi32(__mmask16 m, const void *p)
{
    return (__m512i)__builtin_ia32_loaddqusi512_mask((const int *)p, (asp_16si){0}, m);
}
ASP_INTRINSIC __m256i _mm256_maskz_loadu_epi32(__mmask8 m, const void *p)
{
    return (__m256i)__builtin_ia32_loaddqusi256_mask((const int *)p, (asp_8si){0}, m);
}
ASP_INTRINSIC __m256i _mm256_maskz_loadu_epi16(__mmask16 m, const void *p)
{
    return (__m256i)__builtin_ia32_loaddquhi256_mask((const short *)p, (asp_16hi){0}, m);
}
ASP_INTRINSIC __m128i _mm_maskz_loadu_epi16(__mmask8 m, const void *p)
{
    return (__m128i)__builtin_ia32_loaddquhi128_mask((const short *)p, (asp_8hi){0}, m);
}
ASP_INTRINSIC __mmask16 _mm512_cmplt_epi32_mask(__m512i a, __m512i b)
{
    return (__mmask16)__builtin_ia32_cmpd512_mask((asp_16si)a, (asp_16si)b, 1, (__mmask16)-1);
}
ASP_INTRINSIC __mmask8 _mm256_cmplt_epi32_mask(__m256i a, __m256i b)
{
    return (__mmask8)__builtin_ia32_cmpd256_mask((asp_8si)a, (asp_8si)b, 1, (__mmask8)-1);
}
#endif
#endif
#endif
