"""Neighbourhood of a schedule: schedules one step away, the moves of a search.

A step changes one axis: the partition of iterations, unrolling, prefetching, the column tile, or, for operations whose
space is enumerated, the format. Axes alternate, so that the first few steps cover all of them.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces
from autosparse.tuner.space.template import Supports

from autosparse.core.composite import Schedule
from autosparse.core.formats import Format
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS

FIRST_CHUNK: Final = 32
"""Chunk size of the first dynamic neighbour; larger chunks are further steps away."""
FIELDS: Final = ("unroll", "prefetch", "dense_splits", "loop_order", "format")
"""Fields of enumerated schedules; members of the space that differ in exactly one of them are neighbours."""


def neighbours(problem: Problem, one: Schedule | None, supports: Supports) -> Iterator[SuperSchedule]:
    """Yield the supported schedules one step away from `one`, alternating between axes; none unless it has one format.

    The first element of each axis comes first, then the second of each, and so on.
    """
    if not isinstance(one, SuperSchedule):
        return
    if one.is_precompiled:  # a precompiled loop has one axis; its other neighbours are generated kernels
        axes = [_stepped(one, "prefetch", space.READY_AHEAD), _generated(problem, one, supports)]
    elif OPS[problem.operation].tuning.space:
        axes = [_handed_out(one), *_listed(problem, one, supports)]
    else:
        prefetch = space.SLOT_PREFETCH if one.format.is_sliced else space.PREFETCH
        axes = [_handed_out(one), _stepped(one, "unroll", space.UNROLL), _stepped(one, "prefetch", prefetch)]
        if tile := one.dense_split("j"):
            tiles = _adjacent(tuple(reversed(space.tiles(problem))), tile)
            axes.append([dataclasses.replace(one, dense_splits=(("j", value),)) for value in tiles])
    for found in itertools.chain.from_iterable(itertools.zip_longest(*axes)):
        if found is not None and supports(problem.operation, found) is None:
            yield found


def _handed_out(one: SuperSchedule) -> list[SuperSchedule]:
    """Return schedules that distribute work differently: equal shares of entries, or chunks of adjacent sizes."""
    if one.partition == "nnz":
        return [dataclasses.replace(one, partition="dynamic", chunk=FIRST_CHUNK)]
    chunks = _stepped(one, "chunk", space.CHUNKS)[::-1]
    return [*chunks, dataclasses.replace(one, partition="nnz", chunk=FIRST_CHUNK)]


def _stepped(one: SuperSchedule, name: str, ladder: Sequence[int]) -> list[SuperSchedule]:
    """Return `one` with the field `name` changed to the values next to its own on `ladder`."""
    values: list[dict[str, Any]] = [{name: value} for value in _adjacent(ladder, getattr(one, name))]
    return [dataclasses.replace(one, **value) for value in values]


def _generated(problem: Problem, one: SuperSchedule, supports: Supports) -> list[SuperSchedule]:
    """Return generated kernels with the levels of `one`, for the runtime's loop `one`: equal shares, then chunks."""
    levels = _any_width(one.format)
    found = [
        other
        for other in spaces.candidates(problem, supports)
        if not other.is_precompiled and _any_width(other.format) == levels
    ]
    others = [handed for other in found for handed in _handed_out(other)]
    turns = itertools.chain.from_iterable(itertools.zip_longest(found, others))
    return [one for one in turns if one is not None]


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
