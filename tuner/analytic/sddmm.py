"""Analytic cost model of SDDMM: reads of rows of X and Y, multiply-adds, and horizontal sums; see `analytic.matmul`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from autosparse.tuner.analytic.matmul import CoreRates, behind_runtime
from autosparse.tuner.features.statistics import Locality, PatternFacts

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field

SUM_S = 2.4e-9
"""Seconds of the horizontal sum of one entry; jammed entries share it."""
ENTRY_S = 0.5e-9
PADDED_S = 1.5e-9
"""Added seconds per block cell, whose entry is found through `origin`."""
PREFETCHED = 0.97
"""Time factor of gathering rows of Y from beyond the L2 cache when they are prefetched."""
DEFAULT_JAM = 4


@dataclass(frozen=True, slots=True)
class SampledModel:
    """Cost model of SDDMM: the larger of gather and arithmetic time, plus the work per entry and row."""

    facts: PatternFacts
    rates: CoreRates = field(default_factory=CoreRates)
    locality: Locality | None = None  # None: no reuse of rows of Y is assumed

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Return the predicted seconds of one product for each schedule."""
        return [self.seconds(problem, one) for one in schedules]

    def seconds(self, problem: Problem, one: SuperSchedule | None) -> float:
        """Return the predicted seconds of one product on the problem's threads."""
        facts, item = self.facts, np.dtype(problem.dtype).itemsize
        width = problem.n_dense_cols * item
        r, c, n_panels, jam, ahead = 1, 1, 1, DEFAULT_JAM, 1
        is_runtimes = one is None or one.is_precompiled
        if one is not None:
            r, c = one.format.split("i"), one.format.split("k")
            if not is_runtimes:
                jam, ahead = one.unroll, one.prefetch
            if one.format.order[0] == "k1":
                c, n_panels = 1, -(-max(1, facts.n_cols) // c)
        n_blocks = facts.nnz / (r * c * (facts.fill(r, c) if r * c > 1 else 1.0))
        n_cells = n_blocks * r * c
        streaming_bytes = facts.n_cols / n_panels * width
        resident_share = self._resident_share(problem, one, streaming_bytes)
        gather_s = n_blocks * c * width * (1.0 - resident_share) / self._rate(problem, streaming_bytes)
        gather_s += n_blocks * c * width * resident_share / self.rates.l2
        if streaming_bytes > problem.target.l2_bytes:
            gather_s *= PREFETCHED if ahead else 1.0
        elif one is not None and ahead:
            gather_s *= 1.03
        gather_s += n_panels * facts.n_rows * width / self._rate(problem, (facts.n_rows + facts.n_cols) * width)
        arithmetic_s = 2.0 * n_cells * problem.n_dense_cols / self.rates.flops
        n_tiles = 1 if one is None or is_runtimes else max(1, problem.n_dense_cols // max(1, one.dense_split("j") or 1))
        entries_s = n_cells * (SUM_S / jam + ENTRY_S + 0.2e-9 * (n_tiles - 1) / jam)
        entries_s += n_cells * PADDED_S if one is not None and not (one.format.is_csr or is_runtimes) else 0.0
        rows_s = n_panels * facts.n_rows / r * self.rates.row_s
        speedup = 1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)
        behind = 1.0 if is_runtimes or r > 1 else behind_runtime(problem)
        return self.rates.start_s + (max(gather_s, arithmetic_s) + entries_s + rows_s) / speedup * behind

    def _resident_share(self, problem: Problem, one: SuperSchedule | None, streaming_bytes: float) -> float:
        """Return the fraction of rows of Y still in L2 when gathered again; see `TrafficModel._fetched_shares`."""
        if self.locality is None or streaming_bytes <= problem.target.l2_bytes:
            return 0.0
        row_bytes = problem.n_dense_cols * np.dtype(problem.dtype).itemsize
        share = self.locality.distinct_share(int(problem.target.l2_bytes / 2 / row_bytes))
        if one is not None and one.format.rows in ("first", "rcm"):
            share = min(share, math.sqrt(share * min(1.0, self.facts.n_cols / max(1, self.facts.nnz))))
        return 1.0 - share

    def _rate(self, problem: Problem, footprint: float) -> float:
        """Return the bytes per second of the smallest cache that holds `footprint` bytes."""
        target = problem.target
        levels = ((target.l1_bytes, self.rates.l1), (target.l2_bytes, self.rates.l2),
                  (min(target.l3_bytes, 16 * target.l2_bytes), self.rates.l3))  # fmt: skip
        return next((rate for limit, rate in levels if footprint <= limit), self.rates.memory)
