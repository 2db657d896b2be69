"""Operand adapter of SDDMM: kernels read a packed copy of the structure, and the values from the user's array."""

from __future__ import annotations

from typing import Final

import numpy as np

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.dtypes import Real
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import SampledCall
from autosparse.dispatch.protocols import Call
from autosparse.operands.csr import Operand
from autosparse.operands.unfolding import AnyOperand
from autosparse.tuning.trials import matmul
from autosparse.tuning.trials.operand_adapter import (
    MAX_ENTRY,
    AnyArray,
    OperandAdapter,
    Trustworthy,
    dense,
    one_format,
    placed,
    result,
    rows_of,
    whole,
)


def _call(operand: AnyOperand, X: AnyArray, Y: AnyArray, S: AnyArray) -> SampledCall:
    """Return the call that computes S, one value per stored entry, from X and Y."""
    address, n_columns = runtime_api.address_of, X.shape[1]
    places = (address(X), n_columns), (address(Y), n_columns)
    return SampledCall(rows_of(operand), *places, address(S), n_columns, kept=(X, Y, S))


def _synthetic(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    """Return calls of the product on synthetic X, Y and S, one for each of the alignment offsets."""
    Xs, Ys = (placed(problem, (n, problem.n_dense_cols), seed) for seed, n in enumerate(problem.matrix.shape))
    Ss = placed(problem, (problem.pattern.nnz,))
    return tuple(_call(operand, *arrays) for arrays in zip(Xs, Ys, Ss, strict=True))


def _trustworthy(
    problem: Problem, operand: AnyOperand, n_columns: int, n_threads: int, lent: Call | None
) -> Trustworthy:
    assert isinstance(operand, Operand)
    if lent is None:
        X, Y = (dense(problem, at, n, n_columns) for at, n in enumerate(problem.matrix.shape))
        S = result(problem, operand.nnz, 1)
    else:
        X, Y = lent.kept[0], lent.kept[1]
        S = lent.kept[-1].reshape(-1, 1)
    sums = np.abs(operand.data[: operand.nnz]).astype(Real) * (n_columns * MAX_ENTRY**2)
    return whole(_call(operand, X, Y, S), S, bounds=lambda: (sums, n_columns + 1))


ADAPTER: Final = OperandAdapter(
    packed_bytes=lambda problem, fmt, _operand: _native.structure_bytes(problem.matrix, one_format(fmt)),
    reason_unfit=matmul.reason_unfit,
    pack=lambda problem, operand, fmt: _native.pack_structure(problem.matrix, one_format(fmt)),
    pack_live=lambda pattern, operand, fmt: _native.pack_structure(pattern, fmt),
    keeps_values=False,
    synthetic=_synthetic,
    trustworthy=_trustworthy,
)
