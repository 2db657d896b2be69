"""The schedules that a CPU search chooses from, as data: format families times axes of the compute schedule.

A family is a row of `FAMILIES`: its format for given parameters, and its loop order. Add a row or a value of an axis to
widen the space. The `supports` function passed in removes schedules that a backend cannot lower.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from autosparse.tuner.space.template import Supports

from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import L2_AHEAD, RUNTIME, SCHEDULE_VERSION, SuperSchedule
from autosparse.core.values import dataclass
from autosparse.isa import ISAS
from autosparse.scalar import NARROW_INDEX, SCALARS


@dataclass(frozen=True, slots=True)
class FormatFamily:
    """Family of formats by sizes: `levels` has placeholders ``{r}``, ``{c}``, ``{k}``; `loops` omit the dense index."""

    name: str
    levels: str
    splits: tuple[str, ...]  # format settings after "|", with the same placeholders
    loops: tuple[str, ...]  # loops over coordinates, outermost first; "j1" marks the loop over column tiles
    parallel: str
    sizes: tuple[Mapping[str, Any], ...]  # Any: numbers, and names of row orders


_BLOCKS: Final = (
    *({"r": r, "c": c} for r, c in itertools.product((2, 4, 8), repeat=2)),
    {"r": 3, "c": 3},  # three-dimensional elasticity: the best blocks of many finite-element matrices
)

_SLICES: Final = tuple({"r": r, "sigma": sigma} for r, sigma in itertools.product((4, 8, 16, 32), (1, 512, 8192)))

FAMILIES: Final[Mapping[str, FormatFamily]] = {
    row.name: row
    for row in (
        FormatFamily("csr", "i1:U,k1:C", (), ("i1", "j1", "k1"), "i1", ({},)),
        FormatFamily(
            "ucu", "i1:U,k1:C,i0:U", ("i={r}",), ("i1", "j1", "k1", "i0"), "i1",
            # 3: three-dimensional elasticity, where a node's three rows have the same pattern
            ({"r": 2}, {"r": 3}, {"r": 4}, {"r": 8}, {"r": 16}),
        ),
        FormatFamily(
            "bcsr", "i1:U,k1:C,i0:U,k0:U", ("i={r}", "k={c}"), ("i1", "j1", "k1", "i0", "k0"), "i1", _BLOCKS,
        ),
        # SELL: rows are the vector lanes, sorted by length within windows; "diagonals" stores filled diagonals
        # compactly.
        FormatFamily("slices", "i1:U,k1:S,i0:U", ("i={r}", "sigma={sigma}"), ("i1", "k1", "i0"), "i1", _SLICES),
        FormatFamily("diagonals", "i1:U,k1:D,i0:U", ("i={r}", "sigma={sigma}"), ("i1", "k1", "i0"), "i1", _SLICES),
        FormatFamily(
            "k-panels", "k1:U,i1:U,k0:C", ("k={k}",), ("k1", "i1", "j1", "k0"), "i1",
            ({"k": 1024}, {"k": 2048}, {"k": 4096}, {"k": 16384}, {"k": 32768}),
        ),
    )
}  # fmt: skip

_ROW_ORDERS: Final = ({"order": "first"}, {"order": "rcm"})

ORDERED_FAMILIES: Final[Mapping[str, FormatFamily]] = {
    row.name: row
    for row in (
        FormatFamily("csr-ordered", "i1:U,k1:C", ("rows={order}",), ("i1", "j1", "k1"), "i1", _ROW_ORDERS),
        FormatFamily(
            "ucu-ordered", "i1:U,k1:C,i0:U", ("i={r}", "rows={order}"), ("i1", "j1", "k1", "i0"), "i1",
            tuple({"r": r, "order": order} for r, order in itertools.product((2, 3, 4), ("first", "rcm"))),
        ),
    )
}  # fmt: skip
"""Families with rows ordered so that consecutive rows share columns, for B larger than the L2 cache."""

PREFETCH: Final = (0, 4, 8, 16)
SLOT_PREFETCH: Final = (0, 16, 32, 64)
"""Prefetch distances in slots of a slice, which are one or two cache lines each; larger than those for rows of B."""
UNROLL: Final = (1, 2, 4, 8, 16, 32)
TILES: Final = (8, 16, 32, 64, 128, 256)
CHUNKS: Final = (8, 32, 128, 512)
MAX_TILE_VECTORS: Final = 16
"""Maximum number of vector registers for one row of a column tile; more would spill."""
MAX_BLOCK_VECTORS: Final = 24
"""Maximum number of vector registers for the rows of a block together where there are 32 registers."""
FAR_CACHES: Final = 8
"""Size of B, in L2 caches, above which longer prefetch distances of its rows are tried."""
READY_AHEAD: Final = (0, 4, 8, L2_AHEAD, 64)
"""Prefetch distances of the runtime's precompiled kernels; 0: that of the default kernel."""
MAX_NARROW: Final = 1 << 16
"""Number of coordinates that 16 bits can distinguish."""
_parsed: Final = functools.lru_cache(maxsize=1024)(Format.parse)


@dataclass(frozen=True, slots=True)
class Outline:
    """Properties of a problem by which its space is chosen; problems with equal outlines share one space."""

    operation: str
    lanes: int  # values in a vector register
    tiles: tuple[int, ...]  # column tiles, widest first; empty for SpMV
    n_inner: int  # columns of op(A), rounded up to the next threshold of the space
    is_streaming: bool  # B is larger than the L2 cache
    is_ready: bool = False
    """The runtime has kernels that prefetch and reorder for this problem: B is large, indices have 32 bits."""
    has_many_registers: bool = False  # 32 registers instead of 16
    n_parts: int = 1  # accumulators of a vector of sums: 2 of complex values
    ahead: int = 4  # rows of B prefetched in first candidates; more where B stays in no cache

    @classmethod
    def of(cls, problem: Problem) -> Outline:
        """Return the outline of `problem`."""
        n_inner = problem.matrix.n_rows if problem.transposed else problem.matrix.n_cols
        steps = sorted({size["k"] for size in FAMILIES["k-panels"].sizes} | {MAX_NARROW * c for c in (1, 2, 4, 8)})
        above = [step for step in steps if n_inner <= step]
        item = np.dtype(problem.dtype).itemsize
        B_bytes = n_inner * problem.n_dense_cols * item
        is_streaming = B_bytes > problem.target.l2_bytes and not problem.transposed
        lanes = max(1, problem.target.vector_bytes // item)
        most = above[0] if above else 2 * steps[-1]
        is_ready = is_streaming and problem.pattern.index_dtype == NARROW_INDEX.name
        return cls(
            problem.operation, lanes, tiles(problem), most, is_streaming, is_ready,
            has_many_registers=ISAS[problem.target.isa].n_registers >= 32, n_parts=SCALARS[problem.dtype].n_parts,
            ahead=L2_AHEAD if B_bytes > FAR_CACHES * problem.target.l2_bytes else 4,
        )  # fmt: skip


def tiles(problem: Problem) -> tuple[int, ...]:
    """Return the column tiles to try for the problem's width, widest first; empty for SpMV."""
    if problem.n_dense_cols == 1:
        return ()
    lanes = max(1, problem.target.vector_bytes // np.dtype(problem.dtype).itemsize)
    # A tile wider than the result is all remainder; one above the next power of two never runs at all.
    limit = min(
        MAX_TILE_VECTORS * lanes // SCALARS[problem.dtype].n_parts, 1 << max(0, problem.n_dense_cols - 1).bit_length()
    )
    fitting = [tile for tile in TILES if tile <= limit and tile % min(lanes, limit) == 0]
    return tuple(sorted(fitting, reverse=True)) or (max(1, limit),)


def schedule(
    operation: str, family: str, size: Mapping[str, Any], *, tile: int = 0, index_bits: int = 32, **axes: Any
) -> SuperSchedule:
    """Return the schedule of the format family `family` with these sizes, column tile (0: SpMV) and more fields."""
    return member(operation, FAMILIES[family], size, tile=tile, index_bits=index_bits, **axes)


def format_of(row: FormatFamily, size: Mapping[str, Any], index_bits: int = 32) -> Format:
    """Return the format of family `row` with these sizes and this index width."""
    settings = [setting.format(**size) for setting in row.splits]
    if index_bits != 32:
        settings.append(f"bits={index_bits}")
    return _parsed(" | ".join([row.levels, *settings]))  # spaces of different outlines share most formats


def member(
    operation: str, row: FormatFamily, size: Mapping[str, Any], *, tile: int = 0, index_bits: int = 32, **axes: Any
) -> SuperSchedule:
    """Return the schedule of family `row` with these sizes, column tile (0: no dense index) and further `axes`."""
    has_columns = tile > 0
    loops = tuple(name for name in row.loops if has_columns or name != "j1") + (("j0",) if has_columns else ())
    return SuperSchedule(
        operation=operation,
        format=format_of(row, size, index_bits),
        loop_order=loops,
        dense_splits=(("j", tile),) if has_columns else (),
        parallel=row.parallel,
        **axes,
    )


def candidates(problem: Problem, supports: Supports) -> tuple[SuperSchedule, ...]:
    """Return a few schedules of every supported format, to be ranked first; equal calls return the same objects."""
    return _space(Outline.of(problem), supports, False)


def everything(problem: Problem, supports: Supports) -> tuple[SuperSchedule, ...]:
    """Return the whole space of the problem: all axes of all formats."""
    return _space(Outline.of(problem), supports, True)


@functools.lru_cache(maxsize=64)
def _space(outline: Outline, supports: Supports, is_whole: bool) -> tuple[SuperSchedule, ...]:
    found = dict.fromkeys(_members(outline, is_whole=is_whole))
    return tuple(one for one in found if supports(outline.operation, one) is None)


def _members(outline: Outline, *, is_whole: bool) -> Iterator[SuperSchedule]:
    ordered: Mapping[str, FormatFamily] = ORDERED_FAMILIES if outline.is_streaming and outline.tiles else {}
    if ordered and outline.is_ready:
        yield from _ready(outline, is_whole=is_whole)
    for family, row in (*FAMILIES.items(), *ordered.items()):
        for size, tile in itertools.product(row.sizes, outline.tiles or (0,)):
            if not _makes_sense(row, size, tile, outline, is_whole=is_whole):
                continue
            for bits in _index_bits(row, size, tile, outline.n_inner):
                for unroll, prefetch in _inner_axes(family, outline, tile, is_whole=is_whole):
                    yield member(
                        outline.operation, row, size, tile=tile, index_bits=bits, unroll=unroll, prefetch=prefetch
                    )


def _ready(outline: Outline, *, is_whole: bool) -> Iterator[SuperSchedule]:
    """Yield the schedules of the runtime's precompiled loops: CSR with prefetched rows of B or reordered rows."""
    is_narrow = max(outline.tiles) < 8 * outline.lanes
    ahead = 64 if is_narrow and outline.ahead == L2_AHEAD else outline.ahead
    for row in (ORDERED_FAMILIES["csr-ordered"], FAMILIES["csr"]):
        for size, prefetch in itertools.product(row.sizes, READY_AHEAD if is_whole else (0, ahead)):
            if size or prefetch:  # without both it would be the default kernel
                yield member(outline.operation, row, size, implementation=RUNTIME, prefetch=prefetch)


def _makes_sense(row: FormatFamily, size: Mapping[str, Any], tile: int, outline: Outline, *, is_whole: bool) -> bool:
    """Return whether these sizes and column tile can be fast on the problem; others would run, but slowly."""
    if "sigma" in size:  # rows are lanes: one or two registers of them, and no column tile
        return tile == 0 and size["r"] in (outline.lanes, 2 * outline.lanes if is_whole else 0)
    n_registers = size.get("r", 1) * max(1, tile // outline.lanes) * outline.n_parts
    most = MAX_BLOCK_VECTORS if outline.has_many_registers else MAX_TILE_VECTORS
    return bool(size.get("k", 0) < outline.n_inner and n_registers <= most)


def _index_bits(family: FormatFamily, size: Mapping[str, Any], tile: int, n_inner: int) -> tuple[int, ...]:
    """Return the index widths to try: 16 bits where every stored coordinate fits."""
    if "sigma" in size:
        return (16,)  # offsets from the slice's smallest column; slices that span too many columns store 32 bits
    extent = size["k"] if "k" in size else -(-n_inner // size.get("c", 1))
    narrow = (16,) if extent <= MAX_NARROW else ()
    if family.name == "csr":
        # Plain CSR needs no packing. A wide product reads its indices only once per tile, too seldom to pay for a copy.
        return (32, *narrow) if tile == 0 else (32,)
    # Formats that are packed anyway use narrow indices, which are smaller and at least as fast.
    return narrow or (32,)


def _inner_axes(family: str, outline: Outline, tile: int, *, is_whole: bool) -> Iterator[tuple[int, int]]:
    """Yield (unroll, prefetch) pairs to try: SpMV gathers as many entries as it unrolls, SpMM prefetches rows of B."""
    is_sparse_inside = family in ("csr", "csr-ordered", "k-panels")
    if family in ("slices", "diagonals"):
        # "diagonals" degenerates to "slices" where there are none, so one of the two is enough among first candidates.
        if is_whole:
            yield from itertools.product((1, 2, 4), SLOT_PREFETCH)
        elif family == "diagonals":
            yield 2, 32
    elif is_whole:
        yield from itertools.product(UNROLL if tile == 0 and is_sparse_inside else (1, 2, 4), PREFETCH)
    elif tile == 0:
        wide = (outline.lanes, 2 * outline.lanes) if is_sparse_inside else (4,)
        yield from ((unroll, 0) for unroll in (1, *wide))
    else:
        # Prefetching pays beyond the L2 cache and costs within it.
        yield from ((1, 0), (1, max(8, outline.ahead) if is_sparse_inside else outline.ahead))


def space_signature() -> str:
    """Return 8 hex digits that change whenever a change of the space could change a plan."""
    axes = (
        PREFETCH, SLOT_PREFETCH, UNROLL, TILES, CHUNKS, MAX_TILE_VECTORS, MAX_BLOCK_VECTORS, FAR_CACHES, READY_AHEAD,
    )  # fmt: skip
    text = repr((SCHEDULE_VERSION, sorted(map(str, (*FAMILIES.values(), *ORDERED_FAMILIES.values()))), *axes))
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
