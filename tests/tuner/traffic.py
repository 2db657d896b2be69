"""The traffic model schedule by schedule: what `autosparse.tuner.analytic.matmul` computes for many at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from autosparse.tuner.analytic.matmul import (
    CALIBRATED_LANES,
    LINE_BYTES,
    SCATTER_S,
    MachineRates,
    VectorRates,
    behind_runtime,
)
from autosparse.tuner.features.statistics import Locality, PatternFacts

from autosparse.core.formats import SLICED_KINDS, Format, LevelKind
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target


@dataclass(frozen=True, slots=True)
class PlainTrafficModel:
    """max(memory, instructions) + loop overheads; see `seconds`."""

    facts: PatternFacts
    rates: MachineRates = field(default_factory=MachineRates)
    vector: VectorRates = field(default_factory=VectorRates)
    locality: Locality | None = None  # of a pattern that is not transposed

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product for each schedule."""
        return [self.seconds(problem, one) for one in schedules]

    def seconds(self, problem: Problem, one: SuperSchedule | None) -> float:
        """One product on the problem's threads."""
        shape = _Shape.of(one, self.facts)
        is_vector = problem.n_dense_cols == 1
        compute = self._vector_s if is_vector else self._wide_s
        is_runtimes = one is None or one.is_precompiled
        behind = 1.0 if is_vector or is_runtimes else behind_runtime(problem)
        # Two threads on two cores gain about 1.7: they share what lies behind the second cache level.
        speedup = 1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)
        return behind * compute(problem, one, shape) / speedup

    def _vector_s(self, problem: Problem, one: SuperSchedule | None, shape: _Shape) -> float:
        """Instructions or traffic, whichever takes longer: a vector product overlaps them."""
        v, n_rows = self.vector, self.facts.n_rows
        lanes = problem.target.vector_bytes // np.dtype(problem.dtype).itemsize
        narrow = math.sqrt(CALIBRATED_LANES / max(1, lanes))  # half the lanes cost less than twice: loads dominate
        cells = shape.r * shape.c
        if one is None:
            instructions_s = shape.n_blocks * v.default_entry * narrow + n_rows * v.default_row
        elif shape.is_sliced:
            instructions_s = shape.n_blocks * cells * v.slice_cell * narrow + n_rows * v.slice_row
            instructions_s += shape.n_diagonal_cells * v.diagonal_cell * narrow**2
            instructions_s += n_rows * v.listed_row if one.format.sigma > 1 else 0.0
        elif cells > 1:
            base, cell = (v.column_block, v.column_cell) if shape.c == 1 else (v.block, v.block_cell)
            instructions_s = shape.n_blocks * (base + cell * cells * narrow**2) + n_rows / shape.r * v.block_row
            instructions_s *= v.not_unrolled if one.unroll == 1 and shape.c == 1 else 1.0
        else:
            is_gathered = one.unroll >= 4
            gathered = v.gathered_narrow if one.format.index_bits == 16 else v.gathered_entry
            entry, row = (gathered * narrow, v.gathered_row) if is_gathered else (v.scalar_entry, v.scalar_row)
            # A short row leaves lanes of its last step idle.
            idle = 1.0 + 0.5 * one.unroll / max(1.0, self.facts.mean_row) * 0.2 if is_gathered else 1.0
            instructions_s = shape.n_blocks * entry * idle + n_rows * row
        instructions_s += (shape.n_panels - 1) * n_rows * v.panel_row
        if one is not None and one.format.symmetric:  # each entry is also added to another row
            instructions_s += shape.n_blocks * SCATTER_S + problem.threads * n_rows * v.panel_row
        traffic_s = self._stored_bytes(problem, one, shape) / self._rate(problem.target, self._footprint(problem))
        x_bytes = self.facts.n_cols / shape.n_panels * np.dtype(problem.dtype).itemsize
        missed_bytes = self.facts.nnz * min(1.0, self.facts.lines_per_entry) * LINE_BYTES
        gather_s = 0.25 * missed_bytes / self._rate(problem.target, x_bytes) * shape.gathered_share
        return max(instructions_s, traffic_s) + gather_s

    def _wide_s(self, problem: Problem, one: SuperSchedule | None, shape: _Shape) -> float:
        """Reading op(A) once per column tile, multiply-adds, gathering rows of B, writing C."""
        n_passes = -(-problem.n_dense_cols // self._tile(problem, one))
        stored_bytes = n_passes * self._stored_bytes(problem, one, shape)
        stored_s = stored_bytes / self._rate(problem.target, self._footprint(problem))
        n_flops = 2.0 * shape.n_blocks * shape.r * shape.c * problem.n_dense_cols
        arithmetic_s = n_flops / self.rates.flops + n_passes * shape.n_blocks * self.rates.block_s
        rows_s = n_passes * shape.n_panels * self.facts.n_rows / shape.r * self.rates.row_s
        return (
            max(stored_s, arithmetic_s) + self._dense_s(problem, one, shape) + rows_s + self._result_s(problem, shape)
        )

    def _tile(self, problem: Problem, one: SuperSchedule | None) -> int:
        """Columns computed in one pass; the default kernel takes as many as its registers hold."""
        lanes = max(1, problem.target.vector_bytes // np.dtype(problem.dtype).itemsize)
        tile = one.dense_split("j") if one else 0
        if tile == 0:
            tile = 16 * lanes
        return max(1, min(tile, problem.n_dense_cols))

    def _stored_bytes(self, problem: Problem, one: SuperSchedule | None, shape: _Shape) -> float:
        """Bytes of op(A) read in one pass: one index per block, a value per cell."""
        fmt: Format | None = one.format if one else None
        item = 2 if fmt is not None and fmt.values else np.dtype(problem.dtype).itemsize
        wide = 8 if problem.pattern.index_dtype == "int64" else 4
        index_bytes = wide if fmt is None or fmt.is_csr else fmt.index_bits // 8
        if shape.is_sliced:  # an index per cell, not per block; one per slot along a filled diagonal
            index_bytes *= shape.r
        pos_bytes = self.facts.n_rows / shape.r * shape.n_panels * wide
        diagonal_bytes = shape.n_diagonal_cells * item
        return shape.n_blocks * (index_bytes + shape.r * shape.c * item) + diagonal_bytes + pos_bytes

    def _footprint(self, problem: Problem) -> float:
        """Bytes of one product's operands: what decides which cache they live in."""
        item = np.dtype(problem.dtype).itemsize
        dense = (self.facts.n_rows + self.facts.n_cols) * problem.n_dense_cols * item
        return dense + problem.operand_bytes

    def _rate(self, target: Target, footprint: float) -> float:
        """Bytes per second of the smallest cache of `target` that holds `footprint`."""
        levels = (
            (target.l1_bytes, self.rates.l1),
            (target.l2_bytes, self.rates.l2),
            # A core's fair share: the last level is shared, on servers with cores that we may not even use.
            (min(target.l3_bytes, 16 * target.l2_bytes), self.rates.l3),
        )
        return next((rate for limit, rate in levels if footprint <= limit), self.rates.memory)

    def _dense_s(self, problem: Problem, one: SuperSchedule | None, shape: _Shape) -> float:
        """Gathering rows of B: what a panel of columns of op(A) covers comes from the cache that holds that panel.

        Of a larger B, rows that come back soon come from the core's own cache.
        """
        item = np.dtype(problem.dtype).itemsize
        panel_bytes = self.facts.n_cols / shape.n_panels * problem.n_dense_cols * item
        width = problem.n_dense_cols * shape.c * item
        touched = shape.n_blocks * max(width, LINE_BYTES * min(1.0, self.facts.lines_per_entry * 4))
        far_s = touched / self._rate(problem.target, panel_bytes)
        if self.locality is None or panel_bytes <= problem.target.l2_bytes:
            return far_s
        share = self._fetched_share(problem, one)
        return share * far_s + (1.0 - share) * touched / self.rates.l2

    def _fetched_share(self, problem: Problem, one: SuperSchedule | None) -> float:
        """Share of the rows of B that are not in the core's own cache when they are wanted.

        An order of rows is not tried out here: it is taken to come half way (in the logarithm) to fetching each row of
        B once.
        """
        assert self.locality is not None
        row_bytes = problem.n_dense_cols * np.dtype(problem.dtype).itemsize
        share = self.locality.distinct_share(int(problem.target.l2_bytes / 2 / row_bytes))
        if one is None or one.format.rows not in ("first", "rcm"):
            return share
        return min(share, math.sqrt(share * min(1.0, self.facts.n_cols / max(1, self.facts.nnz))))

    def _result_s(self, problem: Problem, shape: _Shape) -> float:
        """Writing C; every panel after the first reads and writes it once more."""
        item = np.dtype(problem.dtype).itemsize
        n_bytes = self.facts.n_rows * problem.n_dense_cols * item
        return n_bytes * (1 + 2 * (shape.n_panels - 1)) / self._rate(problem.target, self._footprint(problem))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a format makes of a pattern: blocks of r x c, their number (entries for 1 x 1), panels of columns."""

    r: int
    c: int
    n_blocks: float
    n_panels: int
    is_sliced: bool = False
    n_diagonal_cells: float = 0.0  # beside the blocks
    gathered_share: float = 1.0  # of the entries

    @classmethod
    def of(cls, one: SuperSchedule | None, facts: PatternFacts) -> _Shape:
        if one is None:
            return cls(1, 1, facts.nnz, 1)
        r, c = one.format.split("i"), one.format.split("k")
        if one.format.levels[1].kind in SLICED_KINDS:
            share = facts.diagonal_share if one.format.levels[1].kind is LevelKind.DIAGONAL else 0.0
            n_slots = (1.0 - share) * facts.nnz * facts.cells_per_entry(r, one.format.sigma) / r
            n_cells = share * facts.nnz * facts.diagonal_cells
            return cls(r, 1, n_slots, 1, is_sliced=True, n_diagonal_cells=n_cells, gathered_share=1.0 - share)
        if one.format.order[0] == "k1":
            return cls(1, 1, facts.nnz, -(-max(1, facts.n_cols) // c))
        fill = facts.fill(r, c) if r * c > 1 else 1.0
        n_stored = (facts.nnz + facts.n_rows) / 2 if one.format.symmetric else facts.nnz
        return cls(r, c, n_stored / (r * c * fill), 1)
