"""Template spaces of SuperSchedules: named parameters, categorical or permutations (WACO section 4.1.2, Table 3).

The code of a schedule has one index per categorical parameter and one permutation per reorder, which is the input of
the program embedder (WACO Fig. 11). Parameters that a schedule does not use, such as the level format of an unsplit
coordinate, have canonical values. Each schedule therefore has one code: ``decode(encode(s)) == s``.
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
"""Function that returns why a backend cannot lower a schedule of an operation, or None."""
Code = tuple["int | tuple[int, ...]", ...]
"""Code of a schedule, an element per parameter: the index of its value, or the item index at each position."""
Values = Mapping[str, Any]  # int or str of a categorical parameter, tuple[str, ...] of a permutation

MAX_TRIES: Final = 10_000
"""Maximum number of draws per sample; a backend that supports fewer schedules than one in as many is an error."""


@dataclass(frozen=True, slots=True)
class Categorical:
    """Parameter with a few values. `is_ladder`: the values are ordered, and adjacent values are neighbours."""

    name: str
    values: tuple[int | str, ...]
    is_ladder: bool = True

    def code(self, value: Any) -> int:
        """Return the index of `value`; raise ScheduleError when it is not among the values."""
        if value not in self.values:
            raise ScheduleError.not_in_space(self.name, value, self.values)
        return self.values.index(value)

    def value(self, code: Any) -> int | str:
        """Return the value of index `code`."""
        return self.values[int(code)]

    def draw(self, rng: np.random.Generator) -> int | str:
        """Draw a value uniformly."""
        return self.values[int(rng.integers(len(self.values)))]

    @property
    def size(self) -> int:
        """Return the number of values."""
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Permutation:
    """Parameter whose values are the orders of `items`."""

    name: str
    items: tuple[str, ...]

    def code(self, value: Any) -> tuple[int, ...]:
        """Return the code of the order `value`: indices into `items`; raise ScheduleError for other items."""
        if sorted(value) != sorted(self.items):
            raise ScheduleError.not_in_space(self.name, value, self.items)
        return tuple(self.items.index(item) for item in value)

    def value(self, code: Any) -> tuple[str, ...]:
        """Return the ordered items of `code`."""
        return tuple(self.items[at] for at in code)

    def draw(self, rng: np.random.Generator) -> tuple[str, ...]:
        """Draw an order uniformly."""
        return tuple(self.items[at] for at in rng.permutation(len(self.items)))

    @property
    def size(self) -> int:
        """Return the number of orders."""
        return math.factorial(len(self.items))


Parameter = Categorical | Permutation


class TemplateSpace(ABC):
    """Set of the schedules of one operation that values of `parameters` describe; schedules have codes."""

    name: str
    operation: str  # "matmul", "sddmm" or "mttkrp"
    parameters: tuple[Parameter, ...]

    @abstractmethod
    def values_of(self, schedule: SuperSchedule) -> Values:
        """Return the values of all parameters for `schedule`, fixed where unused; ScheduleError outside the space."""

    @abstractmethod
    def schedule_of(self, values: Values) -> SuperSchedule:
        """Return the schedule with these values; raise ScheduleError when there is none."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Values:
        """Draw random values of all parameters; a few combinations have no schedule."""

    def encode(self, schedule: SuperSchedule) -> Code:
        """Return the code of `schedule`; raise ScheduleError when it does not belong to this space."""
        values = self.values_of(schedule)
        code = tuple(parameter.code(values[parameter.name]) for parameter in self.parameters)
        if self.schedule_of(values) != schedule:
            raise ScheduleError.not_in_space("schedule", schedule.to_json(), f"the schedules of {self.name!r}")
        return code

    def decode(self, code: Code) -> SuperSchedule:
        """Return the schedule of `code`; raise ScheduleError for an index out of range or incompatible sizes."""
        values: dict[str, Any] = {}
        for parameter, one in zip(self.parameters, code, strict=True):
            if not _is_code(parameter, one):
                raise ScheduleError.not_in_space(parameter.name, one, f"codes of {parameter.size} values")
            values[parameter.name] = parameter.value(one)
        return self.schedule_of(values)

    def contains(self, schedule: SuperSchedule) -> bool:
        """Return whether `schedule` belongs to this space."""
        try:
            self.encode(schedule)
        except ScheduleError:
            return False
        return True

    def sample(self, rng: np.random.Generator, supports: Supports | None = None) -> SuperSchedule:
        """Draw a random schedule that `supports` accepts; raise ScheduleError when MAX_TRIES draws yield none."""
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
