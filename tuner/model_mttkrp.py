"""Predicted time of an MTTKRP: factor rows read per node of every level, and the work per node; see `model`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from autosparse.tuner.model import MachineRates
from autosparse.tuner.space_mttkrp import INDICES

from autosparse.formats import LevelKind
from autosparse.pattern import TensorPattern
from autosparse.problem import Problem
from autosparse.schedule import SuperSchedule

SAMPLED_ENTRIES: Final = 20_000
NODE_S: Final = 2e-9
"""Beginning and ending the loop below a node, a wrong guess of the processor's among it."""
LEAF_S: Final = 0.8e-9
ROW_S: Final = 4e-9
EMPTY_ROW_S: Final = 0.5e-9
LEAST_CHILDREN: Final = 3.0
"""Entries per lowest node from which the default kernel walks levels (as `ops.mttkrp` has it); else it is flat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFacts:
    """`n_nodes[indices]`: distinct coordinates of these indices together, per entry, in (0, 1]."""

    extents: Mapping[str, int]
    nnz: int
    n_nodes: Mapping[frozenset[str], float]
    default_order: Sequence[str]  # levels of the default kernel

    def nodes(self, indices: Sequence[str]) -> float:
        """Nodes of a level whose path from the root runs over `indices`."""
        share = 1.0 if len(indices) == len(self.extents) else self.n_nodes[frozenset(indices)]
        return max(1.0, share * self.nnz)


def tensor_facts(pattern: TensorPattern, mode: int) -> TensorFacts:
    """Facts from whole rows of `mode`, as many as hold some `SAMPLED_ENTRIES` entries; the same every time."""
    shape, coords, nnz = pattern.shape, pattern.coords, pattern.nnz
    others = [n for n in range(len(shape)) if n != mode]
    modes = dict(zip(INDICES, [mode, *others], strict=False))
    stride = max(1, nnz // SAMPLED_ENTRIES)
    rows = coords[mode].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    kept = np.flatnonzero(rows % np.uint64(stride) == 0)
    if kept.size == 0:
        kept = np.arange(min(nnz, SAMPLED_ENTRIES))
    sampled = {index: coords[n][kept] for index, n in modes.items()}
    shares = {}
    for length in range(1, len(shape)):
        for chosen in itertools.combinations(list(modes)[1:], length - 1):
            keys = np.stack([sampled[index] for index in ("i", *chosen)])
            shares[frozenset(("i", *chosen))] = _n_distinct(keys) / max(1, kept.size)
    index_of = {n: index for index, n in modes.items()}
    order = [index_of[n] for n in pattern.level_order(mode)]
    return TensorFacts(
        extents={index: shape[n] for index, n in modes.items()}, nnz=nnz, n_nodes=shares, default_order=order
    )


def _n_distinct(keys: np.ndarray) -> int:
    """Distinct columns."""
    if keys.shape[1] == 0:
        return 0
    ordered = keys[:, np.lexsort(keys)]
    return 1 + int(np.any(ordered[:, 1:] != ordered[:, :-1], axis=0).sum())


@dataclass(frozen=True, slots=True)
class TensorModel:
    """Rows of factors from the caches that hold them, and the work per node, entry and row."""

    facts: TensorFacts
    rates: MachineRates = field(default_factory=MachineRates)

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product for each schedule."""
        return [self.seconds(problem, one) for one in schedules]

    def seconds(self, problem: Problem, one: SuperSchedule | None) -> float:
        """One product on the problem's threads."""
        facts = self.facts
        if one is None:
            order = list(facts.default_order)
            is_flat = facts.nodes(order[:-1]) * LEAST_CHILDREN > facts.nnz and len(order) > 2
            rows_s = facts.nodes(order[:1]) * ROW_S
        else:
            order = [name[0] for name in one.format.order if name.endswith("1")]
            is_flat = any(level.kind is LevelKind.NONUNIQUE for level in one.format.levels)
            is_dense = str(one.format.levels[0]).endswith("U")
            n_rows = facts.nodes(order[:1])
            rows_s = n_rows * ROW_S + (facts.extents["i"] - n_rows) * EMPTY_ROW_S * (1 if is_dense else 2)
        width = problem.n_dense_cols * np.dtype(problem.dtype).itemsize
        n_tiles = 1 if one is None else max(1, problem.n_dense_cols // max(1, one.dense_split("j") or 1))
        total_s = rows_s + facts.extents["i"] * width / self.rates.l3
        for depth, index in enumerate(order[1:], start=1):
            is_leaf = depth == len(order) - 1
            n = facts.nnz if is_flat or is_leaf else facts.nodes(order[: depth + 1])
            total_s += n * width / self._rate(problem, facts.extents[index] * width)
            total_s += n * n_tiles * (LEAF_S if is_flat or is_leaf else NODE_S)
        speedup = 1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)
        return total_s / speedup

    def _rate(self, problem: Problem, footprint: float) -> float:
        """Bytes per second of the smallest cache that holds `footprint`."""
        target = problem.target
        levels = ((target.l1_bytes, self.rates.l1), (target.l2_bytes, self.rates.l2),
                  (min(target.l3_bytes, 16 * target.l2_bytes), self.rates.l3))  # fmt: skip
        return next((rate for limit, rate in levels if footprint <= limit), self.rates.memory)
