"""The quasi-minimal residual method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autosparse.linalg.arguments import Callback, Scalar, System, Vector, divided, is_ours, residual, root, scipys, solved
from autosparse.linalg.operators import adjoint_of
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Sweep


def qmr(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M1: Any = None, M2: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b by the quasi-minimal residual method.

    Parameters
    ----------
    A
        Matrix of ours, sparse or dense matrix, or LinearOperator with an adjoint, of shape (n, n).
    b
        Right side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero.
    rtol, atol
        The solve ends where |r| < max(rtol |b|, atol), r being the residual of the recurrence.
    maxiter
        Upper bound on iterations; None: 10 n.
    M1, M2
        Left and right preconditioners, with adjoints. With either of them SciPy's function computes.
    callback
        Called after each iteration with the current x, which later iterations overwrite.
    progress
        Draw a line with the residual and the expected end on a terminal's stderr, where the solve takes long.

    Returns
    -------
    x of shape (n,), whose dtype is that of A and b together, and `info`: 0 where x has converged, `maxiter` where it has
    not, -10 to -15 where the recurrence breaks down.

    Raises
    ------
    ValueError where shapes or `atol` do not fit, TypeError where A is no operator. Arguments that only SciPy's function
    knows are passed to it.

    The recurrence is that of `scipy.sparse.linalg.qmr` (Freund and Nachtigal, 1991, without look-ahead).
    """
    how = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "callback": callback}
    is_plain = M1 is None and M2 is None and not hasattr(A, "psolve") and not hasattr(A, "rpsolve")
    if not is_plain or not is_ours(others, x0):
        return scipys("qmr")(A, b, x0, M1=M1, M2=M2, **how, **others)  # type: ignore[no-any-return]
    return solved("qmr", _qmr, A, b, x0, M=None, others={}, progress=progress, **how)


class _Vectors:
    """The two bases (v, w), their directions (p, q), products, and sweeps."""

    def __init__(self, system: System, solve: Solve) -> None:
        self.product, self.adjoint = system.product(), adjoint_of(system.A, system.dtype)
        r, v, w, p, q, vt, wt, pt, qt, d, s = solve.workspace(system.n, system.dtype, 11)
        self.p, self.q, self.pt, self.qt = p, q, pt, qt
        residual(system, self.product, r)
        for basis, start in ((vt, r), (wt, r), (p, 0), (q, 0), (d, 0), (s, 0)):
            basis[...] = start
        x = system.x
        self.start = Sweep([Dot(r, r)])
        self.scale = Sweep([Combine(v, (vt,)), Combine(w, (wt,)), Dot(w, v)])
        self.turn = Sweep([Combine(p, (v, p)), Combine(q, (w, q))])
        self.couple = Sweep([Dot(q, pt)])
        self.next_v = Sweep([Combine(vt, (pt, v)), Dot(vt, vt)])
        self.next_w = Sweep([Combine(wt, (qt, w)), Dot(wt, wt)])
        self.step = Sweep([
            Combine(d, (d, p)), Combine(s, (s, pt)), Combine(x, (x, d)), Combine(r, (r, s)), Dot(r, r)
        ])  # fmt: skip


def _qmr(system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None) -> tuple[Vector, int]:
    has, x, dtype = _Vectors(system, solve), system.x, system.dtype
    least = float(np.finfo(dtype).eps)
    size = rho = xi = root(has.start()[0], dtype)
    gamma, theta = 1.0, 0.0
    eta: Scalar = -1.0
    epsilon: Scalar | None = None
    for _ in range(maxiter):
        solve.step(size)
        if size < limit:
            return x, 0
        if rho < least:
            return x, -10
        if xi < least:
            return x, -15
        (delta,) = has.scale(1 / rho, 1 / xi)
        if abs(delta) < least:
            return x, -13
        ratio: Scalar = 0.0 if epsilon is None else divided(delta, epsilon)
        has.turn(1.0, -xi * ratio, 1.0, -rho * ratio.conjugate())
        has.product(has.p, has.pt)
        (epsilon,) = has.couple()
        if abs(epsilon) < least:
            return x, -14
        beta = epsilon / delta
        if abs(beta) < least:
            return x, -11
        rho_before, gamma_before, theta_before = rho, gamma, theta
        rho = root(has.next_v(1.0, -beta)[0], dtype)
        has.adjoint(has.q, has.qt)
        xi = root(has.next_w(1.0, -beta.conjugate())[0], dtype)
        theta = rho / (gamma_before * abs(beta))
        gamma = 1 / math.sqrt(1 + theta * theta)
        if gamma < least:
            return x, -12
        eta = -eta * (rho_before / beta) * (gamma / gamma_before) ** 2
        kept = (theta_before * gamma) ** 2
        size = root(has.step(kept, eta, kept, eta, 1.0, 1.0, 1.0, -1.0)[0], dtype)
        if callback:
            callback(x)
    return x, maxiter
