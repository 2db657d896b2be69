/* Triangular solves in place.
 *
 * A gathered row subtracts its entries from the right-hand side in the order of elimination, by one accumulator. A
 * scattered row subtracts its multiples from later rows. Each element of X therefore sees the same operations in the same
 * order in both forms and with any schedule, and complex numbers and columns keep that order. */
#include "claims.h"

#include "matmul_api.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* every function that takes vectors is inlined */
#endif

enum { PANEL_REALS = 16 }; /* reals of the columns that one pass over the matrix solves for */
static const double ENTRY_NS = 1.0, ROW_NS = 4.0; /* one thread, one panel */

typedef struct {
    const asp_triangle *triangle;
    char *X;
    int64_t leading, width; /* reals from one row to the next; reals of a panel (0: one column) */
    int64_t panel;          /* first real of the panel */
} solving;

static int64_t is_complex(int dtype) { return dtype >= ASP_C64; }

int64_t asp_triangle_width(int dtype, int64_t n_columns)
{
    const int64_t reals = n_columns << is_complex(dtype);
    if (n_columns < 2) return n_columns;
    const int64_t padded = reals <= 4 ? 4 : reals <= 8 ? 8 : (reals + PANEL_REALS - 1) / PANEL_REALS * PANEL_REALS;
    return padded >> is_complex(dtype);
}

#define GLUED(x, r, i, isa) ASP_GLUE(x, r, i, isa)
#define INDEX I
#define N(x) GLUED(x, R, INDEX, ISA)
#define ISA_BODY "solve_each.h"
#include "each_isa.h"

#define OF_ISA(x, isa)                                                     \
    {                                                                      \
        {x##_float_int32_t_##isa, x##_float_int64_t_##isa},                \
        {x##_double_int32_t_##isa, x##_double_int64_t_##isa},              \
    },
static const asp_row_run runs[][2][2] = {ASP_EACH_ISA(OF_ISA, rows)};

static asp_row_run run_of(const asp_triangle *triangle)
{
    return runs[asp_isa()][triangle->dtype & 1][triangle->itype != ASP_I32];
}

/* One panel after the other, each without a schedule: panels are independent of each other. */
static void run_panels(void *context, int64_t begin, int64_t end)
{
    for (int64_t panel = begin; panel < end; panel++) {
        solving it = *(const solving *)context;
        it.panel = panel * it.width;
        asp_triangle whole = *it.triangle;
        whole.order = 0;
        it.triangle = &whole;
        run_of(it.triangle)(&it, 0, it.triangle->n);
    }
}

static double serial_ns_of(const asp_triangle *triangle)
{
    const int64_t n = triangle->n;
    if (!n) return 0;
    const int64_t entries = asp_index_at(triangle->itype, (const void *)triangle->stop, n - 1) -
                            asp_index_at(triangle->itype, (const void *)triangle->start, 0);
    return (ENTRY_NS * (double)entries + ROW_NS * (double)n) * (double)(1 + is_complex(triangle->dtype));
}

int asp_triangle_solve(const asp_triangle *triangle, void *X, int64_t leading, int64_t n_columns)
{
    const int64_t reals = leading << is_complex(triangle->dtype);
    solving it = {.triangle = triangle, .X = X, .leading = reals};
    if (n_columns < 1 || !triangle->n) return ASP_OK;
    if (n_columns > 1) {
        if (leading != asp_triangle_width(triangle->dtype, n_columns)) return ASP_BAD_SIZE;
        it.width = asp_min(reals, PANEL_REALS);
    }
    const double serial_ns = serial_ns_of(triangle);
    const int64_t n_panels = it.width ? reals / it.width : 1;
    if (n_panels == 1) return asp_run_stages(triangle, run_of(triangle), &it, serial_ns);
    asp_parallel(run_panels, &it, n_panels, 1, 1, triangle->n_threads, serial_ns * (double)n_panels);
    return ASP_OK;
}
