"""The schedules that a search may choose from, as data: families of formats times axes of the compute schedule.

A family is a row of `FAMILIES`: its format for given parameters and its loop order. To widen the space, add a row or a
value to an axis; what a backend cannot lower is filtered by the `supports` function passed in.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from autosparse.formats import Format
from autosparse.problem import Problem
from autosparse.schedule import SCHEDULE_VERSION, SuperSchedule

Supports = Callable[[str, SuperSchedule], "str | None"]  # reason why a backend cannot lower it, or None


@dataclass(frozen=True, slots=True)
class Family:
    """Formats of one shape: ``{r}``, ``{c}`` and ``{k}`` in `levels` are replaced; loops without the dense index."""

    name: str
    levels: str
    splits: tuple[str, ...]  # settings of the format after "|", with the same placeholders
    loops: tuple[str, ...]  # of coordinates, outermost first; "j1" stands where the column tiles go
    parallel: str
    sizes: tuple[Mapping[str, int], ...]


_BLOCKS: Final = tuple({"r": r, "c": c} for r, c in itertools.product((1, 2, 4, 8), repeat=2) if r > 1 and c > 1)

FAMILIES: Final[Mapping[str, Family]] = {
    row.name: row
    for row in (
        Family("csr", "i1:U,k1:C", (), ("i1", "j1", "k1"), "i1", ({},)),
        Family(
            "ucu", "i1:U,k1:C,i0:U", ("i={r}",), ("i1", "j1", "k1", "i0"), "i1",
            ({"r": 2}, {"r": 4}, {"r": 8}, {"r": 16}),
        ),
        Family(
            "bcsr", "i1:U,k1:C,i0:U,k0:U", ("i={r}", "k={c}"), ("i1", "j1", "k1", "i0", "k0"), "i1", _BLOCKS,
        ),
        Family(
            "row-vector", "i1:U,k1:C,k0:U", ("k={c}",), ("i1", "j1", "k1", "k0"), "i1",
            ({"c": 2}, {"c": 4}, {"c": 8}),
        ),
        Family(
            "k-panels", "k1:U,i1:U,k0:C", ("k={k}",), ("k1", "i1", "j1", "k0"), "i1",
            ({"k": 4096}, {"k": 16384}, {"k": 32768}),
        ),
    )
}  # fmt: skip

PREFETCH: Final = (0, 4, 8, 16)
UNROLL: Final = (1, 2, 4)
TILES: Final = (8, 16, 32, 64, 128, 256)
CHUNKS: Final = (8, 32, 128, 512)
MAX_TILE_VECTORS: Final = 16
"""Vector registers that one row of a column tile may take: more would spill."""


def tiles(problem: Problem) -> tuple[int, ...]:
    """Column tiles worth trying for this width, largest first; empty for a vector."""
    if problem.n_dense_cols == 1:
        return ()
    lanes = max(1, problem.target.vector_bytes // np.dtype(problem.dtype).itemsize)
    most = MAX_TILE_VECTORS * lanes
    # A tile wider than the result is all tail; one above the next power of two never runs at all.
    limit = min(most, 1 << max(0, problem.n_dense_cols - 1).bit_length())
    fitting = [tile for tile in TILES if tile <= limit and tile % min(lanes, limit) == 0]
    return tuple(sorted(fitting, reverse=True)) or (max(1, limit),)


def schedule(
    problem: Problem, family: str, size: Mapping[str, int], *, tile: int = 0, index_bits: int = 32, **axes: object
) -> SuperSchedule:
    """The member of `family` with these sizes, column tile and axes (fields of SuperSchedule)."""
    row = FAMILIES[family]
    settings = [setting.format(**size) for setting in row.splits]
    if index_bits != 32:
        settings.append(f"bits={index_bits}")
    fmt = Format.parse(" | ".join([row.levels, *settings]))
    has_columns = tile > 0
    loops = tuple(name for name in row.loops if has_columns or name != "j1") + (("j0",) if has_columns else ())
    base = SuperSchedule(
        operation=problem.operation,
        format=fmt,
        loop_order=loops,
        dense_splits=(("j", tile),) if has_columns else (),
        parallel=row.parallel,
    )
    return dataclasses.replace(base, **axes) if axes else base  # type: ignore[arg-type]  # names checked by replace


def candidates(problem: Problem, supports: Supports) -> Iterator[SuperSchedule]:
    """Every schedule of the space that makes sense for this problem's sizes and that a backend can lower."""
    seen: set[str] = set()
    for one in _members(problem):
        text = one.to_json()
        if text not in seen and supports(problem.operation, one) is None:
            seen.add(text)
            yield one


def _members(problem: Problem) -> Iterator[SuperSchedule]:
    n_inner = problem.pattern.n_rows if problem.transposed else problem.pattern.n_cols
    column_tiles = tiles(problem) or (0,)
    for family, row in FAMILIES.items():
        for size, bits, tile in itertools.product(row.sizes, _index_bits(row, n_inner), column_tiles):
            if size.get("k", 0) >= max(n_inner, 1) or _block_vectors(problem, size, tile) > MAX_TILE_VECTORS:
                continue
            for unroll, prefetch in _inner_axes(family, tile):
                yield schedule(
                    problem, family, size, tile=tile, index_bits=bits(size), unroll=unroll, prefetch=prefetch
                )


def _index_bits(family: Family, n_inner: int) -> tuple[Callable[[Mapping[str, int]], int], ...]:
    """Index widths to try: 16 bits where every stored coordinate fits into them."""

    def narrow(size: Mapping[str, int]) -> int:
        extent = size["k"] if "k" in size else -(-n_inner // size.get("c", 1))
        return 16 if extent <= 1 << 16 else 32

    def wide(size: Mapping[str, int]) -> int:
        return 32

    # Panels exist to make indices narrow: with wide ones they are only tried for the locality of B.
    return (narrow,) if family.name == "k-panels" else (wide, narrow)


def _block_vectors(problem: Problem, size: Mapping[str, int], tile: int) -> int:
    """Vector registers that hold the results of one block row."""
    lanes = max(1, problem.target.vector_bytes // np.dtype(problem.dtype).itemsize)
    return size.get("r", 1) * max(1, tile // lanes)


def _inner_axes(family: str, tile: int) -> Iterator[tuple[int, int]]:
    """(unroll, prefetch) pairs: a vector product hides latency by accumulators, a wide one by prefetching rows of B."""
    if tile == 0:
        yield from ((unroll, prefetch) for unroll in UNROLL for prefetch in (0, 16))
    else:
        yield from ((1, prefetch) for prefetch in (PREFETCH if family == "csr" else (0, 4)))


def neighbours(problem: Problem, one: SuperSchedule, supports: Supports) -> Iterator[SuperSchedule]:
    """Schedules one step away from `one` in a single axis that can be lowered: the moves of a full search."""
    moves: list[dict[str, object]] = []
    for field, ladder in (("unroll", UNROLL), ("prefetch", PREFETCH), ("chunk", CHUNKS)):
        moves += [{field: value} for value in _adjacent(ladder, getattr(one, field))]
    moves += [{"partition": value} for value in ("nnz", "dynamic") if value != one.partition]
    tile = one.dense_split("j")
    if tile:
        moves += [{"dense_splits": (("j", value),)} for value in _adjacent(tuple(reversed(tiles(problem))), tile)]
    for move in moves:
        found = dataclasses.replace(one, **move)  # type: ignore[arg-type]  # field names come from the rows above
        if supports(problem.operation, found) is None:
            yield found


def _adjacent(ladder: Sequence[int], value: int) -> list[int]:
    """The rungs next to `value`."""
    if value not in ladder:
        return [min(ladder, key=lambda rung: abs(rung - value))]
    at = ladder.index(value)
    return [ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(ladder)]


def space_signature() -> str:
    """8 hex digits that change whenever a plan could come out differently because the space did."""
    text = repr(
        (SCHEDULE_VERSION, sorted(map(str, FAMILIES.values())), PREFETCH, UNROLL, TILES, CHUNKS, MAX_TILE_VECTORS)
    )
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
