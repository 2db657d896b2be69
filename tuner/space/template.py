"""Spaces of SuperSchedules as templates: named parameters, each categorical or a permutation (WACO §4.1.2, Table 3).

A schedule is *encoded* as one index per categorical parameter and one permutation per reorder, which is what a program
embedder reads (WACO Fig. 11). Parameters that a schedule does not use (the level format of a coordinate that is not
split) have normal values, so that one schedule has one code: ``decode(encode(s)) == s``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.errors import ScheduleError

Supports = Callable[[str, SuperSchedule], "str | None"]
"""Reason why a backend cannot lower a schedule of an operation, or None."""
Code = tuple["int | tuple[int, ...]", ...]
"""Of each parameter in order: the index of its value, or, of a permutation, the index of the item at each place."""
Values = Mapping[str, Any]  # int or str of a categorical parameter, tuple[str, ...] of a permutation

MAX_TRIES: Final = 10_000
"""Draws after which a sample is given up: a backend that supports less than one in as many is no use."""


@dataclass(frozen=True, slots=True)
class Categorical:
    """A parameter with a few values. `is_ladder`: they are ordered, neighbours are the rungs beside."""

    name: str
    values: tuple[int | str, ...]
    is_ladder: bool = True

    def code(self, value: Any) -> int:
        """Index of `value`; ScheduleError when it is none of them."""
        if value not in self.values:
            raise ScheduleError.not_in_space(self.name, value, self.values)
        return self.values.index(value)

    def value(self, code: Any) -> int | str:
        """Inverse of `code`."""
        return self.values[int(code)]

    def draw(self, rng: np.random.Generator) -> int | str:
        """A value, all alike."""
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Permutation:
    """A parameter that orders `items`."""

    name: str
    items: tuple[str, ...]

    def code(self, value: Any) -> tuple[int, ...]:
        """Index of the item at each place; ScheduleError when `value` orders other items."""
        if sorted(value) != sorted(self.items):
            raise ScheduleError.not_in_space(self.name, value, self.items)
        return tuple(self.items.index(item) for item in value)

    def value(self, code: Any) -> tuple[str, ...]:
        """Inverse of `code`."""
        return tuple(self.items[at] for at in code)

    def draw(self, rng: np.random.Generator) -> tuple[str, ...]:
        """An order, all alike."""
        return tuple(self.items[at] for at in rng.permutation(len(self.items)))

    @property
    def size(self) -> int:
        """Number of orders."""
        return math.factorial(len(self.items))


Parameter = Categorical | Permutation


class TemplateSpace(ABC):
    """A set of legal schedules of one operation, spanned by `parameters`."""

    name: str
    operation: str  # of the schedules: "matmul", "sddmm", "mttkrp"
    parameters: tuple[Parameter, ...]

    @abstractmethod
    def values_of(self, schedule: SuperSchedule) -> Values:
        """Return all parameters of `schedule`, canonical where unused; raise ScheduleError outside the space."""

    @abstractmethod
    def schedule_of(self, values: Values) -> SuperSchedule:
        """The schedule with these values; ScheduleError when there is none."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Values:
        """Values of a random point of the template; a few may have no schedule."""

    def encode(self, schedule: SuperSchedule) -> Code:
        """Code of `schedule`; ScheduleError when it does not belong to this space."""
        values = self.values_of(schedule)
        code = tuple(parameter.code(values[parameter.name]) for parameter in self.parameters)
        if self.schedule_of(values) != schedule:
            raise ScheduleError.not_in_space("schedule", schedule.to_json(), f"the schedules of {self.name!r}")
        return code

    def decode(self, code: Code) -> SuperSchedule:
        """The schedule of a code; ScheduleError when it has none (an index out of range, sizes that do not go)."""
        values: dict[str, Any] = {}
        for parameter, one in zip(self.parameters, code, strict=True):
            if not _is_code(parameter, one):
                raise ScheduleError.not_in_space(parameter.name, one, f"codes of {parameter.size} values")
            values[parameter.name] = parameter.value(one)
        return self.schedule_of(values)

    def contains(self, schedule: SuperSchedule) -> bool:
        """Whether `schedule` belongs to this space."""
        try:
            self.encode(schedule)
        except ScheduleError:
            return False
        return True

    def sample(self, rng: np.random.Generator, supports: Supports | None = None) -> SuperSchedule:
        """A random schedule, that the backend supports if `supports` is given; ScheduleError when none is found."""
        for _ in range(MAX_TRIES):
            try:
                made = self.schedule_of(self.draw(rng))
            except ScheduleError:
                continue
            if supports is None or supports(self.operation, made) is None:
                return made
        raise ScheduleError.illegal(f"of the space {self.name!r}", f"{MAX_TRIES} samples, none of them supported")


def _is_code(parameter: Parameter, code: object) -> bool:
    if isinstance(parameter, Categorical):
        return isinstance(code, int) and 0 <= code < parameter.size
    return isinstance(code, tuple) and sorted(code) == list(range(len(parameter.items)))
