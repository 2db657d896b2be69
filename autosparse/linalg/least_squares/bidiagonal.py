"""Common parts of `lsqr` and `lsmr`: arguments, bidiagonalisation, stopping rules, printed tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.arguments import Vector, norm, root
from autosparse.linalg.operators import ProductSweep, adjoint_of, product_of
from autosparse.linalg.solves import Solve
from autosparse.linalg.solves.workspace import zeros
from autosparse.linalg.sweeps import CODES, Combine, Dot, Run, Sweep

REASONS: Final = (
    "Ax - b is small enough, given atol, btol                  ",
    "The least-squares solution is good enough, given atol     ",
    "The estimate of cond(Abar) has exceeded conlim            ",
    "Ax - b is small enough for this machine                   ",
    "The least-squares solution is good enough for this machine",
    "Cond(Abar) seems to be too large for this machine         ",
    "The iteration limit has been reached                      ",
)
"""Meanings of `istop` from 1 on, as SciPy prints them."""


class LeastSquaresSystem:
    """A matrix of shape (m, n), a right-hand side of shape (m,), and an initial guess of shape (n,) or None."""

    given_x0: Vector | None
    """The initial guess in the user's dtype: `x0` is a copy of it in double precision if it holds integers."""

    def __init__(self, A: Any, operator: LinearOperator, b: Vector, x0: Vector | None) -> None:  # Any: see `lsqr`
        self.A, self.operator, self.b, self.x0, self.given_x0 = A, operator, b, x0, x0
        self.is_operator = not (sps.issparse(A) or isinstance(A, np.ndarray))
        self.dtype = np.result_type(operator.dtype, b.dtype, *(() if x0 is None else (x0.dtype,)))

    @classmethod
    def of(cls, A: Any, b: Any, x0: Any, limit: int | None) -> LeastSquaresSystem | None:  # Any: as `lsqr`
        """Return the system, or None if SciPy must solve or reject it."""
        if not python_objects.has_runtime or (limit is not None and limit < 1):
            return None
        try:
            operator = aslinearoperator(A)
        except TypeError:
            return None
        b = np.atleast_1d(b)
        b = b.squeeze() if b.ndim > 1 else b
        given = [b] if x0 is None else [b, np.asarray(x0)]
        if any(type(one) is not np.ndarray for one in given):
            return None
        if [one.shape for one in given] != [(size,) for size in operator.shape[: len(given)]] or 0 in operator.shape:
            return None
        given_x0 = None if x0 is None else given[1]
        if given_x0 is not None and not _is_double(operator.dtype, *(one.dtype for one in given)):
            return None
        given = [one.astype(Real) if one.dtype.kind in "biu" else one for one in given]
        system = None if operator.dtype is None else cls(A, operator, *(*given, None)[:2])
        if system is not None:
            system.given_x0 = given_x0
        return None if system is None or any(one.dtype.char not in CODES for one in (*given, system)) else system

    def is_for_lsmr(self) -> bool:
        """Return whether SciPy's lsmr would keep u and v in the system's dtype and x in double precision.

        SciPy updates u and x in place, in the dtypes of b and x0.
        """
        x0, kept = self.x0, np.result_type(self.dtype, Real)
        return self.b.dtype == self.dtype and (x0 is None or x0.dtype == kept)


def _is_double(*dtypes: np.dtype[Any] | None) -> bool:
    """Return whether a system with integers is solved in double precision: small integers do not widen float32."""
    known = [one for one in dtypes if one is not None]
    return all(one.kind not in "biu" for one in known) or np.result_type(*known).char not in "fF"


def criterion(*tests: tuple[float, float]) -> float:
    """Return the least quotient value / tolerance of `tests`, pairs of both; the solve ends when it reaches 1."""
    return min((value / tolerance for value, tolerance in tests if tolerance > 0), default=math.inf)


class Log:
    """Printer of the table of iterations for `show=True`."""

    def __init__(self, shows: bool, separator: str) -> None:
        self.shows, self._separator = shows, separator

    def say(self, *lines: str) -> None:
        """Print `lines` if the user passed `show=True`."""
        if self.shows:
            sys.stdout.write("".join(f"{line}\n" for line in lines))

    def row(self, itn: int, x: Vector, *pairs: tuple[float, float]) -> list[str]:
        """Return the texts of a row of the table: iteration number, x[0], residuals, tests, norms."""
        (r1, r2), (test1, test2), *norms = pairs
        parts = [f"{itn:6g} {x[0]:12.5e}", f" {r1:10.3e} {r2:10.3e}", f"  {test1:8.1e} {test2:8.1e}"]
        return parts + [f" {anorm:8.1e} {acond:8.1e}" for anorm, acond in norms]

    def say_row(self, parts: list[str]) -> None:
        """Print the texts of a row, as `row` returned them, if `show` is set."""
        self.say(self._separator.join(parts))


class Bidiagonalisation:
    """Vectors with beta u = A v - alpha u and alpha v = A^H u - beta v, where u and v have norm 1.

    Matrices, but not the user's operators, multiply u before its normalization, which saves one pass.
    """

    def __init__(self, system: LeastSquaresSystem, solve: Solve) -> None:
        b, operator, dtype = system.b, system.operator, system.dtype
        self.b_norm = norm(np.ascontiguousarray(b))
        r = np.ascontiguousarray(b if system.x0 is None else b - operator.matvec(system.x0))
        self.beta = self.b_norm if system.x0 is None else norm(r)
        self.alpha, self.v_scale, self._u_scale = 0.0, 1.0, 1.0
        self.u, p = solve.workspace(r.size, dtype, 2)
        self.v, q = solve.workspace(operator.shape[1], dtype, 2)
        self.real = self.beta_real = r.real.dtype.type
        # SciPy's b_norm has the precision of b, and NumPy 2 rounds quotients with it: they end a solve sooner
        self.b_scale: Any = self.b_norm if b.real.dtype == Real else b.real.dtype.type(self.b_norm)
        product, adjoint = (of(system.A, dtype, is_unwritten=True) for of in (product_of, adjoint_of))
        if _finite(self.beta) > 0:
            self.u[...] = r.dtype.type(1 / self.beta) * r
            adjoint(self.u, self.v)
            self.alpha = _finite(norm(self.v))
            self.real = self.v.real.dtype.type
        if self.alpha > 0:
            self.v *= 1 / self.alpha
        self._q = p, q
        self._update_u = ProductSweep(product, [Combine(self.u, (p, self.u)), Dot(self.u, self.u)])
        self._update_v = ProductSweep(adjoint, [Combine(self.v, (q, self.v)), Dot(self.v, self.v)])
        self._divide = Sweep([Combine(self.u, (self.u,))]).run if system.is_operator else None

    def check(self) -> bool:
        """Return whether there is anything to minimize; raise ArithmeticError if the start is not finite."""
        return _finite(self.alpha * self.beta) != 0

    @property
    def is_native(self) -> bool:
        """Return whether fast calls may compute both products and their sweeps, in double precision."""
        are_fused = self._update_u.is_fused and self._update_v.is_fused
        return are_fused and self._divide is None and self.u.dtype.char == "d" and self.b_scale is self.b_norm

    @property
    def sweeps(self) -> tuple[Run, Run]:
        """Sweeps that follow the products A v and A^T u."""
        return self._update_u.run, self._update_v.run

    def fast_calls(self) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
        """Return the fast calls of A v and A^T u, or None if there are none."""
        first, second = self._update_u.fast_call(self.v, self._q[0]), self._update_v.fast_call(self.u, self._q[1])
        return None if first is None or second is None else (first, second)

    @property
    def numbers(self) -> tuple[float, float, float]:
        """The scalars that iterations change: alpha, beta, and the factor by which u must still be multiplied."""
        return self.alpha, self.beta, self._u_scale

    @numbers.setter
    def numbers(self, numbers: tuple[float, float, float]) -> None:
        self.alpha, self.beta, self._u_scale = numbers

    def step(self, *, is_half: bool = False) -> None:
        """Replace u, v, alpha and beta by the next ones; v must still be multiplied by `v_scale`.

        With `is_half`, u and beta are the next ones already.
        """
        (p, q), dtype = self._q, self.u.dtype
        if not is_half:
            self.beta = root(self._update_u(self.v, p, 1.0, -self.alpha * self._u_scale)[0], dtype)
            self._u_scale = 1 / self.beta if self.beta > 0 else 1.0
        self.v_scale = 1.0
        if self.beta > 0:
            if self._divide is not None:
                self._divide(self._u_scale)
                self._u_scale = 1.0
            self.alpha = root(self._update_v(self.u, q, self._u_scale, -self.beta)[0], dtype)
            if self.alpha > 0:
                self.v_scale = 1 / self.alpha


def _finite(number: float) -> float:
    """Return the number; raise ArithmeticError if it is not finite."""
    if math.isfinite(number):
        return number
    raise ArithmeticError


class NativeIterations:
    """Iterations of a solver in the extension module, by `advance` of `python_objects`.

    `names` are those of the solver's attributes that iterations change, in the order in which `advance` takes them; one
    of an object that the solver holds has a dot. `update` is the sweep of an iteration after its products.
    """

    is_half = False
    """True if the last call ended after the first product of an iteration."""

    def __init__(self, advance: Callable[..., Any], solver: Any, names: tuple[str, ...], update: Run) -> None:
        # Any: an `_Lsqr` or `_Lsmr`
        self._advance, self._solver, self._names, self._read = advance, solver, names, attrgetter(*names)
        self._sweeps = *solver.space.sweeps, update

    def run(self, constants: tuple[float, ...], limit: float, solve: Solve) -> tuple[int, int]:
        """Run iterations until the solve ends, a report is due, or a product is not served.

        `constants`: damping, tolerances and machine epsilon. Returns the number of iterations and SciPy's `istop`.
        """
        solver, space, self.is_half = self._solver, self._solver.space, False
        n_most, calls = solve.n_until_report - 1, space.fast_calls() if solver.itn and space.beta > 0 else None
        if calls is None or n_most < 1:
            return 0, 0
        damp, *tolerances = constants
        given = (*space.numbers, *self._read(solver)), (damp, space.b_norm, *tolerances), (n_most, solver.itn, limit)
        n, istop, end, best, (alpha, beta, u_scale, *found) = self._advance(calls, self._sweeps, *given)
        if end == _UNDEFINED:
            raise ArithmeticError
        self.is_half, space.numbers = end == _HALF, (alpha, beta, u_scale)
        solve.pass_steps(n, best)
        solver.itn += n
        for name, number in zip(self._names if n else (), found, strict=False):
            part, _, own = name.rpartition(".")
            setattr(getattr(solver, part) if part else solver, own, number)
        return n, istop


_HALF, _UNDEFINED = 1, 2  # ends in least_squares.c


def rotation(a: float, b: float) -> tuple[float, float, float]:
    """Return (c, s, r) with c a + s b = r and s a - c b = 0 (Choi's SymOrtho)."""
    if b == 0:
        return (math.copysign(1.0, a) if a else 0.0), 0.0, abs(a)
    if a == 0:
        return 0.0, math.copysign(1.0, b), abs(b)
    if abs(b) > abs(a):
        tau = a / b
        s = math.copysign(1.0, b) / math.sqrt(1 + tau * tau)
        return s * tau, s, b / s
    tau = b / a
    c = math.copysign(1.0, a) / math.sqrt(1 + tau * tau)
    return c, c * tau, a / c


def reason(is_last: bool, tests: tuple[float, float, float, float], limits: tuple[float, float, float]) -> int:
    """Return SciPy's `istop`, 0 to continue: the first rule that holds of limits, precision, and `is_last`."""
    (test1, test2, test3, test4), (rtol, atol, ctol) = tests, limits
    if test1 <= rtol:
        return 1
    if test2 <= atol:
        return 2
    if test3 <= ctol:
        return 3
    if 1 + test4 <= 1:
        return 4
    if 1 + test2 <= 1:
        return 5
    if 1 + test3 <= 1:
        return 6
    return 7 if is_last else 0


def solution(system: LeastSquaresSystem, n: int, default: np.dtype[Any]) -> Vector:
    """Return a new vector of n elements for x: the initial guess or zeros, in at least the dtype of the system."""
    if system.x0 is None:
        return zeros(n, np.result_type(default, system.dtype))
    return np.array(system.x0, dtype=np.result_type(system.x0.dtype, system.dtype), order="C")
