"""Operations that `benchmarks/small.py` times on a small matrix, with SciPy's class and with autosparse's."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Inputs of an operation."""

    library: Any  # the module: scipy.sparse or autosparse
    m: Any  # the matrix as SciPy's csr_array, which owns its arrays
    A: Any  # the matrix in the library's class
    n: int  # rows and columns
    dtype: str


Run = Callable[[], Any]
TWO_BY_TWO: Final = np.eye(2)


def _is_ours(s: Setting) -> bool:
    return bool(s.library.__name__ == "autosparse")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One line of the table."""

    name: str
    prepare: Callable[[Setting], Run]
    has_state: bool = True  # whether an earlier product of A can change the time
    format: str = "csr"
    has_bound: bool = False  # must not exceed SciPy's time; other operations may, slightly


def _unary(name: str, run: Callable[[Any], Any], format: str = "csr") -> Operation:
    return Operation(name=name, prepare=lambda s: lambda: run(s.A), format=format)


def _product(
    name: str,
    run: Callable[[Any, Any], Any],
    *,
    columns: int = 0,
    dtype: str = "",
    repeated: int = 1,
    order: Literal["C", "F"] = "C",
) -> Operation:
    """Return the operation `run(A, dense operand)`.

    The operand has `columns` columns, or is a vector `repeated` times as long as A has rows.
    """

    def prepare(s: Setting) -> Run:
        rows = s.n * repeated
        x = np.ones((rows, columns) if columns else rows, dtype or s.dtype, order)
        return lambda: run(s.A, x)

    return Operation(name=name, prepare=prepare, has_state=False)


def _made(name: str, prepare: Callable[[Setting], Run], format: str = "csr") -> Operation:
    return Operation(name=name, prepare=prepare, has_state=False, format=format)


def _parts(s: Setting) -> tuple[Any, Any, Any]:
    return s.m.data, s.m.indices, s.m.indptr


def _from_parts(s: Setting) -> Run:
    parts, shape, make = _parts(s), s.m.shape, s.library.csr_array
    return lambda: make(parts, shape=shape)


def _from_parts_and_product(s: Setting) -> Run:
    parts, shape, make, x = _parts(s), s.m.shape, s.library.csr_array, np.ones(s.n, s.dtype)
    return lambda: make(parts, shape=shape) @ x


def _construct(argument: Callable[[Setting], Any], name: str = "csr_array") -> Callable[[Setting], Run]:
    def prepare(s: Setting) -> Run:
        given, make = argument(s), getattr(s.library, name)
        return lambda: make(given)

    return prepare


def _wrapped(s: Setting) -> Run:
    """Prepare `asp.csr(m)`, which owns its arrays, against `csr_array(m, copy=True)`."""
    m, library = s.m, s.library
    return (lambda: library.csr(m)) if _is_ours(s) else lambda: library.csr_array(m, copy=True)


def _products(n_products: int) -> Operation:
    """Return the operation `A = asp.csr(m)` followed by `n_products` products `A @ x`, with `m` alive.

    SciPy multiplies with `m`. It also copies `m` if the products are too few to pay for a copy.
    """
    copies = n_products < 3

    def prepare(s: Setting) -> Run:
        m, x, make = s.m, np.ones(s.n, s.dtype), s.library.csr if _is_ours(s) else None

        def run() -> None:
            A = m.copy() if make is None and copies else m if make is None else make(m)
            for _ in range(n_products):
                A @ x

        return run

    name = f"A = csr(m); A @ x, {n_products} times, beside m @ x{' and m.copy()' if copies else ''}"
    return Operation(name=name, prepare=prepare, has_state=False, has_bound=True)


def _loop(step: Callable[[Any, int], Any], times: int = 100) -> Callable[[Any], Any]:
    """Return a function that calls `step(A, i)` for `times` rows, cycling through the rows of A."""

    def run(A: Any) -> None:
        n = A.shape[0]
        for i in range(times):
            step(A, i % n)

    return run


def _set_item(s: Setting) -> Run:
    A = s.A

    def run() -> None:
        A[1, 1] = 7

    return run


def _assign_data(s: Setting) -> Run:
    A, data = s.A, s.A.data.copy()

    def run() -> None:
        A.data = data

    return run


def _written_and_multiplied(s: Setting) -> Run:
    A, x = s.A, np.ones(s.n, s.dtype)

    def run() -> Any:
        A.data[0] = 5
        return A @ x

    return run


def _fresh_pair(run: Callable[[Any, Any], Any]) -> Callable[[Setting], Run]:
    def prepare(s: Setting) -> Run:
        A, other = s.A, s.library.csr_array(s.m.copy())
        return lambda: run(A, other)

    return prepare


def _inplace(s: Setting) -> Run:
    A = s.A

    def run() -> None:
        A.data[:] = 1
        A.__imul__(1)

    return run


def _with(operands: Callable[[Setting], tuple[Any, Any]], run: Callable[[Any, Any], Any]) -> Callable[[Setting], Run]:
    def prepare(s: Setting) -> Run:
        A, other = operands(s)
        return lambda: run(A, other)

    return prepare


def _tall(rows: int, columns: int, run: Callable[[Any, Any], Any]) -> Callable[[Setting], Run]:
    """Prepare `run(A, y)` for a full matrix A of `rows` n x `columns` and a vector y of an entry for each row."""

    def prepare(s: Setting) -> Run:
        A = s.library.csr_array(np.ones((rows * s.n, columns), s.dtype))
        y = np.ones(rows * s.n, s.dtype)
        return lambda: run(A, y)

    return prepare


def _csr_of(s: Setting) -> Any:
    return s.m


OPERATIONS: Final = (
    _made("csr_array((data, indices, indptr))", _from_parts),
    _made("csr_array((data, indices, indptr)) @ x", _from_parts_and_product),
    _made("csr_array(m)", _construct(_csr_of)),
    _made("csr(m)", _wrapped),
    *map(_products, (1, 2, 3, 10)),
    _made("csr_array(m, copy=True)", lambda s: lambda: s.library.csr_array(s.m, copy=True)),
    _made("csr_array(dense)", _construct(lambda s: s.m.toarray())),
    _made("csr_array(coo)", _construct(lambda s: s.m.tocoo())),
    _made("csr_array((data, (i, j)))", _construct(lambda s: (s.m.data, s.m.tocoo().coords))),
    _made("csr_array((n, n))", _construct(lambda s: (s.n, s.n))),
    _made("csc_array(m)", _construct(_csr_of, "csc_array")),
    _made("csr_matrix(m)", _construct(_csr_of, "csr_matrix")),
    _product("A @ x", lambda A, x: A @ x),
    _product("A.dot(x)", lambda A, x: A.dot(x)),
    _product("x @ A", lambda A, x: x @ A),
    _product("A.T @ x", lambda A, x: A.T @ x),
    _made("A.T @ y, 2000 n x 1", _tall(2000, 1, lambda A, y: A.T @ y)),
    _made("A.tocsc() @ x, 400 n x 3", _tall(400, 3, lambda A, y: A.tocsc() @ y[:3])),
    _product("A @ B, 4 columns", lambda A, x: A @ x, columns=4),
    _product("A.T @ B, 4 columns", lambda A, x: A.T @ x, columns=4),
    _product("B.T @ A, 4 columns", lambda A, x: x.T @ A, columns=4),
    _product("A @ x of float64", lambda A, x: A @ x, dtype="float64"),
    _product("A @ x of float32", lambda A, x: A @ x, dtype="float32"),
    _product("A @ x of int64", lambda A, x: A @ x, dtype="int64"),
    _product("A @ x of bool", lambda A, x: A @ x, dtype="bool"),
    _product("A @ x of complex128", lambda A, x: A @ x, dtype="complex128"),
    _product("A @ B of bool, 4 columns", lambda A, x: A @ x, columns=4, dtype="bool"),
    _product("A @ a strided x", lambda A, x: A @ x[::2], repeated=2),
    _product("A @ a window of B, 4 of 8 columns", lambda A, x: A @ x[:, :4], columns=8),
    _product("A @ B in Fortran order, 4 columns", lambda A, x: A @ x, columns=4, order="F"),
    _product("A @ B of float64, 32 columns", lambda A, x: A @ x, columns=32, dtype="float64"),
    _product("A[::2] @ x", lambda A, x: A[::2] @ x),
    _product("A.tocsc() @ x", lambda A, x: A.tocsc() @ x),
    _unary("A != 0", lambda A: operator.ne(A, 0)),
    _made("A @ A", _fresh_pair(lambda A, other: A @ other)),
    _made("A.T @ A", _fresh_pair(lambda A, other: A.T @ other)),
    _made("A of bool @ x", _with(lambda s: (s.A.astype(bool), np.ones(s.n, s.dtype)), operator.matmul)),
    _made("A.data[0] = 5; A @ x", _written_and_multiplied),
    _unary("A.T", lambda A: A.T),
    _unary("A.T.T", lambda A: A.T.T),
    _unary("A.tocsc()", lambda A: A.tocsc()),
    _unary("A.tocsr(), from csc", lambda A: A.tocsr(), format="csc"),
    _unary("A.tocsr(copy=True)", lambda A: A.tocsr(copy=True)),
    _unary("A.tocoo()", lambda A: A.tocoo()),
    _unary("A.todia()", lambda A: A.todia()),
    _unary("A.tolil()", lambda A: A.tolil()),
    _unary("A.toarray()", lambda A: A.toarray()),
    _unary("A.copy()", lambda A: A.copy()),
    _unary("copy.copy(A)", copy.copy),
    _unary("copy.deepcopy(A)", copy.deepcopy),
    _unary("pickle", lambda A: pickle.loads(pickle.dumps(A, 5))),  # noqa: S301 (our own)
    _unary("A.astype(float32)", lambda A: A.astype("float32")),
    _unary("A.astype(own dtype)", lambda A: A.astype(A.dtype)),
    _unary("abs(A)", abs),
    _unary("-A", lambda A: -A),
    _unary("A.sqrt()", lambda A: A.sqrt()),
    _unary("A.power(2)", lambda A: A.power(2)),
    _unary("A ** 2", lambda A: A**2),
    _unary("A.conj()", lambda A: A.conj()),
    _unary("A.real", lambda A: A.real),
    _unary("A * 2", lambda A: A * 2),
    _unary("2 * A", lambda A: 2 * A),
    _unary("A / 2", lambda A: A / 2),
    _unary("A + A", lambda A: A + A),
    _unary("A - A", lambda A: A - A),
    _unary("A.multiply(A)", lambda A: A.multiply(A)),
    _unary("A.maximum(A)", lambda A: A.maximum(A)),
    _unary("A > 2", lambda A: A > 2),
    _unary("A != A", lambda A: operator.ne(A, A)),
    Operation(name="A + dense", prepare=_with(lambda s: (s.A, s.m.toarray()), operator.add)),
    Operation(name="A.multiply(row)", prepare=_with(lambda s: (s.A, np.ones((1, s.n))), lambda A, r: A.multiply(r))),
    Operation(name="A *= 1", prepare=_inplace),
    Operation(name="A.data = data", prepare=_assign_data),
    Operation(name="A[1, 1] = 7", prepare=_set_item),
    _unary("A[1]", lambda A: A[1]),
    _unary("A[[1]]", lambda A: A[[1]]),
    _unary("A[1:5]", lambda A: A[1:5]),
    _unary("A[:, 1:5]", lambda A: A[:, 1:5]),
    _unary("A[2:8, 1:5]", lambda A: A[2:8, 1:5]),
    _unary("A[::2]", lambda A: A[::2]),
    _unary("A[[1, 3, 5]]", lambda A: A[[1, 3, 5]]),
    _unary("A[:, [1, 3, 5]]", lambda A: A[:, [1, 3, 5]]),
    _unary("A[1, 1]", lambda A: A[1, 1]),
    _unary("A[1:5], from csc", lambda A: A[1:5], format="csc"),
    _unary("for row in A", lambda A: [None for _ in A]),
    _unary("A[i] in a loop", _loop(lambda A, i: A[i], 10)),
    _unary("A.data[i] in a loop", _loop(lambda A, i: A.data[i])),
    _unary("A.indptr[i] in a loop", _loop(lambda A, i: A.indptr[i])),
    _unary(
        "A.indices[A.indptr[i]:A.indptr[i + 1]] in a loop", _loop(lambda A, i: A.indices[A.indptr[i] : A.indptr[i + 1]])
    ),
    _unary("A.data", lambda A: A.data),
    _unary("A.nnz", lambda A: A.nnz),
    _unary("A.shape", lambda A: A.shape),
    _unary("A.dtype", lambda A: A.dtype),
    _unary("A.ndim", lambda A: A.ndim),
    _unary("A.size", lambda A: A.size),
    _unary("A.sum()", lambda A: A.sum()),
    _unary("A.sum(axis=0)", lambda A: A.sum(axis=0)),
    _unary("A.sum(axis=1)", lambda A: A.sum(axis=1)),
    _unary("A.mean(axis=1)", lambda A: A.mean(axis=1)),
    _unary("A.max()", lambda A: A.max()),
    _unary("A.max(axis=0)", lambda A: A.max(axis=0)),
    _unary("A.argmax(axis=0)", lambda A: A.argmax(axis=0)),
    _unary("A.diagonal()", lambda A: A.diagonal()),
    _unary("A.trace()", lambda A: A.trace()),
    _unary("A.count_nonzero()", lambda A: A.count_nonzero()),
    _unary("A.nonzero()", lambda A: A.nonzero()),
    _unary("A.getnnz(axis=1)", lambda A: A._getnnz(axis=1)),
    _unary("A.has_sorted_indices", lambda A: A.has_sorted_indices),
    _unary("A.sort_indices()", lambda A: A.sort_indices()),
    _unary("A.sum_duplicates()", lambda A: A.sum_duplicates()),
    _unary("A.eliminate_zeros()", lambda A: A.eliminate_zeros()),
    _unary("A.check_format()", lambda A: A.check_format()),
    _unary("A.reshape(1, -1)", lambda A: A.reshape(1, -1)),
    _unary("repr(A)", repr),
    _made("vstack([A, A])", lambda s: lambda: s.library.vstack([s.A, s.A], format="csr")),
    _made("hstack([A, A])", lambda s: lambda: s.library.hstack([s.A, s.A], format="csr")),
    _made("block_diag([A, A])", lambda s: lambda: s.library.block_diag([s.A, s.A], format="csr")),
    _made("kron(A, 2 x 2)", lambda s: lambda: s.library.kron(s.A, TWO_BY_TWO, format="csr")),
    _made("tril(A)", lambda s: lambda: s.library.tril(s.A, format="csr")),
    _made("find(A)", lambda s: lambda: s.library.find(s.A)),
)
