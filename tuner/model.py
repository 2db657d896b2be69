"""Predicted time of a schedule: traffic and arithmetic of one product, from an O(nnz)-sampled PatternFacts.

The model only has to order candidates and to know when none can win: absolute times are anchored to the default
kernel's measured time by whoever uses them. Learned models (WACO) implement the same `rank`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from autosparse.tuner.statistics import PatternFacts

from autosparse.formats import Format
from autosparse.problem import Problem
from autosparse.schedule import SuperSchedule
from autosparse.target import Target

LINE_BYTES: Final = 64


class CostModel(Protocol):
    """Anything that predicts times."""

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product for each schedule (None: the default kernel), in the given order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRates:
    """Rough rates of one core, bytes or operations per second; only their ratios matter for ranking."""

    memory: float = 16e9
    l3: float = 35e9
    l2: float = 70e9
    l1: float = 150e9
    flops: float = 50e9  # vector multiply-adds counted twice
    scalar_entry_s: float = 0.7e-9  # of a nonzero in a vector product whose x sits in L1
    row_s: float = 2e-9  # loop overhead of a row (of a block row, of a row in a panel)
    block_s: float = 1.2e-9  # loop overhead of a nonzero or block in a wide product


@dataclass(frozen=True, slots=True)
class TrafficModel:
    """max(memory, arithmetic) + loop overheads; see `seconds`."""

    facts: PatternFacts
    rates: MachineRates = MachineRates()

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product for each schedule."""
        return [self.seconds(problem, one) for one in schedules]

    def seconds(self, problem: Problem, one: SuperSchedule | None) -> float:
        """One product. The default kernel counts as CSR with the widest column tile that fits the registers."""
        fmt = one.format if one else None
        tile = self._tile(problem, one)
        n_passes = -(-problem.n_dense_cols // tile)
        r, c = (fmt.split("i"), fmt.split("k")) if fmt else (1, 1)
        panels = 1
        if fmt and fmt.order[0] == "k1":
            panels, c = -(-max(1, self.facts.n_cols) // c), 1
        n_blocks, fill = self._blocks(r, c)
        rate = 1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)
        stored_s = (
            n_passes
            * self._stored_bytes(problem, fmt, n_blocks, r * c)
            / self._rate(problem.target, self._footprint(problem))
        )
        dense_s = self._dense_s(problem, n_blocks=n_blocks, c=c, panels=panels)
        n_flops = problem.n_flops / fill
        arithmetic_s = n_flops / self.rates.flops + n_passes * n_blocks * self.rates.block_s
        if problem.n_dense_cols == 1:
            arithmetic_s = n_blocks * self.rates.scalar_entry_s * (0.5 + 0.5 * r * c / min(4, r * c))
        rows_s = n_passes * panels * self.facts.n_rows / r * self.rates.row_s
        result_s = self._result_s(problem, panels)
        return (max(stored_s, arithmetic_s) + dense_s + rows_s + result_s) / rate

    def _tile(self, problem: Problem, one: SuperSchedule | None) -> int:
        lanes = max(1, problem.target.vector_bytes // np.dtype(problem.dtype).itemsize)
        tile = (one.dense_split("j") if one else 0) or 16 * lanes
        return max(1, min(tile, problem.n_dense_cols))

    def _blocks(self, r: int, c: int) -> tuple[float, float]:
        """(blocks to visit, share of their cells that hold entries)."""
        fill = self.facts.fill(r, c) if r * c > 1 else 1.0
        return self.facts.nnz / (r * c * fill), fill

    def _stored_bytes(self, problem: Problem, fmt: Format | None, n_blocks: float, cells: int) -> float:
        """Bytes of op(A) read in one pass: one index per block, a value per cell."""
        item = np.dtype(problem.dtype).itemsize
        wide = 8 if problem.pattern.index_dtype == "int64" else 4
        index_bytes = wide if fmt is None or fmt.is_csr else fmt.index_bits // 8
        return n_blocks * (index_bytes + cells * item) + self.facts.n_rows * wide

    def _footprint(self, problem: Problem) -> float:
        """Bytes of one product's operands: what decides which cache they live in."""
        item = np.dtype(problem.dtype).itemsize
        dense = (self.facts.n_rows + self.facts.n_cols) * problem.n_dense_cols * item
        return dense + problem.pattern.csr_bytes(item)

    def _rate(self, target: Target, footprint: float) -> float:
        """Bytes per second of the smallest cache of `target` that holds `footprint`."""
        levels = (
            (target.l1_bytes, self.rates.l1),
            (target.l2_bytes, self.rates.l2),
            # A core's fair share: the last level is shared, on servers with cores that we may not even use.
            (min(target.l3_bytes, 16 * target.l2_bytes), self.rates.l3),
        )
        return next((rate for limit, rate in levels if footprint <= limit), self.rates.memory)

    def _dense_s(self, problem: Problem, *, n_blocks: float, c: int, panels: int) -> float:
        """Gathering rows of B: what a panel of k covers comes from the cache that holds that panel."""
        item = np.dtype(problem.dtype).itemsize
        panel_bytes = self.facts.n_cols / panels * problem.n_dense_cols * item
        width = problem.n_dense_cols * c * item
        touched = n_blocks * max(width, LINE_BYTES * min(1.0, self.facts.lines_per_entry * 4))
        return touched / self._rate(problem.target, panel_bytes) * (0.25 if problem.n_dense_cols == 1 else 1.0)

    def _result_s(self, problem: Problem, panels: int) -> float:
        """Writing C; k panels read and write it once each."""
        item = np.dtype(problem.dtype).itemsize
        n_bytes = self.facts.n_rows * problem.n_dense_cols * item
        return n_bytes * (1 + 2 * (panels - 1)) / self._rate(problem.target, self._footprint(problem))
