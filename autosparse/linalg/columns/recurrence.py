"""Base of the recurrences for several right-hand sides: block products, and removal of ended columns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Complex, NarrowReal, NativeIndex, Real
from autosparse.linalg.arguments import System
from autosparse.linalg.encoded_sweeps import ColumnSweep
from autosparse.linalg.operators import BlockProduct, fast_call_of, preconditioner_of
from autosparse.linalg.solves import Solve
from autosparse.linalg.sweeps import Combine, Dot, Scale, Step

Block = NDArray[Any]  # (n, k), C order
Numbers = NDArray[Any]  # (k,): one number per column
Product = Callable[[Block, Block], object]
_MIN_SQUARE: Final = float(np.finfo(NarrowReal).smallest_subnormal) / 2
"""Sum of squares below which float32 rounds to 0."""
NARROW_AT: Final = 0.5
"""Maximum fraction of running columns at which a block is narrowed to them; each width needs a plan of its own."""


def roots(squares: Numbers, dtype: np.dtype[Any]) -> NDArray[Real]:
    """Return the square roots of sums of squares; 0 if a sum rounds to 0 in `dtype`."""
    real = squares.real
    found: NDArray[Real] = np.sqrt(np.where(real < _MIN_SQUARE, 0.0, real) if dtype.char in "fF" else real)
    return found


class ColumnProductSweep:
    """A product of a matrix with a block of columns, and a sweep over the columns after it."""

    __slots__ = ("_matrix", "_product", "_sweep")

    def __init__(self, product: Product, matrix: Any, steps: Sequence[Step]) -> None:  # Any: an autosparse array, None
        self._product, self._matrix, self._sweep = product, matrix, ColumnSweep(steps)

    @property
    def address(self) -> int:
        """Address of the asp_sweep structure of the sweep."""
        return self._sweep.address

    def fast_call(self, X: Block, out: Block) -> tuple[Any, ...] | None:
        """Return the function that may compute out = A X without Python, and its arguments; None if there is none."""
        return None if self._matrix is None else fast_call_of(self._matrix, X, out)

    def __call__(self, X: Block, out: Block, *coefficients: complex | Numbers) -> list[Numbers]:
        """Write A X to out, and execute the steps with these coefficients; return the dot products."""
        self._product(X, out)
        return self._sweep(*coefficients)


class BlockSystem:
    """The system A X = B for a panel of columns, in C order and in one dtype."""

    def __init__(self, system: System, start: Block | None, B: Any) -> None:
        self.A, self.M, self.dtype = system.A, system.M, system.dtype
        self.B = np.ascontiguousarray(B, dtype=system.dtype)
        self.start = start
        self.product = BlockProduct(system.A, system.dtype)
        self.M_given = preconditioner_of(system.M, system.dtype)

    @property
    def diagonal(self) -> NDArray[Any] | None:
        """The diagonal of a diagonal preconditioner in the dtype of the blocks; None for others."""
        return self.M_given.astype(self.dtype) if isinstance(self.M_given, np.ndarray) else None

    def apply(self) -> Product | None:
        """Return a function that writes Z = M R; None if M is the identity or a diagonal."""
        return (
            None if self.M_given is None or isinstance(self.M_given, np.ndarray) else BlockProduct(self.M, self.dtype)
        )

    def preconditioned(self) -> Block:
        """Return M B, the preconditioned right-hand sides."""
        apply, d = self.apply(), self.diagonal
        if apply is None:
            return self.B.copy() if d is None else d[:, None] * self.B  # type: ignore[no-any-return]
        out = np.empty_like(self.B)
        apply(self.B, out)
        return out


class Recurrence:
    """Base class of the recurrences for several columns; subclasses define blocks, numbers, and one iteration.

    An ended column keeps its place in the blocks, with coefficients that change nothing, until the blocks are narrowed.
    """

    blocks: ClassVar[tuple[str, ...]] = ()  # attributes of shape (n, k), besides `x` and `r`
    more_blocks: ClassVar[tuple[str, ...]] = ()  # further ones, of products with a preconditioner if there is one
    numbers: ClassVar[tuple[str, ...]] = ()  # attributes of shape (k,)
    cleared: ClassVar[tuple[str, ...]] = ()  # blocks that are read before they are written, multiplied by 0
    n_spare = 0  # number of further blocks of the shape of B

    r: Block  # residuals, the first of the blocks

    def __init__(self, system: BlockSystem, solve: Solve, norms: Numbers, limits: Numbers) -> None:
        self.system, self.solve, self.dtype = system, solve, system.dtype
        n, k = system.B.shape
        self._X: Block | None = None  # made when the first columns leave the blocks
        self._info = np.zeros(k, NativeIndex)
        self.columns, self.running = np.arange(k), np.ones(k, bool)
        self.norms, self.limits, self.maxiter = norms, limits, 0
        self.apply, self.diagonal = system.apply(), system.diagonal
        self.x = np.zeros((n, k), self.dtype) if system.start is None else np.ascontiguousarray(system.start)
        has_M = self.apply is not None or self.diagonal is not None
        self.names = "r", *self.blocks, *(self.more_blocks if has_M else ())
        arrays = solve.workspace((n, k), self.dtype, len(self.names) + self.n_spare)
        self.spare = arrays[len(self.names) :]
        for name in self.more_blocks:
            setattr(self, name, arrays[0])  # never written without M
        for name, array in zip(self.names, arrays, strict=False):
            if name in self.cleared:
                array.fill(0)
            setattr(self, name, array)
        np.copyto(self.r, system.B)
        for name in self.numbers:
            setattr(self, name, np.zeros(k, Complex if self.dtype.kind == "c" else Real))
        self._begin()

    def product_and(self, *steps: Step) -> ColumnProductSweep:
        """Return the product with A, followed by a sweep."""
        return ColumnProductSweep(self.system.product, self.system.product.matrix, steps)

    def _begin(self) -> None:
        """Subtract A x from the residual if a guess is given, and end zero columns with x = 0."""
        if self.system.start is not None:
            q = np.empty_like(self.r)
            self.system.product(self.x, q)
            guessed = self.x.any(axis=0)
            np.subtract(self.r, q, out=self.r, where=guessed)
        zero = self.norms == 0
        if zero.any():
            self.x[:, zero] = 0
            self.leave(zero, 0, narrow=False)

    def run(self, maxiter: int) -> None:
        """Iterate until all columns have ended; columns left after `maxiter` iterations end with info = `maxiter`."""
        self.maxiter = maxiter
        self.narrow()
        self.prepare()
        iteration, maxiter = 0, operator.index(maxiter)
        while iteration < maxiter and self.running.any():
            iteration += self.advance(iteration)
        self.leave(self.running, maxiter)

    def prepare(self) -> None:
        """Create the sweeps of an iteration: fused passes over the vectors in the block attributes.

        Called before the first iteration and after each `narrow`, which allocates shorter vectors.
        """
        raise NotImplementedError

    def advance(self, iteration: int) -> int:
        """Compute one iteration of each running column, or several; return their number (any, if all columns end)."""
        self.iterate(iteration)
        return 1

    def iterate(self, iteration: int) -> None:
        """Compute one iteration of each running column; called by `advance`."""
        raise NotImplementedError

    def results(self) -> tuple[Block, NDArray[NativeIndex]]:
        """Return X and the info of each column, after `run`."""
        self.flush()
        return self._keep(np.ones(self.columns.size, bool)), self._info

    def leave(self, which: Numbers, info: int, *, narrow: bool = True) -> None:
        """End the running columns of the mask `which`, with the code `info`."""
        which = which & self.running
        if not which.any():
            return
        self._info[self.columns[which]] = info
        self.running = self.running & ~which
        if narrow and self.narrow():
            self.prepare()

    def narrow(self) -> bool:
        """Remove ended columns from the blocks if they are many; return whether that replaced the blocks."""
        n_running = int(self.running.sum())
        if not 0 < n_running <= NARROW_AT * self.running.size or not self.lasts():
            return False
        self.flush()
        self._keep(~self.running)
        kept = np.flatnonzero(self.running)
        for name in ("x", *self.names):
            setattr(self, name, np.take(getattr(self, name), kept, axis=1))
        for name in ("columns", "running", "norms", "limits", *self.numbers):
            setattr(self, name, getattr(self, name)[kept])
        return True

    def lasts(self) -> bool:
        """Return whether the running columns may need so many iterations that narrowing the blocks pays."""
        return True

    def flush(self) -> None:
        """Add pending steps to x."""

    def _keep(self, which: Numbers) -> Block:
        """Copy the x of ended columns to the result, and return it."""
        if which.all() and self.columns.size == self._info.size:
            return self.x
        if self._X is None:
            self._X = np.empty((self.x.shape[0], self._info.size), self.dtype)
        self._X[:, self.columns[which]] = self.x[:, which]
        return self._X

    def ratio(self, dividend: Numbers, divisor: Numbers) -> Numbers:
        """Return the quotients of running columns, and 0 for others."""
        return np.divide(dividend, divisor, out=np.zeros(self.running.size, dividend.dtype), where=self.running)

    def of_running(self, value: complex | Numbers) -> Numbers:
        """Return the values of running columns, and 0 for others."""
        return np.where(self.running, value, 0)

    def preconditioned(self, source: Block, target: Block) -> tuple[list[Scale], Block]:
        """Return the steps that compute M `source`, and the block that then holds it (`source` itself without M).

        A preconditioner that is no diagonal writes to `target` by `apply`, after the sweep.
        """
        if self.diagonal is not None:
            return [Scale(target, self.diagonal, source)], target
        return [], source if self.apply is None else target


__all__ = ["Block", "BlockSystem", "ColumnSweep", "Combine", "Dot", "Numbers", "Recurrence", "Scale", "roots"]
