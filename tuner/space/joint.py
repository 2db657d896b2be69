"""Union of several spaces of one operation, in which every schedule has a code.

The parameters are the index of the space, and those of all spaces as ``<space>.<name>``. Parameters of spaces that a
schedule does not belong to have the value "absent"; for permutations, -1 at every position. A schedule that several
spaces contain belongs to the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosparse.tuner.space.template import Categorical, Code, Parameter, TemplateSpace

from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.errors import ScheduleError

ABSENT: Final = "absent"
SPACE: Final = "space"


@dataclass(frozen=True, eq=False)
class JointSpace:
    """Union of `spaces`; a schedule in several of them gets its code from the first."""

    spaces: tuple[TemplateSpace, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of a code: the number of the space, then the parameters of every space."""
        which = Categorical(SPACE, tuple(space.name for space in self.spaces), is_ladder=False)
        return (which, *(_widened(space, one) for space in self.spaces for one in space.parameters))

    def encode(self, schedule: SuperSchedule) -> Code:
        """Return the code of `schedule`; raise ScheduleError when no space contains it."""
        for at, space in enumerate(self.spaces):
            try:
                code = space.encode(schedule)
            except ScheduleError:
                continue
            return (at, *(part for other in self.spaces for part in (code if other is space else _absent(other))))
        names = tuple(space.name for space in self.spaces)
        raise ScheduleError.not_in_space("schedule", schedule.to_json(), names)

    def contains(self, schedule: SuperSchedule) -> bool:
        """Return whether `schedule` has a code."""
        return any(space.contains(schedule) for space in self.spaces)

    def decode(self, code: Code) -> SuperSchedule:
        """Return the schedule of a code; raise ScheduleError when it has none."""
        which = code[0]
        if not isinstance(which, int) or not 0 <= which < len(self.spaces):
            raise ScheduleError.not_in_space(SPACE, which, tuple(space.name for space in self.spaces))
        start = 1 + sum(len(space.parameters) for space in self.spaces[:which])
        space = self.spaces[which]
        return space.decode(code[start : start + len(space.parameters)])


def _widened(space: TemplateSpace, one: Parameter) -> Parameter:
    name = f"{space.name}.{one.name}"
    if isinstance(one, Categorical):
        return Categorical(name, (*one.values, ABSENT), one.is_ladder)
    return type(one)(name, one.items)


def _absent(space: TemplateSpace) -> Sequence[int | tuple[int, ...]]:
    return [one.size if isinstance(one, Categorical) else (-1,) * len(one.items) for one in space.parameters]
