"""`gmres`: the generalised minimal residual method with restarts."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
from scipy.linalg import get_lapack_funcs

from autosparse._native.python_objects import ffi, lib
from autosparse.core.dtypes import Complex, Real
from autosparse.linalg import sweeps
from autosparse.linalg.arguments import (
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
    suits_sweeps,
    takes_columns,
    tolerance,
)
from autosparse.linalg.operators import Product
from autosparse.linalg.solves import NotFiniteError, Solve
from autosparse.linalg.solves.tracing import timed_method
from autosparse.linalg.sweeps import Combine, Dot, Scale, Sweep
from autosparse.scalar import DOUBLE, VALUE_CODES

CALLBACK_TYPES: Final = ("x", "pr_norm", "legacy")
"""Accepted values of `callback_type`."""
RESTART: Final = 20  # iterations between restarts, as SciPy's default
_CHANGING: Final = (
    "scipy.sparse.linalg.gmres called without specifying `callback_type`. The default value will be changed in a future"
    " release. For compatibility, specify a value for `callback_type` explicitly, e.g., "
    "``gmres(..., callback_type='pr_norm')``, or to retain the old behavior ``gmres(..., callback_type='legacy')``"
)


@takes_columns
def gmres(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, restart: int | None = None,
    maxiter: int | None = None, M: Any = None, callback: Callable[[Any], object] | None = None,
    callback_type: str | None = None, progress: bool = False, **others: Any,
) -> tuple[Vector, int]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Solve A x = b for a general square A by the generalised minimal residual method with restarts.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator, of shape (n, n).
    b
        Right-hand side of shape (n,) or (n, 1).
    x0
        Initial guess of shape (n,) or (n, 1); None: zero; ``"Mb"``: M b.
    rtol, atol
        The solve ends if |b - A x| <= max(rtol |b|, atol) in Euclidean norms.
    restart
        Number of iterations between restarts, and of vectors that are stored; None: min(20, n).
    maxiter
        Maximum number of restart cycles, or of iterations if `callback_type` is "legacy"; None: 10 n.
    M
        Left preconditioner: approximate inverse of A. A diagonal DIA matrix needs no extra pass.
    callback, callback_type
        "x": called with the current x after each cycle; "pr_norm": with the norm of the preconditioned residual over
        that of b after each iteration; "legacy", the default: like "pr_norm", with the other meaning of `maxiter`.
    columns
        True: `b` has shape (n, k) and each column is a system of its own; the products with A are shared. x has shape
        (n, k), `info` (k,), and `x0` the shape of b. `callback` is not accepted.
    progress
        Show the residual and the expected end on stderr, if it is a terminal and the solve takes more than 0.5 s.

    Returns
    -------
    x of shape (n,), in the common dtype of A and b, and `info`: 0 if x has converged, else `maxiter`.

    Raises
    ------
    ValueError if shapes, `atol` or `callback_type` are invalid, TypeError if A is not an operator. Calls with arguments
    that only SciPy's `gmres` accepts are passed to it.

    Warns
    -----
    DeprecationWarning if there is a callback without a `callback_type`, as SciPy does.

    The recurrence is SciPy's (Saad and Schultz, 1986), with the modified Gram-Schmidt process in blocked form.

    >>> A, b = asp.csr([[4.0, 1.0], [2.0, 3.0]]), np.array([1.0, 2.0])
    >>> x, info = asp.linalg.gmres(A, b)
    >>> info, np.allclose(A @ x, b)
    (0, True)
    """
    how = {"rtol": rtol, "atol": atol, "restart": restart, "maxiter": maxiter, "M": M}
    if not (is_ours(others, x0) and _is_positive(restart) and _is_positive(maxiter)):
        return scipys("gmres")(A, b, x0, callback=callback, callback_type=callback_type, **how, **others)  # type: ignore[no-any-return]
    if callback is not None and callback_type is None:
        from autosparse.notices import warn_at  # few solves warn

        warn_at(4, _CHANGING, DeprecationWarning)  # the level that SciPy warns at
    kind = "legacy" if callback_type is None else callback_type
    if kind not in CALLBACK_TYPES:
        raise ValueError(f"Unknown callback_type: {kind!r}")
    system = make_system(A, M, x0, b)
    b_norm = norm(system.b)
    if suits_sweeps(system, b_norm):
        limit = tolerance("gmres", b_norm, atol=atol, rtol=rtol)
        if b_norm == 0:
            return system.b, 0
        most, system.has_callback = system.n * 10 if maxiter is None else operator.index(maxiter), callback is not None
        bounds = _Bounds(limit, b_norm, most, min(RESTART if restart is None else restart, system.n))
        listener = _Listener(callback, kind, system.dtype)
        most = most if listener.counts_iterations() else most * bounds.restart
        asked = Solve("gmres", A, target=limit, limit=most, progress=progress, is_strict=callback is None)
        with suppress(NotFiniteError), asked as solve:
            x, info = solve.answer(_Gmres(system, solve, bounds, listener).run(), system.b)
            return x, maxiter if info and maxiter is not None else info  # the object, as in SciPy
    return scipys("gmres")(A, b, x0, callback=callback, callback_type=kind, **how)  # type: ignore[no-any-return]


def _is_positive(number: Any) -> bool:  # Any: an argument of any kind
    """Return whether a limit is positive, or None; False for what is no integer, so that SciPy refuses it."""
    try:
        return number is None or operator.index(number) > 0
    except TypeError:
        return False


class _Bounds:
    """Tolerances and limits of one solve. `limit`: residual norm at which it ends.

    A plain class: the methods of a named tuple would be compiled at each import.
    """

    __slots__ = ("b_norm", "limit", "maxiter", "restart")

    def __init__(self, limit: float, b_norm: float, maxiter: int, restart: int) -> None:
        self.limit, self.b_norm, self.maxiter, self.restart = limit, b_norm, maxiter, restart


class _Listener:
    """The user's callback, or none."""

    def __init__(self, call: Callable[[Any], object] | None, kind: str, dtype: np.dtype[Any]) -> None:
        self._call, self._kind = call, "" if call is None else kind
        self._real = np.empty(0, dtype).real.dtype.type

    def counts_iterations(self) -> bool:
        """Return whether `maxiter` limits iterations rather than cycles."""
        return self._kind == "legacy"

    def after_iteration(self, ratio: float) -> None:
        """Pass the norm of the preconditioned residual, relative to that of b, to the callback."""
        if self._call is not None and self._kind != "x":
            self._call(Real(ratio))

    def after_cycle(self, x: Vector) -> None:
        """Pass the current x to the callback."""
        if self._call is not None and self._kind == "x":
            self._call(x)


class Basis:
    """Orthonormal vectors v_0, ..., v_k, the rows of V, extended by the modified Gram-Schmidt process.

    The process subtracts h_i v_i from w in turn, where h_i is the dot product of v_i with the rest of w. So (I + L) h =
    V^H w, where L is the strictly lower triangle of V^H V. Here one pass over V computes all products V^H w and the row
    of L added by the newest vector. Another pass computes w - sum_i h_i v_i.

    L distinguishes the process from classical Gram-Schmidt: with it, orthogonality is lost no faster than in SciPy's
    one-by-one order (Swirydowicz, Langou, Ananthan, Yang and Thomas, 2021). Orthogonalizing twice would take twice as
    many passes.
    """

    def __init__(self, V: Vector, w: Vector) -> None:
        """Take V, rows without gaps, and w, the vector of V's dtype from which each next row is computed."""
        n_rows, n = V.shape
        self.rows, self.dtype = list(V), V.dtype
        self.wide = np.dtype(Complex if V.dtype.kind == "c" else Real)
        self._kind = VALUE_CODES[V.dtype.name], n
        self._threads = sweeps.decisive_options()[1] or 0
        self._rows, self._w = list(map(ffi.from_buffer, self.rows)), ffi.from_buffer(w)
        self._inverse = np.eye(n_rows, dtype=self.wide)  # inverse of I + L
        self._dots, self._c = np.empty(2 * (n_rows + 1), self.wide), np.empty(n_rows, self.wide)
        self._norm2 = np.empty(1)
        self._kept = w, *(_doubles(array) for array in (self._dots, self._c, self._norm2))

    @timed_method
    def scale(self, k: int, factor: float) -> None:
        """Multiply v_k by `factor`."""
        if not math.isfinite(factor):
            np.multiply(self.rows[k], factor, out=self.rows[k])  # warns, as SciPy does
            return
        self._combine(0, self._rows[k], self._rows[k], factor)

    @timed_method
    def orthogonalise(self, k: int) -> tuple[list[Scalar], float, float]:
        """Orthogonalise w against v_0, ..., v_k into v_(k+1); return (h, norm of w, norm of v_(k+1))."""
        (code, n), dots, rows, pair = self._kind, self._dots, self._rows, 2 if k else 1
        newest = rows[k] if k else ffi.NULL
        _checked(lib.asp_basis_dots(code, n, k + 1, rows[0], n, self._w, newest, self._kept[1], self._threads))
        h = dots[: pair * (k + 1) : pair]
        if k:  # append a row to the inverse of the triangular matrix
            inverse = self._inverse[: k + 1, : k + 1]
            np.negative(dots[1 : 2 * k : 2].conj() @ inverse[:k, :k], out=inverse[k, :k])
            h = inverse @ h
        np.negative(h, out=self._c[: k + 1])
        left = self._combine(k + 1, self._w, rows[k + 1], 1.0)
        return h.tolist(), root(dots.item(pair * (k + 1)), self.dtype), root(left, self.dtype)

    @timed_method
    def add_to(self, x: Vector, y: list[Scalar]) -> None:
        """Compute x += sum_i y_i v_i."""
        self._c[: len(y)] = y
        target = ffi.from_buffer(x)
        self._combine(len(y), target, target, 1.0)

    def _combine(self, n_rows: int, source: Any, target: Any, factor: float) -> float:
        """Write factor * source + sum_i c_i v_i to target; return the square of its norm. Any: cffi pointers."""
        (code, n), (_, _, c, norm2) = self._kind, self._kept
        first = self._rows[0]
        _checked(lib.asp_basis_update(code, n, n_rows, first, n, c, factor, source, target, norm2, self._threads))
        return self._norm2.item()


_DOUBLES: Final = f"{DOUBLE.c}[]"


def _doubles(array: Vector) -> Any:
    """Return a cffi pointer ``double *`` to the elements."""
    return ffi.from_buffer(_DOUBLES, array)


def _checked(code: int) -> None:
    if code:
        raise MemoryError(f"gmres: not enough memory for the sums of its dot products (status {code})")


class _Gmres:
    """State of one solve by GMRES."""

    def __init__(self, system: System, solve: Solve, bounds: _Bounds, listener: _Listener) -> None:
        self._system, self._solve, self._bounds, self._listener = system, solve, bounds, listener
        self._product = system.product()
        self._r, self._w, z = solve.workspace(system.n, system.dtype, 3)
        self._basis = Basis(solve.workspace((bounds.restart + 1, system.n), system.dtype, 1)[0], self._w)
        self._apply = _preconditioned(system, self._product, self._w, z)
        self._eps = float(np.finfo(system.dtype).eps)
        self._lartg = get_lapack_funcs("lartg", dtype=self._basis.wide)
        self._R: list[list[Scalar]] = []  # columns of the triangular factor
        self._S: list[Scalar] = []  # the rotated right-hand side
        self._givens: list[tuple[Scalar, Scalar]] = []
        self._n_iterations = 0
        self._ptol = 0.0  # tolerance of the preconditioned residual within a cycle

    def run(self) -> tuple[Vector, int]:
        """Run the solve; return x and info."""
        system, bounds, x, r = self._system, self._bounds, self._system.x, self._r
        self._ptol = self._norm_of_preconditioned_b() * min(1.0, bounds.limit / bounds.b_norm)
        residual(system, self._product, r)
        if norm(r) < bounds.limit:
            return x, 0
        q = self._w
        update = Sweep([Combine(r, (system.b, q)), Dot(r, r)])
        factor, size = 1.0, math.inf
        for _ in range(bounds.maxiter):
            presid, is_broken_down = self._cycle()
            self._product(x, q)
            size = root(update(1.0, -1.0)[0], system.dtype)
            if self._is_at_end():
                break
            self._listener.after_cycle(x)
            if size <= bounds.limit or is_broken_down:
                break
            # Tighten the inner tolerance if the inner test passed but the outer one did not.
            factor = max(self._eps, 0.25 * factor) if presid <= self._ptol else min(1.0, 1.5 * factor)
            self._ptol = presid * min(factor, bounds.limit / size)
        return x, 0 if size <= bounds.limit else bounds.maxiter

    def _norm_of_preconditioned_b(self) -> float:
        if self._system.M is None:
            return self._bounds.b_norm
        self._apply(self._system.b, self._w, False)
        return norm(self._w)

    def _is_at_end(self) -> bool:
        return self._listener.counts_iterations() and self._n_iterations == self._bounds.maxiter

    def _cycle(self) -> tuple[float, bool]:
        """Add the minimizer over one basis to x; return (preconditioned residual norm, breakdown)."""
        basis = self._basis
        first = basis.rows[0]
        self._apply(self._r, first, False)
        size = norm(first)
        basis.scale(0, divided(1.0, size).real)
        self._R, self._S, self._givens = [], [size], []
        presid, is_broken_down = 0.0, False
        for k in range(self._bounds.restart):
            self._solve.step(presid if k else size)
            is_broken_down = self._extend(k)
            presid = abs(self._S[k + 1])
            self._n_iterations += 1
            self._listener.after_iteration(presid / self._bounds.b_norm)
            if self._is_at_end() or presid <= self._ptol or is_broken_down:
                break
        basis.add_to(self._system.x, self._minimiser())
        return presid, is_broken_down

    def _extend(self, k: int) -> bool:
        """Append A v_k to the basis and rotate the new column; return whether the new vector vanished (breakdown)."""
        basis, givens = self._basis, self._givens
        self._apply(basis.rows[k], self._w, True)
        column, before, left = basis.orthogonalise(k)
        is_broken_down = left <= self._eps * before
        if not is_broken_down:
            basis.scale(k + 1, 1.0 / left)
        column.append(0.0 if is_broken_down else left)
        for i, (c, s) in enumerate(givens):
            one, other = column[i], column[i + 1]
            column[i], column[i + 1] = c * one + s * other, c * other - s.conjugate() * one
        c, s, column[k] = self._lartg(column[k], column[k + 1])
        givens.append((c, s))
        self._R.append(column)
        last = self._S[k]
        self._S[k] = c * last
        self._S.append(-s.conjugate() * last)
        return is_broken_down

    def _minimiser(self) -> list[Scalar]:
        """Solve the triangular system; unknowns without a pivot are 0."""
        R, n = self._R, len(self._R)
        y = self._S[:n]
        if R[-1][n - 1] == 0:
            y[-1] = 0.0
        for k in range(n - 1, -1, -1):
            if y[k] != 0:
                y[k] = top = divided(y[k], R[k][k])
                for i in range(k):
                    y[i] -= top * R[k][i]
        return y


def _preconditioned(system: System, product: Product, w: Vector, z: Vector) -> Callable[[Vector, Vector, bool], object]:
    """Return apply(x, out, multiplies) that writes M A x to out, or M x if `multiplies` is false; it may write z."""
    M = system.preconditioner()
    times_M = _diagonal(M, w, z) if isinstance(M, np.ndarray) else M

    def apply(x: Vector, out: Vector, multiplies: bool) -> None:
        if times_M is not None and multiplies:
            product(x, z)
            times_M(z, out)
        elif times_M is not None:
            times_M(x, out)
        elif multiplies:
            product(x, out)
        else:
            out[...] = x

    return apply


def _diagonal(d: Vector, w: Vector, z: Vector) -> Product:
    """Return a function (x, out) that writes the elementwise product of d and x, vectors like `w` and `z`, to out."""
    scale = Sweep([Scale(w, d, z)])

    def times(x: Vector, out: Vector) -> None:
        scale.bind(0, out)
        scale.bind(2, x)
        scale()

    return times
