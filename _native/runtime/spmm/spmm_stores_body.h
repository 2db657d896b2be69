/* Rows of C past the caches where they begin within a vector, as in most arrays of NumPy: part of spmm_body.h. Stores
 * past the caches must not cross a vector's boundary.
 */

#ifndef ASP_LINES_APART
#define ASP_LINES_APART
/* Where rows of C do not follow each other, lines of a row's part in a tile that go past the caches, at least; of a whole
 * row, where vectors are cut as those of B: shorter ones take twice as long then. */
enum { APART_LINES = 4, SHIFT_APART_LINES = 16 };
#endif

#if WORDS == 1
/* Rows of C past the caches where they begin `late` reals behind a vector's boundary, as in most arrays of NumPy: stores
 * past the caches must not cross one. Vectors on boundaries are joined from two sums; where rows follow each other,
 * the end of one waits in `waiting` for the beginning of the next. */
typedef struct {
    V waiting;
    int is_waiting, late, follows;
    VJ joint;
} NAME(joined);

ASP_INLINE void NAME(end_joined)(NAME(joined) *out, R *c)
{
    if (out->is_waiting) v_storem(c - out->late, v_mask(out->late), v_join(out->waiting, out->joint, out->waiting));
    out->is_waiting = 0;
}

ASP_INLINE void NAME(stream_joined)(const int nv, NAME(joined) *out, R *c, const V *sum)
{
    if (out->is_waiting) v_stream(c - out->late, v_join(out->waiting, out->joint, sum[0]));
    else v_storem(c, v_mask(VL - out->late), sum[0]);
    ASP_UNROLL for (int v = 1; v < nv; v++) v_stream(c + v * VL - out->late, v_join(sum[v - 1], out->joint, sum[v]));
    out->waiting = sum[nv - 1];
    out->is_waiting = 1;
}

/* ... and a tile's part of a row by itself, where vectors are lines: whole ones go past the caches, and the ends do not. */
ASP_INLINE void NAME(stream_apart)(const int nv, const NAME(joined) *out, R *c, const V *sum)
{
    R *const line = c - out->late;
    v_storem(c, v_mask(VL - out->late), sum[0]);
    ASP_UNROLL for (int v = 1; v < nv; v++) v_stream(line + v * VL, v_join(sum[v - 1], out->joint, sum[v]));
    v_storem(line + nv * VL, v_mask(out->late), v_join(sum[nv - 1], out->joint, sum[nv - 1]));
}
#endif

#if WORDS == 1 && defined(V_SHIFTS)
/* Rows of C past the caches whose vectors are cut as those of B: where rows follow each other, the end of one and the
 * beginning of the next are one line. */
ASP_INLINE void NAME(end_shifted)(NAME(joined) *out, R *c, NAME(masks) masks)
{
    if (out->is_waiting) v_storem(c, masks.back, out->waiting);
    out->is_waiting = 0;
}

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
