/* Iterations of MINRES (autosparse/linalg/minimal_residual.py), without Python between the products and the sweeps.
 * Scalars have SciPy's names; the operations and their order are those of _Scalars. */
#include "recurrences.h"

enum { MULTIPLY, ORTHOGONALIZE, UPDATE, N_SWEEPS };
enum { N_RESIDUALS = 3, N_DIRECTIONS = 2, N_VECTORS = N_RESIDUALS + N_DIRECTIONS };
enum { LIMIT_REACHED = 6 }; /* SciPy's istop */
/* Scalars that iterations change, and those that they read. */
enum { BETA, BETA_BEFORE, PHIBAR, CS, SN, DBAR, EPSLN, TNORM2, GBAR, GAMMA, ROOT, GMAX, GMIN, CRITERION, N_SCALARS };
enum { BETA1, EPS, RTOL, SHIFT, N_CONSTANTS };

/* State of the recurrence. */
typedef struct {
    asp_sweep *sweeps[N_SWEEPS];
    PyObject *const *products[N_RESIDUALS]; /* A v, stored in the vector that is new after so many iterations */
    uintptr_t residuals[N_RESIDUALS], directions[N_DIRECTIONS]; /* r1, r2, new; w, w2 */
    double of[N_SCALARS], given[N_CONSTANTS];
    long n_done, n_steps, maxiter;
    int reason, has_z; /* has_z: M is a diagonal, and the last step of UPDATE reads M r2 */
} state;

/* Compute the next Lanczos vector; return the square of its norm, or a negative number if the product was not served
 * (*is_served is then 0) or the matrix is not symmetric. */
static double next_vector(state *it, double *alpha, int *is_served)
{
    const long at = it->n_done;
    const uintptr_t r1 = it->residuals[at % 3], r2 = it->residuals[(at + 1) % 3], new = it->residuals[(at + 2) % 3];
    double *of = it->of;
    asp_sweep *multiply = it->sweeps[MULTIPLY], *orthogonalize = it->sweeps[ORTHOGONALIZE];
    multiply->vectors[0] = orthogonalize->vectors[0] = new;
    multiply->vectors[2] = r1;
    orthogonalize->vectors[1] = r2;
    asp_put(multiply, (const double[]){1, -it->given[SHIFT], -(of[BETA] / of[BETA_BEFORE])});
    PyObject *const *product = it->products[at % 3];
    *is_served = asp_fast_call_sweeps(product[0], product + 1, multiply);
    if (!*is_served) return -1;
    *alpha = asp_dot(multiply, 0);
    asp_sweep_with(orthogonalize, (const double[]){1, -(*alpha / of[BETA])});
    return asp_dot(orthogonalize, 0);
}

/* Apply the last plane rotation and compute the next; c receives the coefficients of UPDATE. */
static void rotate(state *it, double alpha, double beta, double *c)
{
    double *of = it->of;
    it->n_steps++;
    of[BETA_BEFORE] = of[BETA];
    of[BETA] = beta;
    of[TNORM2] += alpha * alpha + of[BETA_BEFORE] * of[BETA_BEFORE] + beta * beta;
    const double epsln_before = of[EPSLN], delta = of[CS] * of[DBAR] + of[SN] * alpha;
    of[GBAR] = of[SN] * of[DBAR] - of[CS] * alpha;
    of[EPSLN] = of[SN] * beta;
    of[DBAR] = -of[CS] * beta;
    of[ROOT] = sqrt(of[GBAR] * of[GBAR] + of[DBAR] * of[DBAR]);
    of[GAMMA] = sqrt(of[GBAR] * of[GBAR] + beta * beta);
    if (it->given[EPS] > of[GAMMA]) of[GAMMA] = it->given[EPS];
    of[CS] = of[GBAR] / of[GAMMA];
    of[SN] = beta / of[GAMMA];
    const double phi = of[CS] * of[PHIBAR], factor = 1 / of[GAMMA];
    of[PHIBAR] = of[SN] * of[PHIBAR];
    const double found[] = {factor, -epsln_before * factor, -delta * factor, 1, phi, beta != 0 ? 1 / beta : 0};
    for (int at = 0; at < 6; at++) c[at] = found[at];
}

/* Set `reason`, SciPy's istop, if a stopping test holds; `square` is |x|^2. */
static void judge(state *it, double square)
{
    double *of = it->of;
    const double *given = it->given, norm_of_A = sqrt(of[TNORM2]), norm_of_x = sqrt(square);
    const double product = norm_of_A * norm_of_x;
    if (of[GAMMA] > of[GMAX]) of[GMAX] = of[GAMMA];
    if (of[GAMMA] < of[GMIN]) of[GMIN] = of[GAMMA];
    const double test1 = norm_of_x == 0 || norm_of_A == 0 ? INFINITY : of[PHIBAR] / product;
    const double test2 = norm_of_A == 0 ? INFINITY : of[ROOT] / norm_of_A;
    of[CRITERION] = test2 < test1 ? test2 : test1;
    it->reason = test1 <= given[RTOL]                    ? 1
                 : test2 <= given[RTOL]                  ? 2
                 : product * given[EPS] >= given[BETA1]  ? 3
                 : of[GMAX] / of[GMIN] >= 0.1 / given[EPS] ? 4
                 : it->n_steps >= it->maxiter            ? LIMIT_REACHED
                 : 1 + test1 <= 1                        ? 1
                 : 1 + test2 <= 1                        ? 2
                                                         : 0;
}

/* Run up to n_most iterations; return the least criterion, or -1 with an exception set. */
static double advance(state *it, long n_most)
{
    double least = INFINITY, alpha = 0, c[6];
    int is_served;
    while (it->n_done < n_most && !it->reason && it->n_steps < it->maxiter && it->of[BETA] != 0) {
        const double squared = next_vector(it, &alpha, &is_served);
        if (!is_served) return least;
        if (squared < 0) {
            PyErr_SetString(PyExc_ValueError, "non-symmetric matrix");
            return -1;
        }
        rotate(it, alpha, sqrt(squared), c);
        asp_sweep *update = it->sweeps[UPDATE];
        update->vectors[0] = it->directions[(it->n_done + 1) % 2];
        update->vectors[2] = it->directions[it->n_done % 2];
        if (!it->has_z) update->vectors[4] = it->residuals[(it->n_done + 2) % 3];
        asp_sweep_with(update, c);
        it->n_done++;
        judge(it, asp_dot(update, 0));
        if (it->of[CRITERION] < least) least = it->of[CRITERION];
        if (PyErr_CheckSignals()) return -1;
    }
    return least;
}

/* Read the products and the vectors; return whether they fit the sweeps. */
static int has_vectors(state *it, PyObject *products, PyObject *vectors)
{
    for (int at = 0; at < N_RESIDUALS; at++) {
        PyObject *product = PyTuple_GET_ITEM(products, at);
        if (!asp_has_items(product, PRODUCT_ITEMS)) return 0;
        it->products[at] = &PyTuple_GET_ITEM(product, 0);
    }
    for (int at = 0; at < N_VECTORS; at++) {
        PyArrayObject *vector = asp_array(PyTuple_GET_ITEM(vectors, at), 1, ASP_WRITTEN);
        if (!vector || PyArray_DIM(vector, 0) != it->sweeps[0]->n || asp_value_code(vector) != it->sweeps[0]->dtype) return 0;
        *(at < N_RESIDUALS ? &it->residuals[at] : &it->directions[at - N_RESIDUALS]) = (uintptr_t)PyArray_DATA(vector);
    }
    return 1;
}

PyObject *asp_advance_minres(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    static const int sizes[N_SWEEPS][2] = {{3, 1}, {2, 1}, {6, 1}};
    state it = {.n_done = 0};
    if (n_args != 6 || !asp_has_items(args[0], N_RESIDUALS) || !asp_has_items(args[1], N_SWEEPS) ||
        !asp_has_items(args[2], N_VECTORS) || !asp_has_items(args[3], N_SCALARS) || !asp_has_items(args[4], N_CONSTANTS) ||
        !asp_has_items(args[5], 4))
        return PyErr_Format(PyExc_TypeError, "advance_minres takes products, sweeps, vectors, and numbers");
    double counts[4]; /* iterations to run, steps so far, maximum number of steps, whether M is a diagonal */
    if (!asp_read_numbers(args[3], N_SCALARS, it.of) || !asp_read_numbers(args[4], N_CONSTANTS, it.given) ||
        !asp_read_numbers(args[5], 4, counts) || !asp_read_sweeps(args[1], N_SWEEPS, sizes, it.sweeps))
        return NULL;
    if (!has_vectors(&it, args[0], args[2])) return PyErr_Format(PyExc_ValueError, "vectors do not fit the sweeps");
    it.n_steps = (long)counts[1];
    it.maxiter = (long)counts[2];
    it.has_z = counts[3] != 0;
    const double least = advance(&it, (long)counts[0]);
    if (PyErr_Occurred()) return NULL;
    PyObject *scalars = PyTuple_New(N_SCALARS);
    for (int at = 0; scalars && at < N_SCALARS; at++) {
        PyObject *scalar = PyFloat_FromDouble(it.of[at]);
        if (!scalar || PyTuple_SetItem(scalars, at, scalar)) Py_CLEAR(scalars);
    }
    return scalars ? Py_BuildValue("(lidN)", it.n_done, it.reason, least, scalars) : NULL;
}
