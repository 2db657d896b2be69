/* Incomplete factorizations on the pattern of the matrix, row by row. A row needs the rows that it refers to left of the
 * diagonal, as in the triangular solve, and therefore runs by the same schedule. */
#include <math.h>

#include "claims.h"

enum { MAX_ROWS = 256 }; /* chunks that run at once, as threads of the pool */

typedef struct {
    const asp_triangle *triangle;
    const void *end, *diagonal;
    _Atomic int64_t failed; /* the first row without a valid pivot; n: none */
    void *rows[MAX_ROWS];   /* arrays of n values, one for each chunk that runs now */
    _Atomic int is_taken[MAX_ROWS], is_without_memory;
} factorizing;

static const double UPDATE_NS = 1.5; /* one entry of a row that is subtracted from another, one thread */

/* Take an array of n values, zero at first; -1 without memory. */
static int take_row(factorizing *it, size_t item_bytes)
{
    for (int at = 0; at < MAX_ROWS; at++) {
        int is_free = 0;
        if (!atomic_compare_exchange_strong_explicit(&it->is_taken[at], &is_free, 1, memory_order_acquire, memory_order_relaxed))
            continue;
        if (!it->rows[at]) it->rows[at] = calloc((size_t)it->triangle->n, item_bytes);
        if (it->rows[at]) return at;
        break;
    }
    atomic_store(&it->is_without_memory, 1);
    return -1;
}

static void note_failure(factorizing *it, int64_t row)
{
    int64_t before = atomic_load(&it->failed);
    while (row < before && !atomic_compare_exchange_weak(&it->failed, &before, row)) {}
}

#define INDEX I
#define N(x) ASP_GLUE(x, T, INDEX, of)
#define T float
#define REAL float
#define ROOT sqrtf
#define CONJUGATE(x) (x)
#define REAL_PART(x) (x)
#include "incomplete_each.h"
#undef T
#define T cfloat
typedef float _Complex cfloat;
#undef CONJUGATE
#undef REAL_PART
#define CONJUGATE(x) (~(x))
#define REAL_PART(x) (__real__(x))
#include "incomplete_each.h"
#undef T
#undef REAL
#undef ROOT
#define T cdouble
#define REAL double
#define ROOT sqrt
typedef double _Complex cdouble;
#include "incomplete_each.h"
#undef T
#undef CONJUGATE
#undef REAL_PART
#define T double
#define CONJUGATE(x) (x)
#define REAL_PART(x) (x)
#include "incomplete_each.h"

#define BY_DTYPE(name)                                                                                          \
    {                                                                                                           \
        {name##_float_int32_t_of, name##_float_int64_t_of}, {name##_double_int32_t_of, name##_double_int64_t_of}, \
        {name##_cfloat_int32_t_of, name##_cfloat_int64_t_of}, {name##_cdouble_int32_t_of, name##_cdouble_int64_t_of}, \
    }
static const asp_row_run lu_rows[4][2] = BY_DTYPE(lu), cholesky_rows[4][2] = BY_DTYPE(cholesky);

static int64_t factorize(const asp_row_run (*runs)[2], factorizing *it)
{
    const asp_triangle *triangle = it->triangle;
    const int64_t n = triangle->n;
    if (!n) return -1;
    const double entries = (double)(asp_index_at(triangle->itype, (const void *)triangle->stop, n - 1) -
                                    asp_index_at(triangle->itype, (const void *)triangle->start, 0));
    const double serial_ns = UPDATE_NS * entries * (1 + entries / (double)n);
    it->failed = n;
    const int status = asp_run_stages(triangle, runs[triangle->dtype][triangle->itype != ASP_I32], it, serial_ns);
    for (int at = 0; at < MAX_ROWS && it->rows[at]; at++) free(it->rows[at]);
    if (status != ASP_OK || it->is_without_memory) return -2;
    return it->failed < n ? it->failed : -1;
}

int64_t asp_incomplete_lu(const asp_triangle *triangle, const void *end)
{
    factorizing it = {.triangle = triangle, .end = end};
    return factorize(lu_rows, &it);
}

int64_t asp_incomplete_cholesky(const asp_triangle *triangle, const void *diagonal)
{
    factorizing it = {.triangle = triangle, .diagonal = diagonal};
    return factorize(cholesky_rows, &it);
}
