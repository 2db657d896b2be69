/* Copy n (at most 8) blocks of memory, bytes[i] bytes from from[i] to to[i], on at most n_threads threads (0:
 * asp_max_threads()). Sources and targets must not overlap. */
void asp_copy_blocks(int n, const uintptr_t *from, const uintptr_t *to, const int64_t *bytes, int n_threads);
