/* XXH3 of more than 240 bytes: eight accumulators, blocks of sixteen 64-byte stripes. There is one variant per
 * instruction set, all with the same result. */
#include "xxh3.h"

#include "kernels.h"
#include "matmul_api.h"

enum { STRIPE = 64, STRIPES = 16, BLOCK = STRIPE * STRIPES, SECRET = 192 };

/* Accumulate n_blocks whole blocks of `in`, then n_stripes stripes, then the last 64 bytes of the input. */
typedef void (*consume)(uint64_t *sum, const uint8_t *in, int64_t n_blocks, int n_stripes, const uint8_t *last,
                        const uint8_t *key);

ASP_INLINE void stripe_plain(uint64_t *sum, const uint8_t *in, const uint8_t *key)
{
    for (int i = 0; i < 8; i++) {
        const uint64_t x = asp_read64(in + 8 * i), value = x ^ asp_read64(key + 8 * i);
        sum[i ^ 1] += x;
        sum[i] += (value & 0xffffffff) * (value >> 32);
    }
}

static void consume_plain(uint64_t *sum, const uint8_t *in, int64_t n_blocks, int n_stripes, const uint8_t *last,
                          const uint8_t *key)
{
    for (; n_blocks > 0; n_blocks--, in += BLOCK) {
        for (int n = 0; n < STRIPES; n++) stripe_plain(sum, in + STRIPE * n, key + 8 * n);
        for (int i = 0; i < 8; i++)
            sum[i] = (sum[i] ^ sum[i] >> 47 ^ asp_read64(key + SECRET - 64 + 8 * i)) * XXH_P32_1;
    }
    for (int n = 0; n < n_stripes; n++) stripe_plain(sum, in + STRIPE * n, key + 8 * n);
    stripe_plain(sum, last, key + SECRET - 71);
}

#if ASP_X86
#include <immintrin.h>

/* Within a block, the additions of unmixed input go to separate accumulators, so that their lanes are swapped once per
 * block instead of once per stripe. */
#define APART_AVX2(s, plain, p, k)                                                                      \
    do {                                                                                                \
        const __m256i x = _mm256_loadu_si256((const __m256i *)(p));                                     \
        const __m256i value = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)(k)));            \
        plain = _mm256_add_epi64(plain, x);                                                             \
        s = _mm256_add_epi64(s, _mm256_mul_epu32(value, _mm256_srli_epi64(value, 32)));                 \
    } while (0)
#define HALF_AVX2(s, p, k)                                                                              \
    do {                                                                                                \
        const __m256i x = _mm256_loadu_si256((const __m256i *)(p));                                     \
        const __m256i value = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)(k)));            \
        s = _mm256_add_epi64(s, _mm256_shuffle_epi32(x, 0x4e));                                         \
        s = _mm256_add_epi64(s, _mm256_mul_epu32(value, _mm256_srli_epi64(value, 32)));                 \
    } while (0)
#define STRIPE_AVX2(p, k)                    \
    do {                                     \
        HALF_AVX2(low, (p), (k));            \
        HALF_AVX2(high, (p) + 32, (k) + 32); \
    } while (0)

__attribute__((target("avx2"))) static inline __m256i scramble_avx2(__m256i s, const uint8_t *key)
{
    const __m256i prime = _mm256_set1_epi64x((int64_t)XXH_P32_1);
    s = _mm256_xor_si256(s, _mm256_srli_epi64(s, 47));
    s = _mm256_xor_si256(s, _mm256_loadu_si256((const __m256i *)key));
    const __m256i upper = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(s, 32), prime), 32);
    return _mm256_add_epi64(_mm256_mul_epu32(s, prime), upper);
}

__attribute__((target("avx2"))) static void consume_avx2(uint64_t *sum, const uint8_t *in, int64_t n_blocks,
                                                         int n_stripes, const uint8_t *last, const uint8_t *key)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)sum), high = _mm256_loadu_si256((const __m256i *)(sum + 4));
    for (; n_blocks > 0; n_blocks--, in += BLOCK) {
        __m256i low_plain = _mm256_setzero_si256(), high_plain = low_plain;
#pragma GCC unroll 16
        for (int n = 0; n < STRIPES; n++) {
            __builtin_prefetch(in + STRIPE * n + 2 * BLOCK);
            APART_AVX2(low, low_plain, in + STRIPE * n, key + 8 * n);
            APART_AVX2(high, high_plain, in + STRIPE * n + 32, key + 8 * n + 32);
        }
        low = scramble_avx2(_mm256_add_epi64(low, _mm256_shuffle_epi32(low_plain, 0x4e)), key + SECRET - 64);
        high = scramble_avx2(_mm256_add_epi64(high, _mm256_shuffle_epi32(high_plain, 0x4e)), key + SECRET - 32);
    }
    for (int n = 0; n < n_stripes; n++) STRIPE_AVX2(in + STRIPE * n, key + 8 * n);
    STRIPE_AVX2(last, key + SECRET - 71);
    _mm256_storeu_si256((__m256i *)sum, low);
    _mm256_storeu_si256((__m256i *)(sum + 4), high);
}

#define STRIPE_AVX512(p, k)                                                             \
    do {                                                                                \
        const __m512i x = _mm512_loadu_si512(p);                                        \
        const __m512i value = _mm512_xor_si512(x, _mm512_loadu_si512(k));               \
        s = _mm512_add_epi64(s, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x4e));          \
        s = _mm512_add_epi64(s, _mm512_mul_epu32(value, _mm512_srli_epi64(value, 32))); \
    } while (0)

__attribute__((target("avx512f"))) static void consume_avx512(uint64_t *sum, const uint8_t *in, int64_t n_blocks,
                                                              int n_stripes, const uint8_t *last, const uint8_t *key)
{
    const __m512i prime = _mm512_set1_epi64((int64_t)XXH_P32_1), end_key = _mm512_loadu_si512(key + SECRET - 64);
    __m512i s = _mm512_loadu_si512(sum);
    for (; n_blocks > 0; n_blocks--, in += BLOCK) {
        __m512i plain = _mm512_setzero_si512();
#pragma GCC unroll 16
        for (int n = 0; n < STRIPES; n++) {
            __builtin_prefetch(in + STRIPE * n + 2 * BLOCK);
            const __m512i x = _mm512_loadu_si512(in + STRIPE * n);
            const __m512i value = _mm512_xor_si512(x, _mm512_loadu_si512(key + 8 * n));
            plain = _mm512_add_epi64(plain, x);
            s = _mm512_add_epi64(s, _mm512_mul_epu32(value, _mm512_srli_epi64(value, 32)));
        }
        s = _mm512_add_epi64(s, _mm512_shuffle_epi32(plain, (_MM_PERM_ENUM)0x4e));
        s = _mm512_xor_si512(_mm512_xor_si512(s, _mm512_srli_epi64(s, 47)), end_key);
        const __m512i upper = _mm512_slli_epi64(_mm512_mul_epu32(_mm512_srli_epi64(s, 32), prime), 32);
        s = _mm512_add_epi64(_mm512_mul_epu32(s, prime), upper);
    }
    for (int n = 0; n < n_stripes; n++) STRIPE_AVX512(in + STRIPE * n, key + 8 * n);
    STRIPE_AVX512(last, key + SECRET - 71);
    _mm512_storeu_si512(sum, s);
}
#endif

/* Combine the eight accumulators into one 64-bit half of the hash. */
static uint64_t merge(const uint64_t *sum, const uint8_t *key, uint64_t start)
{
    for (int i = 0; i < 4; i++)
        start += asp_fold(sum[2 * i] ^ asp_read64(key + 16 * i), sum[2 * i + 1] ^ asp_read64(key + 16 * i + 8));
    return asp_avalanche(start);
}

void asp_xxh3_long(const uint8_t *in, int64_t n_bytes, int wide, uint64_t *low_high)
{
    uint64_t sum[8] = {XXH_P32_3, XXH_P64_1, XXH_P64_2, XXH_P64_3, XXH_P64_4, XXH_P32_2, XXH_P64_5, XXH_P32_1};
    const uint8_t *const key = asp_xxh3_secret;
    const int64_t n_blocks = (n_bytes - 1) / BLOCK;
    const int n_stripes = (int)((n_bytes - 1 - n_blocks * BLOCK) / STRIPE);
    consume run = consume_plain;
#if ASP_X86
    static const consume versions[] = {consume_plain, consume_avx2, consume_avx512};
    run = versions[asp_isa()];
#endif
    run(sum, in, n_blocks, n_stripes, in + n_bytes - STRIPE, key);
    low_high[0] = merge(sum, key + 11, (uint64_t)n_bytes * XXH_P64_1);
    if (wide) low_high[1] = merge(sum, key + SECRET - 75, ~((uint64_t)n_bytes * XXH_P64_2));
}
