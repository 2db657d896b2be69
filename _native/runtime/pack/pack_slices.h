/* Shared by the packers of sliced formats: see pack_slices.c. */
#include "common.h"

enum { ASP_WIDE = 0, ASP_NARROW = 1, ASP_DIAGONAL = 2, ASP_KIND = 3, ASP_IN_ORDER = 4, ASP_BASE_SHIFT = 3 };

/* Diagonals are listed when their cells are at most this many times the entries: a load of neighbours and no column
 * index against a gather and one per cell. */
#define ASP_DIAGONAL_CELLS 1.5
/* Row lengths that a window is sorted by counting, not by comparing. */
#define ASP_MAX_BUCKETS 8192

typedef struct {
    int64_t lanes, sigma;
    int diagonals, bits;
} asp_slicing;

/* What is laid out so far. */
typedef struct {
    int32_t *first, *rows; /* NULL: slice s has the rows from s * lanes on */
    void *pos;
    int64_t *begin, *what;
    int64_t n_slices, n_listed;
} asp_layout;

/* Rows that are sorted together: those of the groups begin .. end that are no diagonals, n of them. */
typedef struct {
    int64_t begin, end, n;
    int64_t at;              /* place in `order` */
    int64_t slice, n_listed; /* the first of its slices; those whose rows are listed */
    int64_t lists;           /* the first of their lists */
} asp_window;

/* Scratch memory of whoever sorts windows. */
typedef struct {
    int32_t *rows, *lengths; /* a window and one group more each */
    uint64_t *keys;
    int32_t *counts; /* ASP_MAX_BUCKETS + 1 */
} asp_sorting;

/* A layout that is being made, in parts that several threads take. */
typedef struct {
    const asp_pattern *a;
    const asp_slicing *how;
    asp_layout *out;
    int itype;
    int64_t n_parts;
    int32_t *n_diagonals; /* of each group of rows, or -1 */
    int32_t *stamps;      /* for each part, which zeroes them, n_cols + lanes: by diagonal, 1 + the last group of rows on it */
    asp_window *windows;
    int64_t n_windows;
    int32_t *order;   /* rows of the windows, one window after the other */
    char *sorting;    /* for each part asp_sorting_bytes */
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

/* Rows of a window with the group that fills it. */
static inline int64_t asp_window_room(const asp_slicing *how) { return asp_window_rows(how) + how->lanes; }

static inline size_t asp_sorting_bytes(const asp_slicing *how)
{
    const size_t n = (size_t)asp_window_room(how);
    return n * (sizeof(uint64_t) + 2 * sizeof(int32_t)) + (ASP_MAX_BUCKETS + 2) * sizeof(int32_t);
}

/* The scratch memory of one part, which begins at `room`. */
static inline asp_sorting asp_sorting_at(const asp_slicing *how, char *room)
{
    const int64_t n = asp_window_room(how);
    asp_sorting found;
    found.keys = (uint64_t *)room;
    found.rows = (int32_t *)(found.keys + n);
    found.lengths = found.rows + n;
    found.counts = found.lengths + n;
    return found;
}

/* The window is full; the next one begins behind it. */
static inline void asp_close_window(asp_layout_job *job, asp_window *now)
{
    const asp_window next = {.begin = now->end, .end = now->end, .at = now->at + now->n};
    now->slice = job->out->n_slices;
    job->out->n_slices += (now->n + job->how->lanes - 1) / job->how->lanes;
    job->windows[job->n_windows++] = *now;
    *now = next;
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
    const asp_pattern *a;
    const asp_sliced *s;
    int dtype, itype, crd_known, has_diagonals;
    void *vals;
    int64_t n_parts;
    int32_t *scratch; /* where there are diagonals, for each part, twice n_cols + lanes; the first of them zeroed */
} asp_slices_job;

enum { ASP_SLICES_AT_ONCE = 64 };
