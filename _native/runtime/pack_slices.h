/* Shared by the packers of sliced formats: see pack_slices.c. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ASP_WIDE = 0, ASP_NARROW = 1, ASP_DIAGONAL = 2, ASP_KIND = 3, ASP_IN_ORDER = 4, ASP_BASE_SHIFT = 3 };

/* Diagonals are listed when their cells are at most this many times the entries: a load of neighbours and no column
 * index against a gather and one per cell. */
#define ASP_DIAGONAL_CELLS 1.5
/* Row lengths that a window is sorted by counting, not by comparing. */
#define ASP_MAX_BUCKETS 8192

typedef struct {
    int64_t n_rows, n_cols;
    const void *indptr, *indices, *data;
} asp_slice_rows;

typedef struct {
    int64_t lanes, sigma;
    int diagonals, bits;
} asp_slicing;

/* What is laid out so far, and scratch memory. */
typedef struct {
    int32_t *first, *rows; /* NULL: slice s has the rows from s * lanes on */
    void *pos;
    int64_t *begin, *what;
    int64_t n_slices, n_listed;
    int32_t *window, *sorted; /* a window of rows and one more slice each */
    int64_t *counts;          /* ASP_MAX_BUCKETS + 1 */
    uint64_t *keys;           /* a window's */
} asp_layout;

/* A layout that is being made, in parts that several threads take. */
typedef struct {
    const asp_slice_rows *a;
    const asp_slicing *how;
    asp_layout *out;
    int itype;
    int64_t n_parts;
    int32_t *n_diagonals; /* of each group of rows, or -1 */
    int32_t *stamps;      /* for each part n_cols + lanes, zeroed: by diagonal, 1 + the group of rows that met it last */
} asp_layout_job;

/* Storage units of one slot's columns: 16 or 32 bits each; a diagonal and a wide column take 32 bits in any case. */
static inline int64_t asp_slot_units(int kind, int64_t lanes, int bits)
{
    const int64_t wide = bits == 16 ? 2 : 1;
    return kind == ASP_DIAGONAL ? wide : kind == ASP_NARROW ? lanes : wide * lanes;
}

/* Rows that are sorted together: of a slice alone where nothing is to be sorted. */
static inline int64_t asp_window_rows(const asp_slicing *how)
{
    return how->sigma > how->lanes ? how->sigma : how->lanes;
}

/* Slices whose layout is known. */
typedef struct {
    int64_t lanes;
    int bits;
    const int32_t *first, *rows;
    const void *pos;
    const int64_t *begin, *what;
    void *crd;
} asp_sliced;

/* The rows of slice `at`: a list, or NULL where they follow one another from *row0 on. */
static inline const int32_t *asp_lane_rows(const asp_sliced *s, int64_t at, int64_t *row0)
{
    const int is_listed = s->first && !(s->what[at] & ASP_IN_ORDER);
    *row0 = s->first ? s->first[at] : at * s->lanes;
    return is_listed ? s->rows + s->first[at] * s->lanes : NULL;
}

/* The columns of slice `at`, which has 32-bit ones. */
static inline int32_t *asp_wide_columns(const asp_sliced *s, int64_t at)
{
    return (int32_t *)((char *)s->crd + s->begin[at] * (s->bits / 8));
}

/* Values and columns to be written, in parts that several threads take. */
typedef struct {
    const asp_slice_rows *a;
    const asp_sliced *s;
    int dtype, itype, crd_known;
    void *vals;
    int64_t n_parts;
    int32_t *scratch; /* for each part, twice n_cols + lanes; the first of them zeroed */
} asp_slices_job;

enum { ASP_SLICES_AT_ONCE = 64 };
