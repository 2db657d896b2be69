/* Hashes of memory chunks, by which a later call detects that the memory has changed: every byte and its position
 * count. The hash of a chunk is the low half of its XXH3. Hashes are used within this process only. */
enum { ASP_LOOK_CHUNK = 65536 }; /* bytes; a power of two, so that no value lies in two chunks */
/* Hash `n_bytes` bytes on up to n_threads threads. hashes[c] receives the hash of chunk c, which begins at c *
 * chunk_bytes; the last chunk may be shorter. */
void asp_look(const void *bytes, int64_t n_bytes, int64_t chunk_bytes, uint64_t *hashes, int n_threads);
/* One memory block of asp_look_at_all, which hashes several blocks as asp_look does; `hashes` has one element per
 * chunk. */
typedef struct asp_looked {
    const void *bytes;
    int64_t n_bytes;
    uint64_t *hashes;
} asp_looked;
void asp_look_at_all(const asp_looked *pieces, int n_pieces, int64_t chunk_bytes, int n_threads);
/* Return one hash of the whole memory; large memory is hashed as at most 256 chunks, whose hashes are hashed. The
 * result does not depend on n_threads. */
uint64_t asp_look_low(const void *bytes, int64_t n_bytes, int n_threads);
