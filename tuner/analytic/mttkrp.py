"""Analytic cost model of MTTKRP: work per node of each level of the tensor, and bytes of factors and storage.

The model is linear: counts of pieces of work (`terms`) times nanoseconds per piece (`TensorRates`).
`benchmarks/tensor_rates.py` fits the rates to measured schedules of tensors of order 3 to 5. It is the only model for
orders that no learned model covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from typing import Final

import numpy as np
from autosparse.tuner.space.mttkrp import INDICES
from numpy.typing import NDArray

from autosparse.core.dtypes import Hash, Real
from autosparse.core.formats import LevelKind
from autosparse.core.pattern import TensorPattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass

NAMES: Final = f"{INDICES}qrstuvwxyz"
"""Index names, one for each mode that the default kernel supports."""
SAMPLED_ENTRIES: Final = 20_000
MIN_CHILDREN: Final = 3.0
"""Minimum entries per lowest node for which the default kernel walks levels (as `operands.csf` has it), not entries."""
CACHES: Final = ("l1", "l2", "l3", "memory")
"""Cache levels, smallest first; a footprint belongs to the first level that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRates:
    """Nanoseconds on two threads per piece of work, and per byte for `*_l1` to `*_memory`.

    Rates `default_*` belong to the default kernel, all others to generated kernels. Counts are per pass over a tile of
    columns, except those of `product` and `chunk`.
    """

    product: float = 4300
    row: float = 6.12  # per row that has entries
    empty_row: float = 0.592  # per empty row of a level that stores every row
    listed_row: float = 6.63  # added to `row` when the level lists only the rows that have entries
    node: float = 0.233  # per node between the rows and the leaves
    uneven: float = 1.13  # per node or row whose number of children the branch predictor is likely to miss
    leaf: float = 0.204
    entry: float = 0.00028  # per entry stored with all its coordinates
    leaf_fetched: float = 0.174  # added to `leaf` when factor rows are prefetched
    entry_fetched: float = 0.403
    chunk: float = 4.97  # per chunk of rows handed to a thread
    default_row: float = 6.63
    default_node: float = 2.53
    default_uneven: float = 0.00422
    default_leaf: float = 0.209
    default_entry: float = 0.189
    factor_l1: float = 0.00414  # per byte of factor rows read from L1
    factor_l2: float = 0.00521
    factor_l3: float = 0.0115
    factor_memory: float = 0.024
    fetched_l3: float = 0.0135  # the same, prefetched
    fetched_memory: float = 0.0337
    stored_l2: float = 0.0112  # per byte of coordinates and values
    stored_l3: float = 0.0209
    stored_memory: float = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """Statistics of a tensor whose rows are one of its modes."""

    extents: Mapping[str, int]  # index name -> extent, the rows' index first
    nnz: int
    default_order: Sequence[str]  # index names of the default kernel's levels, outermost first
    sampled: Mapping[str, NDArray[np.integer]] = field(repr=False)  # coordinates of the entries of some whole rows
    _nodes: dict[frozenset[str], float] = field(default_factory=dict, repr=False)

    def nodes(self, indices: Sequence[str]) -> float:
        """Return the number of nodes of the level with path `indices` (rows included), estimated from the sample."""
        if len(indices) == len(self.extents):
            return max(1.0, float(self.nnz))
        key = frozenset(indices)
        if key not in self._nodes:
            keys = np.stack([self.sampled[index] for index in indices])
            self._nodes[key] = max(1.0, _n_distinct(keys) / max(1, keys.shape[1]) * self.nnz)
        return self._nodes[key]


def tensor_facts(pattern: TensorPattern, mode: int) -> TensorFacts:
    """Return statistics of a tensor from a fixed sample: slices of `mode` with about SAMPLED_ENTRIES entries."""
    shape, coords, nnz = pattern.shape, pattern.coords, pattern.nnz
    modes = dict(zip(NAMES, [mode, *(n for n in range(len(shape)) if n != mode)], strict=False))
    stride = max(1, nnz // SAMPLED_ENTRIES)
    rows = coords[mode].astype(Hash) * Hash(0x9E3779B97F4A7C15) >> Hash(40)
    kept = np.flatnonzero(rows % Hash(stride) == 0)
    if kept.size == 0:
        kept = np.arange(min(nnz, SAMPLED_ENTRIES))
    index_of = {n: index for index, n in modes.items()}
    return TensorFacts(
        extents={index: shape[n] for index, n in modes.items()},
        nnz=nnz,
        default_order=[index_of[n] for n in pattern.level_order(mode)],
        sampled={index: coords[n][kept] for index, n in modes.items()},
    )


def _n_distinct(keys: np.ndarray) -> int:
    """Return the number of distinct columns of the 2-D array `keys`."""
    if keys.shape[1] == 0:
        return 0
    ordered = keys[:, np.lexsort(keys)]
    return 1 + int(np.any(ordered[:, 1:] != ordered[:, :-1], axis=0).sum())


@dataclass(frozen=True, slots=True)
class TensorModel:
    """Cost model of MTTKRP: the seconds of a product are `terms` times `rates`."""

    facts: TensorFacts
    rates: TensorRates = field(default_factory=TensorRates)

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Return the predicted seconds of one product for each schedule (None: the default kernel)."""
        prices = np.array(list(asdict(self.rates).values()))
        speedup = (1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)) / 1.7  # relative to two threads
        found: list[float] = (terms(self.facts, problem, schedules) @ prices * 1e-9 / speedup).tolist()
        return found


def terms(facts: TensorFacts, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> NDArray[Real]:
    """Count the pieces of work of each schedule that `TensorRates` has a rate for, as (n_schedules, n_rates)."""
    names = list(TensorRates.__dataclass_fields__)
    found = np.zeros((len(schedules), len(names)))
    for at, one in enumerate(schedules):
        walk = _Default(facts, problem) if one is None else _Generated(facts, problem, one)
        for name, n in walk.terms():
            found[at, names.index(name)] += n
    return found


class _Walk:
    """Work of a kernel, counted level by level; subclasses multiply it out to `terms`."""

    def __init__(self, facts: TensorFacts, problem: Problem, order: Sequence[str], *, is_flat: bool) -> None:
        self.facts, self.problem, self.order, self.is_flat = facts, problem, order, is_flat
        self.n_filled = facts.nodes(order[:1])

    def inner_nodes(self) -> float:
        """Return the number of nodes of all levels between the rows and the leaves."""
        return sum(self.facts.nodes(self.order[: depth + 1]) for depth in range(1, len(self.order) - 1))

    def uneven_nodes(self) -> float:
        """Return the nodes above the leaves, weighted by how unpredictable it is whether a node has a second child."""
        total = 0.0
        for depth in range(1, len(self.order)):
            n_parents = self.facts.nodes(self.order[:depth])
            n_children = self.facts.nodes(self.order[: depth + 1])
            more = min(0.5, n_children / n_parents - 1.0)  # approximates the share of nodes with a second child
            total += 4.0 * more * (1.0 - more) * n_parents
        return total

    def factors(self, *, fetched: bool) -> Iterator[tuple[str, float]]:
        """Yield (name of a rate, bytes of factor rows read); `fetched`: the kernel prefetches factor rows."""
        width = self.problem.n_dense_cols * np.dtype(self.problem.dtype).itemsize
        for depth, index in enumerate(self.order[1:], start=1):
            n = self.facts.nnz if self.is_flat else self.facts.nodes(self.order[: depth + 1])
            cache = self._cache(self.facts.extents[index] * width)
            is_ahead = fetched and cache in ("l3", "memory")
            yield f"{'fetched' if is_ahead else 'factor'}_{cache}", n * width

    def stored(self, index_bytes: float, n_passes: float) -> Iterator[tuple[str, float]]:
        """Yield (name of a rate, bytes) of the stored coordinates, child offsets and values in `n_passes` passes."""
        n_last = len(self.order) - 1
        if self.is_flat:
            total = self.facts.nnz * n_last * index_bytes
        else:
            total = self.facts.nnz * index_bytes + self.inner_nodes() * (index_bytes + 4)
        total += self.facts.nnz * np.dtype(self.problem.dtype).itemsize
        cache = self._cache(total / max(1, min(self.problem.threads, self.problem.target.n_cores)))
        yield f"stored_{'l2' if cache == 'l1' else cache}", total * n_passes

    def _cache(self, footprint: float) -> str:
        """Return the name of the smallest cache that holds `footprint` bytes."""
        target = self.problem.target
        limits = target.l1_bytes, target.l2_bytes, min(target.l3_bytes, 16 * target.l2_bytes)
        return next((name for name, limit in zip(CACHES, limits, strict=False) if footprint <= limit), CACHES[-1])


class _Default(_Walk):
    """Work of the runtime's precompiled MTTKRP loops."""

    def __init__(self, facts: TensorFacts, problem: Problem) -> None:
        order = facts.default_order
        is_flat = len(order) > 2 and facts.nodes(order[:-1]) * MIN_CHILDREN > facts.nnz
        super().__init__(facts, problem, order, is_flat=is_flat)

    def terms(self) -> Iterator[tuple[str, float]]:
        """Yield pairs (name of a rate of `TensorRates`, count of the work that it prices)."""
        yield "product", 1.0
        yield "default_row", self.n_filled
        if self.is_flat:
            yield "default_entry", self.facts.nnz
        else:
            yield "default_node", self.inner_nodes()
            yield "default_uneven", self.uneven_nodes()
            yield "default_leaf", self.facts.nnz
        yield from self.factors(fetched=False)
        yield from self.stored(4, 1.0)


class _Generated(_Walk):
    """Work of a generated MTTKRP kernel."""

    def __init__(self, facts: TensorFacts, problem: Problem, one: SuperSchedule) -> None:
        order = [name[0] for name in one.format.order if name.endswith("1")]
        super().__init__(
            facts, problem, order, is_flat=any(level.kind is LevelKind.NONUNIQUE for level in one.format.levels)
        )
        self.one = one

    def terms(self) -> Iterator[tuple[str, float]]:
        """Yield pairs (name of a rate of `TensorRates`, count of the work that it prices)."""
        one, nnz = self.one, self.facts.nnz
        n_passes = max(1, -(-self.problem.n_dense_cols // max(1, one.dense_split("j") or 1)))
        yield "product", 1.0
        yield "row", self.n_filled * n_passes
        if one.format.levels[0].kind is LevelKind.UNCOMPRESSED:
            yield "empty_row", (self.facts.extents["i"] - self.n_filled) * n_passes
        else:
            yield "listed_row", self.n_filled * n_passes
        if self.is_flat:
            yield "entry", nnz * n_passes
        else:
            yield "node", self.inner_nodes() * n_passes
            yield "uneven", self.uneven_nodes() * n_passes
            yield "leaf", nnz * n_passes
        if one.prefetch:
            yield "entry_fetched" if self.is_flat else "leaf_fetched", nnz * n_passes
        if one.partition == "dynamic":
            yield "chunk", self.facts.extents["i"] / one.chunk
        yield from self.factors(fetched=one.prefetch > 0)
        yield from self.stored(one.format.index_bits / 8, float(n_passes))
