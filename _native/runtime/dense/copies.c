/* Parallel copies of several large arrays. Most of the time is spent on page faults of fresh memory, which threads
 * take in parallel. */
#include "common.h"

#include "copies.h"
#include "copies_api.h"
#include "pool_api.h"

/* Bytes of a unit of work, all arrays together; maximum number of arrays. */
enum { PIECE = 1 << 16, MAX_BLOCKS = 8 };

typedef struct {
    const uintptr_t *from, *to;
    const int64_t *bytes;
    int64_t n_pieces;
    int n;
    asp_copied copied;
    void *context;
} copied_blocks;

/* Pool task: copy the units [begin, end). */
static void copy_pieces(void *context, int64_t begin, int64_t end)
{
    const copied_blocks *all = context;
    for (int64_t piece = begin; piece < end; piece++) {
        for (int at = 0; at < all->n; ++at) {
            const int64_t first = asp_piece_begin(all->bytes[at], piece, all->n_pieces);
            const int64_t last = asp_piece_begin(all->bytes[at], piece + 1, all->n_pieces);
            if (first < last)
                memcpy((char *)all->to[at] + first, (const char *)all->from[at] + first, (size_t)(last - first));
        }
        if (all->copied) all->copied(all->context, piece, all->n_pieces);
    }
}

int64_t asp_copy_pieces(int n, const uintptr_t *from, const uintptr_t *to, const int64_t *bytes, int n_threads,
                        asp_copied copied, void *context)
{
    copied_blocks all = {from, to, bytes, 0, n < MAX_BLOCKS ? n : MAX_BLOCKS, copied, context};
    int64_t n_bytes = 0;
    for (int at = 0; at < all.n; ++at) n_bytes += bytes[at];
    const int64_t n_pieces = all.n_pieces = (n_bytes + PIECE - 1) / PIECE;
    const int allowed = n_threads > 0 ? n_threads : asp_max_threads();
    const double serial_ns = 0.2 * (double)n_bytes; /* includes page faults of fresh memory */
    if (allowed <= 1 || n_pieces < 4) copy_pieces(&all, 0, n_pieces);
    else asp_parallel(copy_pieces, &all, n_pieces, 2, asp_max(2, n_pieces / (8 * allowed)), allowed, serial_ns);
    return n_pieces;
}

void asp_copy_blocks(int n, const uintptr_t *from, const uintptr_t *to, const int64_t *bytes, int n_threads)
{
    asp_copy_pieces(n, from, to, bytes, n_threads, NULL, NULL);
}
