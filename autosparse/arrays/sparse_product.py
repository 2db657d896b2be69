"""Product of two sparse operands by the multithreaded SpGEMM kernel, in SciPy's classes; SciPy computes the rest."""

from __future__ import annotations

import functools
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy.sparse._sputils import upcast

from autosparse._native import runtime_api
from autosparse._native.kernels import spgemm
from autosparse._native.kernels.spgemm import CompressedRows
from autosparse.config import Effort, get_options
from autosparse.dispatch import number
from autosparse.operands.csr import INDICES, Operand
from autosparse.operands.native_rows import check_bounds, stored_codes
from autosparse.ops import names
from autosparse.scalar import PRODUCT_CODES

if TYPE_CHECKING:
    from autosparse.core.problem import Problem

LONG_S: Final = number("first look", "long sparse product s")
"""Minimum seconds of a product after which solvers of other packages are loaded; the look takes milliseconds."""
_long: Final[list[bool]] = []  # holds an element once a product took so long


def multiply(left: Any, right: Any) -> Any:  # Any: an autosparse csr or csc object, and any SciPy sparse object
    """Return ``left @ right`` in left's class, or None when SciPy should compute it (1-D, other dtypes, no runtime).

    Entries, their order and their sums equal SciPy's to the last bit. Raises MemoryError without memory for the
    product.
    """
    found = _operands(left, right)
    if found is None:
        return None
    operands, n_cols = found
    return _multiplied(left, operands, (left._shape[0], right.shape[1]), n_cols=n_cols)


def problem(left: Any, right: Any) -> Problem | None:
    """Return the problem ``left @ right``, or None when SciPy computes the product."""
    found = _operands(left, right)
    if found is None:
        return None
    from autosparse.arrays.planning.sparse_products import problem_of

    return problem_of(*found[0], n_cols=found[1], options=get_options())


def _operands(left: Any, right: Any) -> tuple[tuple[CompressedRows, CompressedRows], int] | None:
    """Return the operands as rows of common dtypes and the number of columns of their product; None for SciPy."""
    if not runtime_api.is_there() or len(left._shape) != 2 or right.ndim != 2:
        return None
    other = right if type(right) is type(left) else _converted(right, left)
    if other is None:
        return None
    first, second = (other, left) if left._transposed else (left, other)  # (A B)ᵀ = Bᵀ Aᵀ, and csc is the transpose
    operands = _common_rows(first._cell, second._cell)
    return None if operands is None else (operands, second._cell.n_minor)


def multiply_rows(cls: type, left: Any, right: Any) -> Any:
    """Return ``left @ right`` in class `cls` for two csr objects, of SciPy or autosparse, whose shapes fit; else None.

    Unlike `multiply`, it makes no autosparse object of the operands. Index arrays of SciPy objects are checked in every
    call (StructureError), those of autosparse objects only where another object may hold them.
    """
    if not runtime_api.is_there():
        return None
    first = _plain_rows(left)
    second = first if right is left else _plain_rows(right)
    if first is None or second is None or any(a.dtype != b.dtype for a, b in zip(first, second, strict=True)):
        return None
    return _multiplied(cls, (first, second), (left.shape[0], right.shape[1]), n_cols=right.shape[1])


def _plain_rows(A: Any) -> CompressedRows | None:
    """Return the arrays of a matrix by rows if a kernel takes them without conversion; else None."""
    if hasattr(A, "_cell"):
        known, arrays = A._cell.checked_arrays()
        return None if known.dtype is None else CompressedRows(*arrays)
    rows = CompressedRows(A.indptr, A.indices, A.data)
    codes = stored_codes(*rows)
    if codes is None or codes[0] not in runtime_api.DTYPE_CODES.values():
        return None
    if rows.data.size < rows.indices.size or runtime_api.check_structure(A.shape, rows.indptr, rows.indices):
        check_bounds(*rows, A.shape, checked=False)  # raises the error that says what is wrong
    return rows


def _multiplied(
    made: Any, operands: tuple[CompressedRows, CompressedRows], shape: tuple[int, int], *, n_cols: int
) -> Any:
    """Return the product in the class of `made` (object or class); None without entries: SciPy sets dtypes then."""
    rows = _product(*operands, n_cols=n_cols)
    return made._of_rows(shape, rows) if rows.indices.size else None


def _product(A: CompressedRows, B: CompressedRows, *, n_cols: int) -> CompressedRows:
    """Return the rows of A @ B, by the default solver unless registered solvers compete."""
    options, has_solvers = get_options(), getattr(sys.modules.get("autosparse.ops.registry"), "has_solvers", None)
    may_tune = options.effort is not Effort.OFF and not options.deterministic
    is_floating = A.data.dtype.name in runtime_api.DTYPE_CODES  # solvers of other packages get no integers
    if may_tune and is_floating and has_solvers is not None and has_solvers(names.SPGEMM):
        from autosparse.arrays.planning.sparse_products import multiply as by_plan

        return by_plan(A, B, n_cols=n_cols, options=options)
    start_s = time.perf_counter()
    rows = spgemm.multiply(A, B, n_cols=n_cols, threads=options.threads or 0)
    if may_tune and time.perf_counter() - start_s > LONG_S and not _long:
        _long.append(True)
        from autosparse.ops.registry import load_solvers  # of other packages, for later products

        load_solvers()
    return rows


@functools.cache
def _is_ours(left: np.dtype[Any], right: np.dtype[Any]) -> bool:
    """Return whether the dtype of a product of these dtypes has a kernel."""
    dtype = np.dtype(upcast(left, right))
    return dtype.name in PRODUCT_CODES and dtype.isnative


def _converted(right: Any, left: Any) -> Any:
    """Return `right` in left's format and one of our classes; None when the dtype of the product has no kernel."""
    if not _is_ours(left.dtype, right.dtype):
        return None
    if {left.format, right.format} == {"csr", "csc"}:
        if not hasattr(type(right), "_cell"):
            right = left._twin(right)  # the same arrays, in a class that converts faster
        return right.tocsc() if left._transposed else right.tocsr()  # SciPy's constructor would take 20 us longer
    if right.format == "dia" and _is_full_diagonal(right):
        return _of_diagonal(right, left)
    rows = right.asformat(left.format)
    made = None if hasattr(type(rows), "_cell") else left._over(rows)  # SciPy's constructor checks the arrays again
    return left.__class__(rows) if made is None else made


def _is_full_diagonal(D: Any) -> bool:
    """Return whether D is square and stores only its main diagonal, without zeros, which SciPy would drop."""
    n, n_cols = D.shape
    is_one = D.offsets.size == 1 and D.offsets[0] == 0 and D.data.shape == (1, n)
    return bool(is_one and n == n_cols and np.count_nonzero(D.data) == n)


def _of_diagonal(D: Any, left: Any) -> Any:
    """Return a full diagonal in left's class, with its index type; the values may share memory with D."""
    starts = np.arange(D.shape[0] + 1, dtype=left._cell.peek(INDICES).dtype)
    return left._of_rows(D.shape, (starts, starts[:-1].copy(), np.ascontiguousarray(D.data[0])))


def _common_rows(*cells: Operand) -> tuple[CompressedRows, CompressedRows] | None:
    """Return both operands as rows of one value and one index dtype; None if a dtype has no kernel."""
    (first, left_arrays), (second, right_arrays) = (cell.checked_arrays() for cell in cells)
    if min(first.dtype_code, second.dtype_code) < 0:
        return None
    left, right = CompressedRows(*left_arrays), CompressedRows(*right_arrays)
    if (first.dtype_code, first.index_code) == (second.dtype_code, second.index_code):
        return left, right
    dtype = np.dtype(upcast(left.data.dtype, right.data.dtype))
    index_dtype = np.result_type(left.indices, right.indices)
    return left.astype(dtype, index_dtype), right.astype(dtype, index_dtype)
