"""Convert matrices, operators and preconditioners to functions product(x, out), as the solvers call them.

A product may be followed by a sweep over the rows of the result, in one pass over memory where possible.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse.linalg import aslinearoperator

from autosparse import light
from autosparse.light.construct import has_own_product, wrapped
from autosparse.light.matrices import Slots
from autosparse.linalg import sweeps
from autosparse.linalg.solves.tracing import PRECONDITIONER, PRODUCTS, timed
from autosparse.linalg.sweeps import Run, Step, Sweep

ROWS_AFTER: Final = 16
"""Number of products by columns in a solve after which rows are copied, in the time of 10: rows take half as long."""
ROWS_FROM: Final = 1 << 14
"""Minimum number of entries of such a matrix; products with fewer entries run on one thread."""
Vector = NDArray[Any]
Product = Callable[[Vector, Vector], object]
"""Function (x, out) that writes the product with x to out, which has the dtype of x and overlaps no operand."""


class MatrixProduct:
    """Product with an autosparse array of the dtype of the vectors.

    The C runtime computes it while the matrix is light. The library is loaded once its products have taken as long.
    """

    __slots__ = ("_by_runtime", "_matmul", "matrix")

    def __init__(self, matrix: Any) -> None:  # Any: an autosparse array, light or complete
        self.matrix, self._matmul = matrix, _matmul(light.is_complete)
        native = None if light.is_complete else light.runtime()
        self._by_runtime = None if native is None else native.product_into

    def __call__(self, x: Vector, out: Vector) -> None:
        """Write the product with x to out."""
        if self._by_runtime is not None:
            if self._by_runtime(self.matrix, x, out):
                return
            self._by_runtime = None
        self._matmul(self.matrix, x, out=out)


class _RowsLater(MatrixProduct):
    """Product with a matrix by columns, which copies its rows once `ROWS_AFTER` products have been computed.

    A product by columns adds to a result of each thread, a product by rows writes the result once. Nothing may write to
    the matrix between two products.
    """

    __slots__ = ("_n_left",)

    def __init__(self, matrix: Any) -> None:
        super().__init__(matrix)
        self._n_left = ROWS_AFTER

    def __call__(self, x: Vector, out: Vector) -> None:
        """Write the product with x to out."""
        self._n_left -= 1
        if not self._n_left:
            self._copy_rows()
        super().__call__(x, out)

    def _copy_rows(self) -> None:
        with contextlib.suppress(MemoryError):
            self.matrix = self.matrix.tocsr()


@functools.cache
def _matmul(is_complete: bool) -> Callable[..., Any]:
    """Return the function `autosparse.matmul` of the library, if it is loaded, else that of light matrices."""
    found: Callable[..., Any]
    found = importlib.import_module("autosparse.arrays.functions" if is_complete else "autosparse.light.into").matmul
    return found


@functools.cache
def _matrix_operator() -> type:
    """Return the class of operators that `aslinearoperator` makes from a matrix; they store the matrix as `A`."""
    return type(aslinearoperator(np.zeros((1, 1))))


def matrix_of(A: Any) -> Any:  # Any: as `product_of`
    """Return the matrix of an operator that `aslinearoperator` made from a matrix; return anything else unchanged."""
    return getattr(A, "A", A) if isinstance(A, _matrix_operator()) else A


def factor_of(A: Any) -> Any:  # Any: as `product_of`
    """Return the matrix whose kernels compute A x; an operator for a matrix that multiplies in its own way."""
    matrix = matrix_of(A)
    return aslinearoperator(A) if has_own_product(matrix) else matrix


@timed(PRODUCTS)
def product_of(
    A: Any, dtype: np.dtype[Any], *, is_unwritten: bool = False
) -> Product:  # Any: whatever `aslinearoperator` takes
    """Return a function that writes A x to out, for vectors x of `dtype`.

    `is_unwritten`: no other code runs between the products that could write to the arrays of A.

    autosparse arrays and SciPy's compressed arrays use the kernels of `autosparse.matmul`. If the dtypes differ, they
    multiply by a converted copy, which an autosparse array keeps. Operators and matrices of subclasses that override
    `@` or `dot` are called as SciPy calls them, and their results are copied. TypeError is raised as by
    `aslinearoperator`, and if a result is complex but `dtype` is not.
    """
    matrix = factor_of(A)
    if isinstance(matrix, Slots):
        return _product_of_ours(matrix, dtype, is_unwritten=is_unwritten and not light.is_complete)
    if sps.issparse(matrix) and matrix.format in ("csr", "csc"):
        return _product_of_ours(wrapped(matrix), dtype, is_unwritten=is_unwritten)
    if type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype == dtype:
        return functools.partial(_dense_product, matrix)
    return copied(aslinearoperator(A).matvec)


@timed(PRODUCTS)
def adjoint_of(A: Any, dtype: np.dtype[Any], *, is_unwritten: bool = False) -> Product:  # Any: as `product_of`
    """Return a function that writes A^H x to out, for vectors x of `dtype`; see `product_of`."""
    matrix = factor_of(A)
    is_ours = isinstance(matrix, Slots)
    if sps.issparse(matrix) and matrix.format in ("csr", "csc"):
        if is_ours and matrix.dtype == dtype:
            if dtype.kind == "c":
                from autosparse.linalg.solves.conversions import converted

                matrix = converted(matrix, dtype, is_conjugated=True)
            return product_of(matrix.T, dtype, is_unwritten=is_unwritten)
        transposed = matrix.T
        transposed = transposed.conj() if matrix.dtype.kind == "c" else transposed
        return product_of(transposed, dtype, is_unwritten=is_unwritten)
    if type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype == dtype:
        return functools.partial(_dense_product, matrix.conj().T)
    return copied(aslinearoperator(A).rmatvec)


def copied(matvec: Callable[[Vector], Vector]) -> Product:
    """Return a function of (x, out) that writes ``matvec(x)`` to `out`."""

    def product(x: Vector, out: Vector) -> None:
        np.copyto(out, matvec(x), casting="same_kind")

    return product


_dense_product: Final[Callable[..., Any]] = np.dot if light.VERSION_OF_SCIPY < (1, 18) else np.matmul
"""Function that SciPy's operators call for a dense matrix; RuntimeWarnings name it."""


def _product_of_ours(
    A: Any, dtype: np.dtype[Any], *, is_unwritten: bool = False
) -> Product:  # Any: a matrix of ours, whose SciPy base has no types
    if dtype.kind == "c" and A.dtype.kind != "c":
        real = np.empty(0, dtype).real.dtype
        product = _product_of_ours(A, real)

        def product_of_parts(x: Vector, out: Vector) -> None:
            """Multiply the real matrix by the real and the imaginary part, as a block of two columns."""
            product(x.view(real).reshape(-1, 2), out.view(real).reshape(-1, 2))

        return product_of_parts
    if A.dtype != dtype:
        if np.result_type(A.dtype, dtype) != dtype and A.dtype.kind not in "biu":
            return copied(lambda x: A @ x)  # x: a vector or a block
        from autosparse.linalg.solves.conversions import converted

        A = converted(A, dtype)
    gains = is_unwritten and A._transposed and A._twin._twin is type(A) and A.nnz >= ROWS_FROM
    return (_RowsLater if gains else MatrixProduct)(A)


@timed(PRECONDITIONER)
def preconditioner_of(M: Any, dtype: np.dtype[Any]) -> Vector | Product | None:  # Any: as `product_of`
    """Return the application of M to vectors of `dtype`: None (z = r), the diagonal of M, or a function.

    A diagonal is recognised if M is `jacobi` or a sparse DIA matrix whose only offset is 0. It is returned in `dtype`,
    or in the real dtype of the same precision.
    """
    if M is None:
        return None
    matrix = matrix_of(M)
    d = getattr(M, "inverse_diagonal", None)
    if sps.issparse(matrix) and matrix.format == "dia" and matrix.offsets.tolist() == [0]:
        d = np.zeros(matrix.shape[0], matrix.dtype)
        d[: matrix.data.shape[1]] = matrix.data[0, : d.size]
    into = getattr(M, "apply_into", None)
    if into is not None and M.dtype == dtype:
        return into  # type: ignore[no-any-return]  # of triangular.operators.TriangularInverse
    if isinstance(d, np.ndarray):
        real = np.empty(0, dtype).real.dtype
        if d.dtype.kind != "c" or dtype.kind == "c":
            return d.astype(dtype if d.dtype.kind == "c" else real)
    return product_of(M, dtype)


def fast_call_of(matrix: Any, x: Vector, out: Vector) -> tuple[Any, ...] | None:  # Any: an autosparse array
    """Return the function that may compute out = A x without Python, and its arguments; None if there is none."""
    if not light.is_complete:
        native = light.runtime()
        return None if native is None else native.fast_call(matrix, x, out, sweeps.decisive_options())
    operand, transposed = matrix._cell, matrix._transposed
    dispatcher = operand.dispatcher  # None after the structure has changed, also by another thread
    if operand.fast_path is None or dispatcher is None:
        return None
    state = dispatcher.hot.get((1 if x.ndim == 1 else x.shape[1], transposed))
    if state is None or state.fast_path is None:
        return None
    return state.fast_path.run, operand, x, out, sweeps.decisive_options(), transposed


class BlockProduct:
    """Function (X, out) that writes A X to out for blocks X (n, k) or vectors (n,)."""

    def __init__(self, A: Any, dtype: np.dtype[Any]) -> None:  # Any: whatever `aslinearoperator` takes
        self._operator = aslinearoperator(A)
        self._vector = product_of(A, dtype)
        self._of_blocks = _matrix_product(factor_of(self._operator), dtype)

    @property
    def matrix(self) -> Any:  # a matrix whose SciPy base has no types, or None
        """The autosparse array that is multiplied by unchanged blocks; None for other operators."""
        return self._of_blocks.matrix if isinstance(self._of_blocks, MatrixProduct) else None

    def __call__(self, X: Vector, out: Vector) -> None:
        """Write A X to out."""
        if X.ndim == 1:
            self._vector(X, out)
        elif X.shape[1] == 1 and self.matrix is None:
            self._vector(X.reshape(-1), out.reshape(-1))
        elif self._of_blocks is None:
            np.copyto(out, self._operator.matmat(X), casting="same_kind")
        else:
            self._of_blocks(X, out)


def _matrix_product(matrix: Any, dtype: np.dtype[Any]) -> Product | None:
    """Return a function that writes A X for a matrix whose `product_of` takes blocks; None for others."""
    is_dense = type(matrix) is np.ndarray and matrix.dtype == dtype
    if not is_dense and not (sps.issparse(matrix) and matrix.format in ("csr", "csc")):
        return None
    if dtype.kind != "c" or matrix.dtype.kind == "c":
        return product_of(matrix, dtype)
    real = np.empty(0, dtype).real.dtype
    of_parts = product_of(matrix, real)
    return lambda X, out: of_parts(X.view(real), out.view(real))


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

    __slots__ = ("_after", "_product", "bind", "is_fused", "run")

    run: Run
    """The sweep alone."""
    is_fused: bool
    """True if fast calls may compute the product and the sweep."""

    def __init__(self, product: Product, steps: Sequence[Step]) -> None:
        sweep = Sweep(steps)
        self._product, self.run, self.bind = product, sweep.run, sweep.bind
        self._after = sweep.after
        self.is_fused = isinstance(product, MatrixProduct) and self._after is not None

    def fast_call(self, x: Vector, out: Vector) -> tuple[Any, ...] | None:
        """Return the function that may compute out = A x without Python, and its arguments; None if there is none."""
        return fast_call_of(self._product.matrix, x, out) if self.is_fused else None  # type: ignore[attr-defined]

    def __call__(self, x: Vector, out: Vector, *coefficients: complex) -> tuple[Any, ...]:
        """Write A x to out, and execute the steps with these coefficients; return the dot products."""
        call = self.fast_call(x, out)
        if call is not None:
            found = self._after(*call, *coefficients)  # type: ignore[misc]  # an extension
            if found is not None:
                return found
        self._product(x, out)
        return self.run(*coefficients)
