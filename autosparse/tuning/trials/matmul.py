"""Operand adapter of sparse-dense products, also transposed ones: kernels read a packed copy of the values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.dtypes import WideIndex
from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import MatmulCall
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import PART_BYTES, NativeRows, magnitudes
from autosparse.tuning.memory.agreement import row_magnitudes
from autosparse.tuning.trials.operand_adapter import (
    MAX_ENTRY,
    AnyArray,
    OperandAdapter,
    Part,
    Trustworthy,
    dense,
    placed,
    result,
    rows_of,
    whole,
)

if TYPE_CHECKING:
    from autosparse.dispatch.protocols import Call
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.operand_adapter import Storage


MIN_COUNTED: Final = 1 << 16
"""Minimum number of indices that are counted at a time."""


def packed_bytes(problem: Problem, fmt: Storage, operand: AnyOperand | None) -> int:
    """Return the number of bytes of a packed copy."""
    pattern, item, transposed = problem.matrix, np.dtype(problem.dtype).itemsize, problem.transposed
    if isinstance(fmt, Format):
        turned = turned_rows(operand) if transposed and operand is not None else None
        return _native.packed_bytes(pattern, fmt, item, transposed=transposed, turned=turned)
    return _native.composite_bytes(pattern, fmt, item, transposed=transposed)


def reason_unfit(problem: Problem, fmt: Storage) -> str | None:
    """Return why the matrix cannot or should not be packed in this format, or None."""
    reason = _native.reason_unfit if isinstance(fmt, Format) else _native.composite_reason_unfit
    return reason(problem.matrix, fmt, transposed=problem.transposed)  # type: ignore[arg-type]  # each its own kind


def pack(problem: Problem, operand: AnyOperand, fmt: Storage) -> Any:  # Any: a packed operand of its own kind
    """Return a packed copy of op(A) in the format `fmt`."""
    assert isinstance(operand, Operand)
    if isinstance(fmt, Format):
        turned = turned_rows(operand) if problem.transposed else None
        return _native.pack(problem.matrix, operand.data, fmt, transposed=problem.transposed, turned=turned)
    return _native.pack_composite(problem.matrix, operand.data, fmt, transposed=problem.transposed)


def turned_rows(operand: AnyOperand) -> tuple[Any, ...] | None:
    """Return indptr, indices and data of the rows of Mᵀ, if products with Mᵀ read them now."""
    dispatcher = operand.dispatcher
    turning = None if dispatcher is None else dispatcher.turning
    return None if turning is None or not isinstance(operand, Operand) else turning.arrays(operand)


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


def _trustworthy(
    problem: Problem, operand: AnyOperand, n_columns: int, n_threads: int, lent: Call | None
) -> Trustworthy:
    assert isinstance(operand, Operand)
    n_rows, n_inner = problem.matrix.shape[:: -1 if problem.transposed else 1]
    if lent is None:
        B, C = dense(problem, 1, n_inner, n_columns), result(problem, n_rows, n_columns)
    else:
        B, C = (one.reshape(-1, n_columns) for one in lent.kept)
    call = _call(problem, rows_of(operand), B, C)
    if problem.transposed:
        turned = turned_rows(operand)
        rows = None if turned is None or turned[2].dtype != C.dtype else (turned[0], turned[2])
        return whole(call, C, rows=rows, bounds=lambda: _bounds_of_columns(problem, operand, n_threads))
    return Trustworthy(call, C, _parts(problem, operand, B))


def _call(problem: Problem, rows: NativeRows, B: AnyArray, C: AnyArray) -> MatmulCall:
    """Return the product with B, whose result C has two dimensions."""
    n_columns, address = C.shape[1], runtime_api.address_of
    places = (address(B), n_columns), (address(C), n_columns)
    return MatmulCall(rows, *places, n_columns, transposed=problem.transposed, kept=(B, C))


def _parts(problem: Problem, operand: Operand, B: AnyArray) -> Iterator[Part]:
    """Yield the default kernel's product with B in parts of `PART_BYTES`, which share one array."""
    n_rows, n_columns = problem.matrix.shape[0], B.shape[1]
    starts, values = operand.indptr, operand.data[: operand.nnz]
    largest = np.dtype(problem.dtype).type(MAX_ENTRY)
    step = max(1, min(n_rows, PART_BYTES // (n_columns * B.itemsize)))
    room = result(problem, step, n_columns)
    for first in range(0, n_rows, step):
        own, C = starts[first : first + step + 1], room[: n_rows - first]

        def bounds(own: AnyArray = own) -> tuple[AnyArray, AnyArray]:
            sums = row_magnitudes(own - own[0], values[own[0] : own[-1]]).astype(problem.dtype, copy=False)
            return sums * largest, np.diff(own)

        is_alike = values.dtype == C.dtype
        call = _call(problem, rows_of(operand).part(own), B, C)
        yield Part(call, C, bounds, (own, values) if is_alike else None, first)


def _bounds_of_columns(problem: Problem, operand: Operand, n_threads: int) -> tuple[AnyArray, AnyArray]:
    """Return the bounds of the rows of a transposed product (`Part.bounds`)."""
    indices, values = operand.indices[: operand.nnz], operand.data[: operand.nnz]
    n_inner, n_rows = problem.matrix.shape
    absolutes, ones, sums = magnitudes(values), np.ones((n_inner, 1), problem.dtype), result(problem, n_rows, 1)
    n_terms, step = np.zeros(n_rows, WideIndex), max(n_rows, MIN_COUNTED)
    for first in range(0, indices.size, step):  # NumPy widens the indices that it counts
        n_terms += np.bincount(indices[first : first + step], minlength=n_rows)
    summing = _call(problem, rows_of(operand).with_values(absolutes), ones, sums)
    runtime_api.raise_for(summing.by_default(n_threads, 0))
    return sums.reshape(-1) * np.dtype(problem.dtype).type(MAX_ENTRY), n_terms


ADAPTER: Final = OperandAdapter(
    packed_bytes=packed_bytes,
    reason_unfit=reason_unfit,
    pack=pack,
    pack_live=lambda pattern, operand, fmt: _native.pack(pattern, operand.data, fmt, transposed=False),
    keeps_values=True,
    synthetic=_synthetic,
    trustworthy=_trustworthy,
)
