"""Products of a tensor with a factor for each of its other modes: kernels read a packed copy, level by level."""

from __future__ import annotations

from typing import Final

import numpy as np

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import TensorCall
from autosparse.dispatch.protocols import Call
from autosparse.operands.unfolding import AnyOperand, Unfolding
from autosparse.tuning.trials.handling import MOST, Handling, Storage, Trustworthy, dense, result


def _one(fmt: Storage) -> Format:
    """A format; operations that have no composites are asked for nothing else."""
    assert isinstance(fmt, Format)
    return fmt


def _synthetic(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    assert isinstance(operand, Unfolding)
    n_vecs, address = problem.n_dense_cols, runtime_api.address_of
    factors = [dense(problem, at, n, n_vecs) for at, n in enumerate(problem.tensor.shape) if at != problem.mode]
    M = np.empty((problem.result_rows, n_vecs), problem.dtype)
    lds, dtype = [n_vecs] * len(factors), np.dtype(problem.dtype)
    return (TensorCall(operand, list(map(address, factors)), lds, address(M), n_vecs, n_vecs, dtype, (factors, M)),)


def _trustworthy(problem: Problem, operand: AnyOperand, n_columns: int, n_threads: int) -> Trustworthy:
    assert isinstance(operand, Unfolding)
    mode, shape, address = problem.mode, problem.tensor.shape, runtime_api.address_of
    factors = [dense(problem, n, extent, n_columns) for n, extent in enumerate(shape) if n != mode]
    M = result(problem, shape[mode], n_columns)
    addresses, lds = [address(one) for one in factors], [n_columns] * len(factors)
    call = TensorCall(operand, addresses, lds, address(M), n_columns, n_columns, M.dtype, (factors, M))
    rows = problem.tensor.coords[mode]
    sums = np.bincount(rows, weights=np.abs(operand.data), minlength=shape[mode]) * MOST ** len(factors)
    n_terms = np.bincount(rows, minlength=shape[mode]) + len(shape)
    return Trustworthy(call, M, sums, n_terms)


HANDLING: Final = Handling(
    packed_bytes=lambda one, fmt: _native.tensor_bytes(one.tensor, _one(fmt), np.dtype(one.dtype).itemsize, one.mode),
    reason_unfit=lambda one, fmt: _native.reason_unfit_tensor(one.tensor, _one(fmt), one.mode),
    pack=lambda one, operand, fmt: _native.pack_tensor(one.tensor, operand.data, _one(fmt), one.mode),
    pack_live=None,
    keeps_values=True,
    synthetic=_synthetic,
    trustworthy=_trustworthy,
)
