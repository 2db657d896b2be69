/* Iterations of LSQR and LSMR (autosparse/linalg/least_squares) for real systems in double precision, without Python
 * between the products and the sweeps. Scalars have the names of the Python code; the operations and their order are
 * the same. */
#include "recurrences.h"

/* Where a run of iterations ends: between two iterations, between the products of one, or where Python's floats raise
 * an ArithmeticError. */
enum { BETWEEN, HALF, UNDEFINED };
enum { UPDATE_U, UPDATE_V, UPDATE_X, N_SWEEPS };
enum { N_PRODUCTS = 2 }; /* A v and A^T u */
/* Scalars that iterations change: those of the bidiagonalisation, and those of each solver. */
enum { ALPHA, BETA, U_SCALE, N_SHARED };
enum {
    RHOBAR = N_SHARED, PHIBAR, ANORM, ACOND, XNORM, DDNORM, RES2, XXNORM, Z, CS2, SN2, RNORM, R1NORM, ARNORM, LSQR_SCALARS
};
enum {
    ALPHA_BAR = N_SHARED, ZETA_BAR, ZETA, RHO, RHO_BAR, C_BAR, S_BAR, MAX_RHO, MIN_RHO, NORM2, NORMA, CONDA, NORMX,
    BETA_D, BETA_DD, D, NORM, RHO_D, TAU_TILDE, THETA_TILDE, LSMR_SCALARS
};
enum { MAX_SCALARS = LSMR_SCALARS };
_Static_assert((int)LSQR_SCALARS <= (int)MAX_SCALARS, "the scalars of LSQR fit");
/* Scalars that iterations read: damping, |b|, tolerances, and the machine epsilon. */
enum { DAMP, B_NORM, ATOL, BTOL, CTOL, EPS, N_CONSTANTS };

/* State of a solve. */
typedef struct state {
    asp_sweep *sweeps[N_SWEEPS];
    PyObject *const *products[N_PRODUCTS];
    double of[MAX_SCALARS], given[N_CONSTANTS];
    double v_scale, best, limit; /* limit: maximum number of iterations, perhaps infinite */
    long n_done, itn;
    int reason, is_undefined; /* SciPy's istop; whether Python's floats would have raised an ArithmeticError */
} state;

/* Tests of one iteration, and the tolerance of the first one. */
typedef struct {
    double test1, test2, test3, test4, rtol;
} tests;

/* Return a / b, which Python does not define for b = 0. */
static double quotient(state *it, double a, double b)
{
    it->is_undefined |= b == 0;
    return a / b;
}

/* Return x ** 2 as Python computes it: by pow, whose last bit may differ from that of x * x. Overflow is an error. */
static double squared(state *it, double x)
{
    static const volatile double two = 2; /* volatile: compilers replace pow(x, 2) by x * x */
    const double square = pow(fabs(x), two);
    it->is_undefined |= isinf(square) && !isinf(x);
    return square;
}

static double larger(double one, double other) { return other > one ? other : one; }
static double smaller(double one, double other) { return other < one ? other : one; }

/* Compute c, s and r with c a + s b = r and s a - c b = 0; return r. */
static double rotation(double a, double b, double *c, double *s)
{
    if (b == 0) {
        *c = a != 0 ? copysign(1, a) : 0;
        *s = 0;
        return fabs(a);
    }
    if (a == 0) {
        *c = 0;
        *s = copysign(1, b);
        return fabs(b);
    }
    if (fabs(b) > fabs(a)) {
        const double tau = a / b;
        *s = copysign(1, b) / sqrt(1 + tau * tau);
        *c = *s * tau;
        return b / *s;
    }
    const double tau = b / a;
    *c = copysign(1, a) / sqrt(1 + tau * tau);
    *s = *c * tau;
    return a / *c;
}

/* Compute the next u and beta; return whether the product was served. */
static int next_u(state *it)
{
    double *of = it->of;
    asp_put(it->sweeps[UPDATE_U], (const double[]){1, -of[ALPHA] * of[U_SCALE]});
    PyObject *const *product = it->products[0];
    if (!asp_fast_call_sweeps(product[0], product + 1, it->sweeps[UPDATE_U])) return 0;
    of[BETA] = sqrt(asp_dot(it->sweeps[UPDATE_U], 0));
    of[U_SCALE] = of[BETA] > 0 ? 1 / of[BETA] : 1;
    return 1;
}

/* Compute the next v, which must still be multiplied by v_scale, and alpha; return whether the product was served. */
static int next_v(state *it)
{
    double *of = it->of;
    it->v_scale = 1;
    if (!(of[BETA] > 0)) return 1;
    asp_put(it->sweeps[UPDATE_V], (const double[]){of[U_SCALE], -of[BETA]});
    PyObject *const *product = it->products[1];
    if (!asp_fast_call_sweeps(product[0], product + 1, it->sweeps[UPDATE_V])) return 0;
    of[ALPHA] = sqrt(asp_dot(it->sweeps[UPDATE_V], 0));
    if (of[ALPHA] > 0) it->v_scale = 1 / of[ALPHA];
    return 1;
}

/* Rotate the newest column of LSQR's bidiagonal matrix, and update x and the estimates. */
static void turn_lsqr(state *it)
{
    double *of = it->of, psi = 0, rhobar = of[RHOBAR], cs, sn;
    const double damp = it->given[DAMP], alpha = of[ALPHA];
    if (damp > 0) {
        rhobar = sqrt(squared(it, rhobar) + squared(it, damp));
        psi = quotient(it, damp, rhobar) * of[PHIBAR];
        of[PHIBAR] *= quotient(it, of[RHOBAR], rhobar);
    }
    const double rho = rotation(rhobar, of[BETA], &cs, &sn), theta = sn * alpha;
    of[RHOBAR] = -cs * alpha;
    const double phi = cs * of[PHIBAR];
    of[PHIBAR] = sn * of[PHIBAR];
    asp_sweep_with(it->sweeps[UPDATE_X],
                   (const double[]){it->v_scale, 1, quotient(it, phi, rho), 1, quotient(it, -theta, rho)});
    of[DDNORM] += asp_dot(it->sweeps[UPDATE_X], 0) * squared(it, quotient(it, 1, rho));
    const double delta = of[SN2] * rho, gambar = -of[CS2] * rho, rhs = phi - delta * of[Z];
    of[XNORM] = sqrt(of[XXNORM] + squared(it, quotient(it, rhs, gambar)));
    const double gamma = sqrt(squared(it, gambar) + squared(it, theta));
    of[CS2] = quotient(it, gambar, gamma);
    of[SN2] = quotient(it, theta, gamma);
    of[Z] = quotient(it, rhs, gamma);
    of[XXNORM] += squared(it, of[Z]);
    of[ACOND] = of[ANORM] * sqrt(of[DDNORM]);
    of[RES2] += squared(it, psi);
    of[RNORM] = of[R1NORM] = sqrt(squared(it, of[PHIBAR]) + of[RES2]);
    of[ARNORM] = alpha * fabs(sn * phi);
    if (damp > 0) {
        const double square = squared(it, of[RNORM]) - squared(it, damp) * of[XXNORM];
        of[R1NORM] = copysign(sqrt(fabs(square)), square);
    }
}

/* Execute the rest of an iteration of LSQR after both products; return its tests. */
static tests end_lsqr(state *it, double alpha_before)
{
    double *of = it->of;
    const double *given = it->given, beta = of[BETA];
    if (beta > 0)
        of[ANORM] = sqrt(squared(it, of[ANORM]) + squared(it, alpha_before) + squared(it, beta) + squared(it, given[DAMP]));
    turn_lsqr(it);
    tests made;
    made.test1 = of[RNORM] / given[B_NORM];
    made.test2 = quotient(it, of[ARNORM], of[ANORM] * of[RNORM] + given[EPS]);
    made.test3 = quotient(it, 1, of[ACOND] + given[EPS]);
    made.test4 = quotient(it, made.test1, 1 + of[ANORM] * of[XNORM] / given[B_NORM]);
    made.rtol = given[BTOL] + given[ATOL] * of[ANORM] * of[XNORM] / given[B_NORM];
    return made;
}

/* Update the estimate of |b - A x| by LSMR's rotations (c, s) of the damping and of the newest column. */
static void estimate(state *it, const double rotations[4], double theta_bar, double zeta_old)
{
    double *of = it->of, c_old, s_old;
    const double acute = rotations[0] * of[BETA_DD], check = -rotations[1] * of[BETA_DD];
    const double hat = rotations[2] * acute, theta_old = of[THETA_TILDE];
    of[BETA_DD] = -rotations[3] * acute;
    const double rho_old = rotation(of[RHO_D], theta_bar, &c_old, &s_old);
    of[THETA_TILDE] = s_old * of[RHO_BAR];
    of[RHO_D] = c_old * of[RHO_BAR];
    of[BETA_D] = -s_old * of[BETA_D] + c_old * hat;
    of[TAU_TILDE] = quotient(it, zeta_old - theta_old * of[TAU_TILDE], rho_old);
    const double tau = quotient(it, of[ZETA] - of[THETA_TILDE] * of[TAU_TILDE], of[RHO_D]);
    of[D] += check * check;
    of[NORM] = sqrt(of[D] + squared(it, of[BETA_D] - tau) + of[BETA_DD] * of[BETA_DD]);
}

/* Rotate the newest column of LSMR's bidiagonal matrix, and update x and the estimates. */
static void turn_lsmr(state *it)
{
    double *of = it->of, rotations[4];
    const double alpha = of[ALPHA], beta = of[BETA];
    const double alpha_hat = rotation(of[ALPHA_BAR], it->given[DAMP], &rotations[0], &rotations[1]);
    const double rho_old = of[RHO], rho_bar_old = of[RHO_BAR], zeta_old = of[ZETA];
    of[RHO] = rotation(alpha_hat, beta, &rotations[2], &rotations[3]);
    const double theta = rotations[3] * alpha, theta_bar = of[S_BAR] * of[RHO], rho_temp = of[C_BAR] * of[RHO];
    of[ALPHA_BAR] = rotations[2] * alpha;
    of[RHO_BAR] = rotation(rho_temp, theta, &of[C_BAR], &of[S_BAR]);
    of[ZETA] = of[C_BAR] * of[ZETA_BAR];
    of[ZETA_BAR] = -of[S_BAR] * of[ZETA_BAR];
    const double back = -quotient(it, theta_bar * of[RHO], rho_old * rho_bar_old);
    const double step = quotient(it, of[ZETA], of[RHO] * of[RHO_BAR]), turn = -quotient(it, theta, of[RHO]);
    asp_sweep_with(it->sweeps[UPDATE_X], (const double[]){back, 1, 1, step, it->v_scale, 1, turn});
    estimate(it, rotations, theta_bar, zeta_old);
    of[NORM2] += beta * beta;
    of[NORMA] = sqrt(of[NORM2]);
    of[NORM2] += alpha * alpha;
    of[MAX_RHO] = larger(of[MAX_RHO], rho_bar_old);
    if (it->itn > 1) of[MIN_RHO] = smaller(of[MIN_RHO], rho_bar_old);
    of[CONDA] = quotient(it, larger(of[MAX_RHO], rho_temp), smaller(of[MIN_RHO], rho_temp));
    of[NORMX] = sqrt(asp_dot(it->sweeps[UPDATE_X], 0));
}

/* Execute the rest of an iteration of LSMR after both products; return its tests. */
static tests end_lsmr(state *it, double alpha_before)
{
    (void)alpha_before;
    double *of = it->of;
    const double *given = it->given;
    turn_lsmr(it);
    const double size = of[NORM], gradient = fabs(of[ZETA_BAR]), product = of[NORMA] * size;
    tests made;
    made.test1 = size / given[B_NORM];
    made.test3 = quotient(it, 1, of[CONDA]);
    made.test2 = product != 0 ? gradient / product : INFINITY;
    made.test4 = quotient(it, made.test1, 1 + of[NORMA] * of[NORMX] / given[B_NORM]);
    made.rtol = given[BTOL] + given[ATOL] * of[NORMA] * of[NORMX] / given[B_NORM];
    return made;
}

/* Set `reason`, SciPy's istop, if a stopping rule holds, and update the best value of the criterion, with which the
 * progress of a solve is extrapolated. */
static void judge(state *it, const tests *made)
{
    const double atol = it->given[ATOL], ctol = it->given[CTOL];
    it->reason = made->test1 <= made->rtol   ? 1
                 : made->test2 <= atol       ? 2
                 : made->test3 <= ctol       ? 3
                 : 1 + made->test4 <= 1      ? 4
                 : 1 + made->test2 <= 1      ? 5
                 : 1 + made->test3 <= 1      ? 6
                 : (double)it->itn >= it->limit    ? 7
                                             : 0;
    double criterion = INFINITY;
    if (made->rtol > 0) criterion = made->test1 / made->rtol;
    if (atol > 0) criterion = made->rtol > 0 ? smaller(criterion, made->test2 / atol) : made->test2 / atol;
    it->best = smaller(it->best, criterion);
}

/* Run up to n_most iterations; return where the last one ended, or -1 with an exception set. */
static int advance(state *it, tests (*end)(state *, double), long n_most)
{
    while (it->n_done < n_most && !it->reason && (double)it->itn < it->limit) {
        const double alpha_before = it->of[ALPHA];
        if (!next_u(it)) return BETWEEN;
        if (!next_v(it)) return HALF;
        it->itn++;
        it->n_done++;
        const tests made = end(it, alpha_before);
        if (it->is_undefined) return UNDEFINED;
        judge(it, &made);
        if (PyErr_CheckSignals()) return -1;
    }
    return BETWEEN;
}

/* Read the arguments (products, sweeps, scalars, constants, counts), run iterations, and return the number of
 * iterations, istop, where the last one ended, the least criterion, and the scalars. */
static PyObject *run(PyObject *const *args, Py_ssize_t n_args, int n_scalars, const int (*sizes)[2],
                     tests (*end)(state *, double))
{
    state it = {.best = INFINITY};
    if (n_args != 5 || !asp_read_products(args[0], N_PRODUCTS, it.products) || !asp_has_items(args[1], N_SWEEPS) ||
        !asp_has_items(args[2], n_scalars) || !asp_has_items(args[3], N_CONSTANTS) || !asp_has_items(args[4], 3))
        return PyErr_Format(PyExc_TypeError, "the function takes products, sweeps, and numbers");
    double counts[3]; /* iterations to run, iterations so far, maximum number of iterations */
    if (!asp_read_numbers(args[2], n_scalars, it.of) || !asp_read_numbers(args[3], N_CONSTANTS, it.given) ||
        !asp_read_numbers(args[4], 3, counts) || !asp_read_sweeps(args[1], N_SWEEPS, sizes, it.sweeps))
        return NULL;
    for (int at = 0; at < N_SWEEPS; at++)
        if (it.sweeps[at]->dtype != 1) return PyErr_Format(PyExc_ValueError, "sweep %d is not in double precision", at);
    it.itn = (long)counts[1];
    it.limit = counts[2];
    const int ended = advance(&it, end, (long)counts[0]);
    PyObject *scalars = ended < 0 ? NULL : asp_tuple_of(it.of, n_scalars);
    return scalars ? Py_BuildValue("(liidN)", it.n_done, it.reason, ended, it.best, scalars) : NULL;
}

PyObject *asp_advance_lsqr(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    static const int sizes[N_SWEEPS][2] = {{2, 1}, {2, 1}, {5, 1}};
    return run(args, n_args, LSQR_SCALARS, sizes, end_lsqr);
}

PyObject *asp_advance_lsmr(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    (void)module;
    static const int sizes[N_SWEEPS][2] = {{2, 1}, {2, 1}, {7, 1}};
    return run(args, n_args, LSMR_SCALARS, sizes, end_lsmr);
}
