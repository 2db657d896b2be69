"""Conjugate gradients for several right-hand sides."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from autosparse._native import python_objects
from autosparse.core.dtypes import Real
from autosparse.linalg.columns.recurrence import Block, ColumnSweep, Combine, Dot, Numbers, Recurrence, roots

_BETWEEN: Final = 0
"""Code of native iterations that end between two iterations, not before a product."""


NARROW_FOR: Final = 8
"""Expected number of further iterations for which blocks are narrowed: the copies cost as much as a few iterations."""


class ColumnsCG(Recurrence):
    """Recurrence of `scipy.sparse.linalg.cg` for each column.

    The update x += steps p is delayed to the pass that computes the next p. Iterations of real systems run in the
    extension module, with the same operations in the same order, until a column ends.
    """

    blocks: ClassVar = ("p", "q")
    more_blocks: ClassVar = ("z",)
    cleared: ClassVar = ("p",)
    numbers: ClassVar = ("rr", "rz", "before", "steps")

    p: Block
    q: Block
    z: Block
    rr: Numbers
    rz: Numbers
    before: Numbers
    steps: Numbers
    _n_done = 0

    def prepare(self) -> None:
        """Create the sweeps of an iteration over the present vectors; see `Recurrence.prepare`."""
        scale, z = self.preconditioned(self.r, self.z)
        dots = [Dot(self.r, self.r)]
        dots += [Dot(self.r, z)] if self.diagonal is not None else []
        self.first = ColumnSweep([*scale, *dots])
        self.of_z = ColumnSweep([Dot(self.r, z)])
        add = Combine(self.x, (self.x, self.p))
        self.add = ColumnSweep([add])
        self.direct = ColumnSweep([add, Combine(self.p, (self.p, z))])
        self.curvature = self.product_and(Dot(self.p, self.q))
        self.update = ColumnSweep([Combine(self.r, (self.r, self.q)), *scale, *dots])
        is_there = python_objects.advance_columns_cg is not None
        self._is_native = is_there and self.apply is None and self.dtype.kind == "f"

    def _note(self, dots: list[Numbers]) -> None:
        """Store r.r and r.z from the dot products of a sweep."""
        self.rr, self.rz = dots[0], dots[-1]
        if self.apply is not None:
            self.apply(self.r, self.z)
            (self.rz,) = self.of_z()

    def flush(self) -> None:
        """Add the pending steps to x."""
        if self.steps.any():
            self.add(1.0, self.steps)
            self.steps = np.zeros_like(self.steps)

    def lasts(self) -> bool:
        """Return whether a running column is expected to run for `NARROW_FOR` iterations, at its rate so far."""
        if not self._n_done:
            return True
        sizes = roots(self.rr, self.dtype)
        with np.errstate(all="ignore"):
            fall = np.log(self.norms / sizes) / self._n_done
            is_near = (fall > 0) & (np.log(sizes / self.limits) < NARROW_FOR * fall)
        return bool((self.running & ~is_near).any())

    def advance(self, iteration: int) -> int:
        """Compute one iteration of each running column, or several in the extension module; see `Recurrence`."""
        if not iteration:
            self._note(self.first())
        sizes = roots(self.rr, self.dtype)
        self.solve.step(float(sizes.max()))
        self.leave(sizes < self.limits, 0, narrow=False)
        if not self.running.any():
            return 0
        self._n_done = iteration
        if not self.running.all() and self.narrow():
            self.prepare()
        n, is_turned = self._advance_natively(self.maxiter - iteration) if iteration else (0, False)
        if n and not is_turned:
            return n
        if not is_turned:
            self.direct(1.0, self.steps, self.ratio(self.rz, self.before) if iteration else 0.0, 1.0)
        self.steps = self.ratio(self.rz, self.curvature(self.p, self.q)[0])
        self.before = self.rz
        self._note(self.update(1.0, -self.steps))
        return n + 1

    def _advance_natively(self, n_most: int) -> tuple[int, bool]:
        """Run at most `n_most` iterations in the extension module; return their number, and whether p is turned.

        If p is turned, the product of the next iteration follows.
        """
        call = self.curvature.fast_call(self.p, self.q) if self._is_native else None
        if call is None:
            return 0, False
        numbers = np.array([self.rr, self.rz, self.before, self.steps, self.limits, self.running], Real)
        sweeps = self.direct.address, self.curvature.address, self.update.address
        n_most = min(n_most, self.solve.n_until_report)
        n, end, best = python_objects.advance_columns_cg(call, sweeps, numbers, n_most)
        self.rr, self.rz, self.before, self.steps = numbers[:4]
        self.solve.pass_steps(n - 1 if n and end == _BETWEEN else n, best)
        return n, end != _BETWEEN
