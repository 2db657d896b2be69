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

/* Read the vectors; return whether they fit the sweeps. */
static int has_vectors(state *it, PyObject *vectors)
{
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
    if (n_args != 6 || !asp_read_products(args[0], N_RESIDUALS, it.products) || !asp_has_items(args[1], N_SWEEPS) ||
        !asp_has_items(args[2], N_VECTORS) || !asp_has_items(args[3], N_SCALARS) || !asp_has_items(args[4], N_CONSTANTS) ||
        !asp_has_items(args[5], 4))
        return PyErr_Format(PyExc_TypeError, "advance_minres takes products, sweeps, vectors, and numbers");
    double counts[4]; /* iterations to run, steps so far, maximum number of steps, whether M is a diagonal */
    if (!asp_read_numbers(args[3], N_SCALARS, it.of) || !asp_read_numbers(args[4], N_CONSTANTS, it.given) ||
        !asp_read_numbers(args[5], 4, counts) || !asp_read_sweeps(args[1], N_SWEEPS, sizes, it.sweeps))
        return NULL;
    if (!has_vectors(&it, args[2])) return PyErr_Format(PyExc_ValueError, "vectors do not fit the sweeps");
    it.n_steps = (long)counts[1];
    it.maxiter = (long)counts[2];
    it.has_z = counts[3] != 0;
    const double least = advance(&it, (long)counts[0]);
    if (PyErr_Occurred()) return NULL;
    PyObject *scalars = asp_tuple_of(it.of, N_SCALARS);
    return scalars ? Py_BuildValue("(lidN)", it.n_done, it.reason, least, scalars) : NULL;
}

/* -- several right-hand sides (autosparse/linalg/columns/minimal_residual.py) */

enum { C_NORMALIZE, C_PROJECT, C_REMOVE, C_UPDATE, C_SWEEPS };
/* Rows of the state, of which each has a number for each column. */
enum { C_BETA1, C_BETA, C_BEFORE, C_DBAR, C_EPSLN, C_PHIBAR, C_TNORM2, C_GMAX, C_GMIN, C_CS, C_SN, C_ROOT, C_SQUARE,
       C_CONSTANT, C_RUNS, C_NUMBERS };
enum { C_EPS, C_WORST, C_RTOL, C_SHIFT, C_CONSTANTS }; /* C_WORST: ratio of gmax and gmin that ends a column */

/* State of the recurrences. */
typedef struct {
    const asp_sweep *sweeps[N_RESIDUALS][C_SWEEPS]; /* of n_columns columns, for each turn of the vectors */
    PyObject *const *products[N_RESIDUALS];
    double *of[C_NUMBERS], given[C_CONSTANTS], *room; /* room for five numbers of each column */
    int n_columns, is_single;
    double best; /* least of the largest estimates of the norms */
    long n_done;
} columns_state;

/* Set MemoryError; return -1. */
static int out_of_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

/* Compute the next Lanczos vectors, and alpha in `room`; return 1, 0 if nothing that counts has changed because the
 * product was not served or a quotient is not defined, or -1 with an exception set. */
static int next_vectors(columns_state *it)
{
    double *const *of = it->of, *room = it->room, *ratio = room + it->n_columns, *ones = ratio + it->n_columns;
    const asp_sweep *const *sweeps = it->sweeps[it->n_done % N_RESIDUALS];
    PyObject *const *product = it->products[it->n_done % N_RESIDUALS];
    const int n = it->n_columns;
    for (int j = 0; j < n; j++) ones[j] = 1;
    if (!asp_divide(n, of[C_RUNS], of[C_BETA], of[C_BEFORE], ratio) || !asp_divide(n, of[C_RUNS], ones, of[C_BETA], room))
        return 0;
    asp_put_columns(sweeps[C_NORMALIZE], 0, room, 1);
    asp_put_ones(sweeps[C_PROJECT], 0);
    asp_put_columns(sweeps[C_PROJECT], 1, ones, -it->given[C_SHIFT]);
    asp_put_columns(sweeps[C_PROJECT], 2, ratio, -1);
    if (asp_sweep_execute(sweeps[C_NORMALIZE])) return out_of_memory();
    if (!asp_fast_call_sweeps(product[0], product + 1, sweeps[C_PROJECT])) return 0;
    asp_take_dots(sweeps[C_PROJECT], 0, room);
    asp_divide(n, of[C_RUNS], room, of[C_BETA], ratio);
    asp_put_ones(sweeps[C_REMOVE], 0);
    asp_put_columns(sweeps[C_REMOVE], 1, ratio, -1);
    if (asp_sweep_execute(sweeps[C_REMOVE])) return out_of_memory();
    asp_take_dots(sweeps[C_REMOVE], 0, of[C_SQUARE]);
    return 1;
}

/* Return the smaller, or with `sign` -1 the larger, of two numbers; NaN if one is NaN. */
static double extreme(double a, double b, int sign)
{
    return a != a || sign * a <= sign * b ? a : b;
}

/* Apply the last plane rotation of column j and compute the next; store the coefficients of C_UPDATE that differ between
 * columns: three weights, and the step of x. */
static void rotate_column(columns_state *it, int j, double alpha, double *weights)
{
    double *const *of = it->of;
    const int runs = of[C_RUNS][j] != 0, n = it->n_columns;
    of[C_BEFORE][j] = of[C_BETA][j];
    const double before = of[C_BEFORE][j], beta = of[C_BETA][j] = sqrt(runs ? of[C_SQUARE][j] : 0);
    of[C_TNORM2][j] = of[C_TNORM2][j] + alpha * alpha + before * before + beta * beta;
    const double cs = of[C_CS][j], sn = of[C_SN][j], dbar = of[C_DBAR][j], epsln = of[C_EPSLN][j];
    const double delta = cs * dbar + sn * alpha, gbar = sn * dbar - cs * alpha;
    of[C_EPSLN][j] = sn * beta;
    of[C_DBAR][j] = -cs * beta;
    of[C_ROOT][j] = hypot(gbar, of[C_DBAR][j]);
    const double gamma = extreme(hypot(gbar, beta), it->given[C_EPS], -1);
    of[C_CS][j] = gbar / gamma;
    of[C_SN][j] = beta / gamma;
    const double phi = of[C_CS][j] * of[C_PHIBAR][j], scale = runs ? 1 / gamma : 0;
    of[C_PHIBAR][j] = of[C_SN][j] * of[C_PHIBAR][j];
    of[C_GMAX][j] = extreme(of[C_GMAX][j], gamma, -1);
    of[C_GMIN][j] = extreme(of[C_GMIN][j], gamma, 1);
    const double found[] = {scale, runs ? -scale * epsln : 0, runs ? -scale * delta : 0, runs ? phi : 0};
    for (int at = 0; at < 4; at++) weights[at * n + j] = found[at];
}

/* Return whether a stopping test of SciPy's holds for column j, whose |x|^2 is `square`. */
static int stops(const columns_state *it, int j, double square)
{
    double *const *of = it->of;
    const double *given = it->given, norm_of_A = sqrt(of[C_TNORM2][j]), norm_of_x = sqrt(square);
    const double product = norm_of_A * norm_of_x;
    const double test1 = product == 0 ? INFINITY : of[C_PHIBAR][j] / product;
    const double test2 = norm_of_A == 0 ? INFINITY : of[C_ROOT][j] / norm_of_A;
    const int is_exact = it->is_single ? (float)(1 + test1) <= 1 || (float)(1 + test2) <= 1 : 1 + test1 <= 1 || 1 + test2 <= 1;
    return is_exact || test1 <= given[C_RTOL] || test2 <= given[C_RTOL] || of[C_CONSTANT][j] != 0 ||
           product * given[C_EPS] >= of[C_BETA1][j] || of[C_GMAX][j] / of[C_GMIN][j] >= given[C_WORST];
}

/* Run one iteration of all columns; return as next_vectors. */
static int iterate_columns(columns_state *it)
{
    const int found = next_vectors(it), n = it->n_columns;
    if (found < 1) return found;
    double *const *of = it->of, *weights = it->room + n, largest = 0;
    for (int j = 0; j < n; j++)
        if (of[C_RUNS][j] != 0 && of[C_SQUARE][j] < 0) {
            PyErr_SetString(PyExc_ValueError, "non-symmetric matrix");
            return -1;
        }
    for (int j = 0; j < n; j++) {
        rotate_column(it, j, it->room[j], weights);
        if (!(of[C_PHIBAR][j] <= largest)) largest = of[C_PHIBAR][j];
    }
    const asp_sweep *update = it->sweeps[it->n_done % N_RESIDUALS][C_UPDATE];
    for (int at = 0; at < 3; at++) asp_put_columns(update, at, weights + at * n, 1);
    asp_put_ones(update, 3);
    asp_put_columns(update, 4, weights + 3 * n, 1);
    if (asp_sweep_execute(update)) return out_of_memory();
    asp_take_dots(update, 0, of[C_SQUARE]);
    if (largest < it->best) it->best = largest;
    it->n_done++;
    return 1;
}

/* Run iterations until a running column ends, an iteration cannot begin, or `n_most` are done; return -1 with an exception
 * set, else 0. */
static int advance_columns(columns_state *it, long n_most)
{
    while (it->n_done < n_most) {
        const int found = iterate_columns(it);
        if (found < 1) return found;
        int has_ended = 0;
        for (int j = 0; j < it->n_columns; j++)
            has_ended |= it->of[C_RUNS][j] != 0 && stops(it, j, it->of[C_SQUARE][j]);
        if (has_ended) return 0;
        if (PyErr_CheckSignals()) return -1;
    }
    return 0;
}

/* Read the sweeps of the three turns; return 0, with an exception set, if one does not fit. */
static int has_turns(columns_state *it, PyObject *sweeps)
{
    static const int sizes[C_SWEEPS][2] = {{1, 0}, {3, 1}, {2, 1}, {5, 1}};
    for (int at = 0; at < N_RESIDUALS; at++) {
        PyObject *turn = PyTuple_GET_ITEM(sweeps, at);
        if (!asp_has_items(turn, C_SWEEPS)) {
            PyErr_Format(PyExc_TypeError, "advance_columns_minres takes a product and sweeps for each of three turns");
            return 0;
        }
        if (!asp_read_column_sweeps(turn, C_SWEEPS, sizes, it->n_columns, it->sweeps[at])) return 0;
    }
    return 1;
}

PyObject *asp_advance_columns_minres(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    columns_state it = {.best = INFINITY};
    it.n_columns = n_args == 5 ? asp_read_rows(args[2], C_NUMBERS, it.of) : -1;
    if (it.n_columns < 0 || !asp_read_products(args[0], N_RESIDUALS, it.products) ||
        !asp_has_items(args[1], N_RESIDUALS) || !asp_has_items(args[3], C_CONSTANTS))
        return PyErr_Format(PyExc_TypeError, "advance_columns_minres takes products, sweeps, numbers, constants, and a limit");
    const long n_most = PyLong_AsLong(args[4]);
    if (PyErr_Occurred() || !asp_read_numbers(args[3], C_CONSTANTS, it.given) || !has_turns(&it, args[1])) return NULL;
    it.is_single = it.sweeps[0][C_NORMALIZE]->dtype == 0;
    it.room = PyMem_Malloc(5 * (size_t)it.n_columns * sizeof(double) + 1);
    if (!it.room) return PyErr_NoMemory();
    const int found = advance_columns(&it, n_most);
    PyMem_Free(it.room);
    return found < 0 ? NULL : Py_BuildValue("(ld)", it.n_done, it.best);
}
