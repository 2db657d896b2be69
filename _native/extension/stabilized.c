/* Iterations of BiCGSTAB (autosparse/linalg/biconjugate.py) for real systems, without Python between the products and
 * the sweeps. */
#include "recurrences.h"

#include <string.h>

/* Where a run of iterations ends. */
enum { BETWEEN = 0, TURNED = 1, SHADOWED = 2, HALVED = 3, MINIMIZED = 4 };
enum { TURN, SHADOW, HALF, MINIMIZE, STEP, N_SWEEPS };
enum { RR, RHO, BEFORE, ALPHA, OMEGA, LIMIT, SMALLEST, N_NUMBERS };

/* State of the recurrence. */
typedef struct {
    asp_sweep *sweeps[N_SWEEPS];
    PyObject *const *products[2]; /* v = A M p, t = A M r */
    double of[N_NUMBERS];
    double rv, ss, tr, tt, best;
    int is_single;
    long n_done;
} state;

/* Run one iteration; return where it ended. */
static int iterate(state *it)
{
    double *of = it->of;
    asp_sweep *const *sweeps = it->sweeps;
    const double beta = of[RHO] / of[BEFORE] * (of[ALPHA] / of[OMEGA]);
    asp_sweep_with(sweeps[TURN], (const double[]){beta, -beta * of[OMEGA], 1});
    if (!asp_fast_call_sweeps(it->products[0][0], it->products[0] + 1, sweeps[SHADOW])) return TURNED;
    it->rv = asp_dot(sweeps[SHADOW], 0);
    if (it->rv == 0) return SHADOWED;
    of[ALPHA] = of[RHO] / it->rv;
    asp_sweep_with(sweeps[HALF], (const double[]){1, -of[ALPHA]});
    it->ss = asp_dot(sweeps[HALF], 0);
    if (asp_norm(it->ss, it->is_single) < of[LIMIT]) return HALVED;
    if (!asp_fast_call_sweeps(it->products[1][0], it->products[1] + 1, sweeps[MINIMIZE])) return HALVED;
    it->tr = asp_dot(sweeps[MINIMIZE], 0);
    it->tt = asp_dot(sweeps[MINIMIZE], 1);
    if (it->tt == 0) return MINIMIZED;
    of[OMEGA] = it->tr / it->tt;
    of[BEFORE] = of[RHO];
    asp_sweep_with(sweeps[STEP], (const double[]){1, of[ALPHA], of[OMEGA], 1, -of[OMEGA]});
    of[RR] = asp_dot(sweeps[STEP], 0);
    of[RHO] = asp_dot(sweeps[STEP], 1);
    it->n_done++;
    return BETWEEN;
}

/* Run iterations until the norm is below the limit, the recurrence breaks down, a product is not served, or `n_most`
 * are done; return where the last one ended, or -1 with an exception set. */
static int advance(state *it, long n_most)
{
    const double *of = it->of;
    while (it->n_done < n_most && !(fabs(of[RHO]) < of[SMALLEST]) && !(fabs(of[OMEGA]) < of[SMALLEST]) && of[BEFORE] != 0) {
        const int end = iterate(it);
        if (end != BETWEEN) return end;
        const double norm = asp_norm(of[RR], it->is_single);
        if (norm < it->best) it->best = norm;
        if (norm < of[LIMIT]) return BETWEEN;
        if (PyErr_CheckSignals()) return -1;
    }
    return BETWEEN;
}

PyObject *asp_advance_bicgstab(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    state it = {.best = INFINITY};
    if (n_args != 4 || !asp_read_products(args[0], 2, it.products) || !asp_has_items(args[1], N_SWEEPS) ||
        !asp_has_items(args[2], N_NUMBERS))
        return PyErr_Format(PyExc_TypeError, "advance_bicgstab takes products, sweeps, numbers, and a limit");
    static const int sizes[N_SWEEPS][2] = {{3, 0}, {0, 1}, {2, 1}, {0, 2}, {5, 2}};
    const long n_most = PyLong_AsLong(args[3]);
    if (PyErr_Occurred() || !asp_read_numbers(args[2], N_NUMBERS, it.of) ||
        !asp_read_sweeps(args[1], N_SWEEPS, sizes, it.sweeps))
        return NULL;
    it.is_single = it.sweeps[TURN]->dtype == 0;
    const int end = advance(&it, n_most);
    if (end < 0) return NULL;
    const double *of = it.of;
    return Py_BuildValue("(li(ddddddddd)d)", it.n_done, end, of[RR], of[RHO], of[BEFORE], of[ALPHA], of[OMEGA], it.rv,
                         it.ss, it.tr, it.tt, it.best);
}

/* -- several right-hand sides (autosparse/linalg/columns/stabilized.py) */

/* Rows of the state, of which each has a number for each column. */
enum { C_RR, C_RHO, C_BEFORE, C_ALPHA, C_OMEGA, C_SS, C_LIMIT, C_RUNS, C_NUMBERS };

/* State of the recurrences. */
typedef struct {
    const asp_sweep *sweeps[N_SWEEPS]; /* of n_columns columns */
    PyObject *const *products[2];
    double *of[C_NUMBERS], *room, smallest, best;
    int n_columns, is_single;
    long n_done;
} columns_state;

/* Return whether the norm of a running column, a square of `squares`, is below its limit; note the largest norm. */
static int has_converged(const columns_state *it, const double *squares, double *largest)
{
    int found = 0;
    for (int j = 0; j < it->n_columns; j++) {
        const double norm = asp_norm(squares[j], it->is_single);
        if (!(norm <= *largest)) *largest = norm;
        found |= it->of[C_RUNS][j] != 0 && norm < it->of[C_LIMIT][j];
    }
    return found;
}

/* Run one iteration of all columns; return where it ended, or -1 without memory. SHADOWED: a quotient is not
 * defined, and nothing has changed. Python repeats the product after which TURNED or HALVED is returned. */
static int iterate_columns(columns_state *it)
{
    double *const *of = it->of, *room = it->room, *beta = room + it->n_columns;
    const asp_sweep *const *sweeps = it->sweeps;
    const int n = it->n_columns;
    if (!asp_divide(n, of[C_RUNS], of[C_RHO], of[C_BEFORE], beta) ||
        !asp_divide(n, of[C_RUNS], of[C_ALPHA], of[C_OMEGA], room))
        return SHADOWED;
    for (int j = 0; j < n; j++) {
        beta[j] *= room[j];
        room[j] = -beta[j] * of[C_OMEGA][j];
    }
    asp_put_columns(sweeps[TURN], 0, beta, 1);
    asp_put_columns(sweeps[TURN], 1, room, 1);
    asp_put_ones(sweeps[TURN], 2);
    if (asp_sweep_execute(sweeps[TURN])) return -1;
    if (!asp_fast_call_sweeps(it->products[0][0], it->products[0] + 1, sweeps[SHADOW])) return TURNED;
    asp_take_dots(sweeps[SHADOW], 0, beta);
    if (!asp_divide(n, of[C_RUNS], of[C_RHO], beta, room)) return TURNED;
    memcpy(of[C_ALPHA], room, (size_t)n * sizeof(double));
    asp_put_ones(sweeps[HALF], 0);
    asp_put_columns(sweeps[HALF], 1, of[C_ALPHA], -1);
    if (asp_sweep_execute(sweeps[HALF])) return -1;
    asp_take_dots(sweeps[HALF], 0, of[C_SS]);
    double largest = 0;
    if (has_converged(it, of[C_SS], &largest)) return HALVED;
    if (!asp_fast_call_sweeps(it->products[1][0], it->products[1] + 1, sweeps[MINIMIZE])) return HALVED;
    asp_take_dots(sweeps[MINIMIZE], 0, beta);
    asp_take_dots(sweeps[MINIMIZE], 1, room);
    if (!asp_divide(n, of[C_RUNS], beta, room, room)) return HALVED;
    memcpy(of[C_OMEGA], room, (size_t)n * sizeof(double));
    memcpy(of[C_BEFORE], of[C_RHO], (size_t)n * sizeof(double));
    asp_put_ones(sweeps[STEP], 0);
    asp_put_columns(sweeps[STEP], 1, of[C_ALPHA], 1);
    asp_put_columns(sweeps[STEP], 2, of[C_OMEGA], 1);
    asp_put_ones(sweeps[STEP], 3);
    asp_put_columns(sweeps[STEP], 4, of[C_OMEGA], -1);
    if (asp_sweep_execute(sweeps[STEP])) return -1;
    asp_take_dots(sweeps[STEP], 0, of[C_RR]);
    asp_take_dots(sweeps[STEP], 1, of[C_RHO]);
    it->n_done++;
    return BETWEEN;
}

/* Run iterations until a running column converges or breaks down, a product is not served, or `n_most` are done; return
 * where the last one ended, or -1 with an exception set. */
static int advance_columns(columns_state *it, long n_most)
{
    double *const *of = it->of;
    while (it->n_done < n_most) {
        const int end = iterate_columns(it);
        if (end < 0) PyErr_NoMemory();
        if (end != BETWEEN) return end == SHADOWED ? BETWEEN : end;
        double largest = 0;
        int has_ended = has_converged(it, of[C_RR], &largest);
        if (largest < it->best) it->best = largest;
        for (int j = 0; j < it->n_columns; j++)
            has_ended |= of[C_RUNS][j] != 0 && (fabs(of[C_RHO][j]) < it->smallest || fabs(of[C_OMEGA][j]) < it->smallest);
        if (has_ended) return BETWEEN;
        if (PyErr_CheckSignals()) return -1;
    }
    return BETWEEN;
}

PyObject *asp_advance_columns_bicgstab(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    columns_state it = {.best = INFINITY};
    it.n_columns = n_args == 5 ? asp_read_rows(args[2], C_NUMBERS, it.of) : -1;
    if (it.n_columns < 0 || !asp_read_products(args[0], 2, it.products) || !asp_has_items(args[1], N_SWEEPS))
        return PyErr_Format(PyExc_TypeError, "advance_columns_bicgstab takes products, sweeps, numbers, and two limits");
    it.smallest = PyFloat_AsDouble(args[3]);
    const long n_most = PyLong_AsLong(args[4]);
    static const int sizes[N_SWEEPS][2] = {{3, 0}, {0, 1}, {2, 1}, {0, 2}, {5, 2}};
    if (PyErr_Occurred() || !asp_read_column_sweeps(args[1], N_SWEEPS, sizes, it.n_columns, it.sweeps)) return NULL;
    it.is_single = it.sweeps[TURN]->dtype == 0;
    it.room = PyMem_Malloc(2 * (size_t)it.n_columns * sizeof(double) + 1);
    if (!it.room) return PyErr_NoMemory();
    const int end = advance_columns(&it, n_most);
    PyMem_Free(it.room);
    return end < 0 ? NULL : Py_BuildValue("(lid)", it.n_done, end, it.best);
}
