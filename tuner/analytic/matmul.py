"""Analytic cost model of SpMV and SpMM: memory traffic and instruction counts from sampled statistics of the pattern.

The predictions order candidates and show when no candidate can beat the default kernel. Callers use ratios to the
predicted time of the default kernel, not absolute seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
from autosparse.tuner.analytic.traits import Traits
from autosparse.tuner.features.statistics import Locality, PatternFacts
from numpy.typing import NDArray

from autosparse.core.dtypes import Real, WideIndex
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.scalar import SCALARS

LINE_BYTES: Final = 64
ODD_ROWS: Final = 1.7  # time factor of SpMV in blocks of 3 or 6 rows; elasticity matrices, two Xeons and an EPYC
CALIBRATED_LANES: Final = 16
"""Values per vector register (64 bytes, float32) on the machine where `VectorRates` were measured."""


class CostModel(Protocol):
    """Interface of a cost model that predicts the time of given schedules."""

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Return the predicted seconds of one product for each schedule (None: the default kernel), in order."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Schedule and its predicted ratio: time over that of the default kernel."""

    schedule: SuperSchedule
    ratio: float


class Proposals(list[Proposal]):
    """Proposals of a learned model, best first; `account` says which model searched for them and what that cost."""

    account: str = ""


class Proposer(Protocol):
    """Interface of a model that returns the best schedules of a space by itself, instead of ranking a given list."""

    @property
    def price_s(self) -> float:
        """Return the expected seconds that a call takes."""

    def __call__(self) -> Sequence[Proposal]:
        """Return the schedules with the lowest predicted ratios, best first; none for a problem outside the model."""

    def more(self, known: Sequence[SuperSchedule]) -> Sequence[Proposal]:
        """Return a longer list of the best schedules, and predictions of `known` where the model has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreRates:
    """Approximate rates of one core, in bytes or operations per second; only their ratios matter for ranking."""

    memory: float = 16e9
    l3: float = 35e9
    l2: float = 70e9
    l1: float = 150e9
    flops: float = 50e9  # of products with several columns; a multiply-add counts twice
    row_s: float = 2e-9  # loop overhead per row, block row, or row in a column panel, in products with several columns
    block_s: float = 1.2e-9  # loop overhead per nonzero or block, in products with several columns
    start_s: float = 0.0  # seconds added to a product on several threads


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRates:
    """Seconds that a cache-resident SpMV takes per entry, block and row on one core, fitted to a few matrices."""

    default_entry: float = 0.28e-9
    default_row: float = 0.9e-9  # includes the branch misses of short rows of unequal lengths
    gathered_entry: float = 0.26e-9  # the entries of a row are the vector lanes
    gathered_narrow: float = 0.24e-9  # the same with 16-bit indices
    gathered_row: float = 1.2e-9
    scalar_entry: float = 0.6e-9
    scalar_row: float = 0.8e-9
    column_block: float = 0.40e-9  # r x 1 blocks: the rows are the vector lanes
    column_cell: float = 0.03e-9
    block: float = 0.72e-9  # r x c blocks
    block_cell: float = 0.036e-9
    block_row: float = 1.5e-9
    panel_row: float = 2.0e-9  # per row and column panel: the partial result is read and written again
    slice_cell: float = 0.195e-9  # SELL: the rows are the vector lanes
    slice_row: float = 0.3e-9
    listed_row: float = 0.15e-9  # added where rows were sorted, because the results are scattered
    diagonal_cell: float = 0.05e-9  # the lanes read consecutive elements of x
    not_unrolled: float = 1.25  # time factor of blocks with a single accumulator


ModelRates = tuple[CoreRates, VectorRates]
Floats = NDArray[Real]


@dataclass(frozen=True, slots=True)
class TrafficModel:
    """Cost model of SpMV and SpMM: the larger of traffic and instruction time, plus loop overheads."""

    facts: PatternFacts
    rates: CoreRates = CoreRates()
    vector: VectorRates = VectorRates()
    locality: Locality | None = None  # None where op(A) is transposed

    def rank(self, problem: Problem, schedules: Sequence[SuperSchedule | None]) -> list[float]:
        """Return the predicted seconds per schedule (None: the default kernel); caches facts of a repeated tuple."""
        traits = Traits.of(schedules)
        shape = _Shapes.of(traits, self.facts)
        setting = _Setting.of(problem)
        if problem.n_dense_cols == 1:
            one_thread_s = self._vector_s(setting, traits, shape)
        else:
            is_runtimes = traits.tile == 0
            one_thread_s = self._wide_s(setting, traits, shape) * np.where(is_runtimes, 1.0, behind_runtime(problem))
        speedup = 1.0 + 0.7 * (min(problem.threads, problem.target.n_cores) - 1)  # L3 and memory are shared
        return list(map(float, self.rates.start_s + one_thread_s / speedup))

    def _vector_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Return the seconds of SpMV per schedule: the larger of instructions and traffic, plus exposed gather time."""
        instructions_s = self._instructions_s(setting, traits, shape)
        instructions_s += (shape.n_panels - 1) * self.facts.n_rows * self.vector.panel_row
        traffic_s = self._stored_bytes(setting, traits, shape) / self._rate(setting, self._footprint(setting))
        x_bytes = self.facts.n_cols / shape.n_panels * setting.item
        missed_bytes = self.facts.nnz * min(1.0, self.facts.lines_per_entry) * LINE_BYTES
        gather_s = 0.25 * missed_bytes / self._rates(setting, x_bytes) * shape.gathered_share
        return np.asarray(np.maximum(instructions_s, traffic_s) + gather_s)

    def _instructions_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        per = _Instructions.of(traits, self.vector, setting.lanes)
        # A short row leaves lanes of its last vector step idle.
        block_s = per.block + per.idle_block / max(1.0, self.facts.mean_row)
        found = shape.n_blocks * block_s + self.facts.n_rows * per.row + shape.n_diagonal_cells * per.diagonal_cell
        return np.asarray(found)

    def _wide_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Return the seconds of SpMM per schedule: to read op(A) per column tile, compute, gather B's rows, write C."""
        # The runtime's kernels process as many columns per pass as fit into their registers.
        tile = np.clip(np.where(traits.tile == 0, 16 * setting.lanes, traits.tile), 1, setting.n_columns)
        n_passes = -(-setting.n_columns // tile)
        stored_bytes = n_passes * self._stored_bytes(setting, traits, shape)
        stored_s = stored_bytes / self._rate(setting, self._footprint(setting))
        n_flops = 2.0 * setting.n_products * shape.n_blocks * traits.r * traits.c * setting.n_columns
        arithmetic_s = n_flops / self.rates.flops + n_passes * shape.n_blocks * self.rates.block_s
        rows_s = n_passes * shape.n_panels * self.facts.n_rows / traits.r * self.rates.row_s
        busy_s = np.maximum(stored_s, arithmetic_s)
        return busy_s + self._dense_s(setting, traits, shape) + rows_s + self._result_s(setting, shape)

    def _stored_bytes(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Return the bytes of op(A) read in one pass, per schedule: one index per block and one value per cell."""
        # SELL stores an index per cell instead of per block, and one per slot along a filled diagonal.
        index_bytes = self._index_bytes(setting, traits) * np.where(traits.is_sliced, traits.r, 1)
        pos_bytes = self.facts.n_rows / traits.r * shape.n_panels * setting.wide
        item = np.where(traits.value_bits > 0, traits.value_bits // 8, setting.item)
        diagonal_bytes = shape.n_diagonal_cells * item
        found = shape.n_blocks * (index_bytes + traits.r * traits.c * item) + diagonal_bytes + pos_bytes
        return np.asarray(found)

    def _index_bytes(self, setting: _Setting, traits: Traits) -> Floats:
        """Return the bytes of a stored column index.

        SELL stores 16-bit offsets from the smallest column of a slice, and 32-bit offsets in slices that span more
        columns. The assumed share of 16-bit slices falls linearly from 1, where rows span 2^15 columns on average, to 0
        at 2^16.
        """
        reach = self.facts.mean_gap * max(0.0, self.facts.mean_row - 1.0)
        narrow_share = min(1.0, max(0.0, 2.0 - reach / (1 << 15)))
        found = np.where(traits.index_bits > 0, traits.index_bits // 8, setting.wide)
        return np.where(traits.is_sliced & (traits.index_bits == 16), 4.0 - 2.0 * narrow_share, found)

    def _footprint(self, setting: _Setting) -> float:
        """Return the bytes of all operands of one product, which decide the cache level that holds them."""
        dense = (self.facts.n_rows + self.facts.n_cols) * setting.n_columns * setting.item
        return dense + setting.operand_bytes

    def _rate(self, setting: _Setting, footprint: float) -> float:
        """Return the bytes per second of the smallest cache that holds `footprint` bytes."""
        return float(self._rates(setting, np.asarray(footprint)))

    def _rates(self, setting: _Setting, footprints: Floats) -> Floats:
        """Return, for each footprint, the bytes per second of the smallest cache that holds it."""
        limits, rates = setting.cache_bytes, (self.rates.l1, self.rates.l2, self.rates.l3)
        found = np.where(footprints <= limits[2], rates[2], self.rates.memory)
        return np.where(footprints <= limits[0], rates[0], np.where(footprints <= limits[1], rates[1], found))

    def _dense_s(self, setting: _Setting, traits: Traits, shape: _Shapes) -> Floats:
        """Return the seconds to gather rows of B from a column panel's cache, or from L2 where they are reused soon."""
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
        """Return the fractions of rows of B that come from beyond L2: (with reordered rows, with rows as stored)."""
        assert self.locality is not None
        row_bytes = setting.n_columns * setting.item
        share = self.locality.distinct_share(int(setting.cache_bytes[1] / 2 / row_bytes))
        return min(share, math.sqrt(share * min(1.0, self.facts.n_cols / max(1, self.facts.nnz)))), share

    def _result_s(self, setting: _Setting, shape: _Shapes) -> Floats:
        """Return the seconds to write C; every column panel after the first reads and writes it once more."""
        n_bytes = self.facts.n_rows * setting.n_columns * setting.item
        found = n_bytes * (1 + 2 * (shape.n_panels - 1)) / self._rate(setting, self._footprint(setting))
        return np.asarray(found)


LLC_CONTENTION: Final = 1.3
"""Time factor of SpMM without streaming stores past a victim L3 (23 matrices; docs/design/dense-operands.md)."""
IDENTICAL_ROWS: Final = 1.3
"""Time factor of SpMM that does not merge identical rows (elasticity matrices; docs/design/compiled-kernels.md).
"""


def behind_runtime(problem: Problem) -> float:
    """Return the expected time of generated kernels over the runtime's loops due to features that only the latter have.

    The runtime's loops use streaming stores for large results where the L3 is a victim cache, and compute three
    identical rows together. The blocks that generated kernels use instead are part of the model itself.
    """
    target = problem.target
    dense_bytes = (
        (problem.matrix.n_rows + problem.matrix.n_cols) * problem.n_dense_cols * np.dtype(problem.dtype).itemsize
    )
    is_contended = target.fills_last_cache_late and 2 * dense_bytes > target.l3_bytes
    has_identical_rows = not problem.transposed and problem.matrix.has_identical_rows
    return (LLC_CONTENTION if is_contended else 1.0) * (IDENTICAL_ROWS if has_identical_rows else 1.0)


@dataclass(frozen=True, slots=True)
class _Instructions:
    """Instruction times of SpMV, in seconds, one array element per schedule: per block, row, and diagonal cell."""

    block: Floats
    idle_block: Floats  # added to `block` after division by the mean row length
    row: Floats
    diagonal_cell: Floats

    @classmethod
    def of(cls, traits: Traits, v: VectorRates, lanes: int) -> _Instructions:
        """Return the costs for vector registers of `lanes` values; they are cached with the traits."""
        found: _Instructions | None = traits.kept.get((v, lanes))
        if found is None:
            found = traits.kept[v, lanes] = cls._of(traits, v, lanes)
        return found

    @classmethod
    def _of(cls, traits: Traits, v: VectorRates, lanes: int) -> _Instructions:
        cells, is_column, is_gathered = traits.r * traits.c, traits.c == 1, traits.unroll >= 4
        # Halving the lanes less than doubles the time, because loads dominate.
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
    """Properties of a problem that the model reads."""

    item: int  # bytes of a value
    n_products: int  # real products of a product: 4 of complex values
    lanes: int
    wide: int  # bytes of an index of the user's arrays
    n_columns: int
    threads: int
    operand_bytes: int
    cache_bytes: tuple[int, int, int]

    @classmethod
    def of(cls, problem: Problem) -> _Setting:
        item, target = np.dtype(problem.dtype).itemsize, problem.target
        return cls(
            item, SCALARS[problem.dtype].n_parts ** 2, max(1, target.vector_bytes // item),
            SCALARS[problem.pattern.index_dtype].itemsize, problem.n_dense_cols, problem.threads, problem.operand_bytes,
            # The last level is counted at 16 L2 sizes at most: servers share it with cores that this process may not
            # use.
            (target.l1_bytes, target.l2_bytes, min(target.l3_bytes, 16 * target.l2_bytes)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Sizes of the matrix in each schedule's format: blocks (slots, entries), column panels and diagonal cells."""

    n_blocks: Floats
    n_panels: NDArray[WideIndex]
    n_diagonal_cells: Floats  # not counted in `n_blocks`
    gathered_share: Floats  # share of the entries that are read by index

    @classmethod
    def of(cls, traits: Traits, facts: PatternFacts) -> _Shapes:
        is_block = traits.r * traits.c > 1
        fills = np.array([facts.fill(r, c) if r * c > 1 else 1.0 for r, c in traits.blocks])[traits.block_of]
        n_blocks = np.where(is_block, facts.nnz / (traits.r * traits.c * fills), float(facts.nnz))
        share = np.where(traits.is_diagonal, facts.diagonal_share, 0.0)
        slots = np.array([facts.cells_per_entry(r, sigma) for r, sigma in traits.slices])[traits.slice_of]
        n_slots = (1.0 - share) * facts.nnz * slots / traits.r
        n_panels = np.where(traits.panel > 0, -(-max(1, facts.n_cols) // np.maximum(1, traits.panel)), 1)
        n_blocks = np.where(traits.is_sliced, n_slots, n_blocks)
        return cls(n_blocks, n_panels, share * facts.nnz * facts.diagonal_cells, 1.0 - share)
