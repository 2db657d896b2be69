/* MTTKRP over the levels of a tensor; see csf.c. A few vectors of columns are computed at a time, for all rows. Where
 * the number of levels is a compile-time constant, the state of the traversal stays in registers. */

/* A tensor as the traversals read it; factors begin at the columns that are computed. */
typedef struct {
    const I *ids[ASP_MAX_MODES], *ptr[ASP_MAX_MODES];
    const R *factors[ASP_MAX_MODES], *values;
    /* Prefetching applies to leaves before `soon`, and to nodes before nodes_soon. */
    int64_t ld[ASP_MAX_MODES], ahead, soon;
    int64_t nodes_soon[ASP_MAX_MODES];
    int64_t tail; /* column of the last vector; it may overlap the one before, and ends with the last column */
#if VBYTES == 32
    VINT mask; /* lanes of the only vector that are columns */
#endif
} NAME(tensor);

/* GET and PUT: load or store vector v of V at p. The last one begins at t->tail. With 32-byte vectors an only vector is masked. */
#if VBYTES == 32 && IS_FLOAT
#define GET_MASKED(p) ((VEC)_mm256_maskload_ps(p, (__m256i)t->mask))
#define PUT_MASKED(p, x) _mm256_maskstore_ps(p, (__m256i)t->mask, (__m256)(x))
#elif VBYTES == 32
#define GET_MASKED(p) ((VEC)_mm256_maskload_pd(p, (__m256i)t->mask))
#define PUT_MASKED(p, x) _mm256_maskstore_pd(p, (__m256i)t->mask, (__m256d)(x))
#else
#define GET_MASKED(p) LOAD(p)
#define PUT_MASKED(p, x) STORE(p, x)
#endif
#define VECTOR(p, v, V) ((p) + ((v) == (V) - 1 ? t->tail : (v) * W))
#define GET(p, v, V) (VBYTES == 32 && (V) == 1 ? GET_MASKED(p) : LOAD(VECTOR(p, v, V)))
#define PUT(p, v, V, x)                                  \
    do {                                                 \
        if (VBYTES == 32 && (V) == 1) PUT_MASKED(p, x);  \
        else STORE(VECTOR(p, v, V), x);                  \
    } while (0)

/* Set where the last of V vectors from `column` on begins, and which of its lanes are columns. */
ASP_INLINE void NAME(end_at)(NAME(tensor) *t, const csf_task *task, int V, int64_t column)
{
    t->tail = asp_min((V - 1) * W, task->rank - W - column);
#if VBYTES == 32
    for (int lane = 0; lane < W; ++lane) t->mask[lane] = lane < task->rank ? -1 : 0;
#endif
}

/* Return the tensor with n levels, with factors from `column` on. */
ASP_TILE NAME(tensor) NAME(tensor_of)(const csf_task *task, const int64_t n, int64_t column)
{
    const asp_csf *csf = task->csf;
    NAME(tensor) t;
    for (int64_t d = 0; d < n; ++d) {
        t.ids[d] = csf->ids[d];
        if (d + 1 < n) t.ptr[d] = csf->ptr[d];
        if (d) t.factors[d] = (const R *)task->factors[d] + column;
        t.ld[d] = task->ld[d];
        t.nodes_soon[d] = task->ahead ? csf->n_nodes[d] - NODES_AHEAD : 0;
    }
    t.values = csf->values;
    t.ahead = task->ahead;
    t.soon = task->ahead ? task->n_leaves - task->ahead : 0;
    return t;
}

/* Variant for any number of levels. */
static ASP_NOINLINE void NAME(describe)(const csf_task *task, int64_t column, NAME(tensor) *t)
{
    *t = NAME(tensor_of)(task, task->csf->n_modes, column);
}

#define FACTOR(d, p) (t->factors[d] + (int64_t)t->ids[d][p] * t->ld[d])

/* Compute sum[0..V) = sum of value * factor row over the leaves [p, end). */
#define LEAVES(V)                                                                                        \
    ASP_TILE void NAME(leaves##V)(const NAME(tensor) *t, const int64_t last, int64_t p, int64_t end, VEC *sum) \
    {                                                                                                    \
        VEC even[V], odd[V];                                                                             \
        ASP_UNROLL for (int v = 0; v < V; ++v) even[v] = odd[v] = (VEC){0};                              \
        for (; p + 2 <= end; p += 2) {                                                                   \
            const R *a = FACTOR(last, p), *b = FACTOR(last, p + 1);                                      \
            if (p + 1 < t->soon) {                                                                       \
                __builtin_prefetch(FACTOR(last, p + t->ahead));                                          \
                __builtin_prefetch(FACTOR(last, p + t->ahead + 1));                                      \
            }                                                                                            \
            ASP_UNROLL for (int v = 0; v < V; ++v) {                                                     \
                even[v] += t->values[p] * GET(a, v, V);                                               \
                odd[v] += t->values[p + 1] * GET(b, v, V);                                            \
            }                                                                                            \
        }                                                                                                \
        if (p < end) {                                                                                   \
            const R *a = FACTOR(last, p);                                                                \
            if (p < t->soon) __builtin_prefetch(FACTOR(last, p + t->ahead));                             \
            ASP_UNROLL for (int v = 0; v < V; ++v) even[v] += t->values[p] * GET(a, v, V);            \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = even[v] + odd[v];                                \
    }

/* Compute sum[0..V), the contribution of the nodes [p, end) of level d: the factor row of each times the sum over its
 * children, by `BELOW`. */
#define LEVEL(V, WALK, BELOW, KIND)                                                                      \
    KIND void NAME(WALK##V)(const NAME(tensor) *t, const int64_t d, const int64_t last, int64_t p,      \
                            int64_t end, VEC *sum)                                                       \
    {                                                                                                    \
        VEC total[V];                                                                                    \
        ASP_UNROLL for (int v = 0; v < V; ++v) total[v] = (VEC){0};                                      \
        for (; p < end; ++p) {                                                                           \
            VEC below[V];                                                                                \
            const R *row = FACTOR(d, p);                                                                 \
            if (p < t->nodes_soon[d]) __builtin_prefetch(FACTOR(d, p + NODES_AHEAD));                    \
            BELOW(V, t->ptr[d][p], t->ptr[d][p + 1]);                                                    \
            ASP_UNROLL for (int v = 0; v < V; ++v) total[v] += GET(row, v, V) * below[v];             \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = total[v];                                        \
    }
#define OF_LEAVES(V, p, end) NAME(leaves##V)(t, last, p, end, below)
#define OF_PARENTS(V, p, end) NAME(parents##V)(t, d + 1, last, p, end, below)
#define OF_NODES(V, p, end)                                              \
    if (d + 2 == last) NAME(parents##V)(t, d + 1, last, p, end, below);  \
    else NAME(nodes##V)(t, d + 1, last, p, end, below)

/* Compute sum[0..V) = sum over the entries [p, end) of a flat tensor of value * product of its n - 1 factor rows. */
#define FLAT(V)                                                                                          \
    ASP_TILE void NAME(flat##V)(const NAME(tensor) *t, const int64_t n, int64_t p, int64_t end, VEC *sum) \
    {                                                                                                    \
        VEC total[V];                                                                                    \
        ASP_UNROLL for (int v = 0; v < V; ++v) total[v] = (VEC){0};                                      \
        for (; p < end; ++p) {                                                                           \
            VEC x[V];                                                                                    \
            const R *first = FACTOR(1, p);                                                               \
            if (p < t->soon)                                                                             \
                for (int64_t d = 1; d < n; ++d) __builtin_prefetch(FACTOR(d, p + t->ahead));             \
            ASP_UNROLL for (int v = 0; v < V; ++v) x[v] = t->values[p] * GET(first, v, V);            \
            for (int64_t d = 2; d < n; ++d) {                                                            \
                const R *row = FACTOR(d, p);                                                             \
                ASP_UNROLL for (int v = 0; v < V; ++v) x[v] *= GET(row, v, V);                        \
            }                                                                                            \
            ASP_UNROLL for (int v = 0; v < V; ++v) total[v] += x[v];                                     \
        }                                                                                                \
        ASP_UNROLL for (int v = 0; v < V; ++v) sum[v] = total[v];                                        \
    }

/* Compute the sum over the children of a row for any number of levels. */
#define CHILDREN(V)                                                                                      \
    static ASP_NOINLINE void NAME(children##V)(const NAME(tensor) *t, int64_t n, int is_flat, int64_t p, \
                                               int64_t end, VEC *sum)                                    \
    {                                                                                                    \
        if (is_flat) NAME(flat##V)(t, n, p, end, sum);                                                   \
        else if (n == 2) NAME(leaves##V)(t, 1, p, end, sum);                                             \
        else if (n == 3) NAME(parents##V)(t, 1, 2, p, end, sum);                                         \
        else NAME(nodes##V)(t, 1, n - 1, p, end, sum);                                                   \
    }

/* Compute rows [begin, end) of level 0 for V vectors of columns from `column` on. BUILD initialises the tensor and SUM
 * sums one row. Rows without entries before each of them are cleared. */
#define ROWS(V, BUILD, WALK, SUM)                                                                        \
    static ASP_NOINLINE void NAME(WALK##V)(const csf_task *task, int64_t column, int64_t begin, int64_t end) \
    {                                                                                                    \
        NAME(tensor) here;                                                                               \
        const NAME(tensor) *t = &here;                                                                   \
        BUILD;                                                                                           \
        NAME(end_at)(&here, task, V, column);                                                            \
        const int64_t ldm = task->ldm;                                                                   \
        R *M = (R *)task->M + column;                                                                    \
        int64_t next = begin ? (int64_t)t->ids[0][begin - 1] + 1 : 0;                                    \
        for (int64_t row = begin; row < end; ++row) {                                                    \
            const int64_t i = t->ids[0][row], p = t->ptr[0][row], stop = t->ptr[0][row + 1];             \
            VEC sum[V];                                                                                  \
            for (; next < i; ++next)                                                                     \
                ASP_UNROLL for (int v = 0; v < V; ++v) PUT(M + next * ldm, v, V, (VEC){0});          \
            next = i + 1;                                                                                \
            SUM;                                                                                         \
            ASP_UNROLL for (int v = 0; v < V; ++v) PUT(M + i * ldm, v, V, sum[v]);                   \
        }                                                                                                \
    }

#define KNOWN(N) here = NAME(tensor_of)(task, N, column)
#define WALKS(V)                                                                                         \
    LEAVES(V)                                                                                            \
    FLAT(V)                                                                                              \
    LEVEL(V, parents, OF_LEAVES, ASP_TILE)                                                             \
    LEVEL(V, nodes, OF_NODES, static)                                                                    \
    CHILDREN(V)                                                                                          \
    ROWS(V, NAME(describe)(task, column, &here), any_rows_,                                              \
         NAME(children##V)(t, task->csf->n_modes, task->csf->is_flat, p, stop, sum))
#if VBYTES > 16
#define WALKS_KNOWN(V)                                                                                   \
    LEVEL(V, grandparents, OF_PARENTS, ASP_TILE)                                                       \
    ROWS(V, KNOWN(3), flat_rows_3_, NAME(flat##V)(t, 3, p, stop, sum))                                   \
    ROWS(V, KNOWN(4), flat_rows_4_, NAME(flat##V)(t, 4, p, stop, sum))                                   \
    ROWS(V, KNOWN(5), flat_rows_5_, NAME(flat##V)(t, 5, p, stop, sum))                                   \
    ROWS(V, KNOWN(3), parent_rows_, NAME(parents##V)(t, 1, 2, p, stop, sum))                             \
    ROWS(V, KNOWN(4), grandparent_rows_, NAME(grandparents##V)(t, 1, 3, p, stop, sum))                   \
                                                                                                         \
    static void NAME(rows##V)(const csf_task *t, int64_t column, int64_t begin, int64_t end)             \
    {                                                                                                    \
        switch (t->csf->n_modes + (t->csf->is_flat ? ASP_MAX_MODES : 0)) {                               \
        case 3: NAME(parent_rows_##V)(t, column, begin, end); return;                                    \
        case 4: NAME(grandparent_rows_##V)(t, column, begin, end); return;                               \
        case ASP_MAX_MODES + 3: NAME(flat_rows_3_##V)(t, column, begin, end); return;                    \
        case ASP_MAX_MODES + 4: NAME(flat_rows_4_##V)(t, column, begin, end); return;                    \
        case ASP_MAX_MODES + 5: NAME(flat_rows_5_##V)(t, column, begin, end); return;                    \
        default: NAME(any_rows_##V)(t, column, begin, end);                                              \
        }                                                                                                \
    }
#else /* Narrow vectors, and columns that do not fill a wider vector: rare, so there are no specialised variants */
#define WALKS_KNOWN(V)                                                                                   \
    static void NAME(rows##V)(const csf_task *t, int64_t column, int64_t begin, int64_t end)             \
    {                                                                                                    \
        NAME(any_rows_##V)(t, column, begin, end);                                                       \
    }
#endif

/* Compute the contribution of some children of one row. */
#define PART(V)                                                                                          \
    static ASP_NOINLINE void NAME(part##V)(const csf_task *task, int64_t column, int64_t p, int64_t end, R *to) \
    {                                                                                                    \
        NAME(tensor) here;                                                                               \
        const NAME(tensor) *t = &here;                                                                   \
        VEC sum[V];                                                                                      \
        NAME(describe)(task, column, &here);                                                             \
        NAME(end_at)(&here, task, V, column);                                                            \
        NAME(children##V)(t, task->csf->n_modes, task->csf->is_flat, p, end, sum);                      \
        ASP_UNROLL for (int v = 0; v < V; ++v) PUT(to + column, v, V, sum[v]);                       \
    }
WALKS(1)
WALKS(2)
WALKS(3)
WALKS(4)
WALKS_KNOWN(1)
WALKS_KNOWN(2)
WALKS_KNOWN(3)
WALKS_KNOWN(4)
PART(1)
PART(2)
PART(3)
PART(4)
#undef LEAVES
#undef LEVEL
#undef OF_LEAVES
#undef OF_PARENTS
#undef OF_NODES
#undef FLAT
#undef CHILDREN
#undef KNOWN
#undef ROWS
#undef WALKS
#undef WALKS_KNOWN
#undef PART

#if VBYTES == 16 /* wider vectors are used only for columns that fill one */
/* Compute sum[0..n), the contribution of the children [p, end) of a node above level d, for n < W columns. */
static void NAME(few)(const NAME(tensor) *t, int64_t d, int64_t last, int is_flat, int64_t p, int64_t end, int64_t n,
                      R *sum)
{
    for (int64_t j = 0; j < n; ++j) sum[j] = 0;
    for (; p < end; ++p) {
        const R *row = FACTOR(d, p);
        if (d == last) {
            for (int64_t j = 0; j < n; ++j) sum[j] += t->values[p] * row[j];
        } else if (is_flat) {
            R product[W];
            for (int64_t j = 0; j < n; ++j) product[j] = t->values[p] * row[j];
            for (int64_t e = 2; e <= last; ++e)
                for (int64_t j = 0; j < n; ++j) product[j] *= FACTOR(e, p)[j];
            for (int64_t j = 0; j < n; ++j) sum[j] += product[j];
        } else {
            R below[W];
            NAME(few)(t, d + 1, last, is_flat, t->ptr[d][p], t->ptr[d][p + 1], n, below);
            for (int64_t j = 0; j < n; ++j) sum[j] += row[j] * below[j];
        }
    }
}

static void NAME(few_rows)(const csf_task *task, int64_t begin, int64_t end)
{
    const int64_t n = task->csf->n_modes;
    NAME(tensor) here;
    const NAME(tensor) *t = &here;
    NAME(describe)(task, 0, &here);
    int64_t next = begin ? (int64_t)t->ids[0][begin - 1] + 1 : 0;
    for (int64_t row = begin; row < end; ++row) {
        const int64_t i = t->ids[0][row];
        clear_rows(task, next, i);
        next = i + 1;
        NAME(few)(t, 1, n - 1, task->csf->is_flat, t->ptr[0][row], t->ptr[0][row + 1], task->rank,
                  (R *)task->M + i * task->ldm);
    }
}

#endif

/* Run WORK(V, column) for all columns in as few passes as possible, with nearly equal numbers of vectors. The last
 * vector ends with the last column; values that are computed twice come out the same. */
#define EACH_COLUMN(WORK)                                                                                \
    int64_t j = 0;                                                                                       \
    for (int64_t left = (task->rank + W - 1) / W, passes = (left + 3) / 4; passes > 0; --passes) {       \
        const int64_t n_vectors = (left + passes - 1) / passes;                                          \
        switch (n_vectors) {                                                                             \
        case 1: WORK(1, j); break;                                                                       \
        case 2: WORK(2, j); break;                                                                       \
        case 3: WORK(3, j); break;                                                                       \
        default: WORK(4, j);                                                                             \
        }                                                                                                \
        left -= n_vectors;                                                                               \
        j += n_vectors * W;                                                                              \
    }

/* Compute to[0..rank), the contribution of the children [p, end) of one row. */
static void NAME(csf_part)(const csf_task *task, int64_t p, int64_t end, void *to)
{
#if VBYTES == 16
    if (task->rank < W) {
        const int64_t n = task->csf->n_modes;
        NAME(tensor) t;
        NAME(describe)(task, 0, &t);
        NAME(few)(&t, 1, n - 1, task->csf->is_flat, p, end, task->rank, to);
        return;
    }
#endif
#define WORK(V, column) NAME(part##V)(task, column, p, end, to)
    EACH_COLUMN(WORK);
#undef WORK
}

/* Compute the rows [begin, end) of level 0 and clear the rows without entries before each of them. */
static void NAME(csf_rows)(const csf_task *task, int64_t begin, int64_t end)
{
#if VBYTES == 16
    if (task->rank < W) {
        NAME(few_rows)(task, begin, end);
        return;
    }
#endif
#define WORK(V, column) NAME(rows##V)(task, column, begin, end)
    EACH_COLUMN(WORK);
#undef WORK
}
#undef EACH_COLUMN
#undef FACTOR
#undef GET
#undef PUT
#undef GET_MASKED
#undef PUT_MASKED
#undef VECTOR
