"""Benchmark contexts for data collection: any pattern, any operation that has kernels, on this machine."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np

from autosparse import _native, cache
from autosparse._native import runtime_api
from autosparse.config import get_options, options
from autosparse.core.dtypes import NarrowIndex
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.errors import BuildError
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.operands.unfolding import AnyOperand, TensorEntries, Unfolding
from autosparse.scalar import NARROW_INDEX, SINGLE
from autosparse.tuner.research.collect.operations import Op
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuning.learned import LearnedProposer, proposer_of
from autosparse.tuning.memory.history import tuning_stats_of
from autosparse.tuning.trials.context import TuningContext

COLLECTING_MEMORY: Final = 12.0
"""Maximum bytes of the packed operands of one batch, relative to the CSR matrix."""


def proposals(context: TuningContext, n: int) -> list[SuperSchedule]:
    """Return the `n` schedules that this machine's learned model ranks first; none without a model."""
    proposer = proposer_of(context, live=False) if n else None
    if not isinstance(proposer, LearnedProposer):
        return []
    return [one.schedule for one in proposer.model.propose(context.problem, proposer.features(), context.supports, n)]


@contextmanager
def context_for(pattern: Coordinates, op: Op, dtype: str = SINGLE.name) -> Iterator[TuningContext]:
    """Yield a tuning context for `op` on a matrix or tensor with this pattern and random values of `dtype`.

    The context's memory is freed at the end.
    """
    operand = _operand(pattern, dtype)
    with options(extra_memory=COLLECTING_MEMORY, deterministic=False, effort="measure"):
        settings = get_options()
        store = cache.open_store(settings)
        target = Target.host().held_to(settings.isa)
        problem = Problem(
            operation=op.operation, pattern=operand.pattern, transposed=False, n_dense_cols=op.n_dense_cols,
            dtype=dtype, threads=settings.threads or runtime_api.max_threads(), deterministic=False, target=target,
        )  # fmt: skip
        context = TuningContext(
            problem=problem, operand=weakref.ref(operand), options=settings, store=store,
            stats=tuning_stats_of(store, target), packed_copies=PackedCopyCache(),
            structure_version=operand.structure_version,
        )  # fmt: skip
        try:
            yield context
        finally:
            context.release()


def _operand(pattern: Coordinates, dtype: str) -> AnyOperand:
    """Create a matrix or tensor with random values.

    No other object refers to its arrays, so that products need no checks for writes.
    """
    return _matrix(pattern, dtype) if len(pattern.shape) == 2 else _tensor(pattern, dtype)


def _tensor(pattern: Coordinates, dtype: str) -> Unfolding:
    """Create a tensor operand, its first mode as rows, with random values; its CSF levels are built already."""
    values = np.random.default_rng(0).standard_normal(pattern.nnz).astype(dtype)
    coords = np.array(pattern.indices, NarrowIndex).reshape(len(pattern.shape), pattern.nnz)
    operand = Unfolding(TensorEntries(pattern.shape, coords, values), 0)
    operand.csf(np.dtype(dtype))
    return operand


def _matrix(pattern: Coordinates, dtype: str) -> Operand:
    operand, rows = Operand(), pattern.to_pattern()
    operand.rebind(INDPTR, rows.indptr)
    operand.rebind(INDICES, rows.indices)
    operand.rebind(DATA, np.random.default_rng(0).standard_normal(rows.nnz).astype(dtype))
    operand.finish(rows.n_rows, rows.n_cols)
    del rows
    operand.validate()
    return operand


def build_ahead(op: Op, schedules: Sequence[SuperSchedule], dtype: str = SINGLE.name) -> int:
    """Build the kernels of `schedules` for `op` before measurements start; return the number of kernels built."""
    settings = get_options()
    isa, gathers = Target.host().held_to(settings.isa).isa, runtime_api.gathers()
    specs = [_native.KernelSpec(op.operation, one, dtype, NARROW_INDEX.name, isa, gathers=gathers) for one in schedules]
    distinct = {spec.key(): spec for spec in specs}
    kernels = _native.build_many(list(distinct.values()), store=cache.open_store(settings), compiler=settings.compiler)
    return sum(not isinstance(kernel, BuildError) for kernel in kernels)
