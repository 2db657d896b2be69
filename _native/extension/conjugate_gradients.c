/* Iterations of conjugate gradients (autosparse/linalg/conjugate_gradients.py) for real systems, without Python between
 * the products and the sweeps. */
#include "recurrences.h"

/* Where a run of iterations ends. */
enum { CG_BETWEEN = 0, CG_TURNED = 1, CG_CURVED = 2 };
enum { TURN, CURVATURE, DESCEND, CG_SWEEPS };
enum { RR, RZ, BEFORE, PENDING, LIMIT, CG_NUMBERS };

/* State of the recurrence. */
typedef struct {
    asp_sweep *sweeps[CG_SWEEPS];
    PyObject *const *product;
    double of[CG_NUMBERS]; /* r.r, r.z, the last r.z, the pending step of x, the norm that ends the solve */
    double pq, best;
    long n_done;
} cg_state;

/* Run one iteration; return where it ended. x += pending p, p = z + beta p, q = A p, r -= alpha q. */
static int iterate(cg_state *it)
{
    double *of = it->of;
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
