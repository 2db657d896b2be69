/* New values of a packed copy: dst[to[e]] = src[from[e]] for the entries [begin, end), whose places are all different.
 * Values have value_bytes 1, 2, 4, 8 or 16. `from` and `to` are of the index types `from_type` and `to_type` (0 int32,
 * 1 int64); NULL: entry e itself. Returns 0, or -1 for another value_bytes. */
int asp_refill(int value_bytes, int from_type, const void *from, int to_type, const void *to, const void *src, void *dst,
               int64_t begin, int64_t end, int n_threads);
/* Where n entries lie whose numbers, from 1 on, were packed as `found`, zeros between them: to[e] of the index type
 * `to_type`. Returns 1 where every entry e is at e, 0 where not, -1 where some share a place (then `to` is of no use). */
int asp_places(const double *found, int64_t n_found, int64_t n, int to_type, void *to);
