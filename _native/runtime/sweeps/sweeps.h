/* What sweeps.c and the bodies for each instruction set share. */
#ifndef ASP_SWEEPS_H
#define ASP_SWEEPS_H

#include "common.h"

enum { ASP_MAX_TERMS = 4 }; /* as ASP_SWEEP_TERMS */

/* Operations on n reals of one chunk. `c` are pairs (real, imaginary); counts of complex vectors are of reals, too. */
typedef struct {
    /* out = sum of c[t] * terms[t] */
    void (*combine)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n);
    void (*combine_complex)(void *out, const void *const *terms, const double *c, int n_terms, int64_t n);
    void (*scale)(void *out, const void *d, const void *v, int64_t n);
    void (*scale_complex)(void *out, const void *d, const void *v, int64_t n);
    void (*scale_by_real)(void *out, const void *d, const void *v, int64_t n); /* complex v, real d */
    void (*dot)(const void *u, const void *v, int64_t n, double *sum);         /* a pair */
    void (*dot_complex)(const void *u, const void *v, int64_t n, double *sum);
    /* Columns: rows of `period` reals share coefficients and sums. `re` and `im` (NULL: real) hold n_terms * period reals
     * of the type; of dots, `period` doubles that are added to. */
    void (*combine_columns)(void *out, const void *const *terms, const void *re, const void *im, int n_terms,
                            int64_t period, int64_t n);
    void (*dot_columns)(const void *u, const void *v, double *re, double *im, int64_t period, int64_t n);
    void (*scale_rows)(void *out, const void *d, const void *v, int64_t width, int is_d_complex, int64_t n);
    void (*spread)(const double *pairs, int part, int64_t n_columns, int64_t reals, int64_t period, void *spread);
} asp_sweep_bodies;

/* [0] float, [1] double */
extern const asp_sweep_bodies *const asp_sweep_base[2], *const asp_sweep_avx2[2], *const asp_sweep_avx512[2];

#endif
