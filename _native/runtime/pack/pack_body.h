/* Packing functions for one index type; included by pack.c with INDEX and NAME(x) defined. */

/* Turn the lengths of n rows at pos[1] .. pos[n] into the positions where the rows begin. */
static void NAME(sum_up)(INDEX *pos, int64_t n)
{
    pos[0] = 0;
    for (int64_t at = 0; at < n; at++)
        pos[at + 1] += pos[at];
}

/* Count the r x c blocks of the block rows begin .. end into pos[i1 + 1] (unless pos is NULL) and return their sum.
 * `stamp` has one zeroed element per block column. */
static int64_t NAME(count_blocks)(const asp_pattern *a, asp_divisor c, int64_t r, int64_t begin, int64_t end,
                                  int64_t *stamp, INDEX *pos)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    int64_t total = 0;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t last = (i1 + 1) * r < a->n_rows ? (i1 + 1) * r : a->n_rows;
        int64_t n = 0;
        for (int64_t p = indptr[i1 * r]; p < indptr[last]; p++) {
            const int64_t k1 = asp_quotient(indices[p], c);
            n += stamp[k1] != i1 + 1;
            stamp[k1] = i1 + 1;
        }
        if (pos)
            pos[i1 + 1] = (INDEX)n;
        total += n;
    }
    return total;
}

/* Write the block columns of block rows begin .. end in ascending order. `stamp` holds three times n_columns (block
 * columns) elements, zeroed. */
static void NAME(list_blocks)(const asp_pattern *a, const asp_blocks *b, int64_t begin, int64_t end, int64_t *stamp,
                              int64_t n_columns)
{
    const INDEX *indptr = a->indptr, *indices = a->indices, *pos = b->pos;
    int64_t *const found = stamp + n_columns;
    for (int64_t i1 = begin; i1 < end; i1++) {
        const int64_t last = (i1 + 1) * b->r < a->n_rows ? (i1 + 1) * b->r : a->n_rows;
        int64_t n_found = 0, n = pos[i1];
        int ascending = 1;
        for (int64_t p = indptr[i1 * b->r]; p < indptr[last]; p++) {
            const int64_t k1 = asp_quotient(indices[p], b->c);
            if (stamp[k1] == i1 + 1)
                continue;
            stamp[k1] = i1 + 1;
            ascending &= n_found == 0 || found[n_found - 1] < k1;
            found[n_found++] = k1;
        }
        if (!ascending)
            asp_merge_runs(found, n_found, found + n_columns);
        for (int64_t f = 0; f < n_found; f++)
            asp_put(b->crd, b->bits, n++, found[f]);
    }
}

/* Write the values of the blocks of block rows begin .. end to vals[block * size + i0 * step_i + k0 * step_k];
 * repeated entries are summed. */
#define FILL_BLOCKS(SUFFIX, TYPE)                                                                                    \
    static void NAME(fill_blocks_##SUFFIX)(const asp_pattern *a, const asp_blocks *b, int64_t begin, int64_t end,     \
                                           int64_t *slot, TYPE *vals)                                                \
    {                                                                                                                \
        const INDEX *indptr = a->indptr, *indices = a->indices, *pos = b->pos;                                       \
        const TYPE *data = a->data;                                                                                  \
        memset(vals + pos[begin] * b->size, 0, (size_t)((pos[end] - pos[begin]) * b->size) * sizeof(TYPE));          \
        for (int64_t i1 = begin; i1 < end; i1++) {                                                                   \
            const int64_t row = i1 * b->r, last = row + b->r < a->n_rows ? row + b->r : a->n_rows;                   \
            for (int64_t q = pos[i1]; q < pos[i1 + 1]; q++)                                                          \
                slot[asp_get(b->crd, b->bits, q)] = q;                                                               \
            for (int64_t i = row; i < last; i++)                                                                     \
                for (int64_t p = indptr[i]; p < indptr[i + 1]; p++) {                                                \
                    const int64_t k1 = asp_quotient(indices[p], b->c), k0 = indices[p] - k1 * b->c.by;               \
                    vals[slot[k1] * b->size + (i - row) * b->step_i + k0 * b->step_k] += data[p];                    \
                }                                                                                                    \
        }                                                                                                            \
    }
ASP_EACH_DTYPE(FILL_BLOCKS)
#undef FILL_BLOCKS

/* Process one part of an asp_blocks_job; `scratch` is the part's own. */
static void NAME(do_part)(asp_blocks_job *job, int64_t part, int64_t *scratch)
{
    const int64_t n_i1 = (job->a->n_rows + job->b->r - 1) / job->b->r;
    const int64_t begin = n_i1 * part / job->n_parts, end = n_i1 * (part + 1) / job->n_parts;
    switch (job->what) {
    case ASP_COUNT:
        job->totals[part] = NAME(count_blocks)(job->a, job->b->c, job->b->r, begin, end, scratch, job->counts);
        break;
    case ASP_LIST: NAME(list_blocks)(job->a, job->b, begin, end, scratch, job->n_columns); break;
    default: ASP_BY_DTYPE(job->dtype, fill_blocks, job->a, job->b, begin, end, scratch, job->vals)
    }
}

/* Compute pos[panel * n_rows + row], where the row's entries in that panel begin. */
static void NAME(count_panels)(const asp_pattern *a, asp_divisor split, int64_t n_panels, INDEX *pos)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    memset(pos, 0, (size_t)(n_panels * a->n_rows + 1) * sizeof(INDEX));
    for (int64_t row = 0; row < a->n_rows; row++)
        for (int64_t p = indptr[row]; p < indptr[row + 1]; p++)
            pos[asp_quotient(indices[p], split) * a->n_rows + row + 1]++;
    NAME(sum_up)(pos, n_panels * a->n_rows);
}

/* Write the entries of all panels. Rows come in order, so each panel is written from its beginning to its end; crd may
 * be NULL. */
#define FILL_PANELS(SUFFIX, TYPE)                                                                                    \
    static void NAME(fill_panels_##SUFFIX)(const asp_pattern *a, asp_divisor split, int64_t *next, int bits, void *crd, \
                                           TYPE *vals)                                                               \
    {                                                                                                                \
        const INDEX *indptr = a->indptr, *indices = a->indices;                                                      \
        const TYPE *data = a->data;                                                                                  \
        for (int64_t p = 0; p < indptr[a->n_rows]; p++) {                                                            \
            const int64_t k1 = asp_quotient(indices[p], split), q = next[k1]++;                                      \
            if (crd)                                                                                                 \
                asp_put(crd, bits, q, indices[p] - k1 * split.by);                                                   \
            vals[q] = data[p];                                                                                       \
        }                                                                                                            \
    }
ASP_EACH_DTYPE(FILL_PANELS)
#undef FILL_PANELS

static void NAME(fill_panels)(int dtype, const asp_pattern *a, asp_divisor split, int64_t n_panels, const INDEX *pos,
                              int64_t *next, int bits, void *crd, void *vals)
{
    for (int64_t k1 = 0; k1 < n_panels; k1++)
        next[k1] = pos[k1 * a->n_rows];
    ASP_BY_DTYPE(dtype, fill_panels, a, split, next, bits, crd, vals)
}
