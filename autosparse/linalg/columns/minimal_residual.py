"""MINRES for several right-hand sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.columns.recurrence import (
    Block,
    BlockSystem,
    ColumnProductSweep,
    ColumnSweep,
    Combine,
    Dot,
    Numbers,
    Recurrence,
)
from autosparse.linalg.solves import Solve


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """The sweeps of one iteration of MINRES, in the order in which they run."""

    normalize: ColumnSweep
    project: ColumnProductSweep
    remove: ColumnSweep
    update: ColumnSweep


_NATIVE: Final = (
    "beta1", "beta", "old_beta", "dbar", "epsilon", "phibar", "tnorm2", "gmax", "gmin", "cs", "sn", "root", "squares"
)  # fmt: skip
"""Numbers that iterations in the extension module read or change, in its order."""
ITERATION_LIMIT = 6
"""SciPy's code `istop` for columns that end because of `maxiter`."""


class ColumnsMinres(Recurrence):
    """Recurrence of `scipy.sparse.linalg.minres` for each column of a real system.

    Without M, or with a diagonal M, iterations run in the extension module, with the same operations in the same order,
    until a column ends.

    Three blocks take turns as the previous, the current and the next Lanczos vector before preconditioning (`r1`, `r`,
    `y`), and three as the last directions (`w1`, `w2`, `w`). Names are those of Paige and Saunders (1975).
    """

    blocks: ClassVar = ("r1", "y", "v", "w1", "w2", "w")
    more_blocks: ClassVar = ("z",)
    cleared: ClassVar = ("r1", "w1", "w2")
    numbers: ClassVar = (
        "beta1", "beta", "old_beta", "dbar", "epsilon", "old_epsilon", "delta", "phibar", "phi", "tnorm2", "gmax",
        "gmin", "cs", "sn", "gamma", "root", "squares", "is_constant",
    )  # fmt: skip

    r1: Block
    y: Block
    z: Block
    v: Block
    w1: Block
    w2: Block
    w: Block
    beta1: Numbers
    beta: Numbers
    old_beta: Numbers
    alfa: Numbers
    dbar: Numbers
    epsilon: Numbers
    old_epsilon: Numbers
    delta: Numbers
    phibar: Numbers
    phi: Numbers
    tnorm2: Numbers
    gmax: Numbers
    gmin: Numbers
    cs: Numbers
    sn: Numbers
    gamma: Numbers
    root: Numbers
    squares: Numbers
    is_constant: Numbers

    def __init__(
        self, system: BlockSystem, solve: Solve, norms: Numbers, limits: Numbers, *, rtol: float, shift: float = 0.0
    ) -> None:
        self.rtol, self.shift, self._at = rtol, shift, 0
        super().__init__(system, solve, norms, limits)

    def _begin(self) -> None:
        guess = self.system.start
        if guess is not None:
            self.system.product(self.x, self.y)
            np.subtract(self.r, self.y, out=self.r)
        beta1 = self._beta_squared(self.r)
        if (beta1 < 0).any():
            raise ValueError("indefinite preconditioner")
        solved = beta1 == 0
        self.leave(solved, 0, narrow=False)
        zero = ~solved & (self.norms == 0)
        self.x[:, zero] = 0
        self.leave(zero, 0, narrow=False)
        self.beta1[:] = self.beta[:] = self.phibar[:] = np.sqrt(beta1)
        self.gmin[:] = np.finfo(self.dtype).max
        self.cs[:] = -1

    def prepare(self) -> None:
        """Create the sweeps of an iteration for each of the three rotations of the vectors' roles."""
        self._sweeps = []
        for _ in range(3):
            self._turn()
            self._sweeps.append(self._bound())
        is_there = python_objects.advance_columns_minres is not None
        self._is_native = is_there and self.apply is None

    def narrow(self) -> bool:
        """Drop ended columns; see `Recurrence.narrow`."""
        narrowed = super().narrow()
        if narrowed:
            self._at = 0
        return narrowed

    def _turn(self) -> None:
        self.r1, self.r, self.y = self.r, self.y, self.r1
        self.w1, self.w2, self.w = self.w2, self.w, self.w1

    def _bound(self) -> _Sweeps:
        of_y, z_next = self.preconditioned(self.y, self.z)
        products = [] if self.apply is not None else [Dot(self.y, z_next)]
        direction = Combine(self.w, (self.v, self.w1, self.w2))
        return _Sweeps(
            normalize=ColumnSweep([Combine(self.v, (self.preconditioned(self.r, self.z)[1],))]),
            project=self.product_and(Combine(self.y, (self.y, self.v, self.r1)), Dot(self.v, self.y)),
            remove=ColumnSweep([Combine(self.y, (self.y, self.r)), *of_y, *products]),
            update=ColumnSweep([direction, Combine(self.x, (self.x, self.w)), Dot(self.x, self.x)]),
        )

    def _beta_squared(self, r: Block) -> Numbers:
        """Return r.z for the residual block, after z = M r."""
        if self.apply is not None:
            self.apply(r, self.z)
        scale, z = self.preconditioned(r, self.z)
        return ColumnSweep([*scale, Dot(r, z)])()[0]

    def advance(self, iteration: int) -> int:
        """Compute one iteration of each running column, or several in the extension module; see `Recurrence`."""
        n = self._advance_natively(self.maxiter - iteration) if iteration else 0
        if not n:
            self.iterate(iteration)
            return 1
        self._test(np.sqrt(self.squares), iteration + n - 1)
        return n

    def _advance_natively(self, n_most: int) -> int:
        """Run at most `n_most` iterations in the extension module, up to the tests of the last; return their number."""
        calls = self._is_native and [
            sweeps.project.fast_call(self.v, out)
            for sweeps, out in zip(self._next_sweeps(), (self.y, self.r1, self.r), strict=True)
        ]
        if not calls or None in calls:
            return 0
        addresses = tuple(
            (one.normalize.address, one.project.address, one.remove.address, one.update.address)
            for one in self._next_sweeps()
        )
        numbers = np.array([*(getattr(self, name) for name in _NATIVE), self.is_constant, self.running], Real)
        eps = np.finfo(self.dtype).eps
        constants = float(eps), float(0.1 / eps), float(self.rtol), float(self.shift)
        n_most = min(n_most, self.solve.n_until_report)
        advance = python_objects.advance_columns_minres
        n: int
        n, best = advance(tuple(calls), addresses, numbers, constants, n_most)
        for name, found in zip(_NATIVE, numbers, strict=False):
            setattr(self, name, found)
        for _ in range(n % 3):
            self._turn()
        self._at += n
        if n:
            self.solve.pass_steps(n - 1, best)
        return n

    def _next_sweeps(self) -> list[_Sweeps]:
        """Return the sweeps of the next three iterations; the first were bound after one rotation."""
        return [self._sweeps[(self._at + turn) % 3 - 1] for turn in range(3)]

    def iterate(self, iteration: int) -> None:
        """Compute one iteration of each running column."""
        sweeps = self._sweeps[self._at % 3 - 1]  # the first sweeps are bound after one rotation
        self._next_vector(sweeps, iteration)
        self._rotate()
        scale = self.ratio(np.ones(self.running.size), self.gamma)
        factors = [self.of_running(-scale * of) for of in (self.old_epsilon, self.delta)]
        (squares,) = sweeps.update(scale, *factors, 1.0, self.of_running(self.phi))
        self._turn()
        self._at += 1
        self._test(np.sqrt(squares), iteration)

    def _next_vector(self, sweeps: _Sweeps, iteration: int) -> None:
        """Compute the next Lanczos vector and the coefficients alpha (`alfa`) and beta."""
        sweeps.normalize(self.ratio(np.ones(self.running.size), self.beta))
        previous = self.ratio(self.beta, self.old_beta) if iteration else 0.0
        (self.alfa,) = sweeps.project(self.v, self.y, 1.0, -self.shift, -previous)
        removed = sweeps.remove(1.0, -self.ratio(self.alfa, self.beta))
        self.old_beta = self.beta
        squares = self.of_running(removed[0] if removed else self._beta_squared(self.y))
        if (squares < 0).any():
            raise ValueError("non-symmetric matrix")
        self.beta = np.sqrt(squares)
        self.tnorm2 = self.tnorm2 + self.alfa**2 + self.old_beta**2 + self.beta**2
        if not iteration:
            eps = np.finfo(self.dtype).eps
            self.is_constant = (self.ratio(self.beta, self.beta1) <= 10 * eps).astype(float)

    def _rotate(self) -> None:
        """Apply the previous plane rotation, and compute the next."""
        self.old_epsilon = self.epsilon
        self.delta = self.cs * self.dbar + self.sn * self.alfa
        gbar = self.sn * self.dbar - self.cs * self.alfa
        self.epsilon = self.sn * self.beta
        self.dbar = -self.cs * self.beta
        self.root = np.hypot(gbar, self.dbar)
        self.gamma = np.maximum(np.hypot(gbar, self.beta), np.finfo(self.dtype).eps)
        self.cs, self.sn = gbar / self.gamma, self.beta / self.gamma
        self.phi, self.phibar = self.cs * self.phibar, self.sn * self.phibar
        self.gmax, self.gmin = np.maximum(self.gmax, self.gamma), np.minimum(self.gmin, self.gamma)

    def _test(self, x_norms: Numbers, iteration: int) -> None:
        """End the columns for which a test of SciPy's holds; if several hold, the last determines the code."""
        eps, precision = np.finfo(self.dtype).eps, self.dtype
        a_norms = np.sqrt(self.tnorm2)
        with np.errstate(divide="ignore", invalid="ignore"):
            scales = a_norms * x_norms
            test1 = np.where(scales == 0, np.inf, self.phibar / scales)
            test2 = np.where(a_norms == 0, np.inf, self.root / a_norms)
            tests: list[tuple[Any, int]] = [
                ((1 + test2).astype(precision) <= 1, 2),
                ((1 + test1).astype(precision) <= 1, 1),
                (np.full(test1.shape, iteration + 1 >= self.maxiter), ITERATION_LIMIT),
                (self.gmax / self.gmin >= 0.1 / eps, 4),
                (a_norms * x_norms * eps >= self.beta1, 3),
                (test2 <= self.rtol, 2),
                (test1 <= self.rtol, 1),
            ]
        stops = np.zeros(test1.shape, int)
        for holds, code in tests:
            stops[holds] = code
        stops[self.is_constant != 0] = -1
        self.solve.step(float(self.phibar.max(initial=0.0)))
        at_limit = stops == ITERATION_LIMIT
        self.leave(at_limit, self.maxiter, narrow=False)
        self.leave((stops != 0) & ~at_limit, 0)
