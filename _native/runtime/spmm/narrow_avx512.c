/* Products with 2 to 7 columns for x86-64 with AVX-512: masks of 16- and 32-byte vectors. */
#include "narrow.h"

#include "matmul_api.h"

#if ASP_X86
#include <immintrin.h>

#include "target_avx512.h"

#define ISA asp_avx512
#define HAS_LANE_MASKS
#include "narrow_all.h"

/* C[i, :] = A[i] B for two columns of float32, which are one 64-bit element of a gather. Rows of up to eight entries,
 * and the end of longer ones, are computed under a mask: loops over their entries would cost a branch misprediction per
 * row, which is half of the time for short rows. */
static void asp_avx512_pairs(const asp_args *args, int64_t begin, int64_t end)
{
    const int32_t *indptr = args->indptr, *indices = args->indices, *const places = args->places;
    const float *data = args->data, *B = args->B;
    float *C = args->C;
    const int64_t ldc = args->ldc, giant = args->giant_length;
    const int accumulate = args->accumulate;
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    if (args->ldb != 2 || !asp_gathers()) {
        asp_avx512_f32_i32_narrow_2(args, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t k = indptr[i];
        const int64_t stop = indptr[i + 1];
        double *const c = (double *)(C + (places ? places[i] : i) * ldc); /* two values of float32 */
        if (stop - k > giant) {
            asp_note_giant(args, i);
            continue;
        }
        __m512 sum = _mm512_setzero_ps();
        for (; k + 8 < stop; k += 8) {
            const __m512d b = _mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)(indices + k)), B, 8);
            const __m512 a = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_loadu_ps(data + k)));
            sum = _mm512_fmadd_ps(a, _mm512_castpd_ps(b), sum);
        }
        const __mmask8 rest = (__mmask8)((1u << (stop - k)) - 1);
        const __m256i at = _mm256_maskz_loadu_epi32(rest, indices + k);
        const __m512d b = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), rest, at, B, 8);
        const __m512 a = _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(_mm256_maskz_loadu_ps(rest, data + k)));
        sum = _mm512_fmadd_ps(a, _mm512_castpd_ps(b), sum);
        const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
        __m128 total = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
        total = _mm_add_ps(total, _mm_movehl_ps(total, total));
        if (accumulate) total = _mm_add_ps(_mm_castpd_ps(_mm_load_sd(c)), total);
        _mm_store_sd(c, _mm_castps_pd(total));
    }
}

const asp_kernel asp_narrow_avx512[2][2][NARROW_MOST - 1] = {
    {{asp_avx512_pairs, NARROW(f32, i32, 3), NARROW(f32, i32, 4), NARROW(f32, i32, 5), NARROW(f32, i32, 6),
      NARROW(f32, i32, 7)},
     NARROW_F32(i64)},
    {NARROW_F64(i32), NARROW_F64(i64)},
};

#include "target_end.h"
#endif
