"""Operand adapter of sparse-dense products, also transposed ones: kernels read a packed copy of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import MatmulCall
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import magnitudes
from autosparse.tuning.memory.agreement import row_magnitudes
from autosparse.tuning.trials.operand_adapter import (
    MAX_ENTRY,
    OperandAdapter,
    Trustworthy,
    dense,
    placed,
    result,
    rows_of,
)

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.operand_adapter import Storage


def packed_bytes(problem: Problem, fmt: Storage) -> int:
    """Return the number of bytes of a packed copy."""
    pattern, item, transposed = problem.matrix, np.dtype(problem.dtype).itemsize, problem.transposed
    if isinstance(fmt, Format):
        return _native.packed_bytes(pattern, fmt, item, transposed=transposed)
    return _native.composite_bytes(pattern, fmt, item, transposed=transposed)


def reason_unfit(problem: Problem, fmt: Storage) -> str | None:
    """Return why the matrix cannot or should not be packed in this format, or None."""
    reason = _native.reason_unfit if isinstance(fmt, Format) else _native.composite_reason_unfit
    return reason(problem.matrix, fmt, transposed=problem.transposed)  # type: ignore[arg-type]  # each its own kind


def pack(problem: Problem, operand: AnyOperand, fmt: Storage) -> Any:  # Any: a packed operand of its own kind
    """Return a packed copy of op(A) in the format `fmt`."""
    assert isinstance(operand, Operand)
    if isinstance(fmt, Format):
        return _native.pack(problem.matrix, operand.data, fmt, transposed=problem.transposed)
    return _native.pack_composite(problem.matrix, operand.data, fmt, transposed=problem.transposed)


def _synthetic(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    """Return calls of the product on synthetic B and C, one for each of the alignment offsets."""
    n_rows, n_cols = problem.matrix.shape[:: -1 if problem.transposed else 1]
    n_vecs, address, rows = problem.n_dense_cols, runtime_api.address_of, rows_of(operand)
    tail: tuple[int, ...] = () if n_vecs == 1 else (n_vecs,)  # products with one vector use one-dimensional arrays
    arrays = zip(placed(problem, (n_cols, *tail), seed=0), placed(problem, (n_rows, *tail)), strict=True)
    return tuple(
        MatmulCall(rows, (address(B), n_vecs), (address(C), n_vecs), n_vecs, transposed=problem.transposed, kept=(B, C))
        for B, C in arrays
    )


def _trustworthy(problem: Problem, operand: AnyOperand, n_columns: int, n_threads: int) -> Trustworthy:
    assert isinstance(operand, Operand)
    rows, address = rows_of(operand), runtime_api.address_of
    n_rows, n_inner = problem.matrix.shape[:: -1 if problem.transposed else 1]
    B, C = dense(problem, 1, n_inner, n_columns), result(problem, n_rows, n_columns)
    places = (address(B), n_columns), (address(C), n_columns)
    call = MatmulCall(rows, *places, n_columns, transposed=problem.transposed, kept=(B, C))
    indices, values = operand.indices[: operand.nnz], operand.data[: operand.nnz]

    def bounds() -> tuple[NDArray[Any], NDArray[Any]]:
        largest = np.dtype(problem.dtype).type(MAX_ENTRY)
        if not problem.transposed:
            sums = row_magnitudes(operand.indptr, values).astype(problem.dtype, copy=False)
            return sums * largest, np.diff(operand.indptr)
        absolutes, ones, sums = magnitudes(values), np.ones(n_inner, problem.dtype), result(problem, n_rows)
        absolute = rows.with_values(absolutes)
        kept = ones, absolutes
        summing = MatmulCall(absolute, (address(ones), 1), (address(sums), 1), 1, transposed=True, kept=kept)
        runtime_api.raise_for(summing.by_default(n_threads, 0))
        return sums * largest, np.bincount(indices, minlength=n_rows)

    is_alike = not problem.transposed and values.dtype == C.dtype
    return Trustworthy(call, C, bounds, (operand.indptr, values) if is_alike else None)


ADAPTER: Final = OperandAdapter(
    packed_bytes=packed_bytes,
    reason_unfit=reason_unfit,
    pack=pack,
    pack_live=lambda pattern, operand, fmt: _native.pack(pattern, operand.data, fmt, transposed=False),
    keeps_values=True,
    synthetic=_synthetic,
    trustworthy=_trustworthy,
)
