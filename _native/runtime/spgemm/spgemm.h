/* State of a sparse matrix product while it is computed; see spgemm.c. */
#ifndef ASP_SPGEMM_H
#define ASP_SPGEMM_H

#include "common.h"

#include <stdatomic.h>

/* Memory for entries of one range of rows: all column indices, followed by all values; see spgemm_result.c. */
typedef struct sg_chunk {
    struct sg_chunk *next; /* of the same range */
    size_t bytes;
    int64_t capacity, n; /* maximum and present number of entries */
} sg_chunk;

/* Consecutive rows [row, row_end) of the product that one thread computes into chunks of its own. */
typedef struct {
    int64_t row, row_end;
    int64_t n, at;    /* number of entries; position of the first one in the product */
    sg_chunk *chunks; /* in the order of entries; NULL once they are copied to the product */
    _Atomic int is_computed;
} sg_range;

/* Ways to accumulate a row of the product; all give the same entries in the same order. */
enum {
    SG_BY_CLASS = 0, /* the cheapest of the others for each row */
    SG_DENSE = 1,    /* one accumulator per column (Gustavson) */
    SG_HASH = 2,     /* accumulators in a hash table of the row's columns */
    SG_COPY = 3,     /* a multiple of one row of B whose columns ascend; other rows are hashed */
    SG_N_SOLVERS = 4
};

/* Workspace of one thread. Only `cells` must be zero, and columns in `table` -1, at the start. */
typedef struct {
    void *cells;   /* n_cols + 1 accumulator cells, indexed by column; NULL before the first row that needs them */
    void *touched; /* n_cols + 1 columns of the current row in the order of their first product, or their slots */
    void *table;   /* n_slots hashed accumulators */
    int64_t n_slots;
    void *sums;    /* max_sums groups of SG_LANES sums, for rows that are computed together */
    int64_t max_sums;
    sg_chunk *first, *chunk; /* first and current chunk of the range that is being computed */
    char *j, *x;             /* write positions in the current chunk */
    int64_t room;            /* entries that still fit into the current chunk */
    int is_dense;            /* whether most products of the last row hit an existing entry, as in similar rows */
    char apart[128]; /* padding against false sharing with the next thread's workspace (measured: 2x) */
} sg_space;

typedef struct sg_job sg_job;
/* Compute rows [row, row_end) into the workspace; returns 0 without memory. */
typedef int (*sg_rows_fn)(sg_job *job, sg_space *space, int64_t row, int64_t row_end);
/* The row function and sizes for one value type and index type. */
typedef struct {
    sg_rows_fn rows;
    size_t value_bytes, cell_bytes;
    size_t slot_bytes; /* of a hashed accumulator */
} sg_kind;

enum { SG_N_DTYPES = 9 }; /* as dtype in `pairs_api.h`: signed integers have the code of unsigned ones */
enum { SG_LANES = 4 }; /* maximum number of rows of A that are computed together */

/* A product; begin and finish are called by one thread, the functions of rows and ranges concurrently. */
struct sg_job {
    int itype, n_threads;
    int far; /* whether rows of B are prefetched */
    int solver; /* SG_BY_CLASS, or the accumulator of all rows */
    double dense_ns; /* estimated time per multiplication with one accumulator per column */
    int is_cached;       /* whether that is the cheapest for every row of A that has more than one entry */
    const sg_kind *kind;
    size_t index_bytes;
    int64_t n_rows, n_inner, n_cols, a_nnz, b_nnz;
    const void *Ap, *Aj, *Ax, *Bp, *Bj, *Bx;
    void *row_nnz;            /* entries per row of the product; n_rows elements of the index type */
    /* n_inner flags each, filled on demand: row of B has the same columns as the row before; its columns ascend
     * (SG_OTHER once a copy of the row has found that they do not) */
    _Atomic uint8_t *b_same, *b_order;
    sg_space *spaces;         /* n_threads workspaces */
    _Atomic int n_spaces;
    _Atomic(sg_space *) *spare; /* n_threads slots with workspaces that no thread is using */
    _Atomic int failed;
    sg_range *ranges;              /* in the order of rows */
    int64_t n_ranges;
    _Atomic int64_t n_begun;       /* ranges that a thread has taken */
    _Atomic int64_t n_placed;      /* ranges whose position in the product is known: all before the first one missing */
    _Atomic(sg_chunk *) *spare_chunks; /* sg_n_spare_chunks slots with chunks that no range is using */
    atomic_flag is_placing;        /* lock of the fields that follow */
    int64_t nnz, capacity;         /* entries placed, and entries that `indices` and `values` can hold */
    void *indices, *values;        /* the product, in blocks of the output allocator */
    _Atomic int n_copying;         /* threads that are copying ranges to the product; the blocks do not move then */
    _Atomic int64_t private_bytes; /* allocated for chunks */
    int out_itype;
    void *Cp, *Cj, *Cx;
};

extern const sg_kind sg_kinds[SG_N_DTYPES][2]; /* [dtype][itype] */

/* Values of `b_same` and `b_order`: unknown, yes, no. */
enum { SG_UNKNOWN = 0, SG_SAME = 1, SG_OTHER = 2 };

/* Return a chunk with room for n entries, the next one of the range that is being computed; NULL without memory. */
sg_chunk *sg_open(sg_job *job, sg_space *space, int64_t n);
/* Record that range k is computed, into the workspace's chunks. Then place all ranges whose predecessors are placed, and
 * copy them to the product. Returns 0 without memory. */
int sg_finish_range(sg_job *job, sg_space *space, int64_t k);
/* Return memory that was allocated far beyond the last entry. */
void sg_trim_result(sg_job *job);
/* Return the number of slots for spare chunks. */
int sg_n_spare_chunks(const sg_job *job);
/* Free all chunks. */
void sg_drop_chunks(sg_job *job);
/* Take and return pages of the output allocator. */
void *sg_take_pages(size_t bytes);
void sg_give_pages(void *block, size_t bytes);
/* Ensure room for n groups of sums; return 0 without memory. */
int sg_reserve_sums(const sg_job *job, sg_space *space, int64_t n);
/* Create the accumulators of all columns; return 0 without memory. */
int sg_reserve_cells(const sg_job *job, sg_space *space);
/* Estimate the costs that all rows share. */
void sg_estimate(sg_job *job);
/* Return the estimated nanoseconds of a row with `work` multiplications. `is_copy` says whether it is a multiple of one
 * row of B whose columns ascend. */
double sg_cost(const sg_job *job, int solver, int64_t work, int is_copy);
/* Return the cheaper accumulator for a row that is no such multiple. */
int sg_choose(const sg_job *job, int64_t work);

#endif
