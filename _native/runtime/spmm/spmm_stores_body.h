/* Non-temporal stores of rows of C that do not begin on a vector boundary, as in most NumPy arrays: part of
 * spmm_body.h. Non-temporal stores must not cross a vector boundary. */

#ifndef ASP_LINES_APART
#define ASP_LINES_APART
/* Minimum number of cache lines for non-temporal stores where rows of C do not follow each other: of a row's part in a
 * tile (APART_LINES), and of a whole row with vectors aligned as B's (SHIFT_APART_LINES). Shorter parts take twice as
 * long. */
enum { APART_LINES = 4, SHIFT_APART_LINES = 16 };
#endif

#if WORDS == 1
/* State of non-temporal stores to rows of C that begin `late` reals behind a vector boundary. Aligned vectors are
 * joined from two sums. Where rows follow each other (`follows`), the end of one row is kept in `waiting` until the
 * beginning of the next is known. */
typedef struct {
    V waiting;
    int is_waiting, late, follows;
    VJ joint;
} NAME(joined);

/* Store the pending end of a row, which ends at c. */
ASP_INLINE void NAME(end_joined)(NAME(joined) *out, R *c)
{
    if (out->is_waiting) v_storem(c - out->late, v_mask(out->late), v_join(out->waiting, out->joint, out->waiting));
    out->is_waiting = 0;
}

/* Store the nv vectors of a row at c, keeping the last one pending. */
ASP_INLINE void NAME(stream_joined)(const int nv, NAME(joined) *out, R *c, const V *sum)
{
    if (out->is_waiting) v_stream(c - out->late, v_join(out->waiting, out->joint, sum[0]));
    else v_storem(c, v_mask(VL - out->late), sum[0]);
    ASP_UNROLL for (int v = 1; v < nv; v++) v_stream(c + v * VL - out->late, v_join(sum[v - 1], out->joint, sum[v]));
    out->waiting = sum[nv - 1];
    out->is_waiting = 1;
}

/* Store a tile's part of a row that is not followed by the next row; vectors are cache lines. Whole lines are stored
 * non-temporally, the partial ones at both ends are not. */
ASP_INLINE void NAME(stream_apart)(const int nv, const NAME(joined) *out, R *c, const V *sum)
{
    R *const line = c - out->late;
    v_storem(c, v_mask(VL - out->late), sum[0]);
    ASP_UNROLL for (int v = 1; v < nv; v++) v_stream(line + v * VL, v_join(sum[v - 1], out->joint, sum[v]));
    v_storem(line + nv * VL, v_mask(out->late), v_join(sum[nv - 1], out->joint, sum[nv - 1]));
}
#endif

#if WORDS == 1 && defined(V_SHIFTS)
/* Set where a row that begins at c lies within its line. */
ASP_INLINE void NAME(place)(NAME(joined) *out, const R *c)
{
    out->late = (int)((uintptr_t)c % sizeof(V) / sizeof(R));
    out->joint = v_joint(out->late);
}

/* Store the nv > 1 vectors of a row at c, of which the last has `lanes` reals, keeping the last line pending. The next row
 * follows and begins elsewhere within a line. */
ASP_INLINE void NAME(stream_partial)(const int nv, NAME(joined) *out, R *c, const V *sum, int lanes)
{
    NAME(place)(out, c);
    R *const line = c - out->late;
    if (out->is_waiting || !out->late) v_stream(line, v_join(out->waiting, out->joint, sum[0]));
    else v_storem(c, v_mask(VL - out->late), sum[0]);
    ASP_UNROLL for (int v = 1; v < nv - 1; v++) v_stream(line + v * VL, v_join(sum[v - 1], out->joint, sum[v]));
    if (out->late + lanes >= VL) v_stream(line + (nv - 1) * VL, v_join(sum[nv - 2], out->joint, sum[nv - 1]));
    out->waiting = v_join(sum[nv - 2], v_joint(VL - lanes), sum[nv - 1]);
    out->is_waiting = 1;
}

/* Store the nv vectors of a tile's part of a row at c, of which the last has `lanes` reals. Rows begin at different places
 * within a line. Whole lines are stored non-temporally, the partial ones at both ends are not. */
ASP_INLINE void NAME(stream_between)(const int nv, NAME(joined) *out, R *c, const V *sum, int lanes)
{
    NAME(place)(out, c);
    R *const line = c - out->late, *const last = line + (nv - 1) * VL;
    const int left = out->late + lanes - VL; /* reals behind the last whole line; negative: that line is partial */
    const V end = v_join(sum[nv - 2], out->joint, sum[nv - 1]);
    if (out->late) v_storem(c, v_mask(VL - out->late), sum[0]);
    else v_stream(c, sum[0]);
    ASP_UNROLL for (int v = 1; v < nv - 1; v++) v_stream(line + v * VL, v_join(sum[v - 1], out->joint, sum[v]));
    if (left >= 0) v_stream(last, end);
    else v_storem(last, v_mask(left + VL), end);
    if (left > 0) v_storem(last + VL, v_mask(left), v_join(sum[nv - 1], out->joint, sum[nv - 1]));
}

/* Non-temporal stores of rows of C whose vectors are aligned as those of B. Where rows follow each other, the end of
 * one and the beginning of the next share a line. */
ASP_INLINE void NAME(end_shifted)(NAME(joined) *out, R *c, NAME(masks) masks)
{
    if (out->is_waiting) v_storem(c, masks.back, out->waiting);
    out->is_waiting = 0;
}

/* Store the nv vectors of a row, of which the first begins at c, keeping the last one pending if rows follow each
 * other. */
ASP_INLINE void NAME(stream_shifted)(const int nv, NAME(joined) *out, R *c, NAME(masks) masks, const V *sum)
{
    if (out->is_waiting) v_stream(c, v_blend(masks.front, out->waiting, sum[0]));
    else v_storem(c, masks.front, sum[0]);
    ASP_UNROLL for (int v = 1; v < nv - 1; v++) v_stream(c + v * VL, sum[v]);
    out->waiting = sum[nv - 1];
    out->is_waiting = 1;
    if (!out->follows) NAME(end_shifted)(out, c + (nv - 1) * VL, masks);
}
#endif
