/* MTTKRP over the levels of a tensor: see csf.c. Columns are taken a few vectors at a time, whole rows for each. */

#define IDS(d) ((const I *)t->csf->ids[d])
#define PTR(d) ((const I *)t->csf->ptr[d])
#define FACTOR(d, p) ((const R *)t->factors[d] + (int64_t)IDS(d)[p] * t->ld[d] + t->column)

/* sum[0..V) = sum of value * factor row over the leaves [p, end) */
#define LEAVES(V)                                                                                        \
    ASP_INLINE void NAME(leaves##V)(const csf_task *t, int64_t last, int64_t p, int64_t end, VEC *sum)   \
    {                                                                                                    \
        const R *values = t->csf->values;                                                                \
        VEC even[V], odd[V];                                                                             \
        ASP_UNROLL for (int v = 0; v < V; ++v) even[v] = odd[v] = (VEC){0};                              \
        for (; p + 2 <= end; p += 2) {                                                                   \
            const R *a = FACTOR(last, p), *b = FACTOR(last, p + 1);                                      \
            if (t->ahead && p + t->ahead + 1 < t->n_leaves) {                                            \
                __builtin_prefetch(FACTOR(last, p + t->ahead));                                          \
                __builtin_prefetch(FACTOR(last, p + t->ahead + 1));                                      \
            }                                                                                            \
            ASP_UNROLL for (int v = 0; v < V; ++v) {                                                     \
                even[v] += values[p] * LOAD(a + v * W);                                                  \
                odd[v] += values[p + 1] * LOAD(b + v * W);                                               \
            }                                                                                            \
        }                                                                                                \
        if (p < end) {                                                                                   \
            const R *a = FACTOR(last, p);                                                                \
            if (t->ahead && p + t->ahead < t->n_leaves) __builtin_prefetch(FACTOR(last, p + t->ahead));  \
            ASP_UNROLL for (int v = 0; v < V; ++v) even[v] += values[p] * LOAD(a + v * W);               \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = even[v] + odd[v];                                \
    }

/* sum[0..V) = what the nodes [p, end) of level d contribute: the factor row of each times the sum over its children. */
#define NODES(V)                                                                                         \
    static void NAME(nodes##V)(const csf_task *t, int64_t d, int64_t p, int64_t end, VEC *sum)           \
    {                                                                                                    \
        const int64_t last = t->csf->n_modes - 1;                                                        \
        if (d == last) {                                                                                 \
            NAME(leaves##V)(t, last, p, end, sum);                                                       \
            return;                                                                                      \
        }                                                                                                \
        VEC total[V];                                                                                    \
        ASP_UNROLL for (int v = 0; v < V; ++v) total[v] = (VEC){0};                                      \
        const I *ptr = PTR(d);                                                                           \
        for (; p < end; ++p) {                                                                           \
            VEC below[V];                                                                                \
            const R *row = FACTOR(d, p);                                                                 \
            if (t->ahead && p + 4 < t->csf->n_nodes[d]) __builtin_prefetch(FACTOR(d, p + 4));            \
            if (d + 1 == last) NAME(leaves##V)(t, last, ptr[p], ptr[p + 1], below);                      \
            else NAME(nodes##V)(t, d + 1, ptr[p], ptr[p + 1], below);                                    \
            ASP_UNROLL for (int v = 0; v < V; ++v) total[v] += LOAD(row + v * W) * below[v];             \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = total[v];                                        \
    }
LEAVES(1)
LEAVES(2)
LEAVES(4)
NODES(1)
NODES(2)
NODES(4)
#undef LEAVES
#undef NODES

/* sum[0..V) = sum over the entries [p, end) of a flat tensor of value * product of its n - 1 factor rows. */
#define FLAT(V)                                                                                          \
    ASP_INLINE void NAME(flat##V)(const csf_task *t, const int64_t n, int64_t p, int64_t end, VEC *sum)  \
    {                                                                                                    \
        const R *values = t->csf->values;                                                                \
        const int64_t ahead = t->ahead, soon = t->n_leaves - ahead;                                      \
        VEC total[V];                                                                                    \
        ASP_UNROLL for (int v = 0; v < V; ++v) total[v] = (VEC){0};                                      \
        for (; p < end; ++p) {                                                                           \
            VEC x[V];                                                                                    \
            const R *first = FACTOR(1, p);                                                               \
            if (ahead && p < soon)                                                                       \
                for (int64_t d = 1; d < n; ++d) __builtin_prefetch(FACTOR(d, p + ahead));                \
            ASP_UNROLL for (int v = 0; v < V; ++v) x[v] = values[p] * LOAD(first + v * W);               \
            for (int64_t d = 2; d < n; ++d) {                                                            \
                const R *row = FACTOR(d, p);                                                             \
                ASP_UNROLL for (int v = 0; v < V; ++v) x[v] *= LOAD(row + v * W);                        \
            }                                                                                            \
            ASP_UNROLL for (int v = 0; v < V; ++v) total[v] += x[v];                                     \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = total[v];                                        \
    }                                                                                                    \
    static ASP_NOINLINE void NAME(entries##V)(const csf_task *t, int64_t p, int64_t end, VEC *sum)       \
    {                                                                                                    \
        switch (t->csf->n_modes) {                                                                       \
        case 3: NAME(flat##V)(t, 3, p, end, sum); return;                                                \
        case 4: NAME(flat##V)(t, 4, p, end, sum); return;                                                \
        default: NAME(flat##V)(t, t->csf->n_modes, p, end, sum);                                         \
        }                                                                                                \
    }                                                                                                    \
    ASP_INLINE void NAME(block##V)(const csf_task *t, int64_t p, int64_t end, R *to)                     \
    {                                                                                                    \
        VEC sum[V];                                                                                      \
        if (t->csf->is_flat) NAME(entries##V)(t, p, end, sum);                                           \
        else NAME(nodes##V)(t, 1, p, end, sum);                                                          \
        ASP_UNROLL for (int v = 0; v < V; ++v) STORE(to + v * W, sum[v]);                                \
    }
FLAT(1)
FLAT(2)
FLAT(4)
#undef FLAT

/* The same for n < W columns. */
static void NAME(few)(const csf_task *t, int64_t d, int64_t p, int64_t end, int64_t n, R *sum)
{
    const int64_t last = t->csf->n_modes - 1;
    for (int64_t j = 0; j < n; ++j) sum[j] = 0;
    for (; p < end; ++p) {
        const R *row = FACTOR(d, p);
        if (d == last) {
            const R value = ((const R *)t->csf->values)[p];
            for (int64_t j = 0; j < n; ++j) sum[j] += value * row[j];
        } else if (t->csf->is_flat) {
            R product[W];
            for (int64_t j = 0; j < n; ++j) product[j] = ((const R *)t->csf->values)[p] * row[j];
            for (int64_t e = 2; e <= last; ++e)
                for (int64_t j = 0; j < n; ++j) product[j] *= FACTOR(e, p)[j];
            for (int64_t j = 0; j < n; ++j) sum[j] += product[j];
        } else {
            R below[W];
            NAME(few)(t, d + 1, PTR(d)[p], PTR(d)[p + 1], n, below);
            for (int64_t j = 0; j < n; ++j) sum[j] += row[j] * below[j];
        }
    }
}

/* row[0..rank) = what the children [p, end) of one row contribute. Columns beyond whole vectors are computed by a vector
 * that ends with the last one: what it computes again comes out the same. */
ASP_INLINE void NAME(one_row)(csf_task *t, int64_t p, int64_t end, R *row)
{
    int64_t j = 0;
    if (t->rank < W) {
        NAME(few)(t, 1, p, end, t->rank, row);
        return;
    }
    for (; j + 4 * W <= t->rank; j += 4 * W) {
        t->column = j;
        NAME(block4)(t, p, end, row + j);
    }
    if (j + 2 * W <= t->rank) {
        t->column = j;
        NAME(block2)(t, p, end, row + j);
        j += 2 * W;
    }
    if (j + W <= t->rank) {
        t->column = j;
        NAME(block1)(t, p, end, row + j);
        j += W;
    }
    if (j < t->rank) {
        t->column = t->rank - W;
        NAME(block1)(t, p, end, row + t->column);
    }
}

static void NAME(csf_part)(const csf_task *task, int64_t p, int64_t end, void *to)
{
    csf_task here = *task;
    NAME(one_row)(&here, p, end, to);
}

/* Rows [begin, end) of level 0, and the rows without entries before each of them. */
static void NAME(csf_rows)(const csf_task *task, int64_t begin, int64_t end)
{
    csf_task here = *task, *t = &here;
    int64_t next = begin ? (int64_t)IDS(0)[begin - 1] + 1 : 0;
    for (int64_t p = begin; p < end; ++p) {
        const int64_t i = IDS(0)[p];
        if (next < i) clear_rows(t, next, i);
        next = i + 1;
        NAME(one_row)(t, PTR(0)[p], PTR(0)[p + 1], (R *)t->M + i * t->ldm);
    }
}
#undef IDS
#undef PTR
#undef FACTOR
