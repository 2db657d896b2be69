/* Compute dst[to[e]] = src[from[e]] for the entries [begin, end), whose target positions must be distinct. Values have
 * value_bytes 1, 2, 4, 8 or 16. `from` and `to` have the index types from_type and to_type (0 int32, 1 int64); NULL
 * means e itself. Returns 0, or -1 for another value_bytes. */
int asp_refill(int value_bytes, int from_type, const void *from, int to_type, const void *to, const void *src, void *dst,
               int64_t begin, int64_t end, int n_threads);
/* Compute the positions of n entries from `found`, the packed copy of the numbers 1 .. n with zeros as padding: to[e]
 * of the index type to_type. Returns 1 if every entry e is at e, 0 if not, and -1 if entries share a position (`to` is
 * unspecified then). */
int asp_places(const double *found, int64_t n_found, int64_t n, int to_type, void *to);
