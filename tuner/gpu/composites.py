"""Composite schedules on a GPU: partitions of a matrix by rules, and layouts for the entries of each rule.

Partitions are those of `tuner.hybrid`, with a GPU's costs, or those of the greedy search, which have blocks. A table
lists the layouts for each kind of rule: blocks in Tensor Cores; rows by length in ELL buckets or cut; the rest by rows,
buckets or equal runs (STile, Table 3: block, ELL and 1D tiles). All parts of a schedule are one launch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from autosparse.tuner.gpu.model import INDEX_BYTES, ISSUE_PER_LOAD, ISSUERS, ITEM_BYTES, SECTOR_BYTES, WARP
from autosparse.tuner.gpu.space import GpuSetting, PartSet, sized
from autosparse.tuner.hybrid import partitions as hybrid
from autosparse.tuner.hybrid.costs import PrimitiveCosts, Rate

from autosparse.core.composite import Blocks, Rest, Rows, Selection
from autosparse.core.pattern import Pattern
from autosparse.gpu.schedule import DeviceSchedule, GpuPart
from autosparse.gpu.target import DeviceTarget
from autosparse.ops.base import ProductKind
from autosparse.scalar import SCALARS

MAX_PARTITIONS: Final = 4
"""Maximum number of partitions that are offered."""
NARROW: Final = 8
"""Maximum height of blocks for which windows of 8 rows waste less than windows of 16."""
CUT_TO: Final = 16
"""Maximum side of blocks in TF32 and of sampled products; larger ones spill registers.

In TF32, windows beside blocks spill as well.
"""
ELL_WIDTHS: Final = (4, 16, 64)
"""Widths of the ELL buckets."""

Layouts = tuple[GpuPart, ...]
Offer = Callable[[Any, GpuSetting], tuple[Layouts, ...]]
"""Type of an offer: (rule, product) -> alternatives of layouts, each of which computes all entries of the rule."""

_CUT: Final = GpuPart(layout="unrolled", rows=2, step=4, split=512)
"""Layout of rows of which long ones are cut, with one lane for each column."""
_CUT_BESIDE_DOTS: Final = replace(_CUT, rows=1, step=2)
"""Rows beside layouts of Tensor Cores, whose sums take registers too."""
_RUNS: Final = GpuPart(layout="segments", step=8, split=256)
"""Layout of equal runs of entries."""
_ELL: Final = {
    4: GpuPart(layout="ell", rows=4, step=4, at_most=4),
    16: GpuPart(layout="ell", rows=2, step=8, at_most=16),
    64: GpuPart(layout="ell", rows=1, step=8, at_most=64),
}
"""Layouts of ELL buckets by width, for A B."""
_VECTOR_ELL: Final = {
    4: GpuPart(layout="ell", rows=128, step=4, at_most=4),
    16: GpuPart(layout="ell", rows=64, step=8, at_most=16),
    64: GpuPart(layout="ell", rows=16, step=32, at_most=64),
}
"""Layouts of ELL buckets by width, for A x."""
_VECTOR_ROWS: Final = GpuPart(layout="rows", rows=8, step=32, split=4096)
"""Layout of rows, for A x."""
_VECTOR_LONG: Final = GpuPart(layout="rows", rows=1, step=256, split=4096)
"""Layout of long rows, for A x."""
_WINDOWS: Final = GpuPart(layout="windows", rows=16, step=16)
"""Layout of windows of 16 rows in Tensor Cores."""
_DENSER: Final = replace(_WINDOWS, at_least=2)
"""Layout of windows that leaves columns with a single entry to a later part."""
_SAMPLED_ROWS: Final = GpuPart(layout="rows", rows=1, step=16, split=128)
"""Layout of pieces of rows, for sampled products."""
_ENTRIES: Final = GpuPart(layout="entries", rows=16)
"""Layout of single entries, for sampled products."""


def _dots(rule: Blocks, asked: GpuSetting) -> tuple[Layouts, ...]:
    """Return layouts to offer for a part of dense blocks: blocks where Tensor Cores support them, and windows."""
    window = replace(_WINDOWS, rows=NARROW) if rule.r <= NARROW else _WINDOWS
    most = CUT_TO if asked.kind == "sampled" or SCALARS[asked.dtype].has_tf32 else max(rule.r, rule.c)
    own = GpuPart(layout="blocks", rows=min(rule.r, most), step=min(rule.c, most))
    return ((own,), (window,)) if own.reason_illegal(asked.operation) is None else ((window,),)


def _buckets(rule: Rows, parts: Mapping[int, GpuPart]) -> tuple[Layouts, ...]:
    """Return one offer of ELL buckets, by width, for a part of rows that fit the widest bucket; else none."""
    if rule.most is None or rule.most > ELL_WIDTHS[-1]:
        return ()
    widest = next(width for width in ELL_WIDTHS if width >= rule.most)
    return (tuple(parts[width] for width in ELL_WIDTHS if rule.least <= width <= widest),)


def _cut(asked: GpuSetting) -> GpuPart:
    """Return the part layout in which long rows are cut and each lane computes one column."""
    return _CUT_BESIDE_DOTS if asked.has_dots else _CUT


def _lines(asked: GpuSetting) -> tuple[Layouts, ...]:
    """Return layouts to offer for a part of long rows."""
    return ((_WINDOWS,), (_cut(asked),), (_RUNS,)) if asked.has_dots else ((_CUT,), (_RUNS,))


COLUMNS: Final[Mapping[type, Offer]] = {
    Blocks: lambda rule, asked: _dots(rule, asked) if asked.has_dots else ((_CUT,),),
    Rows: lambda rule, asked: (*_buckets(rule, _ELL), *_lines(asked)),
    Rest: lambda rule, asked: (
        (_cut(asked),),
        (_RUNS,),
        (*_ELL.values(), _RUNS),
        *(((_DENSER, _RUNS),) if asked.has_dots and not SCALARS[asked.dtype].has_tf32 else ()),
    ),
}
"""Layouts by rule for A B."""
VECTOR: Final[Mapping[type, Offer]] = {
    Blocks: lambda rule, asked: ((_VECTOR_ROWS,),),
    Rows: lambda rule, asked: (*_buckets(rule, _VECTOR_ELL), (_VECTOR_ROWS,), (_VECTOR_LONG,)),
    Rest: lambda rule, asked: ((_VECTOR_ROWS,), (*_VECTOR_ELL.values(), _VECTOR_ROWS)),
}
"""Layouts by rule for A x."""
SAMPLED: Final[Mapping[type, Offer]] = {
    Blocks: lambda rule, asked: _dots(rule, asked) if asked.has_dots else ((_SAMPLED_ROWS,),),
    Rows: lambda rule, asked: (*(((_WINDOWS,),) if asked.has_dots else ()), (_SAMPLED_ROWS,)),
    Rest: lambda rule, asked: ((_ENTRIES,),),
}
"""Layouts by rule for sampled products at the entries of A."""
OFFERS: Final[Mapping[ProductKind, Mapping[type, Offer]]] = {"columns": COLUMNS, "vector": VECTOR, "sampled": SAMPLED}
"""Layouts by rule for each kind of product; other kinds are never partitioned."""


def schedules(asked: GpuSetting, selections: Sequence[Selection]) -> Iterator[tuple[str, DeviceSchedule]]:
    """Yield (name, schedule) of all candidates whose parts have the rules `selections`, the last one the rest."""
    offers = OFFERS.get(asked.kind, {})
    ways = [offers[type(rule)](rule, asked) for rule in selections] if offers else []
    for chosen in itertools.product(*ways) if ways else ():
        parts = tuple(
            replace(part, select=rule) for rule, own in zip(selections, chosen, strict=True) for part in own
        )  # fmt: skip
        for made in sized(asked, PartSet(parts=parts)):
            yield name_of(made), made


def name_of(schedule: DeviceSchedule) -> str:
    """Return the rules of a composite with their layouts: ``blocks(16x16,0.5) by blocks + rest by segments``."""
    return " + ".join(f"{rule} by {', '.join(schedule.layouts_of(rule))}" for rule in schedule.selections)


def partitions(pattern: Pattern, asked: GpuSetting, target: DeviceTarget) -> list[hybrid.Partition]:
    """Return partitions of op(A) by rows with an expected gain on a GPU, best first; O(rows)."""
    if asked.kind not in OFFERS:
        return []
    return hybrid.partitions(pattern, asked.n_dense_cols, costs_on(target, asked))[:MAX_PARTITIONS]


def costs_on(target: DeviceTarget, asked: GpuSetting) -> PrimitiveCosts:
    """Return the primitive costs on a busy device, in seconds, by the rates that the GPU model uses."""
    item, columns = ITEM_BYTES[asked.dtype], asked.n_dense_cols
    read_s = max(columns * item, SECTOR_BYTES) / target.l2_bytes_s
    load_s = columns / asked.vector * ISSUE_PER_LOAD / WARP / (target.n_sms * ISSUERS * target.clock_hz)
    slot_s = (item + INDEX_BYTES) / target.l2_bytes_s
    flops_s = 2.0 * columns / target.core_flops(asked.dtype)
    dot_s = 2.0 * columns / target.dot_flops(asked.dtype, asked.precision)
    rates = {
        "csr": Rate(0.0, read_s + load_s, slot_s + flops_s),
        "panel": Rate(0.0, read_s + load_s, slot_s + (dot_s if asked.has_dots else flops_s)),
    }
    return PrimitiveCosts(rates, 0.0, 0.0)  # partitions by whole rows write each row once
