/* XXH3 of n_bytes, as the public specification defines it (bit for bit): 64 bits, or 128 as {low, high}. */
uint64_t asp_xxh3_64(const void *bytes, int64_t n_bytes, uint64_t seed);
void asp_xxh3_128(const void *bytes, int64_t n_bytes, uint64_t seed, uint64_t *low_high);
