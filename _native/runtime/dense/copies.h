/* Parallel copies of arrays in pieces. A piece is the same fraction of every array, so that the thread that copies some
 * rows of a matrix also multiplies them. */
#ifndef ASP_COPIES_H
#define ASP_COPIES_H

/* Function that is called after piece number `piece` of `n_pieces` was copied, by the thread that copied it. */
typedef void (*asp_copied)(void *context, int64_t piece, int64_t n_pieces);

/* Return the byte at which a piece of an array of `bytes` bytes begins, a multiple of 64; `bytes` for piece n_pieces. */
static inline int64_t asp_piece_begin(int64_t bytes, int64_t piece, int64_t n_pieces)
{
    if (piece >= n_pieces) return bytes;
    return (bytes / n_pieces * piece + bytes % n_pieces * piece / n_pieces) / 64 * 64;
}

/* Copy as asp_copy_blocks does, and call `copied` (or NULL) after each piece; return the number of pieces. */
int64_t asp_copy_pieces(int n, const uintptr_t *from, const uintptr_t *to, const int64_t *bytes, int n_threads,
                        asp_copied copied, void *context);

#endif
