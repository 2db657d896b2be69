"""Programs that solve linear systems by SciPy's solvers and pyamg's, with NumPy between the products."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from programlib import inputs
from programlib.program import Inputs, Program, csr


def convection_system(toy: bool) -> Inputs:
    A = inputs.convection(*((12, 9) if toy else (220, 210)), strength=0.4)
    return {"A": A, "b": A @ np.ones(A.shape[0])}


def gmres(sp: Any, A: Any, b: Any) -> Any:
    A = csr(sp, A)
    x, _ = scipy.sparse.linalg.gmres(A, b, rtol=1e-6, restart=30, maxiter=20)
    return x


def mesh_smoothing(toy: bool) -> Inputs:
    L = inputs.real_or("cotan_nefertiti", lambda: inputs.laplacian(*((9, 8) if toy else (230, 220))), toy=toy)
    rng = np.random.default_rng(0)
    return {"L": L, "points": rng.standard_normal((L.shape[0], 3))}


def linear_operator_cg(sp: Any, L: Any, points: Any) -> Any:
    """Smooth a surface implicitly: solve (1 + t L) x = points for each coordinate."""
    L = csr(sp, L)
    t = 2000.0 / L.diagonal().mean()
    implicit = scipy.sparse.linalg.LinearOperator(L.shape, matvec=lambda x: x + t * (L @ x), dtype=L.dtype)
    smooth = np.empty_like(points)
    for axis in range(points.shape[1]):
        smooth[:, axis], _ = scipy.sparse.linalg.cg(implicit, points[:, axis], rtol=1e-8, maxiter=1000)
    return smooth


def elastic_body(toy: bool) -> Inputs:
    K = inputs.real_or("elast_bunny_r1", lambda: inputs.elasticity(4 if toy else 37), toy=toy)
    load = np.zeros(K.shape[0])
    load[2::3] = -1.0
    return {"K": K, "load": load}


def elasticity_cg(sp: Any, K: Any, load: Any) -> Any:
    """Compute displacements under gravity by conjugate gradients with Jacobi's preconditioner."""
    K = csr(sp, K)
    inverse = scipy.sparse.diags_array(1.0 / K.diagonal())
    x, _ = scipy.sparse.linalg.cg(K, load, rtol=1e-5, maxiter=200, M=inverse)
    return x


def poisson(toy: bool) -> Inputs:
    A = inputs.laplacian(*((12, 11) if toy else (400, 400)))
    return {"A": A, "b": np.random.default_rng(0).standard_normal(A.shape[0])}


def pyamg_solve(sp: Any, A: Any, b: Any) -> Any:
    """Solve by algebraic multigrid with smoothed aggregation."""
    import pyamg

    np.random.seed(0)  # noqa: NPY002 (pyamg draws from the global generator)
    A = csr(sp, A)
    return pyamg.smoothed_aggregation_solver(A).solve(b, tol=1e-8, accel="cg")


def saddle_point(toy: bool) -> Inputs:
    K = inputs.real_or("qp_CONT-300_KKT", lambda: inputs.saddle_point(6 if toy else 300), toy=toy)
    return {"K": K, "b": np.random.default_rng(0).standard_normal(K.shape[0])}


def minres(sp: Any, K: Any, b: Any) -> Any:
    """Solve a saddle point problem, preconditioned by the diagonal's absolute values."""
    K = csr(sp, K)
    size = np.abs(K.diagonal())
    inverse = scipy.sparse.diags_array(1.0 / np.where(size > 0, size, 1.0))
    x, _ = scipy.sparse.linalg.minres(K, b, rtol=1e-11, maxiter=500, M=inverse)
    return x


def wind_in_space(toy: bool) -> Inputs:
    """Return transport by a wind, with random sources.

    With a smooth solution, rho and the dot product of v in BiCGSTAB cancel to 1e-15 of their terms, which is rounding.
    Then about one order of sums in fifty makes the latter exactly 0, and SciPy's solver stops, with any library.
    """
    A = inputs.convection(*((9, 8) if toy else (420, 400)), strength=0.3)
    A = inputs.canonical(A + 1e-2 * scipy.sparse.eye_array(A.shape[0]))  # decay term
    return {"A": A, "b": np.random.default_rng(0).standard_normal(A.shape[0])}


def bicgstab(sp: Any, A: Any, b: Any) -> Any:
    A = csr(sp, A)
    x, _ = scipy.sparse.linalg.bicgstab(A, b, rtol=1e-8, maxiter=2000)
    return x


def survey(toy: bool) -> Inputs:
    X = inputs.real_or(
        "rfc_docterm", lambda: inputs.heavy_rows(*((50, 30, 6) if toy else (5_000, 60_000, 800))), toy=toy
    )
    return {"X": X, "y": np.random.default_rng(0).standard_normal(X.shape[0])}


def lsqr(sp: Any, X: Any, y: Any) -> Any:
    """Solve a ridge regression on a bag of words."""
    X = csr(sp, X)
    return scipy.sparse.linalg.lsqr(X, y, damp=1e3, atol=1e-14, btol=1e-14, iter_lim=80)[0]


def grid_in_space(toy: bool) -> Inputs:
    return {"A": inputs.laplacian(*((6, 6, 6) if toy else (48, 48, 48))), "coarser": 2 if toy else 3}


def galerkin(sp: Any, A: Any, coarser: int) -> Any:
    """Compute the coarse levels of smoothed aggregation, R A P with P = (I - w D^-1 A) P0."""
    A = csr(sp, A)
    diagonals = []
    for _ in range(coarser):
        n = A.shape[0]
        P = sp.csr_array((np.ones(n), np.arange(n) // 4, np.arange(n + 1)), shape=(n, (n + 3) // 4))
        P = P - (sp.diags_array(0.66 / A.diagonal()) @ A) @ P
        A = P.T @ A @ P
        diagonals.append(A.diagonal())
    return np.concatenate(diagonals)


PROGRAMS: Final = (
    Program(name="gmres", what="GMRES, convection and diffusion", prepare=convection_system, run=gmres, rtol=1e-4),
    Program(
        name="linear_operator_cg",
        what="CG through a LinearOperator, mesh smoothing",
        prepare=mesh_smoothing,
        run=linear_operator_cg,
        rtol=1e-4,
    ),
    Program(name="elasticity_cg", what="CG, 3-D elasticity", prepare=elastic_body, run=elasticity_cg, rtol=1e-3),
    Program(
        name="pyamg",
        what="pyamg, smoothed aggregation, Poisson",
        prepare=poisson,
        run=pyamg_solve,
        rtol=1e-5,
        modules=("pyamg",),
    ),
    Program(name="minres", what="MINRES, saddle point", prepare=saddle_point, run=minres, rtol=1e-3),
    Program(name="bicgstab", what="BiCGSTAB, wind", prepare=wind_in_space, run=bicgstab, rtol=1e-3),
    Program(name="lsqr", what="LSQR, ridge regression on a bag of words", prepare=survey, run=lsqr, rtol=1e-4),
    Program(name="galerkin", what="R A P of multigrid, sparse times sparse", prepare=grid_in_space, run=galerkin),
)
