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

#include ASP_INTRINSICS

#define ISA_BODY "xxh3_body.h"
#include "each_isa.h"

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
    static const consume versions[] = ASP_ISA_TABLE(consume);
    versions[asp_isa()](sum, in, n_blocks, n_stripes, in + n_bytes - STRIPE, key);
    low_high[0] = merge(sum, key + 11, (uint64_t)n_bytes * XXH_P64_1);
    if (wide) low_high[1] = merge(sum, key + SECRET - 75, ~((uint64_t)n_bytes * XXH_P64_2));
}
