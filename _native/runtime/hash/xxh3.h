/* Constants and mixing steps of XXH3, named as in its specification. */
#ifndef ASP_XXH3_H
#define ASP_XXH3_H

#include "common.h"

#define XXH_P32_1 0x9E3779B1ULL
#define XXH_P32_2 0x85EBCA77ULL
#define XXH_P32_3 0xC2B2AE3DULL
#define XXH_P64_1 0x9E3779B185EBCA87ULL
#define XXH_P64_2 0xC2B2AE3D27D4EB4FULL
#define XXH_P64_3 0x165667B19E3779F9ULL
#define XXH_P64_4 0x85EBCA77C2B2AE63ULL
#define XXH_P64_5 0x27D4EB2F165667C5ULL
#define XXH_MX1 0x165667919E3779F9ULL
#define XXH_MX2 0x9FB21C651E98DF25ULL

extern const uint8_t asp_xxh3_secret[192];

/* Hash more than 240 bytes; the high half is computed only if `wide`. */
void asp_xxh3_long(const uint8_t *in, int64_t n_bytes, int wide, uint64_t *low_high);

ASP_INLINE uint64_t asp_read64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

ASP_INLINE uint32_t asp_read32(const uint8_t *p)
{
    uint32_t x;
    memcpy(&x, p, 4);
    return x;
}

/* The specification's XXH3_avalanche. */
ASP_INLINE uint64_t asp_avalanche(uint64_t x)
{
    x ^= x >> 37;
    x *= XXH_MX1;
    return x ^ x >> 32;
}

/* The specification's XXH64_avalanche. */
ASP_INLINE uint64_t asp_avalanche64(uint64_t x)
{
    x ^= x >> 33;
    x *= XXH_P64_2;
    x ^= x >> 29;
    x *= XXH_P64_3;
    return x ^ x >> 32;
}

/* Return the low half of the 128-bit product a * b and store the high half in *high. */
ASP_INLINE uint64_t asp_wide(uint64_t a, uint64_t b, uint64_t *high)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

/* Return the exclusive or of both halves of the 128-bit product a * b. */
ASP_INLINE uint64_t asp_fold(uint64_t a, uint64_t b)
{
    uint64_t high, low = asp_wide(a, b, &high);
    return low ^ high;
}

#endif
