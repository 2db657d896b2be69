/* Vectors of R with AVX-512: 64 bytes, a mask is a bit for each lane. */
#include "vec_undef.h"

#define VL (64 / RBYTES)

#if RBYTES == 4
#define V __m512
#define VM __mmask16
#define v_zero() _mm512_setzero_ps()
#define v_set1(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_stream(p, v) _mm512_stream_ps(p, v)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_mask(n) ((__mmask16)((1u << (n)) - 1))
#define v_loadm(p, m) _mm512_maskz_loadu_ps(m, p)
#define v_storem(p, m, v) _mm512_mask_storeu_ps(p, m, v)
#else
#define V __m512d
#define VM __mmask8
#define v_zero() _mm512_setzero_pd()
#define v_set1(x) _mm512_set1_pd(x)
#define v_load(p) _mm512_loadu_pd(p)
#define v_store(p, v) _mm512_storeu_pd(p, v)
#define v_stream(p, v) _mm512_stream_pd(p, v)
#define v_fma(a, b, c) _mm512_fmadd_pd(a, b, c)
#define v_mask(n) ((__mmask8)((1u << (n)) - 1))
#define v_loadm(p, m) _mm512_maskz_loadu_pd(m, p)
#define v_storem(p, m, v) _mm512_mask_storeu_pd(p, m, v)
#endif
