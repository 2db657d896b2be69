/* Definitions shared by the packing functions of sliced formats; see pack_slices.c. */
#include "common.h"

/* Fields of what[s]: kind in the bits ASP_KIND, flag ASP_IN_ORDER, base from bit ASP_BASE_SHIFT on. */
enum { ASP_WIDE = 0, ASP_NARROW = 1, ASP_DIAGONAL = 2, ASP_KIND = 3, ASP_IN_ORDER = 4, ASP_BASE_SHIFT = 3 };

/* Maximum ratio of cells to entries for which diagonals are stored: a contiguous load without column indices per lane
 * against a gather with one index per cell. */
#define ASP_DIAGONAL_CELLS 1.5
/* Maximum number of diagonals that are moved to sort those of a slice, as a multiple of its entries; rows of thousands of
 * entries in random order take more, and are stored without diagonals. */
#define ASP_MOVED_DIAGONALS 64
/* Maximum number of different row lengths of a window that is sorted by counting instead of comparing. */
#define ASP_MAX_BUCKETS 8192

/* Parameters of the format. */
typedef struct {
    int64_t lanes, sigma;
    int diagonals, bits;
} asp_slicing;

/* Layout computed so far; the arrays belong to the caller. */
typedef struct {
    int32_t *first, *rows; /* NULL: slice s has the rows from s * lanes on */
    void *pos;
    int64_t *begin, *what;
    int64_t n_slices, n_listed;
} asp_layout;

/* Rows that are sorted together: n rows of the groups begin .. end without groups stored as diagonals. */
typedef struct {
    int64_t begin, end, n;
    int64_t at;              /* position in `order` */
    int64_t slice, n_listed; /* its first slice, and how many of its slices list their rows */
    int64_t lists;           /* number of its first list */
} asp_window;

/* Scratch memory for sorting a window. */
typedef struct {
    int32_t *rows, *lengths; /* room for a window and one more group each */
    uint64_t *keys;
    int32_t *counts; /* ASP_MAX_BUCKETS + 1 */
} asp_sorting;

/* A layout being computed, in parts for several threads. */
typedef struct {
    const asp_pattern *a;
    const asp_slicing *how;
    asp_layout *out;
    int itype;
    int64_t n_parts;
    int32_t *n_diagonals; /* per group of rows, or -1 */
    int32_t *firsts;      /* n_firsts per part: the diagonals of a group of rows */
    int64_t n_firsts;
    asp_window *windows;
    int64_t n_windows;
    int32_t *order;   /* rows of all windows, one window after the other */
    char *sorting;    /* asp_sorting_bytes per part */
} asp_layout_job;

/* Return the storage units (16 or 32 bits) of one slot's columns; a diagonal and a wide column always take 32 bits. */
static inline int64_t asp_slot_units(int kind, int64_t lanes, int bits)
{
    const int64_t wide = bits == 16 ? 2 : 1;
    return kind == ASP_DIAGONAL ? wide : kind == ASP_NARROW ? lanes : wide * lanes;
}

/* Return the number of rows that are sorted together; without sorting, those of a slice. */
static inline int64_t asp_window_rows(const asp_slicing *how)
{
    return how->sigma > how->lanes ? how->sigma : how->lanes;
}

/* Return the maximum number of rows of a window, including the group that completes it. */
static inline int64_t asp_window_room(const asp_slicing *how) { return asp_window_rows(how) + how->lanes; }

static inline size_t asp_sorting_bytes(const asp_slicing *how)
{
    const size_t n = (size_t)asp_window_room(how);
    return n * (sizeof(uint64_t) + 2 * sizeof(int32_t)) + (ASP_MAX_BUCKETS + 2) * sizeof(int32_t);
}

/* Return the scratch memory of one part, which begins at `room`. */
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

/* Finish the window `now`; the next one begins behind it. */
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

/* Return the maximum number of diagonals of a slice with n entries that is stored by diagonals. */
static inline int64_t asp_most_diagonals(int64_t n, int64_t lanes)
{
    return (int64_t)(ASP_DIAGONAL_CELLS * (double)n / (double)lanes);
}

/* Return where `first` is, or belongs, in the n ascending numbers `firsts`. Consecutive entries of a row mostly lie on
 * consecutive diagonals, so that `guess`, the place behind the entry before, is mostly right. */
static inline int64_t asp_place_of_diagonal(const int32_t *firsts, int64_t n, int64_t guess, int64_t first)
{
    if (guess < n && firsts[guess] == first)
        return guess;
    int64_t low = guess == n && n > 0 && firsts[n - 1] < first ? n : 0, high = n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (firsts[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return the list of rows of slice `at`, or NULL if they are consecutive from *row0 on. */
static inline const int32_t *asp_lane_rows(const asp_sliced *s, int64_t at, int64_t *row0)
{
    const int is_listed = s->first && !(s->what[at] & ASP_IN_ORDER);
    *row0 = s->first ? s->first[at] : at * s->lanes;
    return is_listed ? s->rows + s->first[at] * s->lanes : NULL;
}

/* Return the columns of slice `at`, which has 32-bit columns. */
static inline int32_t *asp_wide_columns(const asp_sliced *s, int64_t at)
{
    return (int32_t *)((char *)s->crd + s->begin[at] * (s->bits / 8));
}

/* Values and columns to be written, in parts for several threads. */
typedef struct {
    const asp_pattern *a;
    const asp_sliced *s;
    int dtype, itype, crd_known;
    void *vals;
    int64_t n_parts;
} asp_slices_job;

/* Slices whose columns and values are written one after the other. */
enum { ASP_SLICES_AT_ONCE = 64 };
