"""Contents of cache records by kind, as plain data. To add a kind, add a row to `KINDS`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, TypeVar

from autosparse.cache.envelope import Envelope, Record
from autosparse.cache.keys import PlanKey
from autosparse.cache.trust import SCHEMAS

from autosparse._version import __version__
from autosparse.config import Effort
from autosparse.core.composite import Schedule, schedule_from_json
from autosparse.core.plan import Candidate, Plan
from autosparse.core.solver import DEFAULT, FAMILIES, Choice, choice_of
from autosparse.core.values import dataclass
from autosparse.errors import RecordError, ScheduleError

T = TypeVar("T")


MAX_COUNT: Final = 2**53
"""Maximum of all counts, bytes included. Integers up to this value are exact as floats."""
MAX_SECONDS: Final = 1e15
"""Maximum of all seconds, dates and ratios. Sums and products of such numbers are finite."""


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _is_float(value: object) -> bool:
    """Return whether a JSON value is a number valid as time, date or ratio: 0 to `MAX_SECONDS`, no boolean, no NaN."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_SECONDS  # type: ignore[operator]  # nan gives False


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": _is_int,
    "float": _is_float,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "float | None": lambda value: value is None or _is_float(value),
}
"""Check of a JSON value's type and range, by annotation of the field. Other fields have their own readers."""


def _read(cls: type[T], kind: str, found: object, **own: Callable[[Any], Any]) -> T:
    """Create a `cls` from the JSON object `found`; fields in `own` are read by their own functions.

    Unknown fields are ignored and absent fields take their defaults, because releases with equal schema may add fields.
    Raise RecordError if a value has a wrong type or a field without default is absent.
    """
    if not isinstance(found, dict):
        raise RecordError.bad_field(kind, "record", found, expected="an object")
    values: dict[str, Any] = {}
    for item in dataclasses.fields(cls):  # type: ignore[arg-type]  # T is always a dataclass
        if item.name not in found:
            continue
        value = found[item.name]
        if item.name in own:
            value = own[item.name](value)
        elif not _CHECKS[str(item.type)](value):
            raise RecordError.bad_field(kind, item.name, value, expected=str(item.type))
        values[item.name] = value
    try:
        return cls(**values)
    except TypeError as err:
        raise RecordError.broken(kind, reason=str(err)) from err


# --- plan ---------------------------------------------------------------------------------------------------------


def _schedule_to_json(schedule: Schedule | None) -> Record | None:
    return None if schedule is None else json.loads(schedule.to_json())


def _schedule_from_json(found: object) -> Schedule | None:
    if found is None:
        return None
    try:
        return schedule_from_json(json.dumps(found))
    except (ScheduleError, RecursionError) as err:
        raise RecordError.bad_field("plan", "schedule", found, expected=f"a schedule ({err})") from err


MAX_KNOB_DEPTH: Final = 8
"""Maximum nesting of tuples in the knobs of a registered solver."""


def _knobs_from_json(found: object, depth: int = 0) -> Hashable:
    """Return the knobs of a solver without schedules: None, a boolean, a number, a text, or a tuple of such values."""
    if isinstance(found, list) and depth < MAX_KNOB_DEPTH:
        return tuple(_knobs_from_json(one, depth + 1) for one in found)
    if found is None or isinstance(found, (bool, str)) or _is_finite(found):
        return found
    raise RecordError.bad_field("plan", "knobs", found, expected="numbers, texts and lists of them")


def _choice_from_json(record: object) -> Choice:
    """Return the choice of a record: its schedule, or the solver's name with knobs. A schedule names its solver."""
    if not isinstance(record, dict) or "schedule" not in record:
        raise RecordError.broken("plan", reason="no schedule")
    schedule, solver = _schedule_from_json(record["schedule"]), record.get("solver", "")
    knobs = _knobs_from_json(record.get("knobs"))
    if not isinstance(solver, str):
        raise RecordError.bad_field("plan", "solver", solver, expected="str")
    if schedule is not None or solver in ("", DEFAULT.solver, *FAMILIES):
        return choice_of(schedule)
    return Choice(solver, knobs)


def _fields_to_json(value: Plan | Candidate) -> Record:
    found = {item.name: getattr(value, item.name) for item in dataclasses.fields(value) if item.name != "choice"}
    guesses = (item.name for item in dataclasses.fields(value) if item.type == "float | None")
    # A prediction that is not finite is stored as None, because readers would reject it.
    found |= {name: None for name in guesses if not _CHECKS["float | None"](found[name])}
    if isinstance(value, Plan):
        found["in_place"] = _schedule_to_json(value.in_place)
    solver, knobs = value.choice
    schedule = value.choice.schedule
    own = knobs if schedule is None else None  # a schedule is stored by itself
    return found | {"schedule": _schedule_to_json(schedule), "solver": solver, "knobs": own}


def plan_to_record(plan: Plan, key: PlanKey | None = None) -> Record:
    """Return `plan` as JSON values with all candidates and measurements, and the fields of its key."""
    content = _fields_to_json(plan) | {"candidates": [_fields_to_json(item) for item in plan.candidates]}
    del content["remembered"], content["not_remembered"]
    return content if key is None else content | {"key": key.to_json()}


def plan_key_of(record: Record) -> Record:
    """Return the fields of the key under which a plan was stored, or {}; the values are not validated."""
    found = record.get("key")
    return found if isinstance(found, dict) else {}


def plan_from_record(record: Record) -> Plan:
    """Invert `plan_to_record` exactly, with `remembered` set; raise RecordError for invalid records."""
    readers: dict[str, Callable[[Any], Any]] = {
        "in_place": _schedule_from_json, "candidates": _candidates_from_json, "effort": _effort_from_json,
        "remembered": bool,
    }  # fmt: skip
    return dataclasses.replace(_chosen_from_json(Plan, record, **readers), remembered=True)


def _chosen_from_json(cls: type[T], record: object, **own: Callable[[Any], Any]) -> T:
    """Create a plan or candidate, whose choice is stored as a schedule or as a solver's name with knobs."""
    choice = _choice_from_json(record)
    return _read(cls, "plan", {**record, "choice": choice}, choice=Choice._make, **own)  # type: ignore[dict-item]


def _candidates_from_json(found: object) -> tuple[Candidate, ...]:
    if not isinstance(found, list):
        raise RecordError.bad_field("plan", "candidates", found, expected="a list")
    return tuple(_chosen_from_json(Candidate, item) for item in found)


def _effort_from_json(found: object) -> str:
    try:
        return Effort(found).value
    except ValueError:
        raise RecordError.bad_field("plan", "effort", found, expected="an effort") from None


# --- failure ------------------------------------------------------------------------------------------------------

FAILURE_LIFE_S: Final = 7 * 24 * 3600.0
"""Time in seconds after which a failed kernel is tried again, as causes such as a full disk may have passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Kernel that failed to build or run, with the reason, compiler and release."""

    reason: str
    compiler: str  # identity of the compiler that failed
    failed_at: float  # seconds since 1970, UTC
    library: str = __version__
    n_times: int = 1

    def holds(self, *, compiler: str, now: float) -> bool:
        """Return whether this failure makes a retry pointless: it is recent, of the same compiler and release."""
        same = (self.compiler, self.library) == (compiler, __version__)
        return same and 0.0 <= now - self.failed_at < FAILURE_LIFE_S

    def to_record(self) -> Record:
        """Return the fields as JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Record) -> Failure:
        """Invert `to_record`; raise RecordError for invalid records."""
        return _read(cls, "failure", record)


# --- table --------------------------------------------------------------------------------------------------------


def _newer(mine: Envelope, other: Envelope) -> bool:
    return other.saved_at > mine.saved_at


def _better_plan(mine: Envelope, other: Envelope) -> bool:
    ranks = [(Effort(item.record.get("effort", "off")).rank, item.saved_at) for item in (mine, other)]
    return ranks[1] > ranks[0]


def _features(record: Record) -> Record:
    """Return a features record {"values": numbers}; raise RecordError if it is not of this form."""
    values = record.get("values") if isinstance(record, dict) else None
    if not isinstance(values, list) or not all(map(_is_finite, values)):
        raise RecordError.bad_field("features", "values", values, expected="a list of numbers")
    return record


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and -MAX_SECONDS <= value <= MAX_SECONDS  # type: ignore[operator]


def _machine(record: Record) -> Record:
    """Return a machine record, tables of [mean, number of observations] by name; raise RecordError if invalid."""
    for name in ("rates_s", "gains"):
        table = record.get(name, {}) if isinstance(record, dict) else None
        if not isinstance(table, dict) or not all(map(_is_mean, table.values())):
            raise RecordError.bad_field("machine", name, table, expected="means and numbers of observations by name")
    return record


def _rates(record: Record) -> Record:
    """Return a record of the machine's rates, positive numbers by name; raise RecordError if it is not of this form."""
    if not isinstance(record, dict) or not record or not all(map(_is_finite, record.values())):
        raise RecordError.bad_field("rates", "rates", record, expected="numbers by name")
    return record


def _is_mean(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_float(pair[0]) and _is_int(pair[1])


@dataclass(frozen=True, slots=True)
class RecordKind:
    """Kind of record: its name, its check, and the rule that chooses between two records of one key."""

    name: str
    check: Callable[[Record], object]  # raises RecordError unless it is a record of this kind
    prefers: Callable[[Envelope, Envelope], bool]  # (mine, other): whether the other one is kept on import
    is_wisdom: bool  # exported by default

    @property
    def schema(self) -> int:
        """Version of the layout."""
        return SCHEMAS[self.name]


KINDS: Final[Mapping[str, RecordKind]] = {
    row.name: row
    for row in (
        RecordKind("plan", plan_from_record, _better_plan, is_wisdom=True),
        RecordKind("machine", _machine, _newer, is_wisdom=False),  # cost estimates: the tuner checks their ranges
        RecordKind("features", _features, _newer, is_wisdom=False),  # features of patterns, for learned models
        RecordKind("rates", _rates, _newer, is_wisdom=False),  # of the machine: the tuner checks their ranges
        RecordKind("failure", Failure.from_record, _newer, is_wisdom=False),
    )
}
WISDOM_KINDS: Final = tuple(row.name for row in KINDS.values() if row.is_wisdom)


def is_preferred(mine: Envelope, other: Envelope) -> bool:
    """Return whether `other`, a valid record, replaces `mine`, which has the same key and may be invalid."""
    row = KINDS[mine.kind]
    try:
        row.check(mine.record)
    except RecordError:
        return True
    return row.prefers(mine, other)
