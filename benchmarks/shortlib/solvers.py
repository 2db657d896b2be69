"""Short programs that solve systems by iterations: SciPy's solvers, those of the library's `linalg`, and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg as sla

from shortlib.inputs import convection, grid, scattered, vector
from shortlib.program import load, short


@short(lambda: {"A": grid(40, 40), "b": vector(1600)})
def cg_grid(sp: Any, A: Any, b: Any) -> Any:
    """Solve a grid of 40 x 40 points by SciPy's cg."""
    A = load(sp, A)
    x, info = sla.cg(A, b, rtol=1e-8)
    return x, np.array([info, np.linalg.norm(b - A @ x) < 1e-6])


@short(lambda: {"A": grid(40, 40), "b": vector(1600)})
def cg_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve the same grid by cg of the library's linalg."""
    A = load(sp, A)
    x, info = sp.linalg.cg(A, b, rtol=1e-8)
    return x, np.array([info])


@short(lambda: {"A": grid(20, 20), "b": vector(400)})
def cg_small_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a grid of 400 points by cg of the library's linalg."""
    return sp.linalg.cg(load(sp, A), b, rtol=1e-8)[0]


@short(lambda: {"A": grid(40, 40, matrix=True), "b": vector(1600)})
def cg_jacobi(sp: Any, A: Any, b: Any) -> Any:
    """Solve by cg with the inverse diagonal as preconditioner."""
    A = load(sp, A)
    M = sp.diags(1 / A.diagonal())
    x, _ = sla.cg(A, b, rtol=1e-8, M=M)
    return x


@short(lambda: {"A": grid(60, 60), "b": vector(3600)})
def cg_by_hand(sp: Any, A: Any, b: Any) -> Any:
    """Write conjugate gradients as textbooks do."""
    A, x = load(sp, A), np.zeros_like(b)
    r = b - A @ x
    p, rho = r.copy(), r @ r
    for _ in range(100):
        q = A @ p
        alpha = rho / (p @ q)
        x += alpha * p
        r -= alpha * q
        rho, old = r @ r, rho
        p = r + rho / old * p
    return x


@short(lambda: {"A": convection(30, 30, 0.3), "b": vector(900)})
def gmres_convection(sp: Any, A: Any, b: Any) -> Any:
    """Solve a convection problem by SciPy's gmres."""
    x, info = sla.gmres(load(sp, A), b, rtol=1e-8, restart=30)
    return x, np.array([info])


@short(lambda: {"A": convection(30, 30, 0.3), "b": vector(900)})
def gmres_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a convection problem by gmres of the library's linalg."""
    return sp.linalg.gmres(load(sp, A), b, rtol=1e-8, restart=30)[0]


@short(lambda: {"A": convection(40, 40, 0.3), "b": vector(1600)}, rtol=1e-5)
def bicgstab_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a convection problem by bicgstab of the library's linalg."""
    return sp.linalg.bicgstab(load(sp, A), b, rtol=1e-9)[0]


@short(lambda: {"A": convection(40, 40, 0.3), "b": vector(1600)}, rtol=1e-5)
def bicgstab_ilu(sp: Any, A: Any, b: Any) -> Any:
    """Solve by bicgstab with an incomplete factorization as preconditioner."""
    A = load(sp, A)
    ilu = sla.spilu(A.tocsc(), drop_tol=1e-3)
    return sla.bicgstab(A, b, rtol=1e-9, M=sla.LinearOperator(A.shape, ilu.solve))[0]


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def minres_shifted(sp: Any, A: Any, b: Any) -> Any:
    """Solve an indefinite system by minres."""
    A = load(sp, A) - 0.05 * sp.eye_array(b.size, format="csr")
    return sla.minres(A, b, rtol=1e-8)[0]


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def minres_own(sp: Any, A: Any, b: Any) -> Any:
    """Solve a grid by minres of the library's linalg."""
    return sp.linalg.minres(load(sp, A), b, rtol=1e-8)[0]


@short(lambda: {"A": scattered(3000, 300, 0.01), "b": vector(3000)}, rtol=1e-4)
def lsqr_fit(sp: Any, A: Any, b: Any) -> Any:
    """Fit 300 coefficients by SciPy's lsqr."""
    found = sla.lsqr(load(sp, A), b)
    return found[0], np.array([found[3]])


@short(lambda: {"A": scattered(3000, 300, 0.01), "b": vector(3000)}, rtol=1e-4)
def lsqr_own(sp: Any, A: Any, b: Any) -> Any:
    """Fit 300 coefficients by lsqr of the library's linalg."""
    return sp.linalg.lsqr(load(sp, A), b)[0]


@short(lambda: {"A": scattered(2000, 200, 0.02, matrix=True), "b": vector(2000)}, rtol=1e-4)
def lsmr_damped(sp: Any, A: Any, b: Any) -> Any:
    """Fit 200 coefficients with damping by lsmr."""
    return sla.lsmr(load(sp, A), b, damp=0.1)[0]


@short(lambda: {"A": grid(50, 50), "b": vector(2500)})
def jacobi(sp: Any, A: Any, b: Any) -> Any:
    """Smooth by fifty Jacobi steps."""
    A, x = load(sp, A), np.zeros_like(b)
    D = A.diagonal()
    R = A - sp.diags_array(D, format="csr")
    for _ in range(50):
        x = (b - R @ x) / D
    return x


@short(lambda: {"A": grid(16, 16), "b": vector(256)})
def gauss_seidel_rows(sp: Any, A: Any, b: Any) -> Any:
    """Smooth by Gauss-Seidel steps, written as loops over indptr."""
    A, x = load(sp, A), np.zeros_like(b)
    D = A.diagonal()
    for _ in range(5):
        for i in range(b.size):
            start, end = A.indptr[i], A.indptr[i + 1]
            x[i] += (b[i] - A.data[start:end] @ x[A.indices[start:end]]) / D[i]
    return x


@short(lambda: {"A": grid(60, 60), "b": vector(3600)})
def richardson(sp: Any, A: Any, b: Any) -> Any:
    """Iterate x += (b - A x) / 8 and record norms of residuals."""
    A, x, norms = load(sp, A), np.zeros_like(b), []
    for _ in range(60):
        r = b - A @ x
        norms.append(np.linalg.norm(r))
        x = x + r / 8.2
    return x, np.array(norms)


@short(lambda: {"A": grid(40, 40), "b": vector(1600)})
def chebyshev(sp: Any, A: Any, b: Any) -> Any:
    """Solve by Chebyshev's iteration with bounds of the spectrum."""
    A, x = load(sp, A), np.zeros_like(b)
    d, c = (8.1 + 0.1) / 2, (8.1 - 0.1) / 2
    r, p, alpha = b - A @ x, np.zeros_like(b), 0.0
    for i in range(40):
        beta = 0.0 if i == 0 else (c * alpha / 2) ** 2
        alpha = 1 / d if i == 0 else 1 / (d - beta / alpha)
        p = r + beta * p
        x = x + alpha * p
        r = r - alpha * (A @ p)
    return x


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def steepest_descent(sp: Any, A: Any, b: Any) -> Any:
    """Minimise a quadratic function by exact line searches."""
    A, x = load(sp, A), np.ones_like(b)
    for _ in range(80):
        g = A @ x - b
        x = x - (g @ g) / (g @ A.dot(g)) * g
    return x, x @ (A @ x)


@short(lambda: {"A": scattered(800, 400, 0.02), "b": vector(800)})
def normal_equations(sp: Any, A: Any, b: Any) -> Any:
    """Solve a ridge regression by the normal equations."""
    A = load(sp, A)
    N = A.T @ A + 0.5 * sp.eye_array(A.shape[1])
    return sla.cg(N, A.T @ b, rtol=1e-9)[0]


@short(lambda: {"A": scattered(500, 200, 0.05), "b": vector(500)})
def kaczmarz(sp: Any, A: Any, b: Any) -> Any:
    """Project onto one row after the other."""
    A, x = load(sp, A), np.zeros(A.shape[1])
    norms = np.asarray(A.multiply(A).sum(axis=1)).ravel()
    for i in range(A.shape[0]):
        row = A[[i]]
        x = x + row.T @ ((b[i] - row @ x) / norms[i])
    return x


@short(lambda: {"A": scattered(1000, 500, 0.02), "b": vector(1000)})
def ista(sp: Any, A: Any, b: Any) -> Any:
    """Find a sparse solution by iterative soft thresholding."""
    A, x = load(sp, A), np.zeros(A.shape[1])
    step = 1 / sla.norm(A) ** 2
    for _ in range(50):
        x = x - step * (A.T @ (A @ x - b))
        x = np.sign(x) * np.maximum(np.abs(x) - 0.1 * step, 0)
    return x


@short(lambda: {"A": grid(24, 24), "B": vector(576, 5)})
def cg_columns(sp: Any, A: Any, B: Any) -> Any:
    """Solve five right sides one after the other."""
    A = load(sp, A)
    return np.column_stack([sla.cg(A, B[:, j], rtol=1e-8)[0] for j in range(B.shape[1])])


@short(lambda: {"A": grid(30, 30), "b": vector(900)})
def newton_krylov(sp: Any, A: Any, b: Any) -> Any:
    """Solve A u + u^3 = b by Newton's method, whose Jacobians are new matrices."""
    A, u = load(sp, A), np.zeros_like(b)
    for _ in range(5):
        J = A + sp.diags_array(3 * u**2, format="csr")
        u = u - sla.cg(J, A @ u + u**3 - b, rtol=1e-10)[0]
    return u
