"""Restarted GMRES for several right-hand sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from autosparse.core.dtypes import Complex, Real
from autosparse.linalg.columns.recurrence import (
    Block,
    BlockSystem,
    ColumnSweep,
    Combine,
    Dot,
    Numbers,
    Recurrence,
    roots,
)
from autosparse.linalg.solves import Solve

RESTART = 20
"""Default number of iterations between restarts."""
_TERMS = 3
"""Number of basis vectors that one pass over x adds."""


class ColumnsGmres(Recurrence):
    """Recurrence of `scipy.sparse.linalg.gmres` for each column.

    A column that ends a cycle early waits for the others.
    """

    blocks: ClassVar = ("w", "z")
    numbers: ClassVar = ("inner_limits", "tightening", "presid")

    w: Block
    z: Block
    inner_limits: Numbers
    tightening: Numbers
    presid: Numbers

    def __init__(
        self, system: BlockSystem, solve: Solve, norms: Numbers, limits: Numbers, *, restart: int = RESTART
    ) -> None:
        self.restart = min(restart, system.B.shape[0])
        self.n_spare = self.restart + 1
        self.B = system.B
        super().__init__(system, solve, norms, limits)
        self.lartg = get_lapack_funcs("lartg", dtype=self.dtype)
        M_norms = roots(self._squares(system.preconditioned()), self.dtype)
        self.tightening, self.presid = np.ones(norms.size), np.zeros(norms.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            self.inner_limits = M_norms * np.minimum(1.0, limits / norms)

    @staticmethod
    def _squares(block: Block) -> Numbers:
        return ColumnSweep([Dot(block, block)])()[0]

    def narrow(self) -> bool:
        """Drop ended columns; see `Recurrence.narrow`."""
        running = self.running
        narrowed = super().narrow()
        if narrowed:
            self.B = np.take(self.B, np.flatnonzero(running), axis=1)
        return narrowed

    def prepare(self) -> None:
        """Create the sweeps of an iteration over the present vectors; see `Recurrence.prepare`."""
        n, k = self.r.shape
        self.basis = [memory.reshape(-1)[: n * k].reshape(n, k) for memory in self.spare]
        v, w = self.basis, self.w
        scale, z = self.preconditioned(self.r, v[0])
        self.start = ColumnSweep([*scale, Dot(z, z)])
        self.begin = ColumnSweep([Combine(v[0], (z,))])
        scale, _ = self.preconditioned(self.z, w)
        self.first = ColumnSweep([*scale, Dot(w, w), Dot(v[0], w)])
        self.orthogonalize = ColumnSweep([Combine(w, (w, v[0])), Dot(v[1], w)])
        self.last = ColumnSweep([Combine(w, (w, v[0])), Dot(w, w)])
        self.normalize = ColumnSweep([Combine(v[0], (w,))])
        self.add = [ColumnSweep([Combine(self.x, (self.x, *v[:m]))]) for m in range(1, min(_TERMS, len(v)) + 1)]
        self.subtract = ColumnSweep([Combine(self.r, (self.B, self.z)), Dot(self.r, self.r)])

    def iterate(self, iteration: int) -> None:
        """Compute one iteration of each running column."""
        if not iteration:
            self.leave(roots(self._squares(self.r), self.dtype) < self.limits, 0)
            if not self.running.any():
                return
        cycle = self._begin_cycle()
        for col in range(self.restart):
            self._extend(cycle, col)
            if not cycle.inner.any():
                break
        self._end_cycle(cycle)

    def _begin_cycle(self) -> _Cycle:
        """Set the first vector of the basis to the normalized preconditioned residual."""
        if self.apply is not None:
            self.apply(self.r, self.basis[0])
        (squares,) = self.start()
        cycle = _Cycle(self.restart, self.running, Complex if self.dtype.kind == "c" else Real)
        cycle.rhs[0] = sizes = roots(squares, self.dtype)
        self.begin(self.ratio(np.ones(sizes.size), sizes))
        return cycle

    def _extend(self, cycle: _Cycle, col: int) -> None:
        """Add a vector to the basis by modified Gram-Schmidt, and update the small problem of each column."""
        v, h, running = self.basis, cycle.h, cycle.inner
        if self.apply is None and self.diagonal is None:
            self.system.product(v[col], self.w)
        else:
            self.system.product(v[col], self.z)
            if self.apply is not None:
                self.apply(self.z, self.w)
        before, h[col, 0] = self.first()
        for k in range(1, col + 1):
            self.orthogonalize.bind(1, v[k - 1])
            self.orthogonalize.bind(2, v[k])
            (h[col, k],) = self.orthogonalize(1.0, -h[col, k - 1])
        self.last.bind(1, v[col])
        (squares,) = self.last(1.0, -h[col, col])
        sizes = roots(squares, self.dtype)
        broken = sizes <= np.finfo(self.dtype).eps * roots(before, self.dtype)
        h[col, col + 1] = np.where(broken, 0, sizes)
        self.normalize.bind(0, v[col + 1])
        self.normalize(np.divide(1.0, sizes, out=np.zeros(sizes.size), where=running & ~broken))
        cycle.rotate(col, self.lartg)
        self.presid = np.where(running, np.abs(cycle.rhs[col + 1]), self.presid)
        cycle.broken |= running & broken
        cycle.inner = running & ~(self.presid <= self.inner_limits) & ~broken
        self.solve.step(float(self.presid.max()))

    def _end_cycle(self, cycle: _Cycle) -> None:
        """Add the corrections to x, compute the residuals, and end columns that have converged or broken down."""
        y = np.where(self.running, cycle.solution(), 0)
        for begin in range(0, len(y), _TERMS):
            part = y[begin : begin + _TERMS]
            sweep = self.add[len(part) - 1]
            for at in range(len(part)):
                sweep.bind(1 + at, self.basis[begin + at])
            sweep(1.0, *part)
        self.system.product(self.x, self.z)
        sizes = roots(self.subtract(1.0, -1.0)[0], self.dtype)
        factors, eps = self.tightening, np.finfo(self.dtype).eps
        met = self.presid <= self.inner_limits
        self.tightening = np.where(met, np.maximum(eps, 0.25 * factors), np.minimum(1.0, 1.5 * factors))
        share = np.divide(self.limits, sizes, out=np.ones(sizes.size), where=sizes > 0)
        self.inner_limits = self.presid * np.minimum(self.tightening, share)
        done = sizes <= self.limits
        self.leave(cycle.broken & ~done, self.maxiter, narrow=False)
        self.leave(done, 0)


class _Cycle:
    """The small least-squares problems of the columns between two restarts; `rhs` is S of SciPy's gmres."""

    def __init__(self, restart: int, running: Numbers, dtype: type[np.inexact]) -> None:
        k = running.size
        self.h = np.zeros((restart, restart + 1, k), dtype)
        self.c, self.s = np.zeros((2, restart, k), dtype)
        self.rhs = np.zeros((restart + 1, k), dtype)
        self.inner = running.copy()  # columns that still extend their basis
        self.broken = np.zeros(k, bool)
        self.n_steps = np.zeros(k, int)

    def rotate(self, col: int, lartg: Callable[[complex, complex], tuple[complex, complex, complex]]) -> None:
        """Apply the earlier rotations to the new column of h, and compute the rotation that removes its last entry."""
        h, c, s = self.h[col], self.c, self.s
        for k in range(col):
            upper, lower = h[k].copy(), h[k + 1]
            h[k] = c[k] * upper + s[k] * lower
            h[k + 1] = -s[k].conj() * upper + c[k] * lower
        for j in np.flatnonzero(self.inner):
            c[col, j], s[col, j], h[col, j] = lartg(h[col, j], h[col + 1, j])
            h[col + 1, j] = 0
            self.rhs[col + 1, j] = -np.conjugate(s[col, j]) * self.rhs[col, j]
            self.rhs[col, j] *= c[col, j]
        self.n_steps += self.inner

    def solution(self) -> NDArray[Any]:
        """Return the coefficients (steps, k) of the basis vectors, padded with zeros for columns of fewer steps."""
        n_steps, h = int(self.n_steps.max()), self.h
        y = np.where(np.arange(n_steps)[:, None] < self.n_steps, self.rhs[:n_steps], 0)
        last = self.n_steps - 1
        columns = np.arange(last.size)
        singular = (h[last, last, columns] == 0) & (last >= 0)
        y[last[singular], columns[singular]] = 0
        for k in range(n_steps - 1, -1, -1):
            there = y[k] != 0
            np.divide(y[k], h[k, k], out=y[k], where=there)
            y[:k] -= y[k] * h[k, :k]
        return y
