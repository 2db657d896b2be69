/* Columns and values of slices for one index type; included by pack_slices.c with INDEX and NAME(x) defined. Padding
 * slots hold the value zero and the row's last column or, in an empty row, a column of another lane, so padding reads
 * only elements of the operand that are read anyway. */

/* Return some column of a slice: the first column of its first nonempty lane, or `none`. */
static int64_t NAME(any_column)(const asp_pattern *a, int64_t row0, const int32_t *rows, int64_t lanes, int64_t none)
{
    const INDEX *indptr = a->indptr, *indices = a->indices;
    for (int64_t lane = 0; lane < lanes; lane++) {
        const int64_t row = rows ? rows[lane] : row0 + lane;
        if (row < a->n_rows && indptr[row] < indptr[row + 1])
            return indices[indptr[row]];
    }
    return none;
}

/* Write the columns of a slice, as type CRD, relative to `base`. */
#define FILL_COLUMNS(BITS, CRD)                                                                                      \
    static void NAME(fill_columns_##BITS)(const asp_pattern *a, int64_t row0, const int32_t *rows, int64_t lanes,  \
                                          int64_t n_slots, int64_t base, CRD *crd)                                   \
    {                                                                                                                \
        const INDEX *indptr = a->indptr, *indices = a->indices;                                                      \
        const int64_t any = NAME(any_column)(a, row0, rows, lanes, base);                                            \
        for (int64_t lane = 0; lane < lanes; lane++) {                                                               \
            const int64_t row = rows ? rows[lane] : row0 + lane;                                                     \
            const int64_t low = row < a->n_rows ? indptr[row] : 0;                                                   \
            const int64_t n = row < a->n_rows ? indptr[row + 1] - low : 0;                                           \
            const CRD last = (CRD)((n ? indices[low + n - 1] : any) - base);                                         \
            for (int64_t slot = 0; slot < n; slot++)                                                                 \
                crd[slot * lanes + lane] = (CRD)(indices[low + slot] - base);                                        \
            for (int64_t slot = n; slot < n_slots; slot++)                                                           \
                crd[slot * lanes + lane] = last;                                                                     \
        }                                                                                                            \
    }
FILL_COLUMNS(16, uint16_t)
FILL_COLUMNS(32, int32_t)
#undef FILL_COLUMNS

/* Write the values of one slice. */
#define FILL_VALUES(SUFFIX, TYPE)                                                                                    \
    static void NAME(fill_gathers_##SUFFIX)(const asp_pattern *a, int64_t row0, const int32_t *rows, int64_t lanes, \
                                            int64_t n_slots, TYPE *vals)                                             \
    {                                                                                                                \
        const INDEX *indptr = a->indptr;                                                                             \
        const TYPE *data = a->data;                                                                                  \
        for (int64_t lane = 0; lane < lanes; lane++) {                                                               \
            const int64_t row = rows ? rows[lane] : row0 + lane;                                                     \
            const int64_t low = row < a->n_rows ? indptr[row] : 0;                                                   \
            const int64_t n = row < a->n_rows ? indptr[row + 1] - low : 0;                                           \
            for (int64_t slot = 0; slot < n; slot++)                                                                 \
                vals[slot * lanes + lane] = data[low + slot];                                                        \
            for (int64_t slot = n; slot < n_slots; slot++)                                                           \
                vals[slot * lanes + lane] = 0;                                                                       \
        }                                                                                                            \
    }                                                                                                                \
    static void NAME(fill_diagonals_##SUFFIX)(const asp_pattern *a, int64_t row, int64_t lanes, int64_t n_slots,   \
                                              const int32_t *firsts, TYPE *vals)                                     \
    {                                                                                                                \
        const INDEX *indptr = a->indptr, *indices = a->indices;                                                      \
        const TYPE *data = a->data;                                                                                  \
        memset(vals, 0, (size_t)(n_slots * lanes) * sizeof(TYPE));                                                   \
        for (int64_t lane = 0; lane < lanes; lane++) {                                                               \
            int64_t slot = -1;                                                                                       \
            for (int64_t p = indptr[row + lane]; p < indptr[row + lane + 1]; p++) {                                  \
                slot = asp_place_of_diagonal(firsts, n_slots, slot + 1, indices[p] - lane);                          \
                vals[slot * lanes + lane] += data[p];                                                                \
            }                                                                                                        \
        }                                                                                                            \
    }                                                                                                                \
    static void NAME(fill_slices_##SUFFIX)(const asp_pattern *a, const asp_sliced *s, int64_t begin, int64_t end,  \
                                           TYPE *vals)                                                               \
    {                                                                                                                \
        const INDEX *pos = s->pos;                                                                                   \
        const int64_t lanes = s->lanes;                                                                              \
        for (int64_t at = begin; at < end; at++) {                                                                   \
            int64_t row0;                                                                                            \
            const int32_t *rows = asp_lane_rows(s, at, &row0);                                                       \
            const int64_t n_slots = pos[at + 1] - pos[at];                                                           \
            if ((s->what[at] & ASP_KIND) == ASP_DIAGONAL)                                                            \
                NAME(fill_diagonals_##SUFFIX)                                                                        \
            (a, row0, lanes, n_slots, asp_wide_columns(s, at), vals + pos[at] * lanes);                              \
            else NAME(fill_gathers_##SUFFIX)(a, row0, rows, lanes, n_slots, vals + pos[at] * lanes);                 \
        }                                                                                                            \
    }
ASP_EACH_DTYPE(FILL_VALUES)
FILL_VALUES(4, uint8_t)
#undef FILL_VALUES

/* Write columns and values of a slice in one pass, because rows are short and the ends of their loops hard to
 * predict. */
#define FILL_SLICE(BITS, CRD, SUFFIX, TYPE)                                                                          \
    static void NAME(fill_slice_##BITS##_##SUFFIX)(const asp_pattern *a, int64_t row0, const int32_t *rows,        \
                                                   int64_t lanes, int64_t n_slots, int64_t base, CRD *crd,           \
                                                   TYPE *vals)                                                       \
    {                                                                                                                \
        const INDEX *indptr = a->indptr, *indices = a->indices;                                                      \
        const TYPE *data = a->data;                                                                                  \
        const int64_t any = NAME(any_column)(a, row0, rows, lanes, base);                                            \
        for (int64_t lane = 0; lane < lanes; lane++) {                                                               \
            const int64_t row = rows ? rows[lane] : row0 + lane;                                                     \
            const int64_t low = row < a->n_rows ? indptr[row] : 0;                                                   \
            const int64_t n = row < a->n_rows ? indptr[row + 1] - low : 0;                                           \
            const CRD last = (CRD)((n ? indices[low + n - 1] : any) - base);                                         \
            CRD *to = crd + lane;                                                                                    \
            TYPE *value = vals + lane;                                                                               \
            for (int64_t slot = 0; slot < n; slot++, to += lanes, value += lanes) {                                  \
                *to = (CRD)(indices[low + slot] - base);                                                             \
                *value = data[low + slot];                                                                           \
            }                                                                                                        \
            for (int64_t slot = n; slot < n_slots; slot++, to += lanes, value += lanes) {                            \
                *to = last;                                                                                          \
                *value = 0;                                                                                          \
            }                                                                                                        \
        }                                                                                                            \
    }
FILL_SLICE(16, uint16_t, 0, float)
FILL_SLICE(16, uint16_t, 1, double)
FILL_SLICE(16, uint16_t, 4, uint8_t)
#undef FILL_SLICE

/* Write the columns of the slices begin .. end. */
static void NAME(list_slices)(const asp_pattern *a, const asp_sliced *s, int64_t begin, int64_t end)
{
    const INDEX *pos = s->pos;
    for (int64_t at = begin; at < end; at++) {
        int64_t row0;
        const int32_t *rows = asp_lane_rows(s, at, &row0);
        const int64_t n_slots = pos[at + 1] - pos[at];
        const int64_t base = s->what[at] >> ASP_BASE_SHIFT;
        switch (s->what[at] & ASP_KIND) {
        case ASP_DIAGONAL:
            for (int64_t lane = 0, n = 0, n_moves = INT64_MAX; lane < s->lanes; lane++)
                n = NAME(add_diagonals)(a, row0 + lane, lane, asp_wide_columns(s, at), n, n_slots, &n_moves);
            break;
        case ASP_NARROW:
            NAME(fill_columns_16)(a, row0, rows, s->lanes, n_slots, base, (uint16_t *)s->crd + s->begin[at]);
            break;
        default: NAME(fill_columns_32)(a, row0, rows, s->lanes, n_slots, base, asp_wide_columns(s, at)); break;
        }
    }
}

/* Return the first slice of part `part` of `n_parts`; parts have about the same number of slots. */
static int64_t NAME(part_begin)(const INDEX *pos, int64_t n_slices, int64_t part, int64_t n_parts)
{
    const int64_t wanted = (int64_t)pos[n_slices] * part / n_parts;
    int64_t low = 0, high = n_slices;
    if (part == n_parts)
        return n_slices;
    while (low < high) { /* first slice that begins at `wanted` or later */
        const int64_t middle = (low + high) / 2;
        if (pos[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Write columns and values of the slices begin .. end in one pass if all have 16-bit columns, and return whether that
 * was done. */
static int NAME(fill_at_once)(const asp_slices_job *job, int64_t begin, int64_t end)
{
    const asp_sliced *s = job->s;
    const INDEX *pos = s->pos;
    if ((job->dtype > 1 && job->dtype != ASP_ENCODED) || job->crd_known)
        return 0;
    for (int64_t at = begin; at < end; at++)
        if ((s->what[at] & ASP_KIND) != ASP_NARROW)
            return 0;
    for (int64_t at = begin; at < end; at++) {
        int64_t row0;
        const int32_t *rows = asp_lane_rows(s, at, &row0);
        const int64_t n_slots = pos[at + 1] - pos[at], base = s->what[at] >> ASP_BASE_SHIFT;
        uint16_t *const crd = (uint16_t *)s->crd + s->begin[at];
        if (job->dtype == ASP_ENCODED)
            NAME(fill_slice_16_4)(job->a, row0, rows, s->lanes, n_slots, base, crd, (uint8_t *)job->vals + pos[at] * s->lanes);
        else if (job->dtype == 0)
            NAME(fill_slice_16_0)(job->a, row0, rows, s->lanes, n_slots, base, crd, (float *)job->vals + pos[at] * s->lanes);
        else
            NAME(fill_slice_16_1)(job->a, row0, rows, s->lanes, n_slots, base, crd, (double *)job->vals + pos[at] * s->lanes);
    }
    return 1;
}

/* Fill one part: the columns and then the values of a few slices at a time, while their entries are in the cache. */
static void NAME(fill_part)(asp_slices_job *job, int64_t part)
{
    const int64_t n_slices = (job->a->n_rows + job->s->lanes - 1) / job->s->lanes;
    const int64_t end = NAME(part_begin)(job->s->pos, n_slices, part + 1, job->n_parts);
    int64_t begin = NAME(part_begin)(job->s->pos, n_slices, part, job->n_parts);
    for (; begin < end; begin += ASP_SLICES_AT_ONCE) {
        const int64_t stop = begin + ASP_SLICES_AT_ONCE < end ? begin + ASP_SLICES_AT_ONCE : end;
        if (NAME(fill_at_once)(job, begin, stop))
            continue;
        if (!job->crd_known)
            NAME(list_slices)(job->a, job->s, begin, stop);
        if (job->dtype == ASP_ENCODED)
            NAME(fill_slices_4)(job->a, job->s, begin, stop, job->vals);
        else
            ASP_BY_DTYPE(job->dtype, fill_slices, job->a, job->s, begin, stop, job->vals)
    }
}
