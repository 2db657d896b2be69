"""`lsmr`: the method LSMR of Fong and Saunders."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.arguments import root, scipys
from autosparse.linalg.least_squares.bidiagonal import (
    REASONS,
    Bidiagonalisation,
    LeastSquaresSystem,
    Log,
    NativeIterations,
    criterion,
    reason,
    rotation,
    solution,
)
from autosparse.linalg.solves import CRITERION, Solve
from autosparse.linalg.sweeps import Combine, Dot, Run, Step, Sweep


def lsmr(  # noqa: PLR0917  (as SciPy's)
    A: Any, b: Any, damp: float = 0.0, atol: float = 1e-6, btol: float = 1e-6, conlim: float = 1e8,
    maxiter: int | None = None, show: bool = False, x0: Any = None,
    *, progress: bool = False,
) -> tuple[Any, ...]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Minimise |b - A x|^2 + damp^2 |x|^2 by the method LSMR, which reduces |A^H (b - A x)| monotonically.

    Parameters
    ----------
    A, b, damp, atol, btol, conlim, show, x0, progress
        As in `lsqr`.
    maxiter
        Maximum number of iterations; None: min(m, n).

    Returns
    -------
    x, istop, itn, normr, normar, norma, conda, normx, as `scipy.sparse.linalg.lsmr`. The recurrence is that of SciPy
    (Fong and Saunders, 2011). SciPy's function runs instead if b or x0 have other shapes or dtypes, or if
    numbers overflow.

    >>> A = asp.csr([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> np.round(asp.linalg.lsmr(A, np.array([1.0, 3.0, 2.0]))[0], 6)
    array([1., 2.])
    """
    how = {"damp": damp, "atol": atol, "btol": btol, "conlim": conlim, "maxiter": maxiter, "show": show, "x0": x0}
    system = None if isinstance(damp, complex) else LeastSquaresSystem.of(A, b, x0, maxiter)
    # SciPy takes a sequence for a dtype, and adds in place to integers
    is_float = x0 is None or (isinstance(x0, np.ndarray) and x0.dtype.kind not in "biu")
    if system is not None and is_float and system.is_for_lsmr():
        most = min(system.operator.shape) if maxiter is None else maxiter
        asked = Solve("lsmr", A, target=1.0, limit=most, quantity=CRITERION, progress=progress)
        with suppress(ArithmeticError), asked as solve:
            run = _Lsmr(system, solve, damp).run
            return solve.answer(run(atol, btol, conlim, maxiter, Log(show, "")), b)
    return scipys("lsmr")(A, b, **how)  # type: ignore[no-any-return]


class _Residual:
    """Estimate of |b - A x| from the rotations of the bidiagonal matrix."""

    __slots__ = ("beta_d", "beta_dd", "d", "norm", "rho_d", "tau_tilde", "theta_tilde")

    def __init__(self, beta: float) -> None:
        self.norm = self.beta_dd = beta
        self.beta_d = self.tau_tilde = self.theta_tilde = self.d = 0.0
        self.rho_d = 1.0

    def advance(self, rotations: tuple[float, float, float, float], theta_bar: float, rho_bar: float,
                zetas: tuple[float, float]) -> None:  # fmt: skip
        """Update `norm` by the rotations (c, s) of the damping and of the newest column."""
        (c_hat, s_hat, c, s), (zeta_old, zeta) = rotations, zetas
        acute, check = c_hat * self.beta_dd, -s_hat * self.beta_dd
        hat, self.beta_dd = c * acute, -s * acute
        theta_old = self.theta_tilde
        c_old, s_old, rho_old = rotation(self.rho_d, theta_bar)
        self.theta_tilde, self.rho_d = s_old * rho_bar, c_old * rho_bar
        self.beta_d = -s_old * self.beta_d + c_old * hat
        self.tau_tilde = (zeta_old - theta_old * self.tau_tilde) / rho_old
        tau = (zeta - self.theta_tilde * self.tau_tilde) / self.rho_d
        self.d += check * check
        self.norm = math.sqrt(self.d + (self.beta_d - tau) ** 2 + self.beta_dd * self.beta_dd)


_FIRST_MIN_RHO: Final = 1e100
"""Bound on the least rho before the first iteration, as in SciPy's lsmr."""
_SCALARS: Final = (
    "_alpha_bar", "_zeta_bar", "_zeta", "_rho", "_rho_bar", "_c_bar", "_s_bar", "_max_rho", "_min_rho", "_norm2",
    "norma", "conda", "normx", *(f"_residual.{name}" for name in _Residual.__slots__),
)  # fmt: skip
"""Scalars that iterations change, in the order in which the extension module takes them."""


class _Lsmr:
    """State of one solve by LSMR: rotations and the estimates to return."""

    def __init__(self, system: LeastSquaresSystem, solve: Solve, damp: float) -> None:
        self.space = space = Bidiagonalisation(system, solve)
        self._note, self._solve = solve.step, solve
        self.system, self.x = system, solution(system, space.v.size, np.dtype(Real))
        (self._h,) = solve.workspace(space.v.size, system.dtype, 1)
        self._h[...] = space.v
        self._fused: Run | None = None  # one sweep for the whole update
        self._update = self._updating(solve)
        self._residual, self._damp, self._real = _Residual(space.beta), damp, space.real
        self._alpha_bar, self._zeta_bar, self._zeta = space.alpha, space.alpha * space.beta, 0.0
        self._rho = self._rho_bar = self._c_bar = 1.0
        self._s_bar = self._max_rho = 0.0
        self._norm2, self._min_rho = space.alpha * space.alpha, _FIRST_MIN_RHO
        self.norma, self.conda, self.normx, self.itn = math.sqrt(self._norm2), 1.0, 0.0, 0

    def _updating(self, solve: Solve) -> Callable[[float, float, float], float]:
        """Return update(a, b, c): hbar = a hbar + h, x += b hbar, scale v, h = c h + v; it returns |x|^2."""
        x, h, v, space = self.x, self._h, self.space.v, self.space
        h_bar, wide = solve.workspace(h.size, x.dtype, 2)
        h_bar[...] = 0
        source = h if x.dtype == h.dtype else wide
        first: list[Step] = [Combine(h_bar, (h_bar, source)), Combine(x, (x, h_bar)), Dot(x, x)]
        last: list[Step] = [Combine(v, (v,)), Combine(h, (v, h))]
        if source is h:
            fused = self._fused = Sweep(first + last).run
            return lambda a, b, c: fused(a, 1.0, 1.0, b, space.v_scale, 1.0, c)[0].real
        add, turn = Sweep(first).run, Sweep(last).run

        def update(a: float, b: float, c: float) -> float:
            wide[...] = h
            turn(space.v_scale, 1.0, c)
            square: float = add(a, 1.0, 1.0, b)[0].real
            return square

        return update

    def run(self, atol: float, btol: float, conlim: float, limit: int | None, log: Log) -> tuple[Any, ...]:
        """Iterate; return the eight results."""
        space, (m, n) = self.space, self.system.operator.shape
        limit, istop, ctol = min(m, n) if limit is None else limit, 0, 1 / conlim if conlim > 0 else 0
        is_needed = space.check()
        if log.shows:
            log.say(" ", "LSMR            Least-squares solution of  Ax = b\n",
                    f"The matrix A has {m} rows and {n} columns",
                    f"damp = {self._damp:20.14e}\n", f"atol = {atol:8.2e}                 conlim = {conlim:8.2e}\n",
                    f"btol = {btol:8.2e}             maxiter = {limit:8g}\n")  # fmt: skip
        if not is_needed:
            log.say("The exact solution is x = 0, or x = x0, if x0 was given  ")
        if not is_needed or space.b_norm == 0:
            return self._start(is_zero=is_needed)
        table, row = _IterationTable(log, limit, self.x.size), [""] * 4
        if log.shows:
            row = log.row(0, self.x, (self._residual.norm, self._zeta_bar), (1, space.alpha / space.beta))
            table.begin(row)
        native = None if log.shows else self._native()
        while self.itn < limit and not istop:
            if native is not None:
                n, istop = native.run((self._damp, atol, btol, ctol, 0.0), limit, self._solve)
                if n and not native.is_half:
                    continue
            is_half = native is not None and native.is_half
            istop, row = self._iterate(limit, (atol, btol, ctol), table, row, is_half=is_half)
        if self.itn:
            min(_FIRST_MIN_RHO, self._real(self.conda))  # NumPy warns in single precision, as in SciPy's iteration
        results = self._residual.norm, self._real(abs(self._zeta_bar)), self.norma, self._real(self.conda)
        if log.shows:
            log.say(" ", "LSMR finished", REASONS[istop - 1], f"istop ={istop:8g}    normr ={results[0]:8.1e}",
                    f"    normA ={results[2]:8.1e}    normAr ={results[1]:8.1e}",
                    f"itn   ={self.itn:8g}    condA ={results[3]:8.1e}", f"    normx ={self.normx:8.1e}",
                    " ".join(row[:2]), " ".join(row[2:]))  # fmt: skip
        return (self.x, istop, self.itn, *results, self.x.real.dtype.type(self.normx))

    def _native(self) -> NativeIterations | None:
        """Return iterations in the extension module, or None if they cannot run there."""
        advance, fused = python_objects.advance_lsmr, self._fused
        if advance is None or fused is None or not self.space.is_native:
            return None
        return NativeIterations(advance, self, _SCALARS, fused)

    def _start(self, *, is_zero: bool) -> tuple[Any, ...]:
        """Return the results if no iteration is needed: x0, or 0 if b is 0."""
        real, space = self._real, self.space
        if is_zero:
            self.x[...] = 0
        return self.x, 0, 0, real(space.beta), real(self._zeta_bar), self.norma, 1, 0

    def _iterate(
        self, limit: int, tolerances: tuple[float, float, float], table: _IterationTable, row: list[str], *,
        is_half: bool = False,
    ) -> tuple[int, list[str]]:  # fmt: skip
        """Run one iteration, or its rest after the first product.

        Returns SciPy's `istop`, 0 to continue, and the last printed row.
        """
        (atol, btol, ctol), b_norm, scale = tolerances, self.space.b_norm, self.space.b_scale
        self.itn += 1
        self.space.step(is_half=is_half)
        self._advance(self.space.alpha, self.space.beta)
        size, gradient = self._residual.norm, abs(self._zeta_bar)
        single = float if scale is b_norm else type(scale)  # SciPy's precision of these tests
        test1, test3 = size / scale, 1 / single(self.conda)
        test2 = single(gradient) / (self.norma * size) if self.norma * size != 0 else math.inf
        test4 = float(test1) / (1 + self.norma * self.normx / b_norm)
        rtol = btol + atol * self.norma * self.normx / b_norm
        istop = reason(self.itn >= limit, (test1, test2, test3, test4), (rtol, atol, ctol))
        self._note(criterion((test1, rtol), (test2, atol)))
        is_near_end = test3 <= 1.1 * ctol or test2 <= 1.1 * atol or test1 <= 1.1 * rtol or istop
        if table.shows(self.itn) or (table.log.shows and is_near_end):
            row = table.log.row(self.itn, self.x, (size, gradient), (test1, test2), (self.norma, self.conda))
            table.add(row)
        return istop, row

    def _advance(self, alpha: float, beta: float) -> None:
        """Rotate the newest column of the bidiagonal matrix, and update x and the estimates."""
        c_hat, s_hat, alpha_hat = rotation(self._alpha_bar, self._damp)
        rho_old, rho_bar_old, zeta_old = self._rho, self._rho_bar, self._zeta
        c, s, self._rho = rotation(alpha_hat, beta)
        theta, self._alpha_bar = s * alpha, c * alpha
        theta_bar, rho_temp = self._s_bar * self._rho, self._c_bar * self._rho
        self._c_bar, self._s_bar, self._rho_bar = rotation(rho_temp, theta)
        self._zeta, self._zeta_bar = self._c_bar * self._zeta_bar, -self._s_bar * self._zeta_bar
        square = self._update(
            -(theta_bar * self._rho / (rho_old * rho_bar_old)),
            self._zeta / (self._rho * self._rho_bar),
            -(theta / self._rho),
        )
        self._residual.advance((c_hat, s_hat, c, s), theta_bar, self._rho_bar, (zeta_old, self._zeta))
        self._norm2 += beta * beta
        self.norma = math.sqrt(self._norm2)
        self._norm2 += alpha * alpha
        self._max_rho = max(self._max_rho, rho_bar_old)
        if self.itn > 1:
            self._min_rho = min(self._min_rho, rho_bar_old)
        self.conda = max(self._max_rho, rho_temp) / min(self._min_rho, rho_temp)
        self.normx = root(square, self.x.dtype)


class _IterationTable:
    """The table printed for `show`, with its head repeated after every 20 rows."""

    def __init__(self, log: Log, limit: int, n: int) -> None:
        self.log, self._limit, self._n, self._n_rows = log, limit, n, 0

    def begin(self, row: list[str]) -> None:
        """Print the head and the row of the initial guess."""
        self.log.say(*HEAD)
        self.log.say_row(row)

    def shows(self, itn: int) -> bool:
        """Return whether iteration `itn` always has a row."""
        return self.log.shows and (self._n <= 40 or itn <= 10 or itn >= self._limit - 10 or itn % 10 == 0)

    def add(self, row: list[str]) -> None:
        """Print a row."""
        if self._n_rows == 20:
            self._n_rows = 0
            self.log.say(*HEAD)
        self._n_rows += 1
        self.log.say_row(row)


HEAD: Final = " ", "   itn      x(1)       norm r    norm Ar  compatible   LS      norm A   cond A"
