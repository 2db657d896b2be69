/* State of a sparse matrix product while it is computed; see spgemm.c. */
#ifndef ASP_SPGEMM_H
#define ASP_SPGEMM_H

#include "common.h"

#include <stdatomic.h>

typedef struct sg_chunk sg_chunk;

/* Consecutive rows [row, row_end) of the product that are stored together in a chunk. */
typedef struct {
    int64_t row, row_end;
    int64_t n, at; /* number of entries; position of the first one in the product */
    /* First column index and first value in the chunk. */
    char *j, *x;
    sg_chunk *chunk;
} sg_segment;

/* Workspace of one thread. Only `cells` must be zero at the start. */
typedef struct {
    void *cells;   /* n_cols + 1 accumulator cells, indexed by column */
    void *touched; /* n_cols + 1 column indices: columns of the current row in the order of their first product */
    void *sums;    /* max_sums groups of SG_LANES sums, for rows that are computed together */
    int64_t max_sums;
    sg_chunk *chunks; /* newest first */
    char *j, *x;      /* write positions in the newest chunk */
    int64_t room;     /* entries that still fit into the newest chunk */
    sg_segment *segments;
    int64_t n_segments, max_segments;
    char apart[128]; /* padding against false sharing with the next thread's workspace (measured: 2x) */
} sg_space;

typedef struct sg_job sg_job;
/* Compute rows [row, row_end) into the workspace; returns 0 without memory. */
typedef int (*sg_rows_fn)(const sg_job *job, sg_space *space, int64_t row, int64_t row_end);
/* The row function and sizes for one value type and index type. */
typedef struct {
    sg_rows_fn rows;
    size_t value_bytes, cell_bytes;
} sg_kind;

enum { SG_LANES = 4 };              /* maximum number of rows of A that are computed together */
enum { SG_SEGMENT_ENTRIES = 1 << 16 }; /* size from which a segment is closed: the unit of parallel copying */

/* A product; begin and finish are called by one thread, the row and copy functions concurrently. */
struct sg_job {
    int itype, n_threads;
    int far; /* whether rows of B are prefetched */
    const sg_kind *kind;
    size_t index_bytes;
    int64_t n_rows, n_inner, n_cols, a_nnz, b_nnz;
    const void *Ap, *Aj, *Ax, *Bp, *Bj, *Bx;
    void *row_nnz;            /* entries per row of the product; n_rows elements of the index type */
    /* n_inner flags SG_*: row of B has the same columns as the row before; filled on demand */
    _Atomic uint8_t *b_same;
    sg_space *spaces;         /* n_threads workspaces */
    _Atomic int n_spaces;
    _Atomic(sg_space *) *spare; /* n_threads slots with workspaces that no thread is using */
    _Atomic int failed;
    sg_segment *segments;     /* segments of all workspaces, sorted by row */
    int64_t n_segments, nnz;
    int out_itype;
    void *Cp, *Cj, *Cx;
};

extern const sg_kind sg_kinds[4][2]; /* [dtype][itype] */

/* Values of `b_same`; SG_UNKNOWN means not compared yet. */
enum { SG_UNKNOWN = 0, SG_SAME = 1, SG_OTHER = 2 };

/* Return the segment to which row `row` is appended, in a chunk with room for n entries; NULL without memory. */
sg_segment *sg_open(const sg_job *job, sg_space *space, int64_t row, int64_t n);
/* Ensure room for n groups of sums; return 0 without memory. */
int sg_reserve_sums(const sg_job *job, sg_space *space, int64_t n);

#endif
