"""Analytic cost model: seconds of one product on a GPU, from counts of the pattern and the target's rates.

A product takes as long as the resource that limits it: memory, L2 cache, multiply-adds, or instruction issue; and at
least as long as its longest chain of dependent loads. STile §3.2 counts the same bytes and operations, Table 3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autosparse.tuner.gpu.facts import WINDOW_HEIGHTS, DevicePattern

from autosparse.core.composite import REST, Selection
from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule, GpuPart
from autosparse.gpu.target import DeviceTarget
from autosparse.scalar import SCALARS, TRITON

ITEM_BYTES: Final = {name: SCALARS[name].itemsize for name in TRITON}
"""Bytes of a value, by dtype."""
INDEX_BYTES: Final = 4
"""Bytes of an index."""
SUM_BYTES: Final = 4
"""Bytes of an element of a partial row, for dtypes that are summed in float32."""
SECTOR_BYTES: Final = 32
"""Minimum bytes of a transfer from the L2 cache."""
ISSUE_PER_LOAD: Final = 6.0
"""Warp instructions per load of B beside the multiply-adds: addresses, predicates, conversions."""
WARP: Final = 32
"""Threads of a warp."""
ISSUERS: Final = 4
"""Warp instructions that one multiprocessor issues per clock."""
WARPS_TO_BE_BUSY: Final = 8.0
"""Warps of one multiprocessor that hide most of the latency of loads."""
LOADS_AT_FIRST: Final = 2.0
"""Dependent loads of a program before its first entry: its task, and the location of its rows."""
LOADS_IN_TURN: Final = 2.0
"""Dependent loads of one iteration: columns, then the rows of B that they name."""
HIT: Final = 0.5
"""Mean latency of a load, as a fraction of the latency of one that misses every cache."""
TILED_RATE: Final = 0.5
"""Fraction of each rate that kernels with Tensor Cores reach: on an H200 they took 1.5 to 2.6 times the count."""
OVERLAP: Final = 0.25
"""Fraction of the time under the non-limiting rates that is not hidden behind the limiting one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """Resources that a part uses: bytes of memory and of the L2 cache, operations, issued instructions."""

    memory_bytes: float = 0.0
    l2_bytes: float = 0.0
    flops: float = 0.0
    dot_flops: float = 0.0
    issued: float = 0.0
    longest: float = 0.0  # dependent iterations of the longest program
    tasks: float = 0.0
    waits: float = 0.0  # dependent loads of all programs together

    def plus(self, other: DeviceWork) -> DeviceWork:
        """Return the sum of both, in one launch."""
        return DeviceWork(
            memory_bytes=self.memory_bytes + other.memory_bytes,
            l2_bytes=self.l2_bytes + other.l2_bytes,
            flops=self.flops + other.flops,
            dot_flops=self.dot_flops + other.dot_flops,
            issued=self.issued + other.issued,
            longest=max(self.longest, other.longest),
            tasks=self.tasks + other.tasks,
            waits=self.waits + other.waits,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSizes:
    """Number of columns of the dense operands, and dtype, of one product."""

    n_dense_cols: int
    dtype: str

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of B."""
        return self.n_dense_cols * ITEM_BYTES[self.dtype]


Given = Mapping[Selection, DevicePattern]
"""Counts of the entries that each rule selects; REST: those that all other rules leave."""


def predicted_s(
    pattern: DevicePattern,
    schedule: DeviceSchedule,
    product: ProductSizes,
    target: DeviceTarget,
    given: Given | None = None,
) -> float:
    """Return the predicted seconds of one product by `schedule`; `given`: counts of the entries of each rule."""
    work = work_of(pattern, schedule, product, target, given)
    launches = 2 if schedule.shares_rows else 1  # a sum of partial rows
    return roofs_s(work, product, schedule, target) + launches * target.launch_s


def roofs_s(work: DeviceWork, product: ProductSizes, schedule: DeviceSchedule, target: DeviceTarget) -> float:
    """Return the predicted seconds without launches: the limiting time plus a fraction of the others.

    It is at least the longest chain of loads. With too few warps to keep every multiprocessor busy, only the memory
    rate is reached.
    """
    busy = min(1.0, max(work.tasks, 1.0) * schedule.warps / (target.n_sms * WARPS_TO_BE_BUSY))
    memory_s, *others = roofs(work, product, schedule, target)
    times = [memory_s, *(time / busy for time in others)]
    resident = min(target.blocks, max(1, target.registers // (schedule.registers * WARP * schedule.warps)))
    times.append(work.waits * HIT * target.latency_s / (target.n_sms * resident))
    binding = max(times)
    return max(binding + OVERLAP * (sum(times) - binding), work.longest * target.latency_s)


def roofs(
    work: DeviceWork, product: ProductSizes, schedule: DeviceSchedule, target: DeviceTarget
) -> tuple[float, float, float, float]:
    """Return the seconds at each rate of a busy device: memory, L2 cache, operations, instruction issue."""
    return (
        work.memory_bytes / target.memory_bytes_s,
        work.l2_bytes / target.l2_bytes_s,
        work.flops / target.core_flops(product.dtype)
        + work.dot_flops / target.dot_flops(product.dtype, schedule.precision),
        work.issued / (target.n_sms * ISSUERS * target.clock_hz),
    )


def work_of(
    pattern: DevicePattern,
    schedule: DeviceSchedule,
    product: ProductSizes,
    target: DeviceTarget,
    given: Given | None = None,
) -> DeviceWork:
    """Sum the work of the parts and of the operands."""
    total = _operands(pattern, schedule, product, target)
    given = {REST: pattern} if given is None else given
    n_sums = sum(one.used_rows for one in given.values()) - pattern.used_rows
    real = [part for part in schedule.parts if part.layout != "fill"]
    for rule, parts in itertools.groupby(real, key=lambda part: part.select):
        own = given[rule]
        left = _Left(own.used_rows, own.nnz, 0)
        for part in parts:
            taken = _taken(own, part, left)
            total = total.plus(_part(own, schedule, part, taken, product))
            is_dots = part.layout in DOT_LAYOUTS
            left = _Left(left.rows - taken.rows * (not is_dots), left.entries - taken.entries, taken.at_most)
            n_sums += min(left.rows, left.entries) * is_dots
    return total if schedule.is_sampled else total.plus(_sums(n_sums, product))


def _sums(n_rows: int, product: ProductSizes) -> DeviceWork:
    """Return the work for rows of the result to which two parts add: two sums, each written and read once."""
    n_bytes = 4.0 * max(0, n_rows) * product.n_dense_cols * max(SUM_BYTES, ITEM_BYTES[product.dtype])
    return DeviceWork(l2_bytes=n_bytes, memory_bytes=n_bytes / 2)


@dataclass(frozen=True, slots=True)
class _Left:
    """Rows and entries that earlier parts have left, and the length up to which they have taken rows."""

    rows: int
    entries: int
    at_most: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """Work that a part takes: rows, entries, entries with padding, and groups (tiles of a Tensor Core product)."""

    rows: int
    entries: int
    padded: float
    groups: int
    at_most: int
    longest: int


def _taken(pattern: DevicePattern, part: GpuPart, left: _Left) -> _Taken:
    if part.layout in DOT_LAYOUTS:
        if part.layout == "windows":
            tiles = pattern.window(part.rows, part.at_least)
            groups = -(-tiles.columns // part.step) + -(-pattern.n_rows // part.rows) // 2
        else:
            tiles = pattern.block(part.rows)
            groups = tiles.columns
        entries = min(left.entries, tiles.entries)
        return _Taken(left.rows, entries, groups * part.rows * part.step, groups, left.at_most, 0)
    if part.at_most:
        rows, entries = pattern.short(part.at_most)
        if left.at_most:
            before = pattern.short(left.at_most)
            rows, entries = rows - before[0], entries - before[1]
        rows, entries = min(rows, left.rows), min(entries, left.entries)
        padded = rows * part.at_most if part.layout == "ell" else _stepped(rows, entries, part.step)
        return _Taken(rows, entries, padded, 0, part.at_most, part.at_most)
    longest = min(pattern.longest, part.split) if part.split else pattern.longest
    return _Taken(left.rows, left.entries, _stepped(left.rows, left.entries, part.step), 0, left.at_most, longest)


def _stepped(rows: int, entries: int, step: int) -> float:
    """Return the entries when each row is rounded up to whole steps: on average half a step per row."""
    return entries + rows * (step - 1) / 2


def _operands(
    pattern: DevicePattern, schedule: DeviceSchedule, product: ProductSizes, target: DeviceTarget
) -> DeviceWork:
    """Return the bytes that a product moves for the matrix, the rows of B that it uses, and the result."""
    n_tiles = -(-product.n_dense_cols // schedule.tile) if schedule.tile else 1
    matrix = pattern.nnz * (ITEM_BYTES[product.dtype] + INDEX_BYTES) + pattern.n_rows * 3 * INDEX_BYTES
    used = pattern.used_cols * product.row_bytes
    panel = used * min(1.0, schedule.panel / n_tiles) if schedule.panel else used
    passes = -(-n_tiles // schedule.panel) if schedule.panel else 1
    missed = max(0.0, 1.0 - target.l2_bytes / panel) if panel else 0.0
    gathered = pattern.nnz * product.row_bytes
    again = missed * max(0, gathered - used)  # B's rows that L2 has evicted since their last use
    result = pattern.n_rows * product.row_bytes if not schedule.is_sampled else pattern.nnz * 4
    if schedule.is_sampled:
        used += pattern.used_rows * product.row_bytes
    return DeviceWork(memory_bytes=matrix * passes + used + again + result, l2_bytes=result)


def _missed(pattern: DevicePattern, schedule: DeviceSchedule, part: GpuPart) -> float:
    """Return the fraction of entries whose row of B misses the L1 cache.

    Rows of one program read their common columns at about the same time. For sampled products the fraction is about the
    geometric mean of that of the layout and 1, as measured on an H200 for all layouts.
    """
    together = schedule.is_sampled or (part.layout == "unrolled" and part.rows >= WINDOW_HEIGHTS[0] // 2)
    if not pattern.nnz or not together:
        return 1.0
    share = pattern.window(part.rows, 1).columns / pattern.nnz
    return math.sqrt(share) if schedule.is_sampled else share


def _part(
    pattern: DevicePattern, schedule: DeviceSchedule, part: GpuPart, taken: _Taken, product: ProductSizes
) -> DeviceWork:
    item, columns = ITEM_BYTES[product.dtype], product.n_dense_cols
    n_tiles = -(-columns // schedule.tile) if schedule.tile and not schedule.is_sampled else 1
    per_entry = max(columns * item, SECTOR_BYTES)
    sides = 2 if part.layout == "entries" else 1  # X is read for every entry, too
    own_bytes = (item + INDEX_BYTES) * n_tiles
    vector = schedule.vector or 1
    if part.layout in DOT_LAYOUTS:
        rows_of_b, windows = taken.groups * part.step, -(-pattern.n_rows // part.rows)
        in_turn = taken.groups / max(1, windows)
        if part.split:
            in_turn = min(in_turn, part.split / part.step)
        windows = max(windows, -(-taken.groups // max(1, round(in_turn))))
        loads = rows_of_b * columns / vector + taken.padded * n_tiles
        return DeviceWork(
            l2_bytes=(rows_of_b * per_entry + taken.padded * own_bytes) / TILED_RATE,
            dot_flops=2.0 * taken.padded * columns / TILED_RATE,
            issued=loads * ISSUE_PER_LOAD / WARP / TILED_RATE,
            longest=in_turn,
            tasks=windows * n_tiles,
            waits=(LOADS_AT_FIRST * windows + LOADS_IN_TURN * taken.groups) * n_tiles,
        )
    loads = taken.padded * (sides * columns / vector + n_tiles)
    tasks, waits = _programs(part, taken, schedule, columns)
    reads = (taken.entries + (taken.rows if sides > 1 else 0)) * _missed(pattern, schedule, part)
    return DeviceWork(
        l2_bytes=reads * per_entry + taken.entries * own_bytes,
        flops=2.0 * taken.padded * columns,
        issued=loads * ISSUE_PER_LOAD / WARP,
        longest=taken.longest / part.step if part.layout != "entries" else 1.0,
        tasks=tasks * n_tiles,
        waits=waits * n_tiles,
    )


def _programs(part: GpuPart, taken: _Taken, schedule: DeviceSchedule, columns: int) -> tuple[float, float]:
    """Return the programs of a part for one column tile, and the total of their dependent loads."""
    in_turn = 1 + -(-columns // schedule.tile) if schedule.is_sampled else LOADS_IN_TURN  # for each tile of K
    if part.layout == "entries":
        tasks = iterations = taken.entries / part.rows
    elif part.layout == "segments":
        tasks, iterations = taken.entries / max(1, part.split), taken.padded / part.step
        return tasks, LOADS_AT_FIRST * tasks + (taken.rows + tasks) + in_turn * iterations  # a load for every piece
    else:
        tasks = max(taken.rows / part.rows, taken.entries / part.split if part.split else 0.0)
        iterations = taken.padded / (part.step * part.rows)
    return tasks, LOADS_AT_FIRST * tasks + in_turn * iterations
