"""Schedule spaces of all operations behind one interface: first candidates, whole space, signature."""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Hashable
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
    """Return a few schedules of every supported format, to be ranked first; equal calls return the same objects."""
    if not OPS[problem.operation].tuning.space:
        return _with_storage(space.candidates(problem, supports), problem.storage)
    return _members(problem, supports, False)


@dataclass(frozen=True, eq=False)
class Entrants:
    """Schedules that a search starts from: the default kernel (None), then `candidates`; with a number per format."""

    schedules: tuple[SuperSchedule | None, ...]
    format_of: tuple[int, ...]  # format numbers of schedules[1:]


def entrants(problem: Problem, supports: Supports) -> Entrants:
    """Return the entrants of `problem`; equal calls return the same objects, for which models cache what they read."""
    found = candidates(problem, supports)
    if len(_made) >= MAX_MADE:
        _made.clear()
    _made.add(_outline(problem))
    members, known = _entered.get(id(found), (None, None))
    if known is None or members is not found:
        numbers: dict[Format, int] = {}
        formats = tuple(numbers.setdefault(one.format, len(numbers)) for one in found)
        known = Entrants((None, *found), formats)
        while len(_entered) >= MAX_KNOWN:
            _entered.pop(next(iter(_entered)), None)
        _entered[id(found)] = found, known
    return known


def is_made(problem: Problem) -> bool:
    """Return whether this process has made the entrants of `problem`, which takes 10 times as long as ranking them."""
    return _outline(problem) in _made


def _outline(problem: Problem) -> Hashable:
    if not OPS[problem.operation].tuning.space:
        return problem.storage, problem.dtype, space.Outline.of(problem)
    pattern = problem.pattern
    return problem.operation, problem.mode, pattern.shape, pattern.index_dtype, problem.dtype, problem.n_dense_cols


def everything(problem: Problem, supports: Supports) -> tuple[SuperSchedule, ...]:
    """Return the whole space of `problem`: all axes of all formats."""
    if not OPS[problem.operation].tuning.space:
        return _with_storage(space.everything(problem, supports), problem.storage)
    return _members(problem, supports, True)


def _with_storage(found: tuple[SuperSchedule, ...], storage: str) -> tuple[SuperSchedule, ...]:
    """Return `found`, preceded by the same formats with values stored as `storage` says: 16 bits or dictionary-encoded.

    The result is cached per tuple, because hashing all schedules takes as long as ranking them.
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
    """Return the supported members, shared by problems with the same outline; the cache keeps no problem alive."""
    # The width of Y decides whether Y exceeds the L2 cache
    width = problem.n_dense_cols if OPS[problem.operation].is_sampled else space.tiles(problem)
    pattern = problem.pattern
    levels = pattern.level_order(problem.mode) if isinstance(pattern, TensorPattern) else ()
    of = (pattern.shape, pattern.index_dtype, levels)
    key = (problem.operation, of, problem.mode, problem.dtype, width, supports, is_whole)
    known = _known.get(key)
    if known is None:
        members: Any = importlib.import_module(OPS[problem.operation].tuning.space).members
        found = dict.fromkeys(members(problem, is_whole=is_whole))
        known = tuple(one for one in found if supports(problem.operation, one) is None)
        while len(_known) >= MAX_KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[key] = known
    return known


MAX_MADE: Final = 1024
"""Maximum number of entries of `_made`; the set is cleared when it is full."""
_made: set[Hashable] = set()  # outlines of the problems whose entrants this process has made
MAX_KNOWN: Final = 64
_known: dict[tuple[Any, ...], tuple[SuperSchedule, ...]] = {}
_stored: dict[tuple[int, str], tuple[tuple[SuperSchedule, ...], tuple[SuperSchedule, ...]]] = {}
_entered: dict[int, tuple[tuple[SuperSchedule, ...], Entrants]] = {}


@functools.cache
def space_signature(operation: str, *, storage: str = "") -> str:
    """Return 8 hex digits that change whenever a change of the space could change a plan, followed by `storage`."""
    if not OPS[operation].tuning.space:
        return space.space_signature() + storage
    module = importlib.import_module(OPS[operation].tuning.space)
    values = [repr(value) for name, value in sorted(vars(module).items()) if name.isupper()]
    return hashlib.blake2b(
        "|".join([SPACE_VERSION, space.space_signature(), *values]).encode(), digest_size=4
    ).hexdigest()


SPACE_VERSION: Final = "4"
"""Version to increase when the functions above or spaces of `OPS` yield other schedules."""
