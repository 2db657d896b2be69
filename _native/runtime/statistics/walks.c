/* Column reuse when rows are visited in breadth-first order. */
#include "common.h"

#include "walks_api.h"

enum { IS_ROW = 1, IS_COLUMN = 2 };

/* Open-addressing hash set of numbers: most patterns have far more columns than a walk visits. */
typedef struct {
    int64_t *keys; /* number + 1; 0: empty */
    /* IS_ROW and IS_COLUMN flags. */
    unsigned char *as;
    uint64_t mask;
} asp_met;

/* Insert `number` with the flag `what` and return whether it did not have that flag before. */
static inline int asp_meets(asp_met *met, int64_t number, unsigned char what)
{
    uint64_t at = ((uint64_t)number * 0x9E3779B97F4A7C15u >> 32) & met->mask;
    while (met->keys[at] && met->keys[at] != number + 1)
        at = (at + 1) & met->mask;
    met->keys[at] = number + 1;
    const int is_first = !(met->as[at] & what);
    met->as[at] |= what;
    return is_first;
}

#define BODY "walks_body.h"
#include "each_index.h"

int asp_walks(int itype, int64_t n_rows, const void *indptr, const void *indices, int64_t n_sizes, const void *sizes,
              int64_t n_walks, void *found)
{
    const int64_t *const ends = sizes;
    const int64_t largest = ends[n_sizes - 1];
    uint64_t room = 64;
    while (room < 4 * (uint64_t)largest) /* a walk meets an entry's column, and a row from which it restarts */
        room *= 2;
    int64_t *const queue = malloc((size_t)largest * sizeof *queue);
    asp_met met = {malloc(room * sizeof *met.keys), malloc(room), room - 1};
    const int is_out = !queue || !met.keys || !met.as;
    memset(found, 0, (size_t)(2 * n_sizes) * sizeof(int64_t));
    for (int64_t w = 0; w < n_walks && n_rows && !is_out; w++) {
        memset(met.keys, 0, room * sizeof *met.keys);
        memset(met.as, 0, room);
        const int64_t start = (w + 1) * (n_rows - 1) / (n_walks + 1);
        ASP_BY_INDEX(itype, walk, n_rows, indptr, indices, start, ends, n_sizes, &met, queue, found);
    }
    free(queue);
    free(met.keys);
    free(met.as);
    return is_out ? -1 : 0;
}
