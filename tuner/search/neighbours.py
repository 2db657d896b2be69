"""Neighbourhood of a schedule: schedules one step away, the moves of a search.

A step changes one axis: the partition of iterations, unrolling, prefetching, the column tile, or, for operations whose
space is enumerated, the format. Axes alternate, so that the first few steps cover all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces
from autosparse.tuner.space.template import Supports

from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS

FIRST_CHUNK: Final = 32
"""Chunk size of the first dynamic neighbour; larger chunks are further steps away."""
FIELDS: Final = ("unroll", "prefetch", "dense_splits", "loop_order", "format")
"""Fields of enumerated schedules; members of the space that differ in exactly one of them are neighbours."""


def neighbours(problem: Problem, one: SuperSchedule, supports: Supports) -> Iterator[SuperSchedule]:
    """Yield the supported schedules one step away from `one`, alternating between axes."""
    if one.is_precompiled:  # a precompiled loop has one axis; its other neighbours are generated kernels
        axes = [_fetched(one, space.READY_AHEAD), _generated(problem, one, supports)]
    elif OPS[problem.operation].tuning.space:
        axes = [_handed_out(one), *_listed(problem, one, supports)]
    else:
        prefetch = space.SLOT_PREFETCH if one.format.is_sliced else space.PREFETCH
        unroll = [dataclasses.replace(one, unroll=value) for value in _adjacent(space.UNROLL, one.unroll)]
        axes = [_handed_out(one), unroll, _fetched(one, prefetch), _tiled(problem, one)]
    for found in _in_turn(axes):
        if supports(problem.operation, found) is None:
            yield found


def _in_turn(axes: Iterable[Sequence[SuperSchedule]]) -> Iterator[SuperSchedule]:
    """Yield the first element of each axis, then the second of each, and so on."""
    for turn in itertools.zip_longest(*axes):
        yield from (one for one in turn if one is not None)


def _handed_out(one: SuperSchedule) -> list[SuperSchedule]:
    """Return schedules that distribute work differently: equal shares of entries, or chunks of adjacent sizes."""
    if one.partition == "nnz":
        return [dataclasses.replace(one, partition="dynamic", chunk=FIRST_CHUNK)]
    chunks = [dataclasses.replace(one, chunk=value) for value in _adjacent(space.CHUNKS, one.chunk)[::-1]]
    return [*chunks, dataclasses.replace(one, partition="nnz", chunk=FIRST_CHUNK)]


def _fetched(one: SuperSchedule, ladder: Sequence[int]) -> list[SuperSchedule]:
    return [dataclasses.replace(one, prefetch=value) for value in _adjacent(ladder, one.prefetch)]


def _tiled(problem: Problem, one: SuperSchedule) -> list[SuperSchedule]:
    tile, ladder = one.dense_split("j"), tuple(reversed(space.tiles(problem)))
    return [dataclasses.replace(one, dense_splits=(("j", value),)) for value in _adjacent(ladder, tile)] if tile else []


def _generated(problem: Problem, one: SuperSchedule, supports: Supports) -> list[SuperSchedule]:
    """Return generated kernels with the levels of `one`, for the runtime's loop `one`: equal shares, then chunks."""
    levels = _any_width(one.format)
    found = [
        other
        for other in spaces.candidates(problem, supports)
        if not other.is_precompiled and _any_width(other.format) == levels
    ]
    return list(_in_turn([found, [handed for other in found for handed in _handed_out(other)]]))


def _any_width(fmt: Format) -> Format:
    return dataclasses.replace(fmt, index_bits=32)


def _listed(problem: Problem, one: SuperSchedule, supports: Supports) -> list[list[SuperSchedule]]:
    """Return, for each axis, the members of the space that differ from `one` in that axis only."""
    found: dict[str, list[SuperSchedule]] = {name: [] for name in FIELDS}
    for other in spaces.everything(problem, supports):
        different = [name for name in FIELDS if getattr(one, name) != getattr(other, name)]
        if len(different) == 1 and not other.is_precompiled:
            found[different[0]].append(dataclasses.replace(other, partition=one.partition, chunk=one.chunk))
    return list(found.values())


def _adjacent(ladder: Sequence[int], value: int) -> list[int]:
    """Return the values next to `value` on `ladder`."""
    if value not in ladder:
        return [min(ladder, key=lambda rung: abs(rung - value))]
    at = ladder.index(value)
    return [ladder[i] for i in (at - 1, at + 1) if 0 <= i < len(ladder)]
