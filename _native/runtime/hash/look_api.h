/* Hashes of chunks of some bytes, by which two looks at the same memory are compared: every byte and its place count.
 * A chunk's hash is the low half of its XXH3; nothing outside this process ever sees one. */
enum { ASP_LOOK_CHUNK = 65536 }; /* bytes; a power of two, so that no value lies in two chunks */
/* hashes[c]: of the bytes from c * chunk_bytes on, at most chunk_bytes of them; the last chunk may be shorter. Threads
 * share the chunks. */
void asp_look(const void *bytes, int64_t n_bytes, int64_t chunk_bytes, uint64_t *hashes, int n_threads);
/* The same of several pieces of memory at once. */
typedef struct asp_looked {
    const void *bytes;
    int64_t n_bytes;
    uint64_t *hashes;
} asp_looked;
void asp_look_at_all(const asp_looked *pieces, int n_pieces, int64_t chunk_bytes, int n_threads);
/* One hash of the whole memory: of the hashes of at most 256 chunks, where it is large. It is the same for any n_threads. */
uint64_t asp_look_low(const void *bytes, int64_t n_bytes, int n_threads);
