"""What operations do differently with their sparse operand: packing it, keeping it current, timing a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import _native
from autosparse._native import runtime_api
from autosparse.core.composite import Composite
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.dispatch.calls import MatmulCall, SampledCall, TensorCall
from autosparse.dispatch.protocols import Call
from autosparse.operands.csr import Operand
from autosparse.operands.unfolding import AnyOperand, Unfolding

AnyArray = NDArray[Any]  # of one native dtype

Storage = Format | Composite
"""What a packed copy is stored in: one format, or parts."""
LINE_BYTES: Final = 64
NUMPY_LATE_BYTES: Final = 16
"""Behind a cache line, where memory that malloc maps for a large array begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """A row of `HANDLINGS`. Functions of a problem, a format, and the operand where one is needed."""

    packed_bytes: Callable[[Problem, Storage], int]  # known before packing, O(nnz) at most
    reason_unfit: Callable[[Problem, Storage], str | None]
    pack: Callable[[Problem, AnyOperand, Storage], Any]
    pack_live: Callable[[Pattern, Operand, Format], Any] | None  # of a format that is the user's own arrays
    keeps_values: bool  # the packed operand holds copies of values, to be refreshed when they change
    synthetic: Callable[[Problem, AnyOperand], tuple[Call, ...]]  # calls on dense operands to time with, in turn

    def reads_live(self, problem: Problem, fmt: Storage) -> bool:
        """Whether kernels read the user's own arrays: nothing is packed, nothing can go stale."""
        return self.pack_live is not None and fmt.is_csr and not problem.transposed

    def view(self, problem: Problem) -> str:
        """What of the operand a packed copy shows; copies of one format and view are one."""
        return f"{problem.name}.T" if problem.transposed else problem.name


def _item(problem: Problem) -> int:
    return np.dtype(problem.dtype).itemsize


def _random(problem: Problem, *extents: int) -> list[AnyArray]:
    """Dense operands (extent, columns), drawn from a fixed seed."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((n, problem.n_dense_cols)).astype(problem.dtype) for n in extents]


def _rows_of(operand: AnyOperand) -> Any:
    assert isinstance(operand, Operand)
    return operand.rows or operand.validate()


def _matmul_calls(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    """B on a cache line, and where NumPy's large arrays begin: kernels differ in how much they mind."""
    n_rows, n_cols = problem.matrix.shape[:: -1 if problem.transposed else 1]
    n_vecs, address = problem.n_dense_cols, runtime_api.address_of
    room = np.random.default_rng(0).standard_normal(n_cols * n_vecs + 2 * LINE_BYTES).astype(problem.dtype)
    C = np.empty((n_rows, n_vecs), problem.dtype)
    rows, line = _rows_of(operand), address(room) + -address(room) % LINE_BYTES
    return tuple(
        MatmulCall(rows, line + late, n_vecs, address(C), n_vecs, n_vecs, problem.transposed, (room, C))
        for late in (0, NUMPY_LATE_BYTES)
    )


def _sampled_calls(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    X, Y = _random(problem, *problem.matrix.shape)
    values, n_vecs, address = np.empty(problem.pattern.nnz, problem.dtype), problem.n_dense_cols, runtime_api.address_of
    rows = _rows_of(operand)
    return (SampledCall(rows, address(X), n_vecs, address(Y), n_vecs, address(values), n_vecs, (X, Y, values)),)


def _tensor_calls(problem: Problem, operand: AnyOperand) -> tuple[Call, ...]:
    assert isinstance(operand, Unfolding)
    factors = _random(problem, *(n for mode, n in enumerate(problem.tensor.shape) if mode != problem.mode))
    n_vecs, address = problem.n_dense_cols, runtime_api.address_of
    M = np.empty((problem.result_rows, n_vecs), problem.dtype)
    lds, dtype = [n_vecs] * len(factors), np.dtype(problem.dtype)
    return (TensorCall(operand, list(map(address, factors)), lds, address(M), n_vecs, n_vecs, dtype, (factors, M)),)


def _one(fmt: Storage) -> Format:
    """A format; operations that have no composites are asked for nothing else."""
    assert isinstance(fmt, Format)
    return fmt


def _packed_bytes(problem: Problem, fmt: Storage) -> int:
    pattern, item, transposed = problem.matrix, _item(problem), problem.transposed
    if isinstance(fmt, Composite):
        return _native.composite_bytes(pattern, fmt, item, transposed=transposed)
    return _native.packed_bytes(pattern, fmt, item, transposed=transposed)


def _structure_bytes(problem: Problem, fmt: Storage) -> int:
    if isinstance(fmt, Composite):
        return _packed_bytes(problem, fmt)
    return _native.structure_bytes(problem.matrix, fmt)


def _reason_unfit(problem: Problem, fmt: Storage) -> str | None:
    reason = _native.composite_reason_unfit if isinstance(fmt, Composite) else _native.reason_unfit
    return reason(problem.matrix, fmt, transposed=problem.transposed)  # type: ignore[arg-type]  # each its own kind


def _pack(problem: Problem, operand: AnyOperand, fmt: Storage) -> Any:
    assert isinstance(operand, Operand)
    if isinstance(fmt, Composite):
        return _native.pack_composite(problem.matrix, operand.data, fmt, transposed=problem.transposed)
    return _native.pack(problem.matrix, operand.data, fmt, transposed=problem.transposed)


def _pack_structure(problem: Problem, operand: AnyOperand, fmt: Storage) -> Any:
    if isinstance(fmt, Composite):
        return _pack(problem, operand, fmt)
    return _native.pack_structure(problem.matrix, fmt)


HANDLINGS: Final[Mapping[str, Handling]] = {
    "values": Handling(
        packed_bytes=_packed_bytes,
        reason_unfit=_reason_unfit,
        pack=_pack,
        pack_live=lambda pattern, operand, fmt: _native.pack(pattern, operand.data, fmt, transposed=False),
        keeps_values=True,
        synthetic=_matmul_calls,
    ),
    "structure": Handling(
        packed_bytes=_structure_bytes,
        reason_unfit=_reason_unfit,
        pack=_pack_structure,
        pack_live=lambda pattern, operand, fmt: _native.pack_structure(pattern, fmt),
        keeps_values=False,
        synthetic=_sampled_calls,
    ),
    "fibers": Handling(
        packed_bytes=lambda one, fmt: _native.tensor_bytes(one.tensor, _one(fmt), _item(one), one.mode),
        reason_unfit=lambda one, fmt: _native.reason_unfit_tensor(one.tensor, _one(fmt), one.mode),
        pack=lambda one, operand, fmt: _native.pack_tensor(one.tensor, operand.data, _one(fmt), one.mode),
        pack_live=None,
        keeps_values=True,
        synthetic=_tensor_calls,
    ),
}
"""`Operation.packed` -> how the sparse operand is handled."""
