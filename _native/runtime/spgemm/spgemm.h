/* A product of two sparse matrices in the making: see spgemm.c. */
#ifndef ASP_SPGEMM_H
#define ASP_SPGEMM_H

#include "common.h"

#include <stdatomic.h>

typedef struct sg_chunk sg_chunk;

/* Consecutive rows of the product that lie together in a chunk. */
typedef struct {
    int64_t row, row_end;
    int64_t n, at; /* entries; where they go in the product */
    char *j, *x;
    sg_chunk *chunk;
} sg_segment;

/* What one thread works with. Only `cells` must be zero at the start. */
typedef struct {
    void *cells;   /* n_cols + 1 */
    void *touched; /* n_cols + 1 column indices: those of the row, in the order of their first product */
    void *sums;    /* max_sums groups of SG_LANES sums, of rows that are computed together */
    int64_t max_sums;
    sg_chunk *chunks; /* youngest first */
    char *j, *x;      /* where the next entry goes in the youngest chunk */
    int64_t room;     /* entries that still fit there */
    sg_segment *segments;
    int64_t n_segments, max_segments;
    char apart[128]; /* written at every row: not in a cache line with the next thread's (measured: 2x) */
} sg_space;

typedef struct sg_job sg_job;
typedef int (*sg_rows_fn)(const sg_job *job, sg_space *space, int64_t row, int64_t row_end);
typedef struct {
    sg_rows_fn rows;
    size_t value_bytes, cell_bytes;
} sg_kind;

enum { SG_LANES = 4 };              /* rows of A that are computed together */
enum { SG_SEGMENT_ENTRIES = 1 << 16 }; /* a task of the threads that copy */

struct sg_job {
    int itype, n_threads;
    int far; /* whether rows of B are worth fetching early */
    const sg_kind *kind;
    size_t index_bytes;
    int64_t n_rows, n_inner, n_cols, a_nnz, b_nnz;
    const void *Ap, *Aj, *Ax, *Bp, *Bj, *Bx;
    void *row_nnz;            /* n_rows, of the index type */
    _Atomic uint8_t *b_same;  /* n_inner: whether a row of B has the columns of the row before, once somebody asked */
    sg_space *spaces;         /* n_threads */
    _Atomic int n_spaces;
    _Atomic(sg_space *) *spare; /* spaces that no thread is using; n_threads slots */
    _Atomic int failed;
    sg_segment *segments;     /* of all spaces, in the order of their rows */
    int64_t n_segments, nnz;
    int out_itype;
    void *Cp, *Cj, *Cx;
};

extern const sg_kind sg_kinds[4][2]; /* [dtype][itype] */

enum { SG_UNKNOWN = 0, SG_SAME = 1, SG_OTHER = 2 };

/* The segment that row `row` goes to, in a chunk with room for n entries; NULL without memory. */
sg_segment *sg_open(const sg_job *job, sg_space *space, int64_t row, int64_t n);
/* Room for n groups of sums; false without memory. */
int sg_reserve_sums(const sg_job *job, sg_space *space, int64_t n);

#endif
