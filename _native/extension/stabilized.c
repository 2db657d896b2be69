/* Iterations of BiCGSTAB (autosparse/linalg/biconjugate.py) for real systems, without Python between the products and
 * the sweeps. */
#include "recurrences.h"

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
    int is_fine = n_args == 4 && asp_has_items(args[0], 2) && asp_has_items(args[1], N_SWEEPS) &&
                  asp_has_items(args[2], N_NUMBERS);
    state it = {.best = INFINITY};
    for (int at = 0; is_fine && at < 2; at++) {
        PyObject *product = PyTuple_GET_ITEM(args[0], at);
        is_fine = asp_has_items(product, PRODUCT_ITEMS);
        if (is_fine) it.products[at] = &PyTuple_GET_ITEM(product, 0);
    }
    if (!is_fine) return PyErr_Format(PyExc_TypeError, "advance_bicgstab takes products, sweeps, numbers, and a limit");
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
