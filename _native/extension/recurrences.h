/* Parts of recurrences that run several sweeps and products without Python in between. Included by C files of this
 * folder. */
#ifndef ASP_RECURRENCES_H
#define ASP_RECURRENCES_H

#include "extension.h"

#include <math.h>

enum { PRODUCT_ITEMS = 6 }; /* method `run` of a FastCall, and its arguments */

/* Store the real coefficients of a sweep; `c` holds as many as the sweep takes. */
static inline void asp_put(const asp_sweep *sweep, const double *c)
{
    double *pairs = (double *)sweep->coefficients;
    for (int at = 0; at < sweep->n_coefficients; at++) {
        pairs[2 * at] = c[at];
        pairs[2 * at + 1] = 0;
    }
}

/* Execute a sweep with real coefficients. It cannot fail: only sweeps of several columns allocate memory. */
static inline void asp_sweep_with(const asp_sweep *sweep, const double *c)
{
    asp_put(sweep, c);
    asp_sweep_execute(sweep);
}

/* Return dot product `at` of a sweep on real vectors. */
static inline double asp_dot(const asp_sweep *sweep, int at) { return ((const double *)sweep->dots)[2 * at]; }

/* Return the norm for a sum of squares: 0 if the sum rounds to 0 in single precision (arguments.root). */
static inline double asp_norm(double square, int is_single) { return is_single && square < 0x1p-150 ? 0 : sqrt(square); }

/* Return whether a tuple has n items. */
static inline int asp_has_items(PyObject *object, Py_ssize_t n)
{
    return PyTuple_Check(object) && PyTuple_GET_SIZE(object) == n;
}

/* Read a tuple of n numbers; return 0, with an exception set, if one is no number. */
static inline int asp_read_numbers(PyObject *tuple, int n, double *numbers)
{
    for (int at = 0; at < n; at++) numbers[at] = PyFloat_AsDouble(PyTuple_GET_ITEM(tuple, at));
    return !PyErr_Occurred();
}

/* Read n sweeps on real vectors with these numbers of coefficients and at least these of dot products; return 0, with
 * an exception set, if one does not fit. */
static inline int asp_read_sweeps(PyObject *tuple, int n, const int (*sizes)[2], asp_sweep **sweeps)
{
    for (int at = 0; at < n; at++) {
        asp_sweep *sweep = sweeps[at] = asp_sweep_of(PyTuple_GET_ITEM(tuple, at));
        if (!sweep) return 0;
        if (sweep->n_coefficients != sizes[at][0] || sweep->n_dots < sizes[at][1] || sweep->dtype > 1) {
            PyErr_Format(PyExc_ValueError, "sweep %d does not belong to this recurrence", at);
            return 0;
        }
    }
    return 1;
}

#endif
