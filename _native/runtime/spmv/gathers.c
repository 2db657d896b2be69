/* Choice between gather instructions and scalar loads for SpMV, measured once in about ten microseconds.
 *
 * SpMV kernels exist with gathers and with one load per element (register_gather.h). Both compute identical results, so a
 * wrong measurement only costs time. On an AMD Zen 5 a gathered element of float32 takes 0.40 ns, a loaded one 0.17
 * ns. On Intel's servers gathers are as fast or faster, unless microcode mitigations slow them down.
 */
#include "kernels.h"

#include "matmul_api.h"

ASP_FORCIBLE(forced_gathers, asp_force_gathers)

#if ASP_X86
#include ASP_INTRINSICS

#define ASP_ISA_LEVEL 1
#include "isa_begin.h"
#include "register_gather.h"

enum { PROBE_ENTRIES = 1024, PROBE_ROUNDS = 16 };

static ASP_NOINLINE float sum_gathered(const int32_t *at, const float *x)
{
    __m256 a = _mm256_setzero_ps(), b = a;
    for (int k = 0; k < PROBE_ENTRIES; k += 16) {
        a = _mm256_add_ps(a, _mm256_i32gather_ps(x, _mm256_loadu_si256((const __m256i *)(at + k)), 4));
        b = _mm256_add_ps(b, _mm256_i32gather_ps(x, _mm256_loadu_si256((const __m256i *)(at + k + 8)), 4));
    }
    return _mm_cvtss_f32(_mm256_castps256_ps128(_mm256_add_ps(a, b)));
}

static ASP_NOINLINE float sum_looked_up(const int32_t *at, const float *x)
{
    __m256 a = _mm256_setzero_ps(), b = a;
    for (int k = 0; k < PROBE_ENTRIES; k += 16) {
        a = _mm256_add_ps(a, asp_lookup_f32_i32(at + k, x));
        b = _mm256_add_ps(b, asp_lookup_f32_i32(at + k + 8, x));
    }
    return _mm_cvtss_f32(_mm256_castps256_ps128(_mm256_add_ps(a, b)));
}

#include "isa_end.h"

/* Return the minimum time of several rounds, because interruptions only add time. */
static int64_t least_ns(float (*sum)(const int32_t *, const float *), const int32_t *at, const float *x)
{
    int64_t least = INT64_MAX;
    volatile float sink;
    for (int round = 0; round < PROBE_ROUNDS; round++) {
        const int64_t start = asp_now_ns();
        sink = sum(at, x);
        least = asp_min(least, asp_now_ns() - start);
    }
    (void)sink;
    return least;
}

/* Measure both variants; a gather must be no more than 25 % slower to be chosen. */
static int gathers_pay(void)
{
    int32_t at[PROBE_ENTRIES];
    float x[PROBE_ENTRIES] = {0};
    for (int k = 0; k < PROBE_ENTRIES; k++) at[k] = (k * 389) & (PROBE_ENTRIES - 1);
    const int64_t gathered = least_ns(sum_gathered, at, x), looked_up = least_ns(sum_looked_up, at, x);
    return 5 * looked_up >= 4 * gathered; /* favours gathers, so that near ties give the same choice every time */
}
#endif

int asp_gathers(void)
{
    static _Atomic int measured = -1;
    const int wish = ASP_FORCED(forced_gathers);
    if (wish >= 0) return wish;
    int known = atomic_load_explicit(&measured, memory_order_relaxed);
    if (known >= 0) return known;
#if ASP_X86
    known = asp_best_isa() == 0 || gathers_pay();
#else
    known = 1;
#endif
    atomic_store_explicit(&measured, known, memory_order_relaxed);
    return known;
}
