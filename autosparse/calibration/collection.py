"""Timing contexts for data collection: any pattern, any operation that has kernels, on this machine."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from autosparse import _native, cache
from autosparse._native import runtime_api
from autosparse._native.kernels.identity import code_digest
from autosparse._version import __version__
from autosparse.config import get_options, options
from autosparse.core.composite import Schedule
from autosparse.core.problem import Problem
from autosparse.core.schedule import SCHEDULE_VERSION, SuperSchedule
from autosparse.errors import BuildError
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand
from autosparse.operands.packed_copies import PackedCopyCache
from autosparse.operands.unfolding import AnyOperand, TensorEntries, Unfolding
from autosparse.tuner.collect.operations import Op
from autosparse.tuner.generators.coordinates import Coordinates
from autosparse.tuner.search.trial import Trial
from autosparse.tuner.space.families import space_signature
from autosparse.tuning.learned import LearnedProposer, calibrated_folder, known_rates, proposer_of
from autosparse.tuning.memory.history import tuning_stats_of
from autosparse.tuning.problems import target_of
from autosparse.tuning.trials.context import TuningContext
from autosparse.tuning.trials.kernel_trial import KernelTrial

COLLECTING_MEMORY: Final = 12.0
"""Bytes of the packed operands of one heat, relative to the CSR matrix."""


@dataclass(frozen=True, slots=True)
class CollectingLab:
    """A TuningContext beside what the learned model proposes."""

    context: TuningContext

    @property
    def problem(self) -> Problem:
        """What is computed."""
        return self.context.problem

    def __call__(self, schedule: Schedule | None) -> KernelTrial:
        """A trial of `schedule`."""
        return self.context(schedule)

    @property
    def supports(self) -> Callable[[str, SuperSchedule], str | None]:
        """(operation, schedule) -> why no kernel can be made of it, or None."""
        return self.context.supports

    def build(self, trials: Sequence[Trial]) -> None:
        """Make kernels."""
        self.context.build(trials)

    def runner(self, trial: Trial, turn: int = 0) -> Callable[[], object] | None:
        """One product to time, or None; see `TuningContext.runner`."""
        return self.context.runner(trial, turn)

    def served(self, trial: Trial, *, is_fresh: bool) -> Callable[[], object] | None:
        """One product as users have it, or None; see `TuningContext.served`."""
        return self.context.served(trial, is_fresh=is_fresh)

    def proposed(self, n: int) -> list[SuperSchedule]:
        """The `n` schedules that the learned model of this machine likes best; none where there is no model."""
        proposer = proposer_of(self.context, live=False) if n else None
        if not isinstance(proposer, LearnedProposer):
            return []
        return [one.schedule for one in proposer.model.propose(self.problem, proposer.features(), self.supports, n)]


@contextmanager
def context_for(pattern: Coordinates, op: Op, dtype: str = "float32") -> Iterator[CollectingLab]:
    """The timing context of `op` on `pattern`, with random values; memory is given back at the end."""
    operand = _operand(pattern, dtype)
    with options(extra_memory=COLLECTING_MEMORY, deterministic=False, effort="measure"):
        settings = get_options()
        store = cache.open_store(settings)
        target = target_of(settings)
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
            yield CollectingLab(context)
        finally:
            context.release()


def _operand(pattern: Coordinates, dtype: str) -> AnyOperand:
    """An operand of random values that nobody else can reach: were it shared, each product would look for writes."""
    return _matrix(pattern, dtype) if len(pattern.shape) == 2 else _tensor(pattern, dtype)


def _tensor(pattern: Coordinates, dtype: str) -> Unfolding:
    """The first mode as rows; with the levels of the default kernel, so that no product is timed that makes them."""
    values = np.random.default_rng(0).standard_normal(pattern.nnz).astype(dtype)
    coords = np.array(pattern.indices, np.int32).reshape(len(pattern.shape), pattern.nnz)
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


def machine_facts() -> dict[str, Any]:
    """What a time depends on beside pattern and schedule: goes into every record."""
    settings = get_options()
    rates = known_rates(calibrated_folder(settings, target_of(settings)))
    return {
        **asdict(target_of(settings)),
        **({"rates": rates.to_data()} if rates is not None else {}),
        "library": __version__,
        "schedule_version": SCHEDULE_VERSION,
        "space": space_signature(),
        "code": code_digest("c"),
        "compiler": _native.compiler_id(settings.compiler),
    }


def build_ahead(op: Op, schedules: Sequence[SuperSchedule], dtype: str = "float32") -> int:
    """Make the kernels of `schedules` now, so that no compiler runs while times are taken; how many there are."""
    settings = get_options()
    isa, gathers = target_of(settings).isa, runtime_api.gathers()
    specs = [_native.KernelSpec(op.operation, one, dtype, "int32", isa, gathers=gathers) for one in schedules]
    distinct = {spec.key(): spec for spec in specs}
    kernels = _native.build_many(list(distinct.values()), store=cache.open_store(settings), compiler=settings.compiler)
    return sum(not isinstance(kernel, BuildError) for kernel in kernels)
