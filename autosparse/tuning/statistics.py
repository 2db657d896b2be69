"""Facts of patterns as tuning asks for them here: counted by the runtime, once per pattern."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, TypeVar

from autosparse._native import counts as native
from autosparse._native import runtime_api
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.tuner.analytic import models
from autosparse.tuner.analytic.matmul import CostModel
from autosparse.tuner.features.counts import (
    BLOCK_SIZES,
    NUMPY,
    SLICE_LANES,
    WINDOWS,
    Counter,
    LengthCounts,
    SampleCounts,
)
from autosparse.tuner.features.statistics import PatternFacts, pattern_facts

T = TypeVar("T")

_SLICES: Final = tuple((lanes, window) for window in WINDOWS for lanes in SLICE_LANES)
_BLOCKS: Final = tuple((r, c) for r in BLOCK_SIZES for c in BLOCK_SIZES)


class RuntimeCounter:
    """A `tuner.features.counts.Counter`; products of several widths and learned models ask for the same numbers."""

    def lengths(self, pattern: Pattern, *, transposed: bool) -> LengthCounts:
        """Of row lengths."""
        return _kept(pattern, ("lengths", transposed), lambda: _lengths(pattern, transposed))

    def sample(self, pattern: Pattern, n_sample: int) -> SampleCounts:
        """Of a sample of the entries."""
        return _kept(pattern, ("sample", n_sample), lambda: _sample(pattern, n_sample))

    def both(self, pattern: Pattern, n_sample: int, *, transposed: bool) -> tuple[LengthCounts, SampleCounts]:
        """Of row lengths and of a sample; counted side by side where neither is known."""
        keys: tuple[Hashable, Hashable] = (("lengths", transposed), ("sample", n_sample))
        if not transposed and not any(key in pattern.counts for key in keys):
            lengths, sample = native.both(pattern, len(_SLICES), n_sample, len(BLOCK_SIZES))
            if lengths is not None and sample is not None:
                pattern.counts.update(zip(keys, (_lengths_of(lengths), _sample_of(sample)), strict=True))
        return self.lengths(pattern, transposed=transposed), self.sample(pattern, n_sample)

    def distinct(self, pattern: Pattern, n_entries: int, n_windows: int) -> tuple[int, int]:
        """Of columns in windows of entries."""
        return native.distinct(pattern, n_entries, n_windows)

    def walks(self, pattern: Pattern, sizes: Sequence[int], n_walks: int) -> list[tuple[int, int]]:
        """Of columns of breadth-first walks."""
        return native.walks(pattern, sizes, n_walks)


def _kept(pattern: Pattern, key: Hashable, count: Callable[[], T]) -> T:
    """What `count` gives, kept with the pattern; threads may count twice."""
    found: T | None = pattern.counts.get(key)
    if found is None:
        found = pattern.counts[key] = count()
    return found


def _lengths(pattern: Pattern, transposed: bool) -> LengthCounts:
    found = native.lengths(pattern, len(_SLICES), transposed=transposed)
    return _lengths_of(found) if found is not None else NUMPY.lengths(pattern, transposed=transposed)


def _lengths_of(found: Sequence[int]) -> LengthCounts:
    longest, squares, n_empty, *pairs = found
    slots = dict(zip(_SLICES, zip(pairs[::2], pairs[1::2], strict=True), strict=True))
    return LengthCounts(longest=longest, squares=squares, n_empty=n_empty, slots=slots)


def _sample(pattern: Pattern, n_sample: int) -> SampleCounts:
    found = native.sample(pattern, n_sample, len(BLOCK_SIZES))
    return _sample_of(found) if found is not None else NUMPY.sample(pattern, n_sample)


def _sample_of(found: Sequence[int]) -> SampleCounts:
    n_entries, gap_sum, n_gaps, n_on_few, n_few_cells, *blocks = found
    return SampleCounts(
        n_entries=n_entries, gap_sum=gap_sum, n_gaps=n_gaps, n_on_few=n_on_few, n_few_cells=n_few_cells,
        n_blocks=dict(zip(_BLOCKS, blocks, strict=True)),
    )  # fmt: skip


COUNTER: Final[Counter] = RuntimeCounter() if runtime_api.available else NUMPY


def statistics_model(problem: Problem) -> CostModel:
    """The cost model of the problem's operation from statistics of its pattern."""
    return models.statistics_model(problem, COUNTER)


def facts_of(problem: Problem) -> PatternFacts | None:
    """Statistics of op(A); None for tensors."""
    if not isinstance(problem.pattern, Pattern):
        return None
    return pattern_facts(problem.pattern, transposed=problem.transposed, counter=COUNTER)
