"""`qmr`: the quasi-minimal residual method."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from autosparse.linalg.arguments import (
    Callback,
    Scalar,
    System,
    Vector,
    divided,
    is_ours,
    residual,
    root,
    scipys,
    solved,
)
from autosparse.linalg.operators import Product, adjoint_of, preconditioner_of
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Step, Sweep


def qmr(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M1: Any = None, M2: Any = None, callback: Callback | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b by the quasi-minimal residual method.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator with an adjoint, of shape (n, n).
    b
        Right-hand side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero.
    rtol, atol
        The solve ends if |r| < max(rtol |b|, atol) in Euclidean norms, for the residual r that the recurrence updates.
    maxiter
        Maximum number of iterations; None: 10 n.
    M1, M2
        Left and right preconditioners, LinearOperators with adjoints: M1 M2 approximates the inverse of A. Both or
        none. None: those that A brings as methods `psolve` and `rpsolve`.
    callback
        Called after each iteration with the current x, which later iterations overwrite.
    progress
        Show the residual and the expected end on stderr, if it is a terminal and the solve takes more than 0.5 s.

    Returns
    -------
    x of shape (n,), in the common dtype of A and b, and `info`: 0 if x has converged, `maxiter` if it has
    not, -10 to -15 if the recurrence breaks down.

    Raises
    ------
    ValueError if shapes or `atol` are invalid, TypeError if A is not an operator. Calls with arguments that only
    SciPy's function accepts are passed to it.

    The recurrence is that of `scipy.sparse.linalg.qmr` (Freund and Nachtigal, 1991, without look-ahead).

    >>> A, b = asp.csr([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    >>> x, info = asp.linalg.qmr(A, b)
    >>> info, np.allclose(A @ x, b)
    (0, True)
    """
    how: dict[str, Any] = {"rtol": rtol, "atol": atol, "maxiter": maxiter, "callback": callback}
    factors = (M1, M2) if M1 is not None or M2 is not None else _own_factors(A)
    is_known = factors is None or all(isinstance(one, LinearOperator) for one in factors)
    if not is_known or not is_ours(others, x0):
        return scipys("qmr")(A, b, x0, M1=M1, M2=M2, **how, **others)  # type: ignore[no-any-return]
    method = functools.partial(_qmr, factors=factors)
    given = {"M1": M1, "M2": M2}
    return solved("qmr", method, A, b, x0, factors=given, others={}, progress=progress, **how)


Factors = tuple[LinearOperator, LinearOperator]


def _own_factors(A: Any) -> Factors | None:  # Any: an object with any attributes
    """Return the left and right preconditioners given by A's methods `psolve` and `rpsolve`, or None."""
    if not hasattr(A, "psolve"):
        return None
    left, right = (
        LinearOperator(A.shape, lambda x, side=side: A.psolve(x, side), lambda x, side=side: A.rpsolve(x, side))
        for side in ("left", "right")
    )
    return left, right


def _applied(M: LinearOperator, dtype: np.dtype[Any]) -> Product:
    """Return a function that writes M x to out."""
    found = preconditioner_of(M, dtype)
    assert found is not None  # only without M
    return functools.partial(np.multiply, found) if isinstance(found, np.ndarray) else found


class _Factored:
    """Products with the preconditioners M1 and M2 and their adjoints, and the vectors they write."""

    def __init__(self, factors: Factors, vectors: tuple[Vector, ...], dtype: np.dtype[Any]) -> None:
        (M1, M2), (self.y, self.z, self.yt, self.zt) = factors, vectors
        self._left, self._right = _applied(M1, dtype), _applied(M2, dtype)
        self._left_adjoint, self._right_adjoint = _applied(M1.H, dtype), _applied(M2.H, dtype)
        self._y2, self._z2 = Sweep([Dot(self.y, self.y)]), Sweep([Dot(self.z, self.z)])

    def left(self, vt: Vector) -> Scalar:
        """Write y = M1 vt; return y.y."""
        self._left(vt, self.y)
        return self._y2()[0]  # type: ignore[no-any-return]

    def right(self, wt: Vector) -> Scalar:
        """Write z = M2^H wt; return z.z."""
        self._right_adjoint(wt, self.z)
        return self._z2()[0]  # type: ignore[no-any-return]

    def turn(self) -> None:
        """Write yt = M2 y and zt = M1^H z."""
        self._right(self.y, self.yt)
        self._left_adjoint(self.z, self.zt)


class _QuasiMinimalVectors:
    """The two bases (v, w), their directions (p, q), products with A, and sweeps."""

    def __init__(self, system: System, solve: Solve, factors: Factors | None) -> None:
        self.product, self.adjoint = system.product(), adjoint_of(system.A, system.dtype)
        n_extra = 0 if factors is None else 4
        r, v, w, p, q, vt, wt, pt, qt, d, s, *extra = solve.workspace(system.n, system.dtype, 11 + n_extra)
        self.p, self.q, self.pt, self.qt, self.vt, self.wt = p, q, pt, qt, vt, wt
        residual(system, self.product, r)
        self.M = None if factors is None else _Factored(factors, tuple(extra), system.dtype)
        y, z, yt, zt = extra or (v, w, v, w)
        for basis, start in ((vt, r), (wt, r), (p, 0), (q, 0), (d, 0), (s, 0)):
            basis[...] = start
        x = system.x
        self.start = Sweep([Dot(r, r)])
        bases: list[Step] = [Combine(v, (vt,)), Combine(w, (wt,))]
        scaled: list[Step] = [Combine(y, (y,)), Combine(z, (z,))] if extra else []
        self._scale = Sweep([*bases, *scaled, Dot(z, y)])
        self._turn = Sweep([Combine(p, (yt, p)), Combine(q, (zt, q))])
        self.couple = Sweep([Dot(q, pt)])
        self._next_v = Sweep([Combine(vt, (pt, v)), *([] if extra else [Dot(vt, vt)])])
        self._next_w = Sweep([Combine(wt, (qt, w)), *([] if extra else [Dot(wt, wt)])])
        self.step = Sweep([
            Combine(d, (d, p)), Combine(s, (s, pt)), Combine(x, (x, d)), Combine(r, (r, s)), Dot(r, r)
        ])  # fmt: skip

    def begin(self) -> tuple[Scalar, Scalar, Scalar]:
        """Return r.r, y.y and z.z, where y = M1 r and z = M2^H r."""
        (square,) = self.start()
        return (square, square, square) if self.M is None else (square, self.M.left(self.vt), self.M.right(self.wt))

    def scale(self, one: float, other: float) -> Scalar:
        """Scale the newest vectors of both bases; return the dot product of z and y."""
        (delta,) = self._scale(one, other) if self.M is None else self._scale(one, other, one, other)
        return delta  # type: ignore[no-any-return]

    def turn(self, one: Scalar, other: Scalar) -> None:
        """Compute the next directions p = yt + one p and q = zt + other q."""
        if self.M is not None:
            self.M.turn()
        self._turn(1.0, one, 1.0, other)

    def next_v(self, beta: Scalar) -> Scalar:
        """Compute the next unscaled vector of the basis v; return |y|^2."""
        dots = self._next_v(1.0, -beta)
        return dots[0] if self.M is None else self.M.left(self.vt)

    def next_w(self, beta: Scalar) -> Scalar:
        """Compute the next unscaled vector of the basis w; return |z|^2."""
        dots = self._next_w(1.0, -beta)
        return dots[0] if self.M is None else self.M.right(self.wt)


def _qmr(
    system: System, solve: Solve, limit: float, maxiter: int, callback: Callback | None, *, factors: Factors | None
) -> tuple[Vector, int]:
    has, x, dtype = _QuasiMinimalVectors(system, solve, factors), system.x, system.dtype
    least = float(np.finfo(dtype).eps)
    size, rho, xi = (root(square, dtype) for square in has.begin())
    gamma, theta = 1.0, 0.0
    eta: Scalar = -1.0
    epsilon: Scalar | None = None
    for _ in range(maxiter):
        solve.step(size)
        if size < limit:
            return x, 0
        if rho < least or xi < least:
            return x, -10 if rho < least else -15
        delta = has.scale(1 / rho, 1 / xi)
        if abs(delta) < least:
            return x, -13
        ratio: Scalar = 0.0 if epsilon is None else divided(delta, epsilon)
        has.turn(-xi * ratio, -rho * ratio.conjugate())
        has.product(has.p, has.pt)
        (epsilon,) = has.couple()
        beta = epsilon / delta
        if abs(epsilon) < least or abs(beta) < least:
            return x, -14 if abs(epsilon) < least else -11
        rho_before, gamma_before, theta_before = rho, gamma, theta
        rho = root(has.next_v(beta), dtype)
        has.adjoint(has.q, has.qt)
        xi = root(has.next_w(beta.conjugate()), dtype)
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
