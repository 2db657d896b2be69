"""Catalogue of spellings: each makes a call from a matrix of either library and shared dense operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

Call = Callable[[], Any]
WIDTH: Final = 16
"""Number of columns of dense operands, unless the spelling's name says another number."""
NOT_SLOWER: Final = 0.97
TWICE: Final = 2.0
FROM_ENTRIES: Final = 100_000
"""Number of stored entries from which transposed products and Fortran-ordered operands have the goal `TWICE`."""
SIZES: Final = {300: (60, 60), 10_000: (2_000, 2_000), 400_000: (60_000, 60_000)}
"""Shape of the matrices by number of stored entries."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Dense operands of an m x n matrix; both libraries read the same ones."""

    m: int
    n: int

    def vector(self, size: int, dtype: str = "float64") -> Any:
        """Return a vector of `size` numbers."""
        return np.random.default_rng(size).integers(1, 9, size).astype(dtype)

    def dense(self, rows: int, columns: int = WIDTH, dtype: str = "float64") -> Any:
        """Return an array (rows, columns) in C order."""
        return np.random.default_rng(rows).integers(1, 9, (rows, columns)).astype(dtype)


Prepare = Callable[[Any, Operands], Call]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """One line of the table.

    `wanted` is the required speed relative to SciPy from FROM_ENTRIES entries on; below it is NOT_SLOWER.
    """

    name: str
    prepare: Prepare  # takes a csr_array or csr_matrix of either library and dense operands
    wanted: float = NOT_SLOWER
    dtype: str = "float64"
    is_matrix: bool = False  # csr_matrix instead of csr_array
    shape: tuple[int, int] | None = None  # shape of the largest matrix, instead of that in SIZES

    def goal(self, entries: int) -> float:
        """Return the required speed relative to SciPy for a matrix with `entries` entries."""
        return self.wanted if entries >= FROM_ENTRIES else NOT_SLOWER


def _of_x(run: Callable[[Any, Any], Any], dtype: str = "float64") -> Prepare:
    """Return a call of `run` with A and a vector (n,)."""
    return lambda A, of: _bound(run, A, of.vector(of.n, dtype))


def _of_y(run: Callable[[Any, Any], Any], dtype: str = "float64") -> Prepare:
    """Return a call of `run` with A and a vector (m,)."""
    return lambda A, of: _bound(run, A, of.vector(of.m, dtype))


def _of_X(run: Callable[[Any, Any], Any], dtype: str = "float64", columns: int = WIDTH, order: str = "C") -> Prepare:
    """Return a call of `run` with A and an array (n, columns)."""
    return lambda A, of: _bound(run, A, np.asarray(of.dense(of.n, columns, dtype), order=order))


def _of_Y(run: Callable[[Any, Any], Any], dtype: str = "float64", columns: int = WIDTH, order: str = "C") -> Prepare:
    """Return a call of `run` with A and an array (m, columns)."""
    return lambda A, of: _bound(run, A, np.asarray(of.dense(of.m, columns, dtype), order=order))


def _bound(run: Callable[[Any, Any], Any], A: Any, other: Any) -> Call:
    return lambda: run(A, other)


def _unary(run: Callable[[Any], Any]) -> Prepare:
    return lambda A, of: lambda: run(A)


def _first(first: Callable[[Any], Any], then: Prepare) -> Prepare:
    """Return `then` for the matrix `first(A)`, which is made once."""
    return lambda A, of: then(first(A), of)


def _times(A: Any, B: Any) -> Any:
    return A @ B


def _strided(A: Any, of: Operands) -> Call:
    x = np.repeat(of.vector(of.n), 2)[::2]
    return lambda: A @ x


def _backwards(A: Any, of: Operands) -> Call:
    x = of.vector(of.n)[::-1]
    return lambda: A @ x


def _window(A: Any, of: Operands) -> Call:
    X = np.hstack([of.dense(of.n), of.dense(of.n)])[:, :WIDTH]
    return lambda: A @ X


def _column(A: Any, of: Operands) -> Call:
    x = of.dense(of.n)[:, 3]
    return lambda: A @ x


def _linear(method: str, of_rows: bool) -> Prepare:
    def prepare(A: Any, of: Operands) -> Call:
        call, x = getattr(scipy.sparse.linalg.aslinearoperator(A), method), of.vector(of.m if of_rows else of.n)
        return lambda: call(x)

    return prepare


def _linear_blocks(A: Any, of: Operands) -> Call:
    call, X = scipy.sparse.linalg.aslinearoperator(A).matmat, of.dense(of.n)
    return lambda: call(X)


def _normal(A: Any, of: Operands) -> Call:
    x = of.vector(of.n)
    return lambda: A.T @ (A @ x)


PRODUCTS: Final = (
    Spelling(name="A @ x", prepare=_of_x(_times)),
    Spelling(name="A.dot(x)", prepare=_of_x(lambda A, x: A.dot(x))),
    Spelling(name="A * x of a csr_matrix", prepare=_of_x(operator.mul), is_matrix=True),
    Spelling(name="A @ x of float32", prepare=_of_x(_times, "float32"), dtype="float32"),
    Spelling(name="float64 @ float32", prepare=_of_x(_times, "float32")),
    Spelling(name="float32 @ float64", prepare=_of_x(_times), dtype="float32"),
    Spelling(name="int64 @ float64", prepare=_of_x(_times), dtype="int64"),
    Spelling(name="int64 @ float64, 32 columns", prepare=_of_X(_times, columns=32), dtype="int64"),
    Spelling(name="A @ x of complex128", prepare=_of_x(_times, "complex128"), dtype="complex128"),
    Spelling(name="A @ a strided x", prepare=_strided),
    Spelling(name="A @ x[::-1]", prepare=_backwards),
    Spelling(name="A @ a column of X", prepare=_column),
    Spelling(name="A @ X", prepare=_of_X(_times)),
    Spelling(name="A @ X, 1 column", prepare=_of_X(_times, columns=1)),
    Spelling(name="A @ X, 3 columns", prepare=_of_X(_times, columns=3)),
    Spelling(name="A @ X of float32", prepare=_of_X(_times, "float32"), dtype="float32"),
    Spelling(name="A @ a window of X", prepare=_window),
    Spelling(name="A @ X in Fortran order", prepare=_of_X(_times, order="F"), wanted=TWICE),
    Spelling(name="A @ X of float32 in Fortran order", prepare=_of_X(_times, "float32", order="F"), dtype="float32",
             wanted=TWICE),
    Spelling(name="matvec of a LinearOperator", prepare=_linear("matvec", False)),
    Spelling(name="matmat of a LinearOperator", prepare=_linear_blocks),
    Spelling(name="A @ A", prepare=_unary(lambda A: A @ A)),
    Spelling(name="A[::2] @ x", prepare=_of_x(lambda A, x: A[::2] @ x)),
    Spelling(name="A[:100] @ x", prepare=_of_x(lambda A, x: A[:100] @ x)),
    Spelling(name="(A + A) @ x", prepare=_of_x(lambda A, x: (A + A) @ x)),
)  # fmt: skip
TRANSPOSED: Final = (
    Spelling(name="A.T @ y", prepare=_of_y(lambda A, y: A.T @ y), wanted=TWICE),
    Spelling(name="y @ A", prepare=_of_y(lambda A, y: y @ A), wanted=TWICE),
    Spelling(name="A.T.dot(y)", prepare=_of_y(lambda A, y: A.T.dot(y)), wanted=TWICE),
    Spelling(name="A.T @ y of float32", prepare=_of_y(lambda A, y: A.T @ y, "float32"), dtype="float32", wanted=TWICE),
    Spelling(name="A.T @ y of a csr_matrix", prepare=_of_y(lambda A, y: A.T @ y), is_matrix=True, wanted=TWICE),
    Spelling(name="A.H @ y of a csr_matrix", prepare=_of_y(lambda A, y: A.getH() @ y), is_matrix=True),
    Spelling(name="csc @ x", prepare=_first(lambda A: A.tocsc(), _of_x(_times)), wanted=TWICE),
    Spelling(name="csc @ X", prepare=_first(lambda A: A.tocsc(), _of_X(_times)), wanted=TWICE),
    Spelling(name="csc.T @ y", prepare=_first(lambda A: A.tocsc(), _of_y(lambda A, y: A.T @ y)), wanted=TWICE),
    Spelling(name="A.T @ Y", prepare=_of_Y(lambda A, Y: A.T @ Y), wanted=TWICE),
    Spelling(name="A.T @ Y in Fortran order", prepare=_of_Y(lambda A, Y: A.T @ Y, order="F"), wanted=TWICE),
    Spelling(name="Y.T @ A", prepare=_of_Y(lambda A, Y: Y.T @ A), wanted=TWICE),
    Spelling(name="Y.T @ A, Y in Fortran order", prepare=_of_Y(lambda A, Y: Y.T @ A, order="F"), wanted=TWICE),
    Spelling(name="A.T @ (A @ x)", prepare=_normal, wanted=TWICE),
    Spelling(name="rmatvec of a LinearOperator", prepare=_linear("rmatvec", True), wanted=TWICE),
    Spelling(name="A.T @ y, one column", prepare=_of_y(lambda A, y: A.T @ y), shape=(2_000_000, 1)),
    Spelling(name="A.tocsc() @ x, three columns", prepare=_of_x(lambda A, x: A.tocsc() @ x), shape=(400_000, 3)),
)
AROUND: Final = (
    Spelling(name="A.tocsc()", prepare=_unary(lambda A: A.tocsc())),
    Spelling(name="A.tocoo()", prepare=_unary(lambda A: A.tocoo())),
    Spelling(name="A.toarray()", prepare=_first(lambda A: A[:200], _unary(lambda A: A.toarray()))),
    Spelling(name="A.copy()", prepare=_unary(lambda A: A.copy())),
    Spelling(name="A.astype(float32)", prepare=_unary(lambda A: A.astype("float32"))),
    Spelling(name="A + A", prepare=_unary(lambda A: A + A)),
    Spelling(name="A * 2", prepare=_unary(lambda A: A * 2)),
    Spelling(name="A.multiply(A)", prepare=_unary(lambda A: A.multiply(A))),
    Spelling(name="A != 0", prepare=_unary(lambda A: operator.ne(A, 0))),
    Spelling(name="abs(A)", prepare=_unary(abs)),
    Spelling(name="A.sum()", prepare=_unary(lambda A: A.sum())),
    Spelling(name="A.sum(axis=0)", prepare=_unary(lambda A: A.sum(axis=0))),
    Spelling(name="A.sum(axis=1)", prepare=_unary(lambda A: A.sum(axis=1))),
    Spelling(name="A[10:50]", prepare=_unary(lambda A: A[10:50])),
    Spelling(name="A[:, :9]", prepare=_unary(lambda A: A[:, :9])),
    Spelling(name="A.diagonal()", prepare=_unary(lambda A: A.diagonal())),
)
SPELLINGS: Final = {spelling.name: spelling for spelling in (*PRODUCTS, *TRANSPOSED, *AROUND)}


def matrix(spelling: Spelling, entries: int) -> Any:
    """Return SciPy's matrix of the spelling: entries at random places, rows of varying lengths."""
    shape = SIZES[entries]
    if spelling.shape is not None:
        scale = max(SIZES) / entries
        shape = (max(1, round(spelling.shape[0] / scale)), spelling.shape[1])
    rng = np.random.default_rng(entries)
    places = tuple(rng.integers(0, extent, entries, dtype=np.int32) for extent in shape)
    values = rng.integers(1, 9, entries).astype(spelling.dtype)
    made = scipy.sparse.coo_array((values, places), shape=shape)
    return scipy.sparse.csr_matrix(made) if spelling.is_matrix else scipy.sparse.csr_array(made)
