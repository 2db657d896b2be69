"""Schedules to try first for each kind of part, without a cost model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from autosparse.core.composite import Blocks, Selection
from autosparse.core.formats import Format
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.ops import OPS

WIDE: Final = 64
"""Maximum columns of a tile; with four rows, it fills the vector registers."""
BLOCKS_AHEAD: Final = 2
"""Prefetch distance in blocks for rows of B; reduces the time to 0.90 for 4 x 4 blocks at 256 columns (Xeon)."""


def _made(operation: str, fmt: str, loops: str, tile: int = 0, **fields: Any) -> SuperSchedule:
    splits = (("j", tile),) if tile else ()
    return SuperSchedule(
        operation=operation, format=Format.parse(fmt), loop_order=tuple(loops.split()), dense_splits=splits, **fields
    )


def tile_of(n_dense_cols: int, most: int = WIDE) -> int:
    """Return the width of column tiles for `n_dense_cols` columns: a power of two from 8, at most `most`."""
    return max(8, min(most, 1 << max(0, n_dense_cols - 1).bit_length()))


def runtime(operation: str, order: str = "", ahead: int = 0) -> SuperSchedule:
    """Return the schedule of the runtime's CSR loop with this row order, which prefetches B `ahead` entries ahead."""
    fmt = f"i1:U,k1:C | rows={order}" if order else "i1:U,k1:C"
    return _made(operation, fmt, "i1 k1", implementation=RUNTIME, prefetch=ahead)


def products(operation: str, kind: str, selection: Selection, n_cols: int) -> list[SuperSchedule]:
    """Return the SpMV or SpMM schedules to try for a part of this kind, most promising first."""
    if n_cols == 1:
        return _vector(operation, kind, selection)
    t = tile_of(n_cols)
    rows = [_made(operation, "i1:U,k1:C", "i1 j1 k1 j0", t), _made(operation, "i1:U,k1:C", "i1 j1 k1 j0", t, unroll=4)]
    if kind == "dense":
        wide = min(96, t) if n_cols < 96 else 96
        four, eight = ("k1:U,i1:U,k0:C,i0:U | i=4,k=256 | bits=16", "k1:U,i1:U,k0:C,i0:U | i=8,k=256 | bits=16")
        panels = [_made(operation, fmt, "k1 j1 i1 k0 i0 j0", n) for fmt, n in ((four, wide), (eight, min(t, 48)))]
        shapes = (f"k1:U,i1:U,k0:C,i0:U | i={side_by_side},k=256" for side_by_side in (4, 8))
        ready = [_made(operation, shape, "k1 i1 k0 i0", implementation=RUNTIME) for shape in shapes]
        return [*ready, *panels, runtime(operation)]
    if kind == "blocks":
        plain = _blocks(operation, selection, "i1 j1 k1 i0 k0 j0", t)
        return [dataclasses.replace(plain, prefetch=BLOCKS_AHEAD), plain] if n_cols >= WIDE else [plain]
    if kind == "adds":
        return rows
    return [*(runtime(operation, *one) for one in (("",), ("", 8), ("first",), ("degree",))), *rows[:1]]


def _vector(operation: str, kind: str, selection: Selection) -> list[SuperSchedule]:
    rows = [_made(operation, "i1:U,k1:C", "i1 k1", unroll=16), _made(operation, "i1:U,k1:C", "i1 k1", unroll=4)]
    if kind == "blocks":
        return [_blocks(operation, selection, "i1 k1 i0 k0", 0)]
    return rows if kind == "adds" else [runtime(operation), runtime(operation, "degree"), *rows[:1]]


def sampled(operation: str, kind: str, selection: Selection, n_cols: int) -> list[SuperSchedule]:
    """Return the SDDMM schedules to try for a part of this kind, most promising first."""
    if n_cols == 1:
        return [runtime(operation)]
    t = tile_of(n_cols, 32)
    rows = _made(operation, "i1:U,k1:C", "i1 k1 j1 j0", t, unroll=4)
    if kind == "blocks":
        return [_blocks(operation, selection, "i1 k1 j1 i0 k0 j0", t), rows]
    return [runtime(operation), rows]


def _blocks(operation: str, selection: Selection, loops: str, tile: int) -> SuperSchedule:
    assert isinstance(selection, Blocks)
    r, c = selection.r, selection.c
    fits = tile if r <= 4 else min(tile, 32)
    return _made(operation, f"i1:U,k1:C,i0:U,k0:U | i={r},k={c}", loops, fits)


def tried(operation: str) -> Callable[[str, Selection, int], list[SuperSchedule]]:
    """Return the function (kind of part, its rule, dense columns) -> schedules to try that belongs to `operation`."""
    make: Callable[[str, str, Selection, int], list[SuperSchedule]] = globals()[OPS[operation].tuning.parts]
    return partial(make, operation)
