/* XXH3 hash of n_bytes as the public specification defines it (bit for bit, no seed). asp_xxh3_128 stores all 128 bits
 * as {low, high}; asp_xxh3_low returns the low half. */
uint64_t asp_xxh3_low(const void *bytes, int64_t n_bytes);
void asp_xxh3_128(const void *bytes, int64_t n_bytes, uint64_t *low_high);
