/* Triangular systems and incomplete factorizations of matrices in compressed rows (autosparse/linalg/triangular). */

/* One triangle. Row i holds the entries [start[i], stop[i]) off the diagonal, in ascending order of their indices. All
 * addresses are of arrays: indices, start, stop and order of the type `itype`, data and inverse of `dtype`. */
typedef struct asp_triangle {
    int32_t dtype;        /* 0 float, 1 double, 2 and 3 their complex */
    int32_t itype;        /* 0 int32_t, 1 int64_t */
    int32_t is_backward;  /* rows are eliminated from the last to the first */
    int32_t is_scattered; /* the rows are the columns of the triangle */
    int32_t n_threads;    /* maximum number of threads */
    int64_t n;
    uintptr_t start, stop, indices, data;
    uintptr_t inverse;    /* inverse of the diagonal; 0: the diagonal is 1 */
    /* Schedule (asp_triangle_schedule); order 0: rows are eliminated one after the other. */
    uintptr_t order, chunks, stage_of;
    int64_t n_chunks, n_stages;
} asp_triangle;

/* Find lower_stop[i], the position of the first entry of row i right of the diagonal or on it, and upper_start[i], that of
 * the first entry right of it. facts: whether the indices of all rows ascend strictly (the positions are valid only then),
 * the numbers of entries left and right of the diagonal, and the first row without a diagonal entry (-1: none). */
int asp_triangle_split(int itype, int64_t n, const void *indptr, const void *indices, void *lower_stop, void *upper_start,
                       int64_t *facts, int n_threads);
/* Copy the entries [start[i], stop[i]) of all rows one after the other; indptr has room for n + 1 elements. */
int asp_triangle_take(int itype, int item_bytes, int64_t n, const void *start, const void *stop, const void *indices,
                      const void *data, void *indptr, void *out_indices, void *out_data);
/* Compute the level of each row of a triangle that is not scattered: 1 + the maximum level of the rows it refers to, 1
 * without any. level is zero before. Returns the number of levels. */
int64_t asp_triangle_levels(const asp_triangle *triangle, int32_t *level);
/* Sort rows by level and divide them into chunks of stages. The chunks of one stage are independent of each other; rows of
 * a chunk are eliminated in the order given. chunks has room for n + 1 elements, stage_of for n. counts: chunks, stages,
 * the work (entries, plus a constant for each row) of the stages of one chunk and of the other stages, and the rows that do
 * not follow the row before them in the matrix. */
int asp_triangle_schedule(const asp_triangle *triangle, const int32_t *level, int64_t n_levels, void *order, int64_t *chunks,
                          int32_t *stage_of, int64_t *counts);
/* Solve for n_columns right-hand sides in place: X is in C order, with `leading` elements from one row to the next. With
 * more than one column, leading is asp_triangle_width(dtype, n_columns). The bits of X do not depend on the number of
 * threads or the schedule. */
int asp_triangle_solve(const asp_triangle *triangle, void *X, int64_t leading, int64_t n_columns);
/* Columns that are solved for together, including the unused ones at the end. */
int64_t asp_triangle_width(int dtype, int64_t n_columns);
/* Factorize in place a matrix with every diagonal entry: A = (I + L) U on the pattern of A. The triangle's start is the
 * first entry of a row, stop its diagonal; end[i] is the end of row i. Writes the inverse of the diagonal. Returns the
 * first row whose pivot is zero or NaN, -1, or -2 without memory. */
int64_t asp_incomplete_lu(const asp_triangle *triangle, const void *end);
/* Factorize in place a Hermitian matrix, A = L L^H on the pattern of its lower triangle. `diagonal` holds the real
 * diagonal of A. Writes the inverse of the diagonal of L. Returns the first row whose pivot is not positive,
 * -1, or -2 without memory. */
int64_t asp_incomplete_cholesky(const asp_triangle *triangle, const void *diagonal);
