/* XXH3 of n_bytes, 128 bits as {low, high}, as the public specification defines it (bit for bit), or the low half alone. */
uint64_t asp_xxh3_low(const void *bytes, int64_t n_bytes);
void asp_xxh3_128(const void *bytes, int64_t n_bytes, uint64_t *low_high);
