"""`bicgstab`: the stabilised method of biconjugate gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosparse.linalg.arguments import (
    Callback,
    Preconditioning,
    Scalar,
    System,
    Vector,
    divided,
    residual,
    root,
    solved,
    takes_columns,
)
from autosparse.linalg.product_sweeps import ProductSweep
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Sweep


@takes_columns
def bicgstab(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b by the stabilised method of biconjugate gradients.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator, of shape (n, n).
    b
        Right-hand side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero; ``"Mb"``: M b.
    rtol, atol
        The solve ends if |r| < max(rtol |b|, atol), r being the residual of the recurrence.
    maxiter
        Maximum number of iterations; None: 10 n.
    M
        Preconditioner: approximate inverse of A, of the same types as A. A DIA matrix with the only offset 0 is fused.
    callback
        Called after each iteration with the current x, which later iterations overwrite.
    progress
        Draw a line with the residual and the expected end on a terminal's stderr, if the solve takes more than 0.5 s.
    columns
        True: `b` has shape (n, k) and each column is a system of its own; the products with A are shared. x has shape
        (n, k), `info` (k,), and `x0` the shape of b. `callback` is not accepted.

    Returns
    -------
    x of shape (n,), whose dtype is that of A and b together, and `info`: 0 if x has converged, `maxiter` if it has
    not, -10 or -11 if the recurrence breaks down.

    Raises
    ------
    ValueError if shapes or `atol` are invalid, TypeError if A is not an operator. Calls with arguments that only
    SciPy's function accepts are passed to it.

    The recurrence is that of `scipy.sparse.linalg.bicgstab` (van der Vorst, 1992).

    >>> A = asp.csr([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = asp.linalg.bicgstab(A, np.array([5.0, 4.0]))
    >>> info, np.round(x, 6)
    (0, array([1., 1.]))
    """
    return solved(
        "bicgstab", _bicgstab, A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M, callback=callback,
        progress=progress, others=others,
    )  # fmt: skip


class _BiconjugateVectors:
    """Vectors and sweeps of BiCGSTAB: the residual r, its shadow, the direction p, v = A M p, and t = A M r."""

    def __init__(self, system: System, solve: Solve) -> None:
        self.M = M = Preconditioning(system)
        r, shadow, p, v, t, *hats = solve.workspace(system.n, system.dtype, 5 + 2 * M.n_vectors)
        p_hat, r_hat = hats or (p, r)
        self.r, self.p, self.v, self.t, self.p_hat, self.r_hat = r, p, v, t, p_hat, r_hat
        x = system.x
        product = system.product()
        residual(system, product, r)
        shadow[...] = r
        self.measure = Sweep([Dot(r, r), Dot(shadow, r)])
        self.begin = Sweep([Combine(p, (r,)), *M.steps(p, p_hat)])
        self.turn = Sweep([Combine(p, (p, v, r)), *M.steps(p, p_hat)])
        self._shadowed = ProductSweep(product, [Dot(shadow, v)])
        self.half = Sweep([Combine(r, (r, v)), Dot(r, r), *M.steps(r, r_hat)])
        self.half_step = Sweep([Combine(x, (x, p_hat))])
        self._minimize = ProductSweep(product, [Dot(t, r), Dot(t, t)])
        # x is updated first, because without M r_hat is r
        self.step = Sweep([Combine(x, (x, p_hat, r_hat)), Combine(r, (r, t)), Dot(r, r), Dot(shadow, r)])

    def shadowed(self) -> Scalar:
        """Write v = A M p; return the dot product of the shadow residual and v."""
        self.M.apply(self.p, self.p_hat)
        return self._shadowed(self.p_hat, self.v)[0]  # type: ignore[no-any-return]

    def minimize(self) -> tuple[Scalar, Scalar]:
        """Write t = A M r; return the dot products t.r and t.t."""
        self.M.apply(self.r, self.r_hat)
        return self._minimize(self.r_hat, self.t)  # type: ignore[return-value]


def _bicgstab(
    system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None
) -> tuple[Vector, int]:
    x, has = system.x, _BiconjugateVectors(system, solve)
    least = float(np.finfo(system.dtype).eps) ** 2
    before: Scalar | None = None
    alpha: Scalar = 0.0
    omega: Scalar = 0.0
    rr, rho = has.measure()
    for _ in range(maxiter):
        size = root(rr, system.dtype)
        solve.step(size)
        if size < limit:
            return x, 0
        if abs(rho) < least:
            return x, -10
        if before is None:
            has.begin(1.0)
        elif abs(omega) < least:
            return x, -11
        else:
            beta: Scalar = divided(rho, before) * divided(alpha, omega)
            has.turn(beta, -beta * omega, 1.0)
        rv = has.shadowed()
        if rv == 0:
            return x, -11
        alpha = divided(rho, rv)
        (ss,) = has.half(1.0, -alpha)
        if root(ss, system.dtype) < limit:
            has.half_step(1.0, alpha)
            return x, 0
        omega = divided(*has.minimize())
        before = rho
        rr, rho = has.step(1.0, alpha, omega, 1.0, -omega)
        if callback:
            callback(x)
    return x, maxiter
