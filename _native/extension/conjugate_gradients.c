/* Iterations of conjugate gradients (autosparse/linalg/conjugate_gradients.py) for real systems, without Python between
 * the products and the sweeps. */
#include "extension.h"

#include <math.h>

/* Where a run of iterations ends. */
enum { CG_BETWEEN = 0, CG_TURNED = 1, CG_CURVED = 2 };
enum { CG_SWEEPS = 3, CG_NUMBERS = 5, CG_PRODUCT = 6 };

/* State of the recurrence. */
typedef struct {
    const asp_sweep *turn, *curvature, *descend;
    PyObject *const *product;              /* method `run` of a FastCall, and its arguments */
    double rr, rz, before, pending, limit; /* in the order of the tuple of numbers */
    double pq, best;
    int is_single;
    long n_done;
} cg_state;

static void set_coefficient(const asp_sweep *sweep, int at, double value)
{
    double *pair = (double *)sweep->coefficients + 2 * at;
    pair[0] = value;
    pair[1] = 0;
}

static double dot_of(const asp_sweep *sweep, int at) { return ((const double *)sweep->dots)[2 * at]; }

/* Return the norm for a sum of squares: 0 if the sum rounds to 0 in single precision (arguments.root). */
static double norm_of(const cg_state *it)
{
    return it->is_single && it->rr < 0x1p-150 ? 0 : sqrt(it->rr);
}

/* Run one iteration; return where it ended. x += pending p, p = z + beta p, q = A p, r -= alpha q. */
static int iterate(cg_state *it)
{
    const double beta[] = {1, it->pending, 1, it->rz / it->before};
    for (int at = 0; at < 4; at++) set_coefficient(it->turn, at, beta[at]);
    asp_sweep_execute(it->turn);
    it->pending = 0;
    if (!asp_fast_call_sweeps(it->product[0], it->product + 1, it->curvature)) return CG_TURNED;
    it->pq = dot_of(it->curvature, 0);
    if (it->pq == 0) return CG_CURVED;
    it->before = it->rz;
    it->pending = it->rz / it->pq;
    set_coefficient(it->descend, 0, 1);
    set_coefficient(it->descend, 1, -it->pending);
    asp_sweep_execute(it->descend);
    it->rr = dot_of(it->descend, 0);
    it->rz = dot_of(it->descend, it->descend->n_dots - 1);
    it->n_done++;
    return CG_BETWEEN;
}

/* Run iterations until the norm is below the limit, the product is not served, or `n_most` are done; return where the
 * last one ended, or -1 with an exception set. */
static int advance(cg_state *it, long n_most)
{
    while (it->n_done < n_most && it->before != 0) {
        const int end = iterate(it);
        if (end != CG_BETWEEN) return end;
        const double norm = norm_of(it);
        if (norm < it->best) it->best = norm;
        if (norm < it->limit) return CG_BETWEEN;
        if (PyErr_CheckSignals()) return -1;
    }
    return CG_BETWEEN;
}

/* Fill in the sweeps and check how many coefficients and dot products they have. */
static int has_sweeps(cg_state *it, PyObject *sweeps)
{
    const asp_sweep **to[] = {&it->turn, &it->curvature, &it->descend};
    for (int at = 0; at < CG_SWEEPS; at++)
        if (!(*to[at] = asp_sweep_of(PyTuple_GET_ITEM(sweeps, at)))) return 0;
    if (it->turn->n_coefficients == 4 && it->curvature->n_coefficients == 0 && it->curvature->n_dots == 1 &&
        it->descend->n_coefficients == 2 && it->descend->n_dots >= 1 && it->turn->dtype < 2)
        return 1;
    PyErr_Format(PyExc_ValueError, "these are not the sweeps of conjugate gradients");
    return 0;
}

PyObject *asp_advance_cg(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    static const Py_ssize_t sizes[] = {CG_PRODUCT, CG_SWEEPS, CG_NUMBERS};
    int is_fine = n_args == 4;
    for (int at = 0; is_fine && at < 3; at++) is_fine = PyTuple_Check(args[at]) && PyTuple_GET_SIZE(args[at]) == sizes[at];
    if (!is_fine) return PyErr_Format(PyExc_TypeError, "advance_cg takes a product, sweeps, numbers, and a limit");
    cg_state it = {.product = &PyTuple_GET_ITEM(args[0], 0), .best = INFINITY};
    double *numbers[] = {&it.rr, &it.rz, &it.before, &it.pending, &it.limit};
    for (int at = 0; at < CG_NUMBERS; at++) *numbers[at] = PyFloat_AsDouble(PyTuple_GET_ITEM(args[2], at));
    const long n_most = PyLong_AsLong(args[3]);
    if (PyErr_Occurred() || !has_sweeps(&it, args[1])) return NULL;
    it.is_single = it.turn->dtype == 0;
    const int end = advance(&it, n_most);
    if (end < 0) return NULL;
    return Py_BuildValue("(lidddddd)", it.n_done, end, it.rr, it.rz, it.before, it.pending, it.pq, it.best);
}
