"""`bicgstab`: the stabilised method of biconjugate gradients."""

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
from autosparse.linalg.sweeps import Combine, Dot, Run, Sweep


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
        "bicgstab", _bicgstab, A, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, factors={"M": M}, callback=callback,
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

    @property
    def is_fused(self) -> bool:
        """Return whether fast calls may compute the products and the sweeps after them."""
        return self._shadowed.is_fused

    @property
    def sweeps(self) -> tuple[Run, ...]:
        """Builtins of the sweeps of an iteration, in the order of execution."""
        return self.turn.run, self._shadowed.run, self.half.run, self._minimize.run, self.step.run

    def fast_calls(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Return the functions that may compute v and t without Python, with their arguments, if there are any."""
        of_v, of_t = self._shadowed.fast_call(self.p_hat, self.v), self._minimize.fast_call(self.r_hat, self.t)
        return None if of_v is None or of_t is None else (of_v, of_t)

    def shadowed(self) -> Scalar:
        """Write v = A M p; return the dot product of the shadow residual and v."""
        self.M.apply(self.p, self.p_hat)
        return self._shadowed(self.p_hat, self.v)[0]  # type: ignore[no-any-return]

    def minimize(self) -> tuple[Scalar, Scalar]:
        """Write t = A M r; return the dot products t.r and t.t."""
        self.M.apply(self.r, self.r_hat)
        return self._minimize(self.r_hat, self.t)


_BETWEEN, _TURNED, _SHADOWED, _HALVED, _MINIMIZED = range(5)
"""Codes of the part of an iteration that a run of native iterations computed last."""


class _Recurrence:
    """Scalars of BiCGSTAB: r.r, rho = shadow.r, the last rho, alpha, omega; shadow.v, r.r after v, t.r and t.t."""

    def __init__(self, system: System, solve: Solve, limit: float, *, has_callback: bool) -> None:
        self.vectors = has = _BiconjugateVectors(system, solve)
        self.dtype, self.limit, self.least = system.dtype, limit, float(np.finfo(system.dtype).eps) ** 2
        self.rr, self.rho = has.measure()
        self.before: Scalar | None = None
        zero: Scalar = 0.0
        self.alpha = self.omega = self.rv = self.ss = self.tr = self.tt = zero
        is_apt = system.dtype.kind == "f" and not (has_callback or has.M.is_product) and has.is_fused
        self._advance = python_objects.advance_bicgstab if is_apt else None

    def turn(self) -> None:
        """Compute the next direction p."""
        if self.before is None:
            self.vectors.begin(1.0)
            return
        beta: Scalar = divided(self.rho, self.before) * divided(self.alpha, self.omega)
        self.vectors.turn(beta, -beta * self.omega, 1.0)

    def finish(self, end: int) -> int | None:
        """Compute the part of an iteration after `end`; return SciPy's info if that ends the solve, else None."""
        has = self.vectors
        if end < _SHADOWED:
            self.rv = has.shadowed()
        if self.rv == 0:
            return -11
        if end < _HALVED:
            self.alpha = divided(self.rho, self.rv)
            (self.ss,) = has.half(1.0, -self.alpha)
        if root(self.ss, self.dtype) < self.limit:
            has.half_step(1.0, self.alpha)
            return 0
        if end < _MINIMIZED:
            self.tr, self.tt = has.minimize()
        self.before, self.omega = self.rho, divided(self.tr, self.tt)
        self.rr, self.rho = has.step(1.0, self.alpha, self.omega, 1.0, -self.omega)
        return None

    def advance(self, n_most: int) -> tuple[int, int, float]:
        """Run up to `n_most` iterations in the extension module.

        Returns the number of whole iterations, where the last one ended, and the least norm at their ends.
        """
        products = self.vectors.fast_calls() if self._advance is not None and self.before is not None else None
        if products is None:
            return 0, _BETWEEN, math.inf
        numbers = self.rr, self.rho, self.before, self.alpha, self.omega, self.limit, self.least
        n, end, found, best = self._advance(products, self.vectors.sweeps, numbers, n_most)  # type: ignore[misc]
        self.rr, self.rho, self.before, self.alpha, self.omega, self.rv, self.ss, self.tr, self.tt = found
        return n, end, best


def _bicgstab(
    system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None
) -> tuple[Vector, int]:
    x, it, done = system.x, _Recurrence(system, solve, limit, has_callback=callback is not None), 0
    while done < maxiter:
        size = root(it.rr, system.dtype)
        solve.step(size)
        if size < limit:
            return x, 0
        if abs(it.rho) < it.least:
            return x, -10
        if it.before is not None and abs(it.omega) < it.least:
            return x, -11
        n, end, best = it.advance(min(maxiter - done, solve.n_until_report))
        done += n
        solve.pass_steps(n - 1 if n and end == _BETWEEN else n, best)
        if n and end == _BETWEEN:
            continue
        if end == _BETWEEN:
            it.turn()
        info = it.finish(end)
        if info is not None:
            return x, info
        done += 1
        if callback:
            callback(x)
    return x, maxiter
