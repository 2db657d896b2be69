"""Composite: a matrix in parts that share no entry, each with its own schedule and therefore its own format.

A `Selection` is a rule that says which of the entries of op(A) that earlier parts left a part takes; the last part
takes the rest. Rules are values: `str` writes one as a line and `selection_of` reads it. Plans store that line, so a
remembered composite selects the same entries of the same pattern. Source: Fang et al., "STile" (PACMMOD 2(1), 2024),
Section 2, restricted to disjoint parts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass
from autosparse.errors import ScheduleError

MAX_PARTS: Final = 4
MAX_BLOCK: Final = 64
COMPOSITE_VERSION: Final = 2
"""Version of the text form; raise it when a rule or field changes its meaning. Plans of other versions are ignored."""
MAX_COUNT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Rows:
    """Selection of rows with `least` to `most` entries (None: no upper bound)."""

    least: int
    most: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.least <= (MAX_COUNT if self.most is None else self.most):
            raise ScheduleError.illegal(self, "the least number of entries must lie in 0..most")

    def __str__(self) -> str:
        return f"rows({self.least}..{'' if self.most is None else self.most})"


@dataclass(frozen=True, slots=True)
class Blocks:
    """Selection of entries in aligned `r` x `c` blocks of which at least the fraction `fill` is filled."""

    r: int
    c: int
    fill: float

    def __post_init__(self) -> None:
        if not (1 <= self.r <= MAX_BLOCK and 1 <= self.c <= MAX_BLOCK and 0.0 < self.fill <= 1.0):
            raise ScheduleError.illegal(self, f"sides must lie in 1..{MAX_BLOCK}, fill in (0, 1]")

    def __str__(self) -> str:
        return f"blocks({self.r}x{self.c},{self.fill:g})"


@dataclass(frozen=True, slots=True)
class Rest:
    """Selection of all entries that earlier parts left, and of rows without entries."""

    def __str__(self) -> str:
        return "rest"


Selection = Rows | Blocks | Rest
REST: Final = Rest()


def _rows(text: str) -> Rows:
    least, _, most = text.partition("..")
    return Rows(int(least), int(most) if most else None)


def _blocks(text: str) -> Blocks:
    sides, _, fill = text.partition(",")
    r, _, c = sides.partition("x")
    return Blocks(int(r), int(c), float(fill))


READERS: Final[Mapping[str, Callable[[str], Selection]]] = {"rows": _rows, "blocks": _blocks}
"""Name of a rule -> parser of its arguments. A new rule needs a class and a row here."""


def selection_of(text: str) -> Selection:
    """Return the selection that `str` wrote as `text`; raise ScheduleError for anything else."""
    if text == "rest":
        return REST
    match = re.fullmatch(r"([a-z_]+)\(([^()]*)\)", text)
    reader = READERS.get(match[1]) if match else None
    if match is None or reader is None:
        raise ScheduleError.unparsable(text, expected=f"rest, or one of {', '.join(READERS)} with its arguments")
    try:
        return reader(match[2])
    except ValueError as err:
        if isinstance(err, ScheduleError):
            raise
        raise ScheduleError.unparsable(text, expected=f"arguments of {match[1]}") from err


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a composite: the entries that the rule `select` takes, and the schedule that stores and computes them."""

    select: Selection
    schedule: SuperSchedule

    @property
    def implementation(self) -> str:
        """Implementation that computes the part: one of `schedule.IMPLEMENTATIONS`."""
        return self.schedule.implementation

    def __str__(self) -> str:
        return f"{self.select}: {self.schedule.format}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """Parts in the order in which they take their entries, the last one the rest; 2 to `MAX_PARTS`.

    Parts take whole rows, and each writes its rows of C alone. Every sum has one order, whatever the number of threads.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        reason = self._reason_illegal()
        if reason:
            raise ScheduleError.illegal("; ".join(str(part.select) for part in self.parts), reason)

    def _reason_illegal(self) -> str | None:
        if not 2 <= len(self.parts) <= MAX_PARTS:
            return f"a composite has 2 to {MAX_PARTS} parts, not {len(self.parts)}"
        selections = [part.select for part in self.parts]
        if selections[-1] != REST or REST in selections[:-1]:
            return "the last part, and no other, takes the rest"
        if not all(isinstance(one, Rows) for one in selections[:-1]):
            return "all parts take whole rows"
        if len({part.schedule.operation for part in self.parts}) != 1:
            return "all parts compute one operation"
        return None

    @property
    def operation(self) -> str:
        """Operation that the parts compute."""
        return self.parts[0].schedule.operation

    @property
    def schedules(self) -> tuple[SuperSchedule, ...]:
        """Schedules of the parts, in their order."""
        return tuple(part.schedule for part in self.parts)

    @property
    def format(self) -> Composite:
        """Format of the packed copy: the composite itself, whose parts describe the storage."""
        return self

    # Attributes of formats and schedules; constant here, whatever the parts are.
    is_csr: ClassVar[bool] = False
    is_sliced: ClassVar[bool] = False
    is_precompiled: ClassVar[bool] = False
    rows: ClassVar[str] = ""
    values: ClassVar[str] = ""

    @property
    def has_padding(self) -> bool:
        """Return whether some part stores zeros that the pattern does not have."""
        return any(schedule.format.has_padding for schedule in self.schedules)

    def dense_split(self, index: str) -> int:
        """Return the widest compile-time tile of a dense index among the parts."""
        return max(schedule.dense_split(index) for schedule in self.schedules)

    def __str__(self) -> str:
        return " + ".join(map(str, self.parts))

    def to_json(self) -> str:
        """Return the canonical text, which `from_json` reads."""
        parts = [{"select": str(part.select), "schedule": json.loads(part.schedule.to_json())} for part in self.parts]
        values = {"composite": COMPOSITE_VERSION, "parts": parts}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Composite:
        """Parse text of `to_json`; raise ScheduleError when it is no composite of this version."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values["composite"] != COMPOSITE_VERSION:
                raise ScheduleError.unparsable(text, expected=f"a composite of version {COMPOSITE_VERSION}")
            parts = tuple(
                Part(selection_of(one["select"]), SuperSchedule.from_json(json.dumps(one["schedule"])))
                for one in values["parts"]
            )
            return cls(parts=parts)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as err:
            if isinstance(err, ScheduleError):
                raise
            raise ScheduleError.unparsable(text, expected=f"a composite as JSON ({err})") from err

    def stable_hash(self) -> str:
        """Return 16 hex digits that identify the composite in cache keys."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()


Schedule = SuperSchedule | Composite
"""Computation of a problem: one schedule for the whole matrix, or a composite."""


def parts_of(schedule: Schedule | None) -> tuple[Part, ...]:
    """Return the parts of a plan: those of a composite, one for a single schedule, none for the default kernel."""
    if isinstance(schedule, Composite):
        return schedule.parts
    return () if schedule is None else (Part(REST, schedule),)


def schedule_from_json(text: str) -> Schedule:
    """Parse the schedule or composite of a plan's record; raise ScheduleError where the text is neither."""
    return Composite.from_json(text) if '"composite"' in text else SuperSchedule.from_json(text)
