/* Parallel copies of several large arrays. Most of the time is spent on page faults of fresh memory, which threads
 * take in parallel. */
#include "common.h"

#include "copies_api.h"
#include "pool_api.h"

/* Bytes of a unit of work; maximum number of arrays. */
enum { PIECE = 1 << 16, MAX_BLOCKS = 8 };

/* One array; first_piece numbers its units consecutively over all arrays. */
typedef struct {
    const char *from;
    char *to;
    int64_t bytes, first_piece;
} copied_block;

typedef struct {
    int n;
    copied_block blocks[MAX_BLOCKS];
} copied_blocks;

/* Pool task: copy the units [begin, end). */
static void copy_pieces(void *context, int64_t begin, int64_t end)
{
    const copied_blocks *all = context;
    for (int at = 0; at < all->n; ++at) {
        const copied_block *one = all->blocks + at;
        const int64_t first = asp_max(begin - one->first_piece, 0) * PIECE;
        const int64_t last = asp_min((end - one->first_piece) * PIECE, one->bytes);
        if (first < last) memcpy(one->to + first, one->from + first, (size_t)(last - first));
    }
}

void asp_copy_blocks(int n, const uintptr_t *from, const uintptr_t *to, const int64_t *bytes, int n_threads)
{
    copied_blocks all = {.n = n < MAX_BLOCKS ? n : MAX_BLOCKS};
    int64_t n_pieces = 0, n_bytes = 0;
    for (int at = 0; at < all.n; ++at) {
        all.blocks[at] = (copied_block){(const char *)from[at], (char *)to[at], bytes[at], n_pieces};
        n_pieces += (bytes[at] + PIECE - 1) / PIECE;
        n_bytes += bytes[at];
    }
    const int allowed = n_threads > 0 ? n_threads : asp_max_threads();
    const double serial_ns = 0.2 * (double)n_bytes; /* includes page faults of fresh memory */
    if (allowed <= 1 || n_pieces < 4) copy_pieces(&all, 0, n_pieces);
    else asp_parallel(copy_pieces, &all, n_pieces, 2, asp_max(2, n_pieces / (8 * allowed)), allowed, serial_ns);
}
