"""The space of every operation, behind one door: first candidates, everything, signature."""

from __future__ import annotations

import functools
import hashlib
import importlib
from dataclasses import replace
from typing import Any, Final

from autosparse.tuner.space import families as space
from autosparse.tuner.space.template import Supports

from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.pattern import TensorPattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.ops import OPS


def candidates(problem: Problem, supports: Supports) -> tuple[SuperSchedule, ...]:
    """A few schedules of every format that can be lowered: what a model ranks first. The same objects every time."""
    if not OPS[problem.operation].space:
        return _with_storage(space.candidates(problem, supports), problem.storage)
    return _members(problem, supports, False)


@dataclass(frozen=True, eq=False)
class Entrants:
    """What a model ranks first: the default kernel (None), then `candidates`; and a number for each one's format."""

    schedules: tuple[SuperSchedule | None, ...]
    format_of: tuple[int, ...]  # of schedules[1:]


def entrants(problem: Problem, supports: Supports) -> Entrants:
    """The same objects every time: what is known of their schedules need not be found out again."""
    found = candidates(problem, supports)
    members, known = _entered.get(id(found), (None, None))
    if known is None or members is not found:
        numbers: dict[Format, int] = {}
        formats = tuple(numbers.setdefault(one.format, len(numbers)) for one in found)
        known = Entrants((None, *found), formats)
        while len(_entered) >= MAX_KNOWN:
            _entered.pop(next(iter(_entered)), None)
        _entered[id(found)] = found, known
    return known


def everything(problem: Problem, supports: Supports) -> tuple[SuperSchedule, ...]:
    """The whole space of this problem: all axes of all formats."""
    if not OPS[problem.operation].space:
        return _with_storage(space.everything(problem, supports), problem.storage)
    return _members(problem, supports, True)


def _with_storage(found: tuple[SuperSchedule, ...], storage: str) -> tuple[SuperSchedule, ...]:
    """`found`, and first of all the same formats with A's values in 16 bits, or by number: as `storage` says.

    Kept by the tuple, the same one every time: hashing all its schedules takes as long as ranking them.
    """
    plain, made = _stored.get((id(found), storage), (None, found))
    if storage and plain is not found:
        fitting = (one for one in found if one.format.is_sliced == (storage == DICTIONARY))
        made = *(replace(one, format=replace(one.format, values=storage)) for one in fitting), *found
        while len(_stored) >= MAX_KNOWN:
            _stored.pop(next(iter(_stored)), None)
        _stored[id(found), storage] = found, made
    return made


def _members(problem: Problem, supports: Supports, is_whole: bool) -> tuple[SuperSchedule, ...]:
    """The members that can be lowered; problems of one outline share them. Nothing here keeps a problem alive."""
    width = problem.n_dense_cols if OPS[problem.operation].is_sampled else space.tiles(problem)  # how far Y is
    pattern = problem.pattern
    levels = pattern.level_order(problem.mode) if isinstance(pattern, TensorPattern) else ()
    of = (pattern.shape, pattern.index_dtype, levels)
    key = (problem.operation, of, problem.mode, problem.dtype, width, supports, is_whole)
    known = _known.get(key)
    if known is None:
        members: Any = importlib.import_module(OPS[problem.operation].space).members
        found = dict.fromkeys(members(problem, is_whole=is_whole))
        known = tuple(one for one in found if supports(problem.operation, one) is None)
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[key] = known
    return known


MAX_KNOWN: Final = 64
_known: dict[tuple[Any, ...], tuple[SuperSchedule, ...]] = {}
_stored: dict[tuple[int, str], tuple[tuple[SuperSchedule, ...], tuple[SuperSchedule, ...]]] = {}
_entered: dict[int, tuple[tuple[SuperSchedule, ...], Entrants]] = {}


@functools.cache
def space_signature(operation: str, *, storage: str = "") -> str:
    """8 hex digits that change whenever a plan could come out differently because the space did; then `storage`."""
    if not OPS[operation].space:
        return space.space_signature() + storage
    module = importlib.import_module(OPS[operation].space)
    values = [repr(value) for name, value in sorted(vars(module).items()) if name.isupper()]
    return hashlib.blake2b(
        "|".join([SPACE_VERSION, space.space_signature(), *values]).encode(), digest_size=4
    ).hexdigest()


SPACE_VERSION: Final = "4"
"""Raise when the functions above or in spaces of `OPS` come to yield other schedules."""
