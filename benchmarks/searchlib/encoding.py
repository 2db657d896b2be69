"""Encoding of SuperSchedules in which every point is legal.

A point has the number of a template space and, for every parameter, the index of a value or sort keys of a permutation.
Many points have no schedule, for example a block size without a block. Giving these a penalty compares how well
searches learn the constraints. Here such a point stands for the legal schedule that shares as many of its parameters as
a greedy pass finds: parameters are taken over from the point one at a time, as long as a schedule remains.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from autosparse.tuner.space.template import Categorical, Code, Parameter, TemplateSpace

from autosparse import _native
from autosparse.core.schedule import SuperSchedule
from autosparse.errors import ScheduleError

Point = tuple[int, Code]
"""Number of the space, and an element per parameter: an index, or a permutation."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """Points of several template spaces of one operation, and the legal schedule of each."""

    spaces: Sequence[TemplateSpace]

    def schedule(self, point: Point) -> SuperSchedule:
        """Return the schedule of `point`, or of the legal point near it; equal points have equal schedules."""
        which, code = point
        space = self.spaces[which]
        found = legal(space, code)
        return self._repaired(space, code) if found is None else found

    def _repaired(self, space: TemplateSpace, code: Code) -> SuperSchedule:
        seed = hashlib.blake2b(repr((space.name, code)).encode(), digest_size=8).digest()
        found = space.sample(np.random.default_rng(int.from_bytes(seed, "little")), _native.supports)
        near = list(space.encode(found))
        for at, wanted in enumerate(code):
            if near[at] == wanted:
                continue
            tried = (*near[:at], wanted, *near[at + 1 :])
            better = legal(space, tried)
            if better is not None:
                found, near[at] = better, wanted
        return found

    def random(self, rng: np.random.Generator) -> Point:
        """Draw a point: a space, and a value of each of its parameters, all uniformly."""
        which = int(rng.integers(len(self.spaces)))
        return which, tuple(value_at(one, rng) for one in self.spaces[which].parameters)

    def neighbour(self, point: Point, rng: np.random.Generator, *, n_changes: int = 1) -> Point:
        """Return `point` with `n_changes` parameters drawn anew; one time in twenty, a point of another space."""
        if rng.random() < 0.05 and len(self.spaces) > 1:
            return self.random(rng)
        which, code = point
        changed, parameters = list(code), self.spaces[which].parameters
        for at in rng.choice(len(parameters), size=min(n_changes, len(parameters)), replace=False):
            changed[at] = value_at(parameters[at], rng)
        return which, tuple(changed)

    def crossed(self, one: Point, other: Point, rng: np.random.Generator) -> Point:
        """Return a point with each parameter from `one` or `other`; points of different spaces cannot be crossed."""
        if one[0] != other[0]:
            return self.neighbour(one, rng)
        return one[0], tuple(mine if rng.random() < 0.5 else its for mine, its in zip(one[1], other[1], strict=True))

    def point(self, which: int, values: Mapping[str, Any]) -> Point:
        """Return the point of space `which` with these values by parameter: indices, or sort keys of permutations."""
        code: list[int | tuple[int, ...]] = []
        for one in self.spaces[which].parameters:
            value = values[one.name]
            plain = isinstance(one, Categorical)
            code.append(int(value) if plain else tuple(int(place) for place in np.argsort(value)))
        return which, tuple(code)


def value_at(one: Parameter, rng: np.random.Generator) -> int | tuple[int, ...]:
    """Draw a code of the parameter uniformly."""
    if isinstance(one, Categorical):
        return int(rng.integers(one.size))
    return tuple(int(place) for place in rng.permutation(len(one.items)))


@functools.lru_cache(maxsize=1 << 16)
def legal(space: TemplateSpace, code: Code) -> SuperSchedule | None:
    """Return the schedule of `code` if there is one that kernels exist for, else None."""
    try:
        schedule = space.decode(code)
        space.encode(schedule)
    except ScheduleError:
        return None
    return schedule if _native.supports(space.operation, schedule) is None else None
