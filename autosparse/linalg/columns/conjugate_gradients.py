"""Conjugate gradients for several right sides."""

from __future__ import annotations

from typing import ClassVar

from autosparse.linalg.columns.recurrence import Block, ColumnSweep, Combine, Dot, Numbers, Recurrence, roots


class ColumnsCG(Recurrence):
    """`scipy.sparse.linalg.cg` for each column."""

    blocks: ClassVar = ("p", "q", "z")
    numbers: ClassVar = ("rr", "rz", "before")

    p: Block
    q: Block
    z: Block
    rr: Numbers
    rz: Numbers
    before: Numbers

    def prepare(self) -> None:
        scale, z = self.preconditioned(self.r, self.z)
        self.is_apart = self.apply is not None
        dots = [] if self.is_apart else [Dot(self.r, self.r), Dot(self.r, z)][: 1 + (z is not self.r)]
        self.first = ColumnSweep([*scale, *(dots or [Dot(self.r, self.r)])])
        self.of_z = ColumnSweep([Dot(self.r, z)])
        self.direct = ColumnSweep([Combine(self.p, (self.p, z))])
        self.curvature = ColumnSweep([Dot(self.p, self.q)])
        updates = [Combine(self.x, (self.x, self.p)), Combine(self.r, (self.r, self.q))]
        self.update = ColumnSweep([*updates, *scale, *(dots or [Dot(self.r, self.r)])])

    def _note(self, dots: tuple[Numbers, ...]) -> None:
        """Keep r.r and r.z of the residual that a sweep has left."""
        self.rr = self.rz = dots[0]
        if self.is_apart:
            self.apply(self.r, self.z)  # type: ignore[misc]
            dots += self.of_z()
        self.rz = dots[-1]

    def iterate(self, iteration: int) -> None:
        if not iteration:
            self._note(self.first())
        sizes = roots(self.rr, self.dtype)
        self.solve.step(float(sizes.max()))
        self.leave(sizes < self.limits, 0)
        if not self.running.any():
            return
        self.direct(self.ratio(self.rz, self.before) if iteration else 0.0, 1.0)
        self.system.product(self.p, self.q)
        steps = self.ratio(self.rz, self.curvature()[0])
        self.before = self.rz
        self._note(self.update(1.0, steps, 1.0, -steps))
