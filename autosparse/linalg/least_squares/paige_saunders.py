"""`lsqr`: the method LSQR of Paige and Saunders."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.arguments import scipys
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
from autosparse.linalg.sweeps import Combine, Dot, Run, Sweep

EPS: Final = float(np.finfo(Real).eps)


def lsqr(  # noqa: PLR0917  (as SciPy's)
    A: Any, b: Any, damp: float = 0.0, atol: float = 1e-6, btol: float = 1e-6, conlim: float = 1e8,
    iter_lim: int | None = None, show: bool = False, calc_var: bool = False, x0: Any = None,
    *, progress: bool = False,
) -> tuple[Any, ...]:  # fmt: skip  # Any: whatever SciPy's solvers take
    """Minimise |b - A x|^2 + damp^2 |x - x0|^2 by the method LSQR.

    Parameters
    ----------
    A
        autosparse array, sparse or dense array, or LinearOperator with an adjoint, of shape (m, n).
    b
        Right-hand side of shape (m,) or (m, 1).
    damp
        Damping coefficient.
    atol, btol
        Relative errors of A and of b. The solve ends when the residual is as small as these errors allow.
    conlim
        Maximum estimated condition number, above which the solve ends; 0: no limit.
    iter_lim
        Maximum number of iterations; None: 2 n.
    show
        Print a line for some iterations.
    calc_var
        Estimate the diagonal of (A^H A + damp^2 I)^-1.
    x0
        Initial guess of shape (n,); None: zero.
    progress
        Show the expected end on stderr, if it is a terminal and the solve takes more than 0.5 s.

    Returns
    -------
    x, istop, itn, r1norm, r2norm, anorm, acond, arnorm, xnorm, var, as `scipy.sparse.linalg.lsqr`. The recurrence is
    that of SciPy (Paige and Saunders, 1982). SciPy's function runs instead if b or x0 have other
    shapes, or if numbers overflow.

    >>> A = asp.csr([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> np.round(asp.linalg.lsqr(A, np.array([1.0, 3.0, 2.0]))[0], 6)
    array([1., 2.])
    """
    how = {"damp": damp, "atol": atol, "btol": btol, "conlim": conlim, "iter_lim": iter_lim, "show": show,
           "calc_var": calc_var, "x0": x0}  # fmt: skip
    system = None if isinstance(damp, complex) else LeastSquaresSystem.of(A, b, x0, iter_lim)
    if system is not None:
        most = 2 * system.operator.shape[1] if iter_lim is None else iter_lim
        asked = Solve("lsqr", A, target=1.0, limit=most, quantity=CRITERION, progress=progress)
        with suppress(ArithmeticError), asked as solve:  # Python's floats raise where NumPy's overflow to infinity
            run = _Lsqr(system, solve, damp, calc_var).run
            return solve.answer(run(atol, btol, conlim, iter_lim, Log(show, " ")), b)
    return scipys("lsqr")(A, b, **how)  # type: ignore[no-any-return]


_SCALARS: Final = (
    "_rhobar", "_phibar", "anorm", "acond", "xnorm", "_ddnorm", "_res2", "_xxnorm", "_z", "_cs2", "_sn2", "rnorm",
    "r1norm", "arnorm",
)  # fmt: skip
"""Scalars that iterations change, in the order in which the extension module takes them."""


class _Lsqr:
    """State of one solve by LSQR: rotations and the estimates to return."""

    def __init__(self, system: LeastSquaresSystem, solve: Solve, damp: float, is_var_asked: bool) -> None:
        self.space = space = Bidiagonalisation(system, solve)
        self._note, self._solve = solve.step, solve
        n = space.v.size
        self.system, self.damp, self.x = system, damp, solution(system, n, np.dtype(Real))
        if damp > 0:  # SciPy's rotations are float64 then
            self.x = self.x.astype(np.result_type(self.x.dtype, Real), copy=False)
        self.var: NDArray[Any] = np.zeros(n)
        self._is_var_asked, (self._w,) = is_var_asked, solve.workspace(n, system.dtype, 1)
        self._w[...] = space.v
        self._fused: Run | None = None  # one sweep for the whole update
        self._update = self._updating(solve)
        self._rhobar, self._phibar = space.alpha, space.beta
        self.rnorm = self.r1norm = space.beta
        self.arnorm, self.itn = space.alpha * space.beta, 0
        self.anorm: float = 0  # an integer while beta is 0, as in SciPy
        self.acond = self.xnorm = self._ddnorm = self._res2 = self._xxnorm = self._z = 0.0
        self._cs2, self._sn2 = -1.0, 0.0

    def _updating(self, solve: Solve) -> Callable[[float, float], float]:
        """Return update(t1, t2): x += t1 w, scale v, w = v + t2 w; it returns |old w|^2."""
        x, w, v, space = self.x, self._w, self.space.v, self.space
        scaled, turned = Combine(v, (v,)), Combine(w, (v, w))
        if x.dtype == w.dtype:
            fused = self._fused = Sweep([scaled, Combine(x, (x, w)), Dot(w, w), turned]).run
            return lambda t1, t2: fused(space.v_scale, 1.0, t1, 1.0, t2)[0].real
        (wide,) = solve.workspace(w.size, x.dtype, 1)
        add, turn = Sweep([Combine(x, (x, wide))]).run, Sweep([scaled, Dot(w, w), turned]).run

        def update(t1: float, t2: float) -> float:
            wide[...] = w
            add(1.0, t1)
            square: float = turn(space.v_scale, 1.0, t2)[0].real
            return square

        return update

    def run(self, atol: float, btol: float, conlim: float, limit: int | None, log: Log) -> tuple[Any, ...]:
        """Iterate; return the ten results."""
        space, (m, n), damp = self.space, self.system.operator.shape, self.damp
        limit, istop, ctol = 2 * n if limit is None else limit, 0, 1 / conlim if conlim > 0 else 0
        is_needed = space.check()
        if is_needed and not space.b_norm:
            raise ZeroDivisionError
        if log.shows:
            log.say(" ", "LSQR            Least-squares solution of  Ax = b",
                    f"The matrix A has {m} rows and {n} columns",
                    f"damp = {damp:20.14e}   calc_var = {self._is_var_asked:8g}",
                    f"atol = {atol:8.2e}                 conlim = {conlim:8.2e}",
                    f"btol = {btol:8.2e}               iter_lim = {limit:8g}")  # fmt: skip
        if not is_needed:
            log.say("The exact solution is  x = 0                              ")
            return self._start()
        log.say(" ", "   Itn      x[0]       r1norm     r2norm   Compatible    LS      Norm A   Cond A")
        if log.shows:
            log.say_row(log.row(0, self.x, (self.r1norm, self.rnorm), (1, space.alpha / space.beta)))
        native = None if log.shows else self._native()
        while self.itn < limit and not istop:
            if native is not None:
                n, istop = native.run((damp, atol, btol, ctol, EPS), limit, self._solve)
                if n and not native.is_half:
                    continue
            istop = self._iterate(limit, (atol, btol, ctol), log, is_half=native is not None and native.is_half)
        if log.shows:
            self._say_end(istop, log)
        arnorm = (Real if damp > 0 else space.real)(self.arnorm)
        return (self.x, istop, self.itn, self.r1norm, self.rnorm, self.anorm, self.acond, arnorm, self.xnorm, self.var)

    def _native(self) -> NativeIterations | None:
        """Return iterations in the extension module, or None if they cannot run there."""
        advance, fused = python_objects.advance_lsqr, self._fused
        if advance is None or fused is None or self._is_var_asked or not self.space.is_native:
            return None
        return NativeIterations(advance, self, _SCALARS, fused)

    def _start(self) -> tuple[Any, ...]:
        """Return the results if the initial guess solves the problem."""
        x, size = self.system.given_x0, self.space.beta_real(self.rnorm)
        x = np.zeros(self.x.size) if x is None else x
        return x, 0, 0, size, size, 0, 0, self.space.real(self.arnorm), 0, self.var

    def _iterate(self, limit: int, tolerances: tuple[float, float, float], log: Log, *, is_half: bool = False) -> int:
        """Run one iteration, or its rest after the first product; return SciPy's `istop`, 0 to continue."""
        space, (atol, btol, ctol) = self.space, tolerances
        alpha = space.alpha
        self.itn += 1
        space.step(is_half=is_half)
        if space.beta > 0:
            self.anorm = math.sqrt(self.anorm**2 + alpha**2 + space.beta**2 + self.damp**2)
        self._advance(space.alpha, space.beta)
        anorm, b_norm = self.anorm, space.b_scale
        test1 = self.rnorm / b_norm
        test2 = self.arnorm / (anorm * self.rnorm + EPS)
        test3 = 1 / (self.acond + EPS)
        test4 = test1 / (1 + anorm * self.xnorm / b_norm)
        rtol = btol + atol * anorm * self.xnorm / b_norm
        istop = reason(self.itn >= limit, (test1, test2, test3, test4), (rtol, atol, ctol))
        self._note(criterion((test1, rtol), (test2, atol)))
        if log.shows:
            is_near_end = self.itn >= limit - 10 or test3 <= 2 * ctol or test2 <= 10 * atol or test1 <= 10 * rtol
            if self.x.size <= 40 or self.itn <= 10 or is_near_end or istop:
                log.say_row(log.row(self.itn, self.x, (self.r1norm, self.rnorm), (test1, test2), (anorm, self.acond)))
        return istop

    def _advance(self, alpha: float, beta: float) -> None:
        """Rotate the newest column of the bidiagonal matrix, and update x and the estimates."""
        damp, psi, rhobar = self.damp, 0.0, self._rhobar
        if damp > 0:
            rhobar = math.sqrt(rhobar**2 + damp**2)
            psi = damp / rhobar * self._phibar
            self._phibar *= self._rhobar / rhobar
        cs, sn, rho = rotation(rhobar, beta)
        theta, self._rhobar = sn * alpha, -cs * alpha
        phi, self._phibar = cs * self._phibar, sn * self._phibar
        if self._is_var_asked:
            self.var = self.var + ((1 / rho) * self._w) ** 2
        self._ddnorm += self._update(phi / rho, -theta / rho) * (1 / rho) ** 2
        delta, gambar = self._sn2 * rho, -self._cs2 * rho
        rhs = phi - delta * self._z
        self.xnorm = math.sqrt(self._xxnorm + (rhs / gambar) ** 2)
        gamma = math.sqrt(gambar**2 + theta**2)
        self._cs2, self._sn2, self._z = gambar / gamma, theta / gamma, rhs / gamma
        self._xxnorm += self._z**2
        self.acond = self.anorm * math.sqrt(self._ddnorm)
        self._res2 += psi**2
        self.rnorm = self.r1norm = math.sqrt(self._phibar**2 + self._res2)
        self.arnorm = alpha * abs(sn * phi)
        if damp > 0:
            square = self.rnorm**2 - damp**2 * self._xxnorm
            self.r1norm = math.copysign(math.sqrt(abs(square)), square)

    def _say_end(self, istop: int, log: Log) -> None:
        log.say(" ", "LSQR finished", REASONS[istop - 1], " ")
        numbers = f"anorm ={self.anorm:8.1e}   arnorm ={self.arnorm:8.1e}"
        log.say(f"istop ={istop:8g}   r1norm ={self.r1norm:8.1e}   {numbers}")
        numbers = f"acond ={self.acond:8.1e}   xnorm  ={self.xnorm:8.1e}"
        log.say(f"itn   ={self.itn:8g}   r2norm ={self.rnorm:8.1e}   {numbers}", " ")
