"""Convert matrices, operators and preconditioners to functions product(x, out), as the solvers call them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse.linalg import aslinearoperator

from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.arrays.functions import matmul
from autosparse.linalg.solves.tracing import PRECONDITIONER, PRODUCTS, timed

Vector = NDArray[Any]
Product = Callable[[Vector, Vector], object]
"""Function (x, out) that writes the product with x to out, which has the dtype of x and overlaps no operand."""


class MatrixProduct:
    """Product with an autosparse array of the dtype of the vectors."""

    __slots__ = ("matrix",)

    def __init__(self, matrix: AutoSparseMatrix) -> None:
        self.matrix = matrix

    def __call__(self, x: Vector, out: Vector) -> None:
        """Write the product with x to out."""
        matmul(self.matrix, x, out=out)


@functools.cache
def _matrix_operator() -> type:
    """Return the class of operators that `aslinearoperator` makes from a matrix; they store the matrix as `A`."""
    return type(aslinearoperator(np.zeros((1, 1))))


def matrix_of(A: Any) -> Any:  # Any: as `product_of`
    """Return the matrix of an operator that `aslinearoperator` made from a matrix; return anything else unchanged."""
    return getattr(A, "A", A) if isinstance(A, _matrix_operator()) else A


@timed(PRODUCTS)
def product_of(A: Any, dtype: np.dtype[Any]) -> Product:  # Any: whatever `aslinearoperator` takes
    """Return a function that writes A x to out, for vectors x of `dtype`.

    autosparse arrays and SciPy's compressed arrays use the kernels of `autosparse.matmul`. If the dtypes differ, they
    multiply by a converted copy, which an autosparse array keeps. Operators are called as SciPy calls them, and their
    results are copied. TypeError is raised as by `aslinearoperator`, and if a result is complex but `dtype` is not.
    """
    matrix = matrix_of(A)
    if isinstance(matrix, AutoSparseMatrix):
        return _product_of_ours(matrix, dtype)
    if sps.issparse(matrix) and matrix.format in ("csr", "csc"):
        return _product_of_ours(construct.wrapped(matrix), dtype)
    if type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype == dtype:
        return functools.partial(_dense_product, matrix)
    return copied(aslinearoperator(A).matvec)


@timed(PRODUCTS)
def adjoint_of(A: Any, dtype: np.dtype[Any]) -> Product:  # Any: as `product_of`
    """Return a function that writes A^H x to out, for vectors x of `dtype`; see `product_of`."""
    matrix = matrix_of(A)
    if sps.issparse(matrix) and matrix.format in ("csr", "csc"):
        if isinstance(matrix, AutoSparseMatrix) and matrix.dtype == dtype:
            if dtype.kind == "c":
                from autosparse.linalg.solves.conversions import converted

                matrix = converted(matrix, dtype, is_conjugated=True)
            return product_of(matrix.T, dtype)
        transposed = matrix.T
        return product_of(transposed.conj() if matrix.dtype.kind == "c" else transposed, dtype)
    if type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype == dtype:
        return functools.partial(_dense_product, matrix.conj().T)
    return copied(aslinearoperator(A).rmatvec)


def copied(matvec: Callable[[Vector], Vector]) -> Product:
    """Return a function of (x, out) that writes ``matvec(x)`` to `out`."""

    def product(x: Vector, out: Vector) -> None:
        np.copyto(out, matvec(x), casting="same_kind")

    return product


def _dense_product(matrix: Vector, x: Vector, out: Vector) -> None:
    np.matmul(matrix, x, out=out)


def _product_of_ours(A: Any, dtype: np.dtype[Any]) -> Product:  # Any: a matrix of ours, whose SciPy base has no types
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
    return MatrixProduct(A)


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
