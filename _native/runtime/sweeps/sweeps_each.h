/* Instantiate sweeps_body.h for one instruction set and both types. ISA names the table; VBYTES is the vector width. */
#if defined(__clang__)
#define ASP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ASP_INDEPENDENT _Pragma("GCC ivdep")
#endif

enum { DOUBLES = VBYTES / 8, LANES = 32 / DOUBLES };
enum { MAX_GROUP = 2 }; /* vectors of a row whose coefficients registers hold, with up to ASP_MAX_TERMS terms */
enum { SUMS = 8 };      /* vectors of sums of columns that registers hold */
typedef double doubles __attribute__((vector_size(VBYTES), aligned(8), may_alias));

/* Return a b, rounded. */
ASP_INLINE doubles double_product(doubles a, doubles b)
{
    doubles product = a * b;
    ASP_PIN_VECTOR(product);
    return product;
}

ASP_INLINE doubles double_all(double value)
{
    doubles all;
    for (int lane = 0; lane < DOUBLES; lane++) all[lane] = value;
    return all;
}

ASP_INLINE doubles double_swap(doubles v)
{
    doubles swapped;
    for (int lane = 0; lane < DOUBLES; lane++) swapped[lane] = v[lane ^ 1];
    return swapped;
}

/* Reduce the lanes of 32 sums to eight: (l + l8) + (l16 + l24). */
ASP_INLINE void lanes_of(const doubles *sums, double *lanes)
{
    ASP_UNROLL for (int at = 0; at < LANES / 4; at++)
        *(doubles *)(lanes + at * DOUBLES) = (sums[at] + sums[LANES / 4 + at]) + (sums[LANES / 2 + at] + sums[3 * LANES / 4 + at]);
}

#define R float
#define NAME(x) x##_float
#include "sweeps_body.h"
#undef R
#undef NAME
#define R double
#define NAME(x) x##_double
#include "sweeps_body.h"
#undef R
#undef NAME

#define TABLE_OF(isa) TABLE_OF_(isa)
#define TABLE_OF_(isa) asp_sweep_##isa
const asp_sweep_bodies *const TABLE_OF(ISA)[2] = {&bodies_float, &bodies_double};
