/* Change detection for arrays that other code may modify: one hash per chunk, computed by several threads. */
#include "common.h"

#include "hash_api.h"
#include "look_api.h"
#include "pool_api.h"

#define LOOK_BYTE_NS 0.03 /* rough time per byte on one thread; decides whether helper threads are woken */

/* Arguments of look_at_chunks. */
typedef struct {
    const asp_looked *pieces;
    int n_pieces;
    int64_t chunk_bytes;
} look_job;

/* Return the number of chunks of a piece. */
static int64_t chunks_of(const asp_looked *piece, int64_t chunk_bytes)
{
    return (piece->n_bytes + chunk_bytes - 1) / chunk_bytes;
}

/* Hash the chunks [begin, end), numbered consecutively over all pieces. */
static void look_at_chunks(void *context, int64_t begin, int64_t end)
{
    const look_job *job = context;
    int64_t first = 0;
    for (int at = 0; at < job->n_pieces && first < end; at++) {
        const asp_looked *piece = job->pieces + at;
        const int64_t n = chunks_of(piece, job->chunk_bytes);
        for (int64_t c = begin > first ? begin - first : 0; c < n && first + c < end; c++) {
            const int64_t from = c * job->chunk_bytes, left = piece->n_bytes - from;
            piece->hashes[c] = asp_xxh3_low((const char *)piece->bytes + from,
                                            left < job->chunk_bytes ? left : job->chunk_bytes);
        }
        first += n;
    }
}

void asp_look_at_all(const asp_looked *pieces, int n_pieces, int64_t chunk_bytes, int n_threads)
{
    look_job job = {pieces, n_pieces, chunk_bytes};
    int64_t n_chunks = 0, n_bytes = 0;
    for (int at = 0; at < n_pieces; at++) {
        n_chunks += chunks_of(pieces + at, chunk_bytes);
        n_bytes += pieces[at].n_bytes;
    }
    asp_parallel(look_at_chunks, &job, n_chunks, 1, n_chunks, n_threads, LOOK_BYTE_NS * (double)n_bytes);
}

void asp_look(const void *bytes, int64_t n_bytes, int64_t chunk_bytes, uint64_t *hashes, int n_threads)
{
    const asp_looked piece = {bytes, n_bytes, hashes};
    asp_look_at_all(&piece, 1, chunk_bytes, n_threads);
}

uint64_t asp_look_low(const void *bytes, int64_t n_bytes, int n_threads)
{
    enum { MAX_CHUNKS = 256 };
    uint64_t hashes[MAX_CHUNKS];
    if (n_bytes < 4 * ASP_LOOK_CHUNK) return asp_xxh3_low(bytes, n_bytes);
    /* Chunks of ASP_LOOK_CHUNK in one hashed chunk. */
    const int64_t chunks = (n_bytes - 1) / ASP_LOOK_CHUNK / MAX_CHUNKS + 1;
    const int64_t chunk_bytes = chunks * ASP_LOOK_CHUNK;
    asp_look(bytes, n_bytes, chunk_bytes, hashes, n_threads);
    return asp_xxh3_low(hashes, (n_bytes + chunk_bytes - 1) / chunk_bytes * (int64_t)sizeof *hashes);
}
