"""Products followed by a sweep over the rows of the result, in one pass over memory where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosparse.arrays.family import AutoSparseMatrix
from autosparse.config import decisive_options
from autosparse.linalg.operators import MatrixProduct, Product
from autosparse.linalg.sweeps import ColumnSweep, Run, Step, Sweep, Vector


def _fast_call(matrix: AutoSparseMatrix, x: Vector, out: Vector) -> tuple[Any, ...] | None:
    """Return the function that may compute out = A x without Python, and its arguments; None if there is none."""
    operand, transposed = matrix._cell, matrix._transposed
    if operand.fast_path is None:
        return None
    state = operand.dispatcher.hot.get((1 if x.ndim == 1 else x.shape[1], transposed))
    if state is None or state.fast_path is None:
        return None
    return state.fast_path.run, operand, x, out, decisive_options(), transposed


class ProductSweep:
    """A product out = A x, and a sweep that reads or writes `out`; the sweep must not write x.

    Where a fast call serves the product, both run in one call of the extension module. The default kernel of a matrix
    that is not transposed executes the steps on each chunk of rows as soon as the chunk is complete, while it is in a
    core's own cache. The dot products have the same bits as those of a separate sweep. Inside a trace the product and
    the sweep are separate, so that each is timed.

    >>> A, x, out = asp.csr(np.diag([1.0, 2.0])), np.ones(2), np.empty(2)
    >>> ProductSweep(product_of(A, x.dtype), [Dot(x, out)])(x, out)
    (3.0,)
    """

    __slots__ = ("_after", "_matrix", "_product", "bind", "run")

    run: Run
    """The sweep alone."""

    def __init__(self, product: Product, steps: Sequence[Step]) -> None:
        sweep = Sweep(steps)
        self._product, self.run, self.bind = product, sweep.run, sweep.bind
        self._after = sweep.after
        self._matrix = product.matrix if isinstance(product, MatrixProduct) and self._after is not None else None

    @property
    def is_fused(self) -> bool:
        """Return whether fast calls may compute the product and the sweep."""
        return self._matrix is not None

    def fast_call(self, x: Vector, out: Vector) -> tuple[Any, ...] | None:
        """Return the function that may compute out = A x without Python, and its arguments; None if there is none."""
        return None if self._matrix is None else _fast_call(self._matrix, x, out)

    def __call__(self, x: Vector, out: Vector, *coefficients: complex) -> tuple[Any, ...]:
        """Write A x to out, and execute the steps with these coefficients; return the dot products."""
        if self._matrix is not None:
            call = _fast_call(self._matrix, x, out)
            found = None if call is None else self._after(*call, *coefficients)  # type: ignore[misc]  # an extension
            if found is not None:
                return found
        self._product(x, out)
        return self.run(*coefficients)


class ColumnProductSweep:
    """A product of a matrix with a block of columns, and a sweep over the columns (see `ProductSweep`)."""

    __slots__ = ("_matrix", "_product", "_sweep")

    def __init__(self, product: Product, matrix: AutoSparseMatrix | None, steps: Sequence[Step]) -> None:
        self._product, self._matrix, self._sweep = product, matrix, ColumnSweep(steps)

    def __call__(self, X: Vector, out: Vector, *coefficients: complex | Vector) -> list[Vector]:
        """Write A X to out, and execute the steps with these coefficients; return the dot products."""
        if self._matrix is not None:
            call = _fast_call(self._matrix, X, out)
            found = None if call is None else self._sweep.after(call, *coefficients)
            if found is not None:
                return found
        self._product(X, out)
        return self._sweep(*coefficients)
