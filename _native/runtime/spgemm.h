/* A product of two sparse matrices in the making: see spgemm.c. */
#ifndef ASP_SPGEMM_H
#define ASP_SPGEMM_H

#include "common.h"

#include <stdatomic.h>

/* Rows [row, row_end) of the product, their entries one after the other. */
typedef struct {
    int64_t row, row_end, n;
    void *j, *x;
} sg_segment;

typedef struct sg_job sg_job;
typedef int (*sg_rows_fn)(const sg_job *job, sg_segment *segment, void *accumulators);
typedef void (*sg_work_fn)(sg_job *job, int64_t row, int64_t row_end);

struct sg_job {
    int itype, n_threads;
    size_t value_bytes, index_bytes, accumulator_bytes;
    int64_t n_rows, n_cols;
    const void *Ap, *Aj, *Ax, *Bp, *Bj, *Bx;
    sg_rows_fn rows;
    int64_t *work;    /* n_rows + 1: multiplications before each row */
    int64_t *row_nnz; /* n_rows + 1: entries of each row, later entries before it */
    sg_segment *segments;
    _Atomic int64_t n_segments;
    int64_t max_segments;
    _Atomic(void *) *spare; /* accumulators that no thread is using; n_spare slots */
    int n_spare;
    _Atomic int failed;
    int out_itype;
    void *Cp, *Cj, *Cx;
};

#endif
