/* Operations that sweeps.c calls and the bodies for each instruction set define. */
#ifndef ASP_SWEEPS_H
#define ASP_SWEEPS_H

#include "common.h"

enum { ASP_MAX_TERMS = 4 }; /* equals ASP_SWEEP_TERMS */

/* Operations on n reals of one chunk. `c` holds pairs (real, imaginary); n counts reals for complex vectors too. */
typedef struct {
    /* Compute out = sum of c[t] * terms[t]. */
    void (*combine)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n);
    void (*combine_complex)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n);
    /* Compute out = d v, elementwise. */
    void (*scale)(void *out, const void *d, const void *v, int64_t n);
    void (*scale_complex)(void *out, const void *d, const void *v, int64_t n);
    void (*scale_by_real)(void *out, const void *d, const void *v, int64_t n); /* complex v, real d */
    void (*dot)(const void *u, const void *v, int64_t n, double *sum);         /* stores a pair */
    void (*dot_complex)(const void *u, const void *v, int64_t n, double *sum);
    /* Operations on columns: rows have `width` reals; whole rows of `period` reals share coefficients and sums. `re` and `im` (NULL for real types)
     * hold n_terms * period reals of the type; for dot products, `period` doubles that are added to. */
    void (*combine_columns)(void *out, const void *const *terms, const void *re, const void *im, int n_terms,
                            int64_t width, int64_t period, int64_t n);
    void (*dot_columns)(const void *u, const void *v, double *re, double *im, int64_t period, int64_t n);
    void (*scale_rows)(void *out, const void *d, const void *v, int64_t width, int is_d_complex, int64_t n);
    void (*spread)(const double *pairs, int part, int64_t n_columns, int64_t reals, int64_t period, void *spread);
} asp_sweep_bodies;

/* Tables for [0] float, [1] double. */
#define ASP_DECLARE(x, isa) extern const asp_sweep_bodies *const x##_##isa[2];
ASP_EACH_ISA(ASP_DECLARE, asp_sweep)
#undef ASP_DECLARE

#endif
