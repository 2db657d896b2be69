"""Conjugate gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosparse.linalg.arguments import (
    Callback,
    Scalar,
    System,
    Vector,
    divided,
    is_ours,
    make_system,
    norm,
    residual,
    root,
    scipys,
    tolerance,
)
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Scale, Sweep


def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b for a Hermitian, positive definite A by the method of conjugate gradients.

    Parameters
    ----------
    A
        Matrix of ours, sparse or dense matrix, or LinearOperator, of shape (n, n).
    b
        Right side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero; ``"Mb"``: M b.
    rtol, atol
        The solve ends where |b - A x| < max(rtol |b|, atol), by the residual of the recurrence.
    maxiter
        Upper bound on iterations; None: 10 n.
    M
        Preconditioner that approximates the inverse of A. A DIA matrix with the only offset 0 is fused.
    callback
        Called with the current x after each iteration.
    progress
        Draw a line with the residual and the expected end on a terminal's stderr, where the solve takes long.

    Returns
    -------
    x of shape (n,), whose dtype is that of A and b together, and `info`: 0 where x has converged, else `maxiter`.

    Raises
    ------
    ValueError where shapes or `atol` do not fit, TypeError where A is no operator. Arguments that only SciPy's `cg`
    knows are passed to it.

    The recurrence is that of `scipy.sparse.linalg.cg` (Hestenes and Stiefel, 1952).
    """
    if not is_ours(others, x0):
        how = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "M": M, "callback": callback}
        return scipys("cg")(A, b, x0, **how, **others)  # type: ignore[no-any-return]
    system = make_system(A, M, x0, b)
    b_norm = norm(system.b)
    limit = tolerance("cg", b_norm, atol=atol, rtol=rtol)
    if b_norm == 0:
        return system.b, 0
    most = system.n * 10 if maxiter is None else maxiter
    with Solve("cg", A, target=limit, limit=most, progress=progress) as solve:
        return solve.answer(_cg(system, solve, limit, most, callback), system.b)


def _cg(
    system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None
) -> tuple[Vector, int]:
    product, x = system.product(), system.x
    r, p, q, z = solve.workspace(system.n, system.dtype, 4)
    residual(system, product, r)
    apply, squares = _preconditioned(system, r, z)
    begin, direct = Sweep([Combine(p, (z,))]), Sweep([Combine(p, (p, z))])
    curvature, update = Sweep([Dot(p, q)]), Sweep([Combine(x, (x, p)), Combine(r, (r, q))])
    before: Scalar = 0.0
    for iteration in range(maxiter):
        rr, rz = squares()
        size = root(rr, system.dtype)
        solve.step(size)
        if size < limit:
            return x, 0
        if iteration:
            direct(divided(rz, before), 1.0)
        else:
            begin(1.0)
        product(p, q)
        step = divided(rz, curvature()[0])
        update(1.0, step, 1.0, -step)
        before = rz
        if callback:
            callback(x)
    return x, maxiter


def _preconditioned(system, r, z):
    M = system.preconditioner()
    if M is None or isinstance(M, np.ndarray):
        first = Combine(z, (r,)) if M is None else Scale(z, M, r)
        sweep = Sweep([first, Dot(r, r), Dot(r, z)])
        return None, (lambda: sweep(1.0) if M is None else sweep())
    rr, rz = Sweep([Dot(r, r)]), Sweep([Dot(r, z)])

    def squares():
        M(r, z)
        return rr()[0], rz()[0]
    return None, squares
