/* XXH3 without a seed, written from the public specification (xxHash, doc/xxhash_spec.md). Inputs of up to 240 bytes
 * are hashed here, longer ones in xxh3_long.c. Assumes a little-endian machine. */
#include "xxh3.h"

#include "hash_api.h"

/* The specification's default secret. */
const uint8_t asp_xxh3_secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static const uint8_t *const secret = asp_xxh3_secret;

static uint64_t word(const uint8_t *p) { return asp_read64(p); }

/* The specification's mixing step of 16 input bytes with 16 bytes of the secret. */
static uint64_t mix(const uint8_t *in, int offset)
{
    return asp_fold(word(in) ^ word(secret + offset), word(in + 8) ^ word(secret + offset + 8));
}

/* Hash up to 16 bytes; `out` receives {low, high}. */
static void up_to_16(const uint8_t *in, int64_t n, uint64_t *out)
{
    if (n == 0) {
        out[0] = asp_avalanche64(word(secret + 64) ^ word(secret + 72));
        out[1] = asp_avalanche64(word(secret + 80) ^ word(secret + 88));
    } else if (n <= 3) {
        const uint32_t x = (uint32_t)in[n - 1] | (uint32_t)n << 8 | (uint32_t)in[0] << 16 | (uint32_t)in[n >> 1] << 24;
        const uint32_t y = __builtin_bswap32(x);
        out[0] = asp_avalanche64(asp_read32(secret) ^ asp_read32(secret + 4) ^ x);
        out[1] = asp_avalanche64(asp_read32(secret + 8) ^ asp_read32(secret + 12) ^ (y << 13 | y >> 19));
    } else if (n <= 8) {
        const uint64_t x = (uint64_t)asp_read32(in) | (uint64_t)asp_read32(in + n - 4) << 32;
        uint64_t low, high;
        low = asp_wide(word(secret + 16) ^ word(secret + 24) ^ x, XXH_P64_1 + ((uint64_t)n << 2), &high);
        high += low << 1;
        low ^= high >> 3;
        low ^= low >> 35;
        low *= XXH_MX2;
        out[0] = low ^ low >> 28;
        out[1] = asp_avalanche(high);
    } else {
        const uint64_t first = word(in), last = word(in + n - 8);
        const uint64_t a = word(secret + 32) ^ word(secret + 40) ^ first ^ last;
        const uint64_t b = word(secret + 48) ^ word(secret + 56) ^ last;
        uint64_t high, carry, low = asp_wide(a, XXH_P64_1, &high);
        low += (uint64_t)(n - 1) << 54;
        high += b + (uint64_t)(uint32_t)b * (XXH_P32_2 - 1);
        low = asp_wide(low ^ __builtin_bswap64(high), XXH_P64_2, &carry);
        out[0] = asp_avalanche(low);
        out[1] = asp_avalanche(carry + high * XXH_P64_2);
    }
}

/* Mix 16 bytes at a and 16 bytes at b into the two accumulators. */
static void mix_two(uint64_t *sum, const uint8_t *a, const uint8_t *b, int offset)
{
    sum[0] = (sum[0] + mix(a, offset)) ^ (word(b) + word(b + 8));
    sum[1] = (sum[1] + mix(b, offset + 16)) ^ (word(a) + word(a + 8));
}

/* Hash 17 to 240 bytes; `out` receives {low, high}. */
static void up_to_240(const uint8_t *in, int64_t n, uint64_t *out)
{
    uint64_t sum[2] = {(uint64_t)n * XXH_P64_1, 0};
    if (n <= 128) {
        for (int i = (int)((n - 1) >> 5); i >= 0; i--) mix_two(sum, in + 16 * i, in + n - 16 * i - 16, 32 * i);
    } else {
        for (int i = 0; i < 4; i++) mix_two(sum, in + 32 * i, in + 32 * i + 16, 32 * i);
        sum[0] = asp_avalanche(sum[0]);
        sum[1] = asp_avalanche(sum[1]);
        for (int i = 4; i < (int)(n >> 5); i++) mix_two(sum, in + 32 * i, in + 32 * i + 16, 32 * (i - 4) + 3);
        mix_two(sum, in + n - 16, in + n - 32, 103);
    }
    out[0] = asp_avalanche(sum[0] + sum[1]);
    out[1] = 0 - asp_avalanche(sum[0] * XXH_P64_1 + sum[1] * XXH_P64_4 + (uint64_t)n * XXH_P64_2);
}

/* Hash n_bytes; the high half is valid if `wide` or for up to 240 bytes. */
static void hash(const void *bytes, int64_t n_bytes, int wide, uint64_t *low_high)
{
    if (n_bytes <= 16) up_to_16(bytes, n_bytes, low_high);
    else if (n_bytes <= 240) up_to_240(bytes, n_bytes, low_high);
    else asp_xxh3_long(bytes, n_bytes, wide, low_high);
}

uint64_t asp_xxh3_low(const void *bytes, int64_t n_bytes)
{
    uint64_t low_high[2];
    hash(bytes, n_bytes, 0, low_high);
    return low_high[0];
}

void asp_xxh3_128(const void *bytes, int64_t n_bytes, uint64_t *low_high) { hash(bytes, n_bytes, 1, low_high); }
