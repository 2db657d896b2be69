"""Operand adapter of MTTKRP: kernels read a packed copy of the tensor, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import TensorCall
from autosparse.dispatch.protocols import Call
from autosparse.operands.unfolding import AnyOperand, Unfolding
from autosparse.tuning.trials.operand_adapter import (
    MAX_ENTRY,
    AnyArray,
    OperandAdapter,
    Trustworthy,
    dense,
    one_format,
    placed,
    result,
    whole,
)


def _call(operand: AnyOperand, factors: Sequence[AnyArray], M: AnyArray) -> TensorCall:
    """Return the call that computes M from one factor for each other mode."""
    assert isinstance(operand, Unfolding)
    n_columns, address = M.shape[1], runtime_api.address_of
    addresses, lds = [address(one) for one in factors], [n_columns] * len(factors)
    place, kept = (address(M), n_columns), (factors, M)
    return TensorCall(operand, addresses, lds, place, n_vecs=n_columns, dtype=M.dtype, kept=kept)


def _shapes(problem: Problem, n_columns: int) -> list[tuple[int, int]]:
    """Return the shapes of the factors."""
    return [(n, n_columns) for at, n in enumerate(problem.tensor.shape) if at != problem.mode]


def _synthetic(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    """Return calls of the product on synthetic factors and M, one for each of the alignment offsets."""
    n_columns = problem.n_dense_cols
    factors = [placed(problem, shape, seed) for seed, shape in enumerate(_shapes(problem, n_columns))]
    Ms = placed(problem, (problem.result_rows, n_columns))
    return tuple(_call(operand, those, M) for *those, M in zip(*factors, Ms, strict=True))


def _trustworthy(
    problem: Problem, operand: AnyOperand, n_columns: int, n_threads: int, lent: Call | None
) -> Trustworthy:
    mode, shape = problem.mode, problem.tensor.shape
    rows = problem.tensor.coords[mode]
    sums = np.bincount(rows, weights=np.abs(operand.data), minlength=shape[mode]) * MAX_ENTRY ** (len(shape) - 1)
    n_terms = np.bincount(rows, minlength=shape[mode]) + len(shape)
    if lent is not None:
        return whole(lent, lent.kept[-1], bounds=lambda: (sums, n_terms))
    factors = [dense(problem, seed, *shape) for seed, shape in enumerate(_shapes(problem, n_columns))]
    M = result(problem, shape[mode], n_columns)
    return whole(_call(operand, factors, M), M, bounds=lambda: (sums, n_terms))


ADAPTER: Final = OperandAdapter(
    packed_bytes=lambda one, fmt, _operand: _native.tensor_bytes(
        one.tensor, one_format(fmt), np.dtype(one.dtype).itemsize, one.mode
    ),
    reason_unfit=lambda one, fmt: _native.reason_unfit_tensor(one.tensor, one_format(fmt), one.mode),
    pack=lambda one, operand, fmt: _native.pack_tensor(one.tensor, operand.data, one_format(fmt), one.mode),
    pack_live=None,
    keeps_values=True,
    synthetic=_synthetic,
    trustworthy=_trustworthy,
)
