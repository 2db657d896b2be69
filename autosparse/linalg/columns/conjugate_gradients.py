"""Conjugate gradients for several right-hand sides."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from autosparse.linalg.columns.recurrence import Block, ColumnSweep, Combine, Dot, Numbers, Recurrence, roots


class ColumnsCG(Recurrence):
    """Recurrence of `scipy.sparse.linalg.cg` for each column.

    The update x += steps p is delayed to the pass that computes the next p.
    """

    blocks: ClassVar = ("p", "q", "z")
    cleared: ClassVar = ("p",)
    numbers: ClassVar = ("rr", "rz", "before", "steps")

    p: Block
    q: Block
    z: Block
    rr: Numbers
    rz: Numbers
    before: Numbers
    steps: Numbers

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

    def iterate(self, iteration: int) -> None:
        """Compute one iteration of each running column."""
        if not iteration:
            self._note(self.first())
        sizes = roots(self.rr, self.dtype)
        self.solve.step(float(sizes.max()))
        self.leave(sizes < self.limits, 0)
        if not self.running.any():
            return
        self.direct(1.0, self.steps, self.ratio(self.rz, self.before) if iteration else 0.0, 1.0)
        self.steps = self.ratio(self.rz, self.curvature(self.p, self.q)[0])
        self.before = self.rz
        self._note(self.update(1.0, -self.steps))
