/* Iterations of conjugate gradients (autosparse/linalg/conjugate_gradients.py) for real systems, without Python between
 * the products and the sweeps. */
#include "recurrences.h"

#include <string.h>

/* Where a run of iterations ends. */
enum { CG_BETWEEN = 0, CG_TURNED = 1, CG_CURVED = 2 };
enum { TURN, CURVATURE, DESCEND, CG_SWEEPS };
enum { RR, RZ, BEFORE, PENDING, LIMIT, CG_NUMBERS };

/* State of the recurrence. */
typedef struct {
    asp_sweep *sweeps[CG_SWEEPS];
    PyObject *const *product;
    /* r.r, r.z, the last r.z (NaN in the first iteration), the pending step of x, the norm that ends the solve */
    double of[CG_NUMBERS];
    double pq, best;
    long n_done;
} cg_state;

/* Run one iteration; return where it ended. x += pending p, p = z + beta p (but in the first), q = A p, r -= alpha q. */
static int iterate(cg_state *it)
{
    double *of = it->of;
    if (!isnan(of[BEFORE]))
        asp_sweep_with(it->sweeps[TURN], (const double[]){1, of[PENDING], 1, of[RZ] / of[BEFORE]});
    of[PENDING] = 0;
    if (!asp_fast_call_sweeps(it->product[0], it->product + 1, it->sweeps[CURVATURE])) return CG_TURNED;
    it->pq = asp_dot(it->sweeps[CURVATURE], 0);
    if (it->pq == 0) return CG_CURVED;
    of[BEFORE] = of[RZ];
    of[PENDING] = of[RZ] / it->pq;
    const asp_sweep *descend = it->sweeps[DESCEND];
    asp_sweep_with(descend, (const double[]){1, -of[PENDING]});
    of[RR] = asp_dot(descend, 0);
    of[RZ] = asp_dot(descend, descend->n_dots - 1);
    it->n_done++;
    return CG_BETWEEN;
}

/* Run iterations until the norm is below the limit, the product is not served, or `n_most` are done; return where the
 * last one ended, or -1 with an exception set. */
static int advance(cg_state *it, long n_most)
{
    while (it->n_done < n_most && it->of[BEFORE] != 0) {
        const int end = iterate(it);
        if (end != CG_BETWEEN) return end;
        const double norm = asp_norm(it->of[RR], it->sweeps[TURN]->dtype == 0);
        if (norm < it->best) it->best = norm;
        if (norm < it->of[LIMIT]) return CG_BETWEEN;
        if (PyErr_CheckSignals()) return -1;
    }
    return CG_BETWEEN;
}

PyObject *asp_advance_cg(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    if (n_args != 4 || !asp_has_items(args[0], PRODUCT_ITEMS) || !asp_has_items(args[1], CG_SWEEPS) ||
        !asp_has_items(args[2], CG_NUMBERS))
        return PyErr_Format(PyExc_TypeError, "advance_cg takes a product, sweeps, numbers, and a limit");
    static const int sizes[CG_SWEEPS][2] = {{4, 0}, {0, 1}, {2, 1}};
    cg_state it = {.product = &PyTuple_GET_ITEM(args[0], 0), .best = INFINITY};
    const long n_most = PyLong_AsLong(args[3]);
    if (PyErr_Occurred() || !asp_read_numbers(args[2], CG_NUMBERS, it.of) ||
        !asp_read_sweeps(args[1], CG_SWEEPS, sizes, it.sweeps))
        return NULL;
    const int end = advance(&it, n_most);
    if (end < 0) return NULL;
    return Py_BuildValue("(liddddd)", it.n_done, end, it.of[RR], it.of[RZ], it.of[BEFORE], it.of[PENDING], it.best);
}

/* -- several right-hand sides (autosparse/linalg/columns/conjugate_gradients.py) */

/* Rows of the state, of which each has a number for each column. */
enum { C_RR, C_RZ, C_BEFORE, C_STEP, C_LIMIT, C_RUNS, C_NUMBERS };

/* State of the recurrences. */
typedef struct {
    const asp_sweep *sweeps[CG_SWEEPS]; /* of n_columns columns */
    PyObject *const *product;
    double *of[C_NUMBERS];
    int n_columns;
    double best; /* least of the largest norms of the iterations */
    long n_done;
} columns_state;

/* Run one iteration of all columns; return where it ended, or -1 without memory. p.q = 0 ends it before the product,
 * which Python then repeats. `room` holds n_columns numbers. */
static int iterate_columns(columns_state *it, double *room)
{
    double *const *of = it->of;
    const asp_sweep *turn = it->sweeps[TURN], *curvature = it->sweeps[CURVATURE], *descend = it->sweeps[DESCEND];
    asp_put_ones(turn, 0);
    asp_put_columns(turn, 1, of[C_STEP], 1);
    asp_divide(it->n_columns, of[C_RUNS], of[C_RZ], of[C_BEFORE], room);
    asp_put_columns(turn, 2, room, 1);
    asp_put_ones(turn, 3);
    if (asp_sweep_execute(turn)) return -1;
    memset(of[C_STEP], 0, (size_t)it->n_columns * sizeof(double));
    if (!asp_fast_call_sweeps(it->product[0], it->product + 1, curvature)) return CG_TURNED;
    asp_take_dots(curvature, 0, room);
    if (!asp_divide(it->n_columns, of[C_RUNS], of[C_RZ], room, room)) return CG_TURNED;
    memcpy(of[C_STEP], room, (size_t)it->n_columns * sizeof(double));
    memcpy(of[C_BEFORE], of[C_RZ], (size_t)it->n_columns * sizeof(double));
    asp_put_ones(descend, 0);
    asp_put_columns(descend, 1, of[C_STEP], -1);
    if (asp_sweep_execute(descend)) return -1;
    asp_take_dots(descend, 0, of[C_RR]);
    asp_take_dots(descend, descend->n_dots - 1, of[C_RZ]);
    it->n_done++;
    return CG_BETWEEN;
}

/* Run iterations until the norm of a running column is below its limit, a quotient is not defined, the product is not
 * served, or `n_most` are done; return where the last one ended, or -1 with an exception set. */
static int advance_columns(columns_state *it, double *room, long n_most)
{
    double *const *of = it->of;
    while (it->n_done < n_most && asp_divide(it->n_columns, of[C_RUNS], of[C_RZ], of[C_BEFORE], room)) {
        const int end = iterate_columns(it, room);
        if (end < 0) PyErr_NoMemory();
        if (end != CG_BETWEEN) return end;
        double largest = 0;
        int has_ended = 0;
        for (int j = 0; j < it->n_columns; j++) {
            const double norm = asp_norm(of[C_RR][j], it->sweeps[TURN]->dtype == 0);
            if (!(norm <= largest)) largest = norm;
            has_ended |= of[C_RUNS][j] != 0 && norm < of[C_LIMIT][j];
        }
        if (largest < it->best) it->best = largest;
        if (has_ended) return CG_BETWEEN;
        if (PyErr_CheckSignals()) return -1;
    }
    return CG_BETWEEN;
}

PyObject *asp_advance_columns_cg(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    columns_state it = {.best = INFINITY};
    it.n_columns = n_args == 4 ? asp_read_rows(args[2], C_NUMBERS, it.of) : -1;
    if (it.n_columns < 0 || !asp_has_items(args[0], PRODUCT_ITEMS) || !asp_has_items(args[1], CG_SWEEPS))
        return PyErr_Format(PyExc_TypeError, "advance_columns_cg takes a product, sweeps, numbers, and a limit");
    it.product = &PyTuple_GET_ITEM(args[0], 0);
    const long n_most = PyLong_AsLong(args[3]);
    static const int sizes[CG_SWEEPS][2] = {{4, 0}, {0, 1}, {2, 1}};
    if (PyErr_Occurred() || !asp_read_column_sweeps(args[1], CG_SWEEPS, sizes, it.n_columns, it.sweeps)) return NULL;
    double *room = PyMem_Malloc((size_t)it.n_columns * sizeof(double) + 1);
    if (!room) return PyErr_NoMemory();
    const int end = advance_columns(&it, room, n_most);
    PyMem_Free(room);
    return end < 0 ? NULL : Py_BuildValue("(lid)", it.n_done, end, it.best);
}
