"""`cg` and `cgs`: conjugate gradients, and conjugate gradients squared."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autosparse._native import python_objects
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
from autosparse.linalg.operators import ProductSweep
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Step, Sweep


@takes_columns
def cg(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b for a Hermitian, positive definite A by the method of conjugate gradients.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator, of shape (n, n).
    b
        Right-hand side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero; ``"Mb"``: M b.
    rtol, atol
        The solve ends if |r| < max(rtol |b|, atol) in Euclidean norms, for the residual r that the recurrence updates.
    maxiter
        Maximum number of iterations; None: 10 n.
    M
        Preconditioner: approximate inverse of A, of the same types as A. A diagonal DIA matrix needs no extra pass.
    callback
        Called after each iteration with the current x, which later iterations overwrite.
    progress
        Show the residual and the expected end on stderr, if it is a terminal and the solve takes more than 0.5 s.
    columns
        True: `b` has shape (n, k) and each column is a system of its own; the products with A are shared. x has shape
        (n, k), `info` (k,), and `x0` the shape of b. `callback` is not accepted.

    Returns
    -------
    x of shape (n,), in the common dtype of A and b, and `info`: 0 if x has converged, `maxiter` if it has
    not.

    Raises
    ------
    ValueError if shapes or `atol` are invalid, TypeError if A is not an operator. Calls with arguments that only
    SciPy's function accepts are passed to it.

    The recurrence is that of `scipy.sparse.linalg.cg` (Hestenes and Stiefel, 1952).

    >>> A = asp.csr([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = asp.linalg.cg(A, np.array([5.0, 4.0]))
    >>> info, np.round(x, 6)
    (0, array([1., 1.]))
    """
    return solved(
        "cg", _cg, A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, factors={"M": M}, callback=callback,
        progress=progress, others=others,
    )  # fmt: skip


_BETWEEN, _TURNED, _CURVED = 0, 1, 2
"""Codes of the place at which native iterations end: between two, before the product, or after it with p.q = 0."""


class _Directions:
    """Vectors and sweeps of conjugate gradients: x, the residual r, z = M r, the direction p, and q = A p.

    Without a callback, the step of x is delayed until the next direction is computed, so that p is read once for both.
    """

    def __init__(self, system: System, solve: Solve, *, is_x_current: bool) -> None:
        self._M = M = Preconditioning(system)
        r, p, q, *z = solve.workspace(system.n, system.dtype, 3 + M.n_vectors)
        self._r, self._z, self.p, self.q, x = r, z[0] if z else r, p, q, system.x
        product = system.product()
        residual(system, product, r)
        squares: list[Step] = [Dot(r, r), *M.steps(r, self._z)]
        if not M.is_product and self._z is not r:
            squares.append(Dot(r, self._z))
        self._begin = Sweep(squares if M.is_product else [*squares, Combine(p, (self._z,))])
        turn = Combine(p, (self._z, p))
        step: list[Step] = [Combine(x, (x, p))]
        self._descend = Sweep([*(step if is_x_current else ()), Combine(r, (r, q)), *squares])
        self._turn = Sweep([turn] if is_x_current else [*step, turn])
        self._finish = None if is_x_current else Sweep(step)
        self._rz = Sweep([Dot(r, self._z)]) if M.is_product else None
        self._curvature = ProductSweep(product, [Dot(p, q)])
        self._left: Scalar = 0.0  # length of the pending step of x
        self.is_native = (
            not (is_x_current or M.is_product)
            and system.dtype.kind == "f"
            and self._curvature.is_fused
            and python_objects.advance_cg is not None
        )

    def advance(
        self, numbers: tuple[Scalar, ...], before: Scalar | None, n_most: int
    ) -> tuple[int, int, tuple[Scalar, Scalar, Scalar | None], float]:
        """Run up to `n_most` iterations in the extension module, if `is_native`.

        `numbers`: the norm that ends the solve, r.r and r.z; `before`: the last r.z, None in the first iteration.
        Returns the number of iterations, where the last one ended, r.r, r.z and the last r.z, and the least norm.
        """
        limit, rr, rz = numbers
        call = self._curvature.fast_call(self.p, self.q)
        if call is None:
            return 0, _BETWEEN, (rr, rz, before), math.inf
        given = rr, rz, math.nan if before is None else before, self._left, limit
        sweeps = self._turn.run, self._curvature.run, self._descend.run
        n, end, rr, rz, before, self._left, best = python_objects.advance_cg(call, sweeps, given, n_most)
        return n, end, (rr, rz, before), best

    def begin(self) -> tuple[Scalar, ...]:
        """Return r.r for r = b - A x, and r.z unless M is a product or the identity; write p unless M is a product."""
        return self._begin(*([] if self._M.is_product else [1.0]))

    def rz(self, squares: tuple[Scalar, ...]) -> Scalar:
        """Return r.z for z = M r, given the result of `begin` or `descend`."""
        if self._rz is None:
            return squares[-1]
        self._M.apply(self._r, self._z)
        return self._rz()[0]  # type: ignore[no-any-return]

    def turn(self, beta: Scalar | None) -> None:
        """Write p = z + beta p (z at first), and add the pending step to x."""
        if beta is None:
            if self._M.is_product:  # else `begin` has written p
                self.p[...] = self._z
        elif self._finish is None:
            self._turn(1.0, beta)
        else:
            self._turn(1.0, self._left, 1.0, beta)
        self._left = 0.0

    def curvature(self) -> Scalar:
        """Write q = A p; return the dot product of p and q."""
        return self._curvature(self.p, self.q)[0]  # type: ignore[no-any-return]

    def descend(self, alpha: Scalar) -> tuple[Scalar, ...]:
        """Compute x += alpha p (possibly delayed) and r -= alpha q; return the dot products of r as `begin` does."""
        if self._finish is None:
            return self._descend(1.0, alpha, 1.0, -alpha)
        self._left = alpha
        return self._descend(1.0, -alpha)

    def finish(self) -> None:
        """Add the pending step to x."""
        if self._finish is not None and self._left != 0:
            self._finish(1.0, self._left)


def _cg(system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None) -> tuple[Vector, int]:
    vectors = _Directions(system, solve, is_x_current=callback is not None)
    squares, before, done = vectors.begin(), None, 0
    while done < maxiter:
        size = root(squares[0], system.dtype)
        solve.step(size)
        if size < limit:
            vectors.finish()
            return system.x, 0
        rz, end = vectors.rz(squares), _BETWEEN
        if vectors.is_native:
            n_most = min(maxiter - done, solve.n_until_report)
            n, end, (rr, rz, before), best = vectors.advance((limit, squares[0], rz), before, n_most)
            done += n
            solve.pass_steps(n - 1 if n and end == _BETWEEN else n, best)
            if n and end == _BETWEEN:
                squares = rr, rz
                continue
        if end == _BETWEEN:
            vectors.turn(None if before is None else divided(rz, before))
        alpha = divided(rz, 0.0 if end == _CURVED else vectors.curvature())
        if not (math.isfinite(alpha.real) and math.isfinite(alpha.imag)):
            _ = alpha * vectors.p, alpha * vectors.q  # emits the RuntimeWarnings of SciPy's steps
        squares = vectors.descend(alpha)
        before, done = rz, done + 1
        if callback:
            callback(system.x)
    vectors.finish()
    return system.x, maxiter


def cgs(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b by the method of conjugate gradients squared.

    Parameters
    ----------
    A, b, x0, rtol, atol, maxiter, M, callback, progress
        As in `cg`. A need not be Hermitian.

    Returns
    -------
    x of shape (n,), in the common dtype of A and b, and `info`: 0 if x has converged, `maxiter` if it has
    not, -10 or -11 if the recurrence breaks down.

    Raises
    ------
    ValueError if shapes or `atol` are invalid, TypeError if A is not an operator. Calls with arguments that only
    SciPy's function accepts are passed to it.

    The recurrence is that of `scipy.sparse.linalg.cgs` (Sonneveld, 1989).

    >>> A = asp.csr([[4.0, 1.0], [1.0, 3.0]])
    >>> x, info = asp.linalg.cgs(A, np.array([5.0, 4.0]))
    >>> info, np.round(x, 6)
    (0, array([1., 1.]))
    """
    return solved(
        "cgs", _cgs, A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, factors={"M": M}, callback=callback,
        progress=progress, others=others,
    )  # fmt: skip


def _cgs(system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None) -> tuple[Vector, int]:
    product, x, M = system.product(), system.x, Preconditioning(system)
    r, shadow, p, u, q, v, w, *hat = solve.workspace(system.n, system.dtype, 7 + M.n_vectors)
    p_hat, w_hat = (hat[0], hat[0]) if hat else (p, w)
    residual(system, product, r)
    shadow[...] = r
    measure = Sweep([Dot(r, r), Dot(shadow, r)])
    begin = Sweep([Combine(p, (r,)), Combine(u, (r,)), *M.steps(p, p_hat)])
    turn = Sweep([Combine(u, (r, q)), Combine(p, (u, q, p)), *M.steps(p, p_hat)])
    shadowed = ProductSweep(product, [Dot(shadow, v)])
    half = Sweep([Combine(q, (u, v)), Combine(w, (u, q)), *M.steps(w, w_hat)])
    step = Sweep([Combine(x, (x, w_hat))])
    renew = ProductSweep(product, [Combine(r, (system.b, v)), Dot(r, r), Dot(shadow, r)])
    least, before = float(np.finfo(system.dtype).eps) ** 2, None
    rr, rho = measure()
    for _ in range(maxiter):
        solve.step(size := root(rr, system.dtype))
        if size < limit or abs(rho) < least:
            return x, 0 if size < limit else -10
        beta = None if before is None else divided(rho, before)
        _ = begin(1.0, 1.0) if beta is None else turn(1.0, beta, 1.0, beta, beta * beta)
        M.apply(p, p_hat)
        (rv,) = shadowed(p_hat, v)
        if rv == 0:
            return x, -11
        before, alpha = rho, divided(rho, rv)
        half(1.0, -alpha, 1.0, 1.0)
        M.apply(w, w_hat)
        step(1.0, alpha)
        rr, rho = renew(x, v, 1.0, -1.0)
        if callback:
            callback(x)
    return x, maxiter
