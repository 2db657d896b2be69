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

/* Read a tuple of n products, each the method `run` of a FastCall and its arguments; return whether it is one. */
static inline int asp_read_products(PyObject *tuple, int n, PyObject *const **products)
{
    if (!asp_has_items(tuple, n)) return 0;
    for (int at = 0; at < n; at++) {
        PyObject *product = PyTuple_GET_ITEM(tuple, at);
        if (!asp_has_items(product, PRODUCT_ITEMS)) return 0;
        products[at] = &PyTuple_GET_ITEM(product, 0);
    }
    return 1;
}

/* Return a tuple of n numbers, or NULL with an exception set. */
static inline PyObject *asp_tuple_of(const double *numbers, int n)
{
    PyObject *tuple = PyTuple_New(n);
    for (int at = 0; tuple && at < n; at++) {
        PyObject *number = PyFloat_FromDouble(numbers[at]);
        if (!number || PyTuple_SetItem(tuple, at, number)) Py_CLEAR(tuple);
    }
    return tuple;
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

/* -- several columns: sweeps with n_columns coefficients for each term, and as many sums for each dot product -- */

/* Store real coefficients of term `at`: `values` times `sign`. */
static inline void asp_put_columns(const asp_sweep *sweep, int at, const double *values, double sign)
{
    double *pairs = (double *)sweep->coefficients + 2 * (int64_t)at * sweep->n_columns;
    for (int j = 0; j < sweep->n_columns; j++) {
        pairs[2 * j] = sign * values[j];
        pairs[2 * j + 1] = 0;
    }
}

/* Store ones as coefficients of term `at`. */
static inline void asp_put_ones(const asp_sweep *sweep, int at)
{
    double *pairs = (double *)sweep->coefficients + 2 * (int64_t)at * sweep->n_columns;
    for (int j = 0; j < sweep->n_columns; j++) {
        pairs[2 * j] = 1;
        pairs[2 * j + 1] = 0;
    }
}

/* Store in `quotient` dividend / divisor of running columns, and 0 for others; return whether no divisor was 0. */
static inline int asp_divide(int n_columns, const double *runs, const double *dividend, const double *divisor,
                             double *quotient)
{
    int is_whole = 1;
    for (int j = 0; j < n_columns; j++) {
        is_whole &= runs[j] == 0 || divisor[j] != 0;
        quotient[j] = runs[j] != 0 ? dividend[j] / divisor[j] : 0;
    }
    return is_whole;
}

/* Copy the dot products `at` of the columns. */
static inline void asp_take_dots(const asp_sweep *sweep, int at, double *to)
{
    const double *pairs = (const double *)sweep->dots + 2 * (int64_t)at * sweep->n_columns;
    for (int j = 0; j < sweep->n_columns; j++) to[j] = pairs[2 * j];
}

/* Read an array of n rows with a number for each column; return the number of columns, -1 if it is no such array. */
static inline int asp_read_rows(PyObject *object, int n, double **rows)
{
    PyArrayObject *array = asp_array(object, 2, ASP_WRITTEN);
    if (!array || PyArray_NDIM(array) != 2 || PyArray_DIM(array, 0) != n || asp_value_code(array) != 1) return -1;
    const int n_columns = (int)PyArray_DIM(array, 1);
    for (int at = 0; at < n; at++) rows[at] = (double *)PyArray_DATA(array) + (int64_t)at * n_columns;
    return n_columns;
}

/* Read the addresses of n sweeps on real columns; return 0, with an exception set, if one does not fit. */
static inline int asp_read_column_sweeps(PyObject *addresses, int n, const int (*sizes)[2], int n_columns,
                                         const asp_sweep **sweeps)
{
    for (int at = 0; at < n; at++) {
        const asp_sweep *sweep = sweeps[at] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, at));
        if (PyErr_Occurred()) return 0;
        if (!sweep || sweep->n_coefficients != sizes[at][0] || sweep->n_dots < sizes[at][1] || sweep->dtype > 1 ||
            sweep->n_columns != n_columns) {
            PyErr_Format(PyExc_ValueError, "sweep %d does not belong to this recurrence", at);
            return 0;
        }
    }
    return 1;
}

#endif
