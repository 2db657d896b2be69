"""Operands and arguments of registered solvers: the user's arrays, and arrays at the addresses of a call."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from autosparse._native import runtime_api
from autosparse.core.problem import Problem
from autosparse.core.solver import (
    ProductArguments,
    SampledArguments,
    SparseOperand,
    TensorArguments,
    TensorOperand,
)
from autosparse.dispatch.calls import MatmulCall, SampledCall, TensorCall
from autosparse.dispatch.protocols import Call
from autosparse.operands.unfolding import AnyOperand, Unfolding

Array = Any  # an array of NumPy, of one native dtype


def operand_of(problem: Problem, operand: AnyOperand, n_threads: int) -> SparseOperand | TensorOperand:
    """Return the operand's present arrays, read-only; raise StructureError if they are no valid structure."""
    if isinstance(operand, Unfolding):
        entries = operand.entries
        return TensorOperand(
            operation=problem.operation, coords=read_only(entries.coords), data=read_only(operand.data),
            shape=entries.shape, mode=operand.mode, n_threads=n_threads,
        )  # fmt: skip
    rows, nnz = operand.rows or operand.validate(), operand.nnz
    return SparseOperand(
        operation=problem.operation, indptr=read_only(operand.indptr), indices=read_only(operand.indices[:nnz]),
        data=read_only(operand.data[:nnz]), shape=(rows.n_major, rows.n_minor), transposed=problem.transposed,
        n_threads=n_threads,
    )  # fmt: skip


def identity_of(operand: AnyOperand) -> object:
    """Return an object that is replaced when the operand's arrays are: its rows, or the values of a tensor."""
    return operand.data if isinstance(operand, Unfolding) else operand.rows


def arguments_of(
    operand: SparseOperand | TensorOperand, call: Call, n_threads: int
) -> ProductArguments | SampledArguments | TensorArguments | None:
    """Return the arguments of the product `call`; None for calls that registered solvers do not compute.

    These are calls whose rows overlap, and calls of another dtype than the sparse operand's.
    """
    facts = {one.name: getattr(operand, one.name) for one in dataclasses.fields(operand)} | {"n_threads": n_threads}
    dtype = operand.data.dtype
    if isinstance(operand, TensorOperand):
        if not isinstance(call, TensorCall) or not call.suits_generated or call.dtype != dtype:
            return None
        extents = (n for mode, n in enumerate(operand.shape) if mode != operand.mode)
        factors = tuple(
            read_only(_at(address, (n, call.n_vecs), step, dtype))
            for address, n, step in zip(call.factors, extents, call.lds, strict=True)
        )
        M = _at(call.result, (operand.shape[operand.mode], call.n_vecs), call.ldm, dtype)
        return TensorArguments(**facts, factors=factors, M=M)
    (n_rows, n_cols), n = operand.shape, call.n_vecs
    if isinstance(call, SampledCall):
        if not call.suits_generated:
            return None
        X, Y = _at(call.X, (n_rows, n), call.ldx, dtype), _at(call.Y, (n_cols, n), call.ldy, dtype)
        S = _at(call.result, (operand.data.size,), 1, dtype)
        return SampledArguments(**facts, X=read_only(X), Y=read_only(Y), S=S)
    if not isinstance(call, MatmulCall):
        return None
    tail: tuple[int, ...] = () if n == 1 else (n,)
    if operand.transposed:
        n_rows, n_cols = n_cols, n_rows
    B, C = _at(call.source, (n_cols, *tail), call.ldb, dtype), _at(call.result, (n_rows, *tail), call.ldc, dtype)
    return ProductArguments(**facts, B=read_only(B), C=C)


def read_only(array: Array) -> Array:
    """Return a view of an array through which a solver cannot write it."""
    view = array.view()
    view.flags.writeable = False
    return view


def _at(address: int, shape: tuple[int, ...], step: int, dtype: np.dtype[Any]) -> Array:
    """Return the array of this shape at `address` whose rows, or entries of a vector, are `step` entries apart."""
    if 0 in shape:
        return np.empty(shape, dtype)
    n_bytes = ((shape[0] - 1) * step + (shape[1] if len(shape) > 1 else 1)) * dtype.itemsize
    buffer = runtime_api.ffi.buffer(runtime_api.ffi.cast("char *", address), n_bytes)
    return np.ndarray(shape, dtype, buffer, strides=(step * dtype.itemsize, dtype.itemsize)[: len(shape)])
