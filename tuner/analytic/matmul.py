"""Predicted time of a schedule: traffic and instructions of one product, from an O(nnz)-sampled PatternFacts.

The model only has to order candidates and to know when none can win: absolute times are anchored to the default
kernel's measured time by whoever uses them. Learned models (WACO) implement the same `rank`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from autosparse.tuner.analytic.traits import Traits
from autosparse.tuner.features.statistics import Locality, PatternFacts
from numpy.typing import NDArray

from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass

LINE_BYTES: Final = 64
ODD_ROWS: Final = 1.7  # times the time of vector products by blocks of 3 or 6 rows: elasticity, two Xeons and an EPYC
CALIBRATED_LANES: Final = 16
"""Lanes of the machine and type (AVX-512, float32) that `VectorRates` were measured with."""


class CostModel(Protocol):
    """Anything that predicts times."""

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product for each schedule (None: the default kernel), in the given order."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A schedule and its predicted time over the default kernel's."""

    schedule: SuperSchedule
    ratio: float
    guess: float = 1.0  # ... by the statistics, where a learned model asked them


class Proposer(Protocol):
    """A model that searches a space by itself instead of ranking a list: the learned tier."""

    @property
    def price_s(self) -> float:
        """Expected seconds of a call."""

    def __call__(self) -> Sequence[Proposal]:
        """The most promising schedules, best first; none when the model cannot say anything about this problem."""

    def more(self, known: Sequence[SuperSchedule]) -> Sequence[Proposal]:
        """Many more of the most promising ones, and predictions of `known`, as far as the model has any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRates:
    """Rough rates of one core, bytes or operations per second; only their ratios matter for ranking."""

    memory: float = 16e9
    l3: float = 35e9
    l2: float = 70e9
    l1: float = 150e9
    flops: float = 50e9  # of wide products, a multiply-add counted twice
    row_s: float = 2e-9  # loop overhead of a row (of a block row, of a row in a panel) in a wide product
    block_s: float = 1.2e-9  # ... of a nonzero or block


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRates:
    """Seconds of one core per entry, block and row of a vector product in its cache: fitted to a few matrices."""

    default_entry: float = 0.28e-9
    default_row: float = 0.9e-9  # short rows of unlike lengths cost more than long ones
    gathered_entry: float = 0.26e-9  # entries of a row as vector lanes
    gathered_narrow: float = 0.24e-9  # ... with 16-bit indices
    gathered_row: float = 1.2e-9
    scalar_entry: float = 0.6e-9
    scalar_row: float = 0.8e-9
    column_block: float = 0.40e-9  # r x 1 blocks: rows as vector lanes
    column_cell: float = 0.03e-9
    block: float = 0.72e-9  # r x c blocks
    block_cell: float = 0.036e-9
    block_row: float = 1.5e-9
    panel_row: float = 2.0e-9  # of a row in one panel of columns: its result is read and written again
    slice_cell: float = 0.195e-9  # rows as vector lanes, slot by slot
    slice_row: float = 0.3e-9
    listed_row: float = 0.15e-9  # more where rows were sorted: their results are scattered
    diagonal_cell: float = 0.05e-9  # neighbours in x as lanes
    not_unrolled: float = 1.25  # penalty of blocks with a single accumulator


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrafficModel:
    """max(memory, instructions) + loop overheads, of many schedules at once."""

    facts: PatternFacts
    rates: CoreRates = CoreRates()
    vector: VectorRates = VectorRates()
    locality: Locality | None = None  # of a pattern that is not transposed

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Predicted seconds of one product on the problem's threads, for each schedule.

        What is read of schedules is remembered for a tuple that is given again.
        """
        traits = Traits.of(schedules)
        shape = _Shapes.of(traits, self.facts)
        setting = _Setting.of(problem)
        if problem.n_dense_cols == 1:
            one_thread_s = self._vector_s(setting, traits, shape)
        else:
            is_runtimes = traits.tile == 0
            one_thread_s = self._wide_s(setting, traits, shape) * np.where(is_runtimes, 1.0, behind_runtime(problem))
        # Two threads on two cores gain about 1.7: they share what lies behind the second cache level.
        times: list[float] = (one_thread_s / (1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1))).tolist()
        return times

    def _vector_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Instructions or traffic, whichever takes longer: a vector product overlaps them."""
        instructions_s = self._instructions_s(setting, traits, shape)
        instructions_s += (shape.n_panels - 1) * self.facts.n_rows * self.vector.panel_row
        scatter_s = shape.n_blocks * SCATTER_S + setting.threads * self.facts.n_rows * self.vector.panel_row
        instructions_s += np.where(traits.is_symmetric, scatter_s, 0.0)  # each entry is also added to another row
        traffic_s = self._stored_bytes(setting, traits, shape) / self._rate(setting, self._footprint(setting))
        x_bytes = self.facts.n_cols / shape.n_panels * setting.item
        missed_bytes = self.facts.nnz * min(1.0, self.facts.lines_per_entry) * LINE_BYTES
        gather_s = 0.25 * missed_bytes / self._rates(setting, x_bytes) * shape.gathered_share
        return np.asarray(np.maximum(instructions_s, traffic_s) + gather_s)

    def _instructions_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        per = _Instructions.of(traits, self.vector, setting.lanes)
        # A short row leaves lanes of its last step idle.
        block_s = per.block + per.idle_block / max(1.0, self.facts.mean_row)
        found = shape.n_blocks * block_s + self.facts.n_rows * per.row + shape.n_diagonal_cells * per.diagonal_cell
        return np.asarray(found)

    def _wide_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Reading op(A) once per column tile, multiply-adds, gathering rows of B, writing C."""
        # The runtime's kernels take as many columns in a pass as their registers hold.
        tile = np.clip(np.where(traits.tile == 0, 16 * setting.lanes, traits.tile), 1, setting.n_columns)
        n_passes = -(-setting.n_columns // tile)
        stored_bytes = n_passes * self._stored_bytes(setting, traits, shape)
        stored_s = stored_bytes / self._rate(setting, self._footprint(setting))
        n_flops = 2.0 * shape.n_blocks * traits.r * traits.c * setting.n_columns
        arithmetic_s = n_flops / self.rates.flops + n_passes * shape.n_blocks * self.rates.block_s
        rows_s = n_passes * shape.n_panels * self.facts.n_rows / traits.r * self.rates.row_s
        busy_s = np.maximum(stored_s, arithmetic_s)
        return busy_s + self._dense_s(setting, traits, shape) + rows_s + self._result_s(setting, shape)

    def _stored_bytes(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Bytes of op(A) read in one pass: one index per block, a value per cell."""
        # Of slices, an index per cell, not per block; one per slot along a filled diagonal.
        index_bytes = self._index_bytes(setting, traits) * np.where(traits.is_sliced, traits.r, 1)
        pos_bytes = self.facts.n_rows / traits.r * shape.n_panels * setting.wide
        item = np.where(traits.value_bits > 0, traits.value_bits // 8, setting.item)
        diagonal_bytes = shape.n_diagonal_cells * item
        found = shape.n_blocks * (index_bytes + traits.r * traits.c * item) + diagonal_bytes + pos_bytes
        return np.asarray(found)

    def _index_bytes(self, setting: _Setting, traits: Traits) -> Floats:
        """Bytes of a stored column.

        Slices that count 16 bits from their smallest column hold 32 where these do not suffice. A slice reaches as far
        as the widest of its rows: all do where rows in the mean reach as far, none where they reach half as far.
        """
        reach = self.facts.mean_gap * max(0.0, self.facts.mean_row - 1.0)
        narrow_share = min(1.0, max(0.0, 2.0 - reach / (1 << 15)))
        found = np.where(traits.index_bits > 0, traits.index_bits // 8, setting.wide)
        return np.where(traits.is_sliced & (traits.index_bits == 16), 4.0 - 2.0 * narrow_share, found)

    def _footprint(self, setting: _Setting) -> float:
        """Bytes of one product's operands: what decides which cache they live in."""
        dense = (self.facts.n_rows + self.facts.n_cols) * setting.n_columns * setting.item
        return dense + setting.operand_bytes

    def _rate(self, setting: _Setting, footprint: float) -> float:
        """Bytes per second of the smallest cache that holds `footprint`."""
        return float(self._rates(setting, np.asarray(footprint)))

    def _rates(self, setting: _Setting, footprints: Floats) -> Floats:
        """`_rate` of each."""
        limits, rates = setting.cache_bytes, (self.rates.l1, self.rates.l2, self.rates.l3)
        found = np.where(footprints <= limits[2], rates[2], self.rates.memory)
        return np.where(footprints <= limits[0], rates[0], np.where(footprints <= limits[1], rates[1], found))

    def _dense_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Gathering rows of B: what a panel of columns of op(A) covers comes from the cache that holds that panel.

        Of a larger B, rows that come back soon come from the core's own cache.
        """
        panel_bytes = self.facts.n_cols / shape.n_panels * setting.n_columns * setting.item
        width = setting.n_columns * traits.c * setting.item
        touched = shape.n_blocks * np.maximum(width, LINE_BYTES * min(1.0, self.facts.lines_per_entry * 4))
        streaming_s = touched / self._rates(setting, panel_bytes)
        is_streaming = panel_bytes > setting.cache_bytes[1]
        if self.locality is None or not is_streaming.any():
            return np.asarray(streaming_s)
        share = np.where(traits.is_shared, *self._fetched_shares(setting))
        return np.where(is_streaming, share * streaming_s + (1.0 - share) * touched / self.rates.l2, streaming_s)

    def _fetched_shares(self, setting: _Setting) -> tuple[float, float]:
        """Share of the rows of B that are not in the core's own cache when they are wanted: (rows in order, as stored).

        An order of rows is not tried out here: it is taken to come half way (in the logarithm) to fetching each row of
        B once.
        """
        assert self.locality is not None
        row_bytes = setting.n_columns * setting.item
        share = self.locality.distinct_share(int(setting.cache_bytes[1] / 2 / row_bytes))
        return min(share, math.sqrt(share * min(1.0, self.facts.n_cols / max(1, self.facts.nnz)))), share

    def _result_s(self, setting: _Setting, shape: _Shapes) -> Floats:
        """Writing C; every panel after the first reads and writes it once more."""
        n_bytes = self.facts.n_rows * setting.n_columns * setting.item
        found = n_bytes * (1 + 2 * (shape.n_panels - 1)) / self._rate(setting, self._footprint(setting))
        return np.asarray(found)


LLC_CONTENTION: Final = 1.3
"""Geometric mean over 23 matrices, 256 columns (docs/design/dense-operands.md)."""
IDENTICAL_ROWS: Final = 1.3
"""Geometric mean over matrices of elasticity, 32 to 256 columns (docs/design/compiled-kernels.md rows.md)."""


def behind_runtime(problem: Problem) -> float:
    """Time of a generated kernel for a wide product over that of the runtime's loops, for what only these do.

    Where the last cache takes what other caches throw out they store large results past it; and they compute three rows
    with the same columns together (of the blocks that generated kernels have instead the model knows).
    """
    target = problem.target
    dense_bytes = (
        (problem.matrix.n_rows + problem.matrix.n_cols) * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    )
    is_contended = target.fills_last_cache_late and 2 * dense_bytes > target.l3_bytes
    has_identical_rows = not problem.transposed and problem.matrix.has_identical_rows
    return (LLC_CONTENTION if is_contended else 1.0) * (IDENTICAL_ROWS if has_identical_rows else 1.0)


SCATTER_S: Final = 0.6e-9
"""Adding an entry's product to a row that is somewhere else."""


@dataclass(frozen=True, slots=True)
class _Instructions:
    """Seconds per block (slot, entry), row, and cell on a diagonal, of a vector product by each schedule."""

    block: Floats
    idle_block: Floats  # beside it, times one over the mean length of rows
    row: Floats
    diagonal_cell: Floats

    @classmethod
    def of(cls, traits: Traits, v: VectorRates, lanes: int) -> _Instructions:
        """Of registers of `lanes` values; remembered with the traits."""
        found: _Instructions | None = traits.kept.get((v, lanes))
        if found is None:
            found = traits.kept[v, lanes] = cls._of(traits, v, lanes)
        return found

    @classmethod
    def _of(cls, traits: Traits, v: VectorRates, lanes: int) -> _Instructions:
        cells, is_column, is_gathered = traits.r * traits.c, traits.c == 1, traits.unroll >= 4
        # Half the lanes cost less than twice: loads dominate.
        narrow = math.sqrt(CALIBRATED_LANES / max(1, lanes))
        gathered = np.where(traits.index_bits == 16, v.gathered_narrow, v.gathered_entry) * narrow
        entry, row = (
            np.where(is_gathered, gathered, v.scalar_entry),
            np.where(is_gathered, v.gathered_row, v.scalar_row),
        )
        idle = np.where(is_gathered, gathered * 0.1 * traits.unroll, 0.0)
        base, cell = np.where(is_column, v.column_block, v.block), np.where(is_column, v.column_cell, v.block_cell)
        slow = np.where(is_column & (traits.unroll == 1), v.not_unrolled, 1.0)
        slow = np.where(traits.r & (traits.r - 1), ODD_ROWS, 1.0) * slow
        block, block_row = slow * (base + cell * cells * narrow**2), slow * v.block_row / traits.r
        slot, slice_row = cells * v.slice_cell * narrow, v.slice_row + np.where(traits.sigma > 1, v.listed_row, 0.0)
        which = [traits.is_default, traits.is_sliced, cells > 1]
        return cls(
            block=np.select(which, [np.full(cells.shape, v.default_entry * narrow), slot, block], entry),
            idle_block=np.where(traits.is_default | traits.is_sliced | (cells > 1), 0.0, idle),
            row=np.select(which, [np.full(cells.shape, v.default_row), slice_row, block_row], row),
            diagonal_cell=np.where(traits.is_sliced, v.diagonal_cell * narrow**2, 0.0),
        )


@dataclass(frozen=True, slots=True)
class _Setting:
    """What the model reads of a problem."""

    item: int  # bytes of a value
    lanes: int
    wide: int  # bytes of the user's indices
    n_columns: int
    threads: int
    operand_bytes: int
    cache_bytes: tuple[int, int, int]

    @classmethod
    def of(cls, problem: Problem) -> _Setting:
        item, target = np.dtype(problem.dtype).itemsize, problem.target
        return cls(
            item, max(1, target.vector_bytes // item), 8 if problem.pattern.index_dtype == "int64" else 4,
            problem.n_dense_cols, problem.threads, problem.operand_bytes,
            # A core's fair share: the last level is shared, on servers with cores that we may not even use.
            (target.l1_bytes, target.l2_bytes, min(target.l3_bytes, 16 * target.l2_bytes)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shapes:
    """What formats make of a pattern: numbers of blocks (slots, entries), panels of columns, and cells on diagonals."""

    n_blocks: Floats
    n_panels: NDArray[np.int64]
    n_diagonal_cells: Floats  # beside the blocks
    gathered_share: Floats  # of the entries

    @classmethod
    def of(cls, traits: Traits, facts: PatternFacts) -> _Shapes:
        is_block = traits.r * traits.c > 1
        fills = np.array([facts.fill(r, c) if r * c > 1 else 1.0 for r, c in traits.blocks])[traits.block_of]
        n_stored = np.where(traits.is_symmetric, (facts.nnz + facts.n_rows) / 2, float(facts.nnz))
        n_blocks = np.where(is_block, n_stored / (traits.r * traits.c * fills), n_stored)
        share = np.where(traits.is_diagonal, facts.diagonal_share, 0.0)
        slots = np.array([facts.cells_per_entry(r, sigma) for r, sigma in traits.slices])[traits.slice_of]
        n_slots = (1.0 - share) * facts.nnz * slots / traits.r
        n_panels = np.where(traits.panel > 0, -(-max(1, facts.n_cols) // np.maximum(1, traits.panel)), 1)
        n_blocks = np.where(traits.is_sliced, n_slots, n_blocks)
        return cls(n_blocks, n_panels, share * facts.nnz * facts.diagonal_cells, 1.0 - share)
