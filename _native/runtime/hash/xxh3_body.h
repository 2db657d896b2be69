/* Accumulation of the hash with the vectors of one instruction set (no include guard). Defines consume_<ISA>. */
#define CONSUME(isa) CONSUME_(isa)
#define CONSUME_(isa) consume_##isa

#if VBYTES == 32
/* Within a block, the additions of unmixed input go to separate accumulators, so that their lanes are swapped once per
 * block instead of once per stripe. */
#define APART(s, plain, p, k)                                                                           \
    do {                                                                                                \
        const __m256i x = _mm256_loadu_si256((const __m256i *)(p));                                     \
        const __m256i value = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)(k)));            \
        plain = _mm256_add_epi64(plain, x);                                                             \
        s = _mm256_add_epi64(s, _mm256_mul_epu32(value, _mm256_srli_epi64(value, 32)));                 \
    } while (0)
#define HALF(s, p, k)                                                                                   \
    do {                                                                                                \
        const __m256i x = _mm256_loadu_si256((const __m256i *)(p));                                     \
        const __m256i value = _mm256_xor_si256(x, _mm256_loadu_si256((const __m256i *)(k)));            \
        s = _mm256_add_epi64(s, _mm256_shuffle_epi32(x, 0x4e));                                         \
        s = _mm256_add_epi64(s, _mm256_mul_epu32(value, _mm256_srli_epi64(value, 32)));                 \
    } while (0)
#define ADD_STRIPE(p, k)                \
    do {                                \
        HALF(low, (p), (k));            \
        HALF(high, (p) + 32, (k) + 32); \
    } while (0)

static inline __m256i scramble(__m256i s, const uint8_t *key)
{
    const __m256i prime = _mm256_set1_epi64x((int64_t)XXH_P32_1);
    s = _mm256_xor_si256(s, _mm256_srli_epi64(s, 47));
    s = _mm256_xor_si256(s, _mm256_loadu_si256((const __m256i *)key));
    const __m256i upper = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(s, 32), prime), 32);
    return _mm256_add_epi64(_mm256_mul_epu32(s, prime), upper);
}

static void CONSUME(ISA)(uint64_t *sum, const uint8_t *in, int64_t n_blocks, int n_stripes, const uint8_t *last,
                         const uint8_t *key)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)sum), high = _mm256_loadu_si256((const __m256i *)(sum + 4));
    for (; n_blocks > 0; n_blocks--, in += BLOCK) {
        __m256i low_plain = _mm256_setzero_si256(), high_plain = low_plain;
#pragma GCC unroll 16
        for (int n = 0; n < STRIPES; n++) {
            __builtin_prefetch(in + STRIPE * n + 2 * BLOCK);
            APART(low, low_plain, in + STRIPE * n, key + 8 * n);
            APART(high, high_plain, in + STRIPE * n + 32, key + 8 * n + 32);
        }
        low = scramble(_mm256_add_epi64(low, _mm256_shuffle_epi32(low_plain, 0x4e)), key + SECRET - 64);
        high = scramble(_mm256_add_epi64(high, _mm256_shuffle_epi32(high_plain, 0x4e)), key + SECRET - 32);
    }
    for (int n = 0; n < n_stripes; n++) ADD_STRIPE(in + STRIPE * n, key + 8 * n);
    ADD_STRIPE(last, key + SECRET - 71);
    _mm256_storeu_si256((__m256i *)sum, low);
    _mm256_storeu_si256((__m256i *)(sum + 4), high);
}
#undef APART
#undef HALF
#undef ADD_STRIPE
#elif VBYTES == 64
#define ADD_STRIPE(p, k)                                                                \
    do {                                                                                \
        const __m512i x = _mm512_loadu_si512(p);                                        \
        const __m512i value = _mm512_xor_si512(x, _mm512_loadu_si512(k));               \
        s = _mm512_add_epi64(s, _mm512_shuffle_epi32(x, (_MM_PERM_ENUM)0x4e));          \
        s = _mm512_add_epi64(s, _mm512_mul_epu32(value, _mm512_srli_epi64(value, 32))); \
    } while (0)

static void CONSUME(ISA)(uint64_t *sum, const uint8_t *in, int64_t n_blocks, int n_stripes, const uint8_t *last,
                         const uint8_t *key)
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
    for (int n = 0; n < n_stripes; n++) ADD_STRIPE(in + STRIPE * n, key + 8 * n);
    ADD_STRIPE(last, key + SECRET - 71);
    _mm512_storeu_si512(sum, s);
}
#undef ADD_STRIPE
#else
static void CONSUME(ISA)(uint64_t *sum, const uint8_t *in, int64_t n_blocks, int n_stripes, const uint8_t *last,
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
#endif
#undef CONSUME
#undef CONSUME_
