"""BiCGSTAB for several right-hand sides."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.columns.recurrence import Block, ColumnSweep, Combine, Dot, Numbers, Recurrence, Scale, roots

RHO_BREAKDOWN, OMEGA_BREAKDOWN = -10, -11
_BETWEEN, _HALVED = 0, 3
"""Codes of native iterations that end between two, or in the middle of one; else one ends before its first product."""


class ColumnsBicgstab(Recurrence):
    """Recurrence of `scipy.sparse.linalg.bicgstab` for each column.

    `r` also holds s in the second half of an iteration. Iterations of real systems run in the extension module, with
    the same operations in the same order, until a column ends.
    """

    blocks: ClassVar = ("shadow", "p", "v", "t")
    more_blocks: ClassVar = ("p_hat", "s_hat")
    cleared: ClassVar = ("p", "v")
    numbers: ClassVar = ("rr", "rho", "before", "alpha", "omega", "ss")

    shadow: Block
    p: Block
    v: Block
    t: Block
    p_hat: Block
    s_hat: Block
    rr: Numbers
    rho: Numbers
    before: Numbers
    alpha: Numbers
    omega: Numbers
    ss: Numbers

    def prepare(self) -> None:
        """Create the sweeps of an iteration over the present vectors; see `Recurrence.prepare`."""
        scale_p, p_hat = self.preconditioned(self.p, self.p_hat)
        scale_s, s_hat = self.preconditioned(self.r, self.s_hat)
        self.directions = p_hat, s_hat
        dots = [Dot(self.r, self.r), Dot(self.shadow, self.r)]
        self.first = ColumnSweep(dots)
        self.direct = ColumnSweep([Combine(self.p, (self.p, self.v, self.r)), *scale_p])
        self.of_v = self.product_and(Dot(self.shadow, self.v))
        self.halve = ColumnSweep([Combine(self.r, (self.r, self.v)), *scale_s, Dot(self.r, self.r)])
        self.of_t = self.product_and(Dot(self.t, self.r), Dot(self.t, self.t))
        second: list[Combine | Scale | Dot] = [
            Combine(self.x, (self.x, p_hat, s_hat)),
            Combine(self.r, (self.r, self.t)),
        ]
        self.update = ColumnSweep([*second, *dots])
        is_there = python_objects.advance_columns_bicgstab is not None
        self._is_native = is_there and self.apply is None and self.dtype.kind == "f"

    def advance(self, iteration: int) -> int:
        """Compute one iteration of each running column, or several in the extension module; see `Recurrence`."""
        if not iteration:
            np.copyto(self.shadow, self.r)
            self.rr, self.rho = self.first()
        if not self._may_go_on(iteration):
            return 0
        n, end = self._advance_natively(self.maxiter - iteration) if iteration else (0, _BETWEEN)
        if n and end == _BETWEEN:
            return n
        if end == _BETWEEN:
            self._find_direction(iteration)
        if not self._first_half(is_halved=end == _HALVED):
            return n + 1
        _, s_hat = self.directions
        if self.apply is not None:
            self.apply(self.r, s_hat)
        self.omega = self.ratio(*self.of_t(s_hat, self.t))
        self.before = self.rho
        self.rr, self.rho = self.update(1.0, self.of_running(self.alpha), self.omega, 1.0, -self.omega)
        return n + 1

    def _advance_natively(self, n_most: int) -> tuple[int, int]:
        """Run at most `n_most` iterations in the extension module; return their number, and where the last ended."""
        p_hat, s_hat = self.directions
        calls = self._is_native and (self.of_v.fast_call(p_hat, self.v), self.of_t.fast_call(s_hat, self.t))
        if not calls or None in calls:
            return 0, _BETWEEN
        given = self.rr, self.rho, self.before, self.alpha, self.omega, self.ss, self.limits, self.running
        numbers, smallest = np.array(given, Real), float(np.finfo(self.dtype).eps) ** 2
        sweeps = tuple(one.address for one in (self.direct, self.of_v, self.halve, self.of_t, self.update))
        n_most = min(n_most, self.solve.n_until_report)
        n, end, best = python_objects.advance_columns_bicgstab(calls, sweeps, numbers, smallest, n_most)
        self.rr, self.rho, self.before, self.alpha, self.omega, self.ss = numbers[:6]
        self.solve.pass_steps(n - 1 if n and end == _BETWEEN else n, best)
        return n, end

    def _may_go_on(self, iteration: int) -> bool:
        """End columns that have converged or broken down; return whether any are left."""
        tiny = np.finfo(self.dtype).eps ** 2
        sizes = roots(self.rr, self.dtype)
        self.solve.step(float(sizes.max()))
        self.leave(sizes < self.limits, 0)
        self.leave(np.abs(self.rho) < tiny, RHO_BREAKDOWN)
        if iteration:
            self.leave(np.abs(self.omega) < tiny, OMEGA_BREAKDOWN)
        return bool(self.running.any())

    def _find_direction(self, iteration: int) -> None:
        """Compute the next direction p, and M p with a preconditioner."""
        beta = self.of_running(0.0)
        if iteration:
            beta = self.ratio(self.rho, self.before) * self.ratio(self.alpha, self.omega)
        self.direct(beta, -beta * self.omega, 1.0)
        if self.apply is not None:
            self.apply(self.p, self.p_hat)

    def _first_half(self, *, is_halved: bool) -> bool:
        """Compute v = A M p, and subtract alpha v from the residual; return whether columns are left to converge.

        With `is_halved`, this is done, and only the columns that have converged are left to end.
        """
        if not is_halved:
            (products,) = self.of_v(self.directions[0], self.v)
            self.alpha = self.ratio(self.rho, np.where(products == 0, 1, products))
            self.leave(products == 0, OMEGA_BREAKDOWN, narrow=False)
            (self.ss,) = self.halve(1.0, -self.of_running(self.alpha))
        done = self.running & (roots(self.ss, self.dtype) < self.limits)
        if done.any():
            self.x[:, done] += (self.directions[0][:, done] * self.alpha[done]).astype(self.dtype)
            self.leave(done, 0)
        return bool(self.running.any())
