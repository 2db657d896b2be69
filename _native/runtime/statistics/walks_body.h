/* Breadth-first walk for one index type; included by walks.c with INDEX and NAME(x) defined. */

/* Walk from row `start` and add to found[2 s] the distinct columns among the first sizes[s] entries, to found[2 s + 1]
 * their number. */
static void NAME(walk)(int64_t n_rows, const INDEX *indptr, const INDEX *indices, int64_t start, const int64_t *sizes,
                       int64_t n_sizes, asp_met *met, int64_t *queue, int64_t *found)
{
    int64_t head = 0, tail = 0, n_read = 0, n_met = 0, s = 0, next = start, n_passed = 0;
    while (s < n_sizes) {
        int64_t row;
        if (head < tail) {
            row = queue[head++];
        } else if (n_passed < n_rows) { /* everything reachable was read: continue with the next row */
            row = next;
            next = next + 1 < n_rows ? next + 1 : 0;
            n_passed++;
            if (indptr[row] == indptr[row + 1] || !asp_meets(met, row, IS_ROW))
                continue;
        } else {
            break;
        }
        for (int64_t e = indptr[row]; e < indptr[row + 1] && s < n_sizes; e++) {
            const int64_t column = indices[e];
            n_met += asp_meets(met, column, IS_COLUMN);
            if (column < n_rows && asp_meets(met, column, IS_ROW))
                queue[tail++] = column;
            if (++n_read == sizes[s]) {
                found[2 * s] += n_met;
                found[2 * s++ + 1] += n_read;
            }
        }
    }
    for (; s < n_sizes; s++) {
        found[2 * s] += n_met;
        found[2 * s + 1] += n_read;
    }
}
