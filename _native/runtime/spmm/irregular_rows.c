/* The kernels of irregular_rows.h, and their choice. Rows of B of 64 bytes take 0.9 to 1.2 times the time of tiles. */
#include "irregular_rows.h"

#include "matmul_api.h"

/* Triples of neighbouring rows that are sampled, of which one in IRREGULAR_SHARE must take three different ways: two ways
 * in turn are predicted. */
enum { SAMPLED = 64, IRREGULAR_SHARE = 3, STEP = 4, MAX_STEPS = 4 };

/* Return the way that a loop takes for row `row`: its whole steps, as far as their number is predicted, and its rest. */
static int64_t way_of(int itype, const void *indptr, int64_t row)
{
    const int64_t n = asp_index_at(itype, indptr, row + 1) - asp_index_at(itype, indptr, row);
    return asp_min(n / STEP, MAX_STEPS) * STEP + n % STEP;
}

int asp_has_irregular_rows(int itype, const void *indptr, int64_t n_rows)
{
    const int64_t step = (n_rows - 3) / (SAMPLED - 1);
    int n_irregular = 0;
    for (int64_t at = 0; at < SAMPLED && n_rows > 2; at++) {
        const int64_t one = way_of(itype, indptr, at * step), two = way_of(itype, indptr, at * step + 1),
                      three = way_of(itype, indptr, at * step + 2);
        n_irregular += one != two && two != three && one != three;
    }
    return n_irregular * IRREGULAR_SHARE > SAMPLED;
}

#if ASP_X86
#include ASP_INTRINSICS

#define ASP_ISA_LEVEL 1
#include "isa_begin.h"

enum { SETS = 4, SHORT_ROW = 2 * SETS - 1 };
/* Masks of no lane and of all lanes. */
static const int32_t asp_keep[2][8] __attribute__((aligned(VBYTES))) = {{0}, {-1, -1, -1, -1, -1, -1, -1, -1}};

#define NAME(x) ASP_GLUE(ISA, RTAG, ITAG, x)
/* KEEP(is_new, a, b): b if is_new is 1, and a if it is 0. */
#define KEEP_4(is_new, a, b) _mm256_blendv_ps(a, b, _mm256_load_ps((const float *)asp_keep[is_new]))
#define KEEP_8(is_new, a, b) _mm256_blendv_pd(a, b, _mm256_load_pd((const double *)asp_keep[is_new]))
#define KEEP_OF_(bytes) KEEP_##bytes
#define KEEP_OF(bytes) KEEP_OF_(bytes)
#define KEEP(is_new, a, b) KEEP_OF(RBYTES)(is_new, a, b)
#define REAL_BODY "irregular_rows_each.h"
#include "real_types.h"

#define KERNELS_OF(tag) {ASP_GLUE(ISA, tag, i32, irregular), ASP_GLUE(ISA, tag, i64, irregular)}
static const asp_kernel irregular_kernels[2][2] = {KERNELS_OF(f32), KERNELS_OF(f64)};

#include "isa_end.h"

/* Fewer rows than MIN_ROWS are predicted in repeated products, or fewer than MIN_LONGER_ROWS that have LONGER entries in
 * the mean. */
enum { MIN_ROWS = 32768, MIN_LONGER_ROWS = 8192, LONGER = 8 };
#endif

asp_kernel asp_irregular_kernel(int dtype, int itype, const asp_args *args)
{
#if ASP_X86
    const int is_narrow = dtype <= ASP_F64 && args->n_vecs > 1 && args->n_vecs * asp_element_bytes(dtype) <= 32;
    const int64_t min_rows = args->nnz >= LONGER * args->n_rows ? MIN_LONGER_ROWS : MIN_ROWS;
    if (is_narrow && asp_isa() > 0 && args->n_rows >= min_rows && !args->has_identical_rows &&
        asp_has_irregular_rows(itype, args->indptr, args->n_rows))
        return irregular_kernels[dtype][itype];
#else
    (void)dtype, (void)itype, (void)args;
#endif
    return NULL;
}
