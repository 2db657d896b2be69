"""Records: what each kind of cache entry says, as plain data. To add a kind, add a row to `KINDS`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from autosparse.cache.envelope import Envelope, Record
from autosparse.cache.keys import SCHEMAS, PlanKey

from autosparse._version import __version__
from autosparse.config import Effort
from autosparse.core.composite import Schedule, schedule_from_json
from autosparse.core.plan import Candidate, Plan
from autosparse.core.values import dataclass
from autosparse.errors import RecordError, ScheduleError
from autosparse.ops import EINSUM

T = TypeVar("T")


MAX_COUNT: Final = 2**53
"""Of anything that is counted, bytes included: every such integer is a float, too."""
MAX_SECONDS: Final = 1e15
"""Thirty million years, or a date: sums and products of such numbers are finite."""


MAX_PROGRAM_CHARS: Final = 4096
"""Characters of the text of a program: four operands and their loops take a few hundred."""


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def _is_float(value: object) -> bool:
    """Whether it is a time, a date or a ratio."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_SECONDS  # type: ignore[operator]  # nan is not; integers of any size are


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "int": _is_int,
    "float": _is_float,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: value is None or isinstance(value, str),
    "float | None": lambda value: value is None or _is_float(value),
}
"""Annotation of a field -> whether a JSON value fits, in type and range. Other fields have functions of their own."""


def _read(cls: type[T], kind: str, found: object, **own: Callable[[Any], Any]) -> T:
    """`cls` from the JSON object `found`; fields in `own` are read by their own functions.

    Fields that `cls` does not know are ignored and absent ones take their default: releases that share a schema may
    add fields. RecordError when a value has another type or a field without default is absent.
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


def _fields_to_json(value: Plan | Candidate) -> Record:
    found = {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    guesses = (item.name for item in dataclasses.fields(value) if item.type == "float | None")
    # A prediction that is not finite is none: no reader would believe it.
    found |= {name: None for name in guesses if not _CHECKS["float | None"](found[name])}
    schedules = ("schedule", "in_place") if isinstance(value, Plan) else ("schedule",)
    return found | {name: _schedule_to_json(getattr(value, name)) for name in schedules}


def plan_to_record(plan: Plan, key: PlanKey | None = None) -> Record:
    """`plan` as JSON values, with every candidate and measurement, and the fields of its key for `plan_key_of`."""
    content = _fields_to_json(plan) | {"candidates": [_fields_to_json(item) for item in plan.candidates]}
    del content["remembered"], content["not_remembered"]
    return content if key is None else content | {"key": key.to_json()}


def plan_key_of(record: Record) -> Record:
    """The fields of the key under which a plan was stored, as far as the record tells; their values may be anything."""
    found = record.get("key")
    return found if isinstance(found, dict) else {}


def plan_from_record(record: Record) -> Plan:
    """Invert `plan_to_record`: the same plan, every float exact, with `remembered` set. RecordError if it is none."""
    plan = _read(
        Plan,
        "plan",
        record,
        schedule=_schedule_from_json,
        in_place=_schedule_from_json,
        candidates=_candidates_from_json,
        effort=_effort_from_json,
        remembered=bool,
    )
    return dataclasses.replace(plan, remembered=True)


def _candidates_from_json(found: object) -> tuple[Candidate, ...]:
    if not isinstance(found, list):
        raise RecordError.bad_field("plan", "candidates", found, expected="a list")
    return tuple(_read(Candidate, "plan", item, schedule=_schedule_from_json) for item in found)


def _effort_from_json(found: object) -> str:
    try:
        return Effort(found).value
    except ValueError:
        raise RecordError.bad_field("plan", "effort", found, expected="an effort") from None


# --- history ------------------------------------------------------------------------------------------------------

HORIZON_WEIGHT: Final = 0.5
"""Weight of the newest process in the decayed horizon; that of each older one is halved by every newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How often one problem was computed, over processes.

    `horizon_calls` is the exponentially decayed mean of calls per process: what to expect of the next one.
    """

    n_calls: int = 0
    spent_s: float = 0.0
    n_processes: int = 0
    n_objects: int = 0
    process: str = ""  # token of the process that reported last
    process_calls: int = 0  # calls that it reported so far
    earlier_horizon_calls: float = 0.0  # horizon before that process

    @property
    def horizon_calls(self) -> float:
        """Calls expected of one process; 0 while nothing is known."""
        if self.n_processes <= 1:
            return float(self.process_calls)
        return (1 - HORIZON_WEIGHT) * self.earlier_horizon_calls + HORIZON_WEIGHT * self.process_calls

    @property
    def calls_per_object(self) -> float:
        """Mean calls per matrix object: packing is paid again by each of them."""
        return self.n_calls / self.n_objects if self.n_objects else 0.0

    def observe(self, *, process: str, calls: int, spent_s: float, new_objects: int = 0) -> History:
        """History after `process` (any token of its own) reports `calls` more calls that took `spent_s` together.

        Reports of one process may come in pieces. Processes that report in turns count as new at each turn.
        """
        same = process == self.process
        return History(
            n_calls=self.n_calls + calls,
            spent_s=self.spent_s + spent_s,
            n_processes=self.n_processes + (not same),
            n_objects=self.n_objects + new_objects,
            process=process,
            process_calls=calls + (self.process_calls if same else 0),
            earlier_horizon_calls=self.earlier_horizon_calls if same else self.horizon_calls,
        )

    def to_record(self) -> Record:
        """JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Record | None) -> History:
        """Invert `to_record`; None (never seen) is the empty history. RecordError if it is none."""
        return cls() if record is None else _read(cls, "history", record)


# --- failure ------------------------------------------------------------------------------------------------------

FAILURE_LIFE_S: Final = 7 * 24 * 3600.0
"""A failure older than this is tried again: a full disk or a killed compiler is not for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A kernel that could not be built or run, why, and with which compiler and release."""

    reason: str
    compiler: str  # id of the compiler that failed
    failed_at: float  # seconds since 1970, UTC
    library: str = __version__
    n_times: int = 1

    def holds(self, *, compiler: str, now: float) -> bool:
        """Whether it is pointless to try again: same compiler, same release, not long ago."""
        same = (self.compiler, self.library) == (compiler, __version__)
        return same and 0.0 <= now - self.failed_at < FAILURE_LIFE_S

    def to_record(self) -> Record:
        """JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Record) -> Failure:
        """Invert `to_record`. RecordError if it is none."""
        return _read(cls, "failure", record)


# --- table --------------------------------------------------------------------------------------------------------


def _newer(mine: Envelope, other: Envelope) -> bool:
    return other.saved_at > mine.saved_at


def _better_plan(mine: Envelope, other: Envelope) -> bool:
    ranks = [(Effort(item.record.get("effort", "off")).rank, item.saved_at) for item in (mine, other)]
    return ranks[1] > ranks[0]


def _longer_history(mine: Envelope, other: Envelope) -> bool:
    """Not the sum: importing the same file twice must change nothing."""
    counts = [(item.record.get("n_calls", 0), item.saved_at) for item in (mine, other)]
    return counts[1] > counts[0]


def _features(record: Record) -> Record:
    """{"values": numbers}."""
    values = record.get("values") if isinstance(record, dict) else None
    if not isinstance(values, list) or not all(map(_is_finite, values)):
        raise RecordError.bad_field("features", "values", values, expected="a list of numbers")
    return record


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and -MAX_SECONDS <= value <= MAX_SECONDS  # type: ignore[operator]


def _machine(record: Record) -> Record:
    """Tables {name: [mean, observations]}."""
    for name in ("rates_s", "gains"):
        table = record.get(name, {}) if isinstance(record, dict) else None
        if not isinstance(table, dict) or not all(map(_is_mean, table.values())):
            raise RecordError.bad_field("machine", name, table, expected="means and numbers of observations by name")
    return record


def _program(record: Record) -> Record:
    """A program of an einsum by its text, and the sparse operands whose first level is dense.

    Whether the enumeration lists the program, those who use the record ask: the text is only compared, never read.
    """
    program = record.get("program") if isinstance(record, dict) else None
    if not isinstance(program, str) or len(program) > MAX_PROGRAM_CHARS:
        raise RecordError.bad_field(EINSUM.name, "program", program, expected=f"at most {MAX_PROGRAM_CHARS} characters")
    tasks = record.get("tasks", 0.0)
    if not _is_float(tasks):
        raise RecordError.bad_field(EINSUM.name, "tasks", tasks, expected="a number of turns of loops")
    names = record.get("dense_levels")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RecordError.bad_field(EINSUM.name, "dense_levels", names, expected="names of operands")
    return record


def _device_plan(record: Record) -> Record:
    """A schedule of a GPU kernel as JSON text, or None where torch's own path was fastest; seconds by candidate."""
    schedule = record.get("schedule", "") if isinstance(record, dict) else ""
    if schedule is not None and not (isinstance(schedule, str) and schedule):
        raise RecordError.bad_field("device_plan", "schedule", schedule, expected="text or None")
    measured = record.get("measured_s")
    if not isinstance(measured, dict) or not all(map(_is_float, measured.values())):
        raise RecordError.bad_field("device_plan", "measured_s", measured, expected="seconds by name")
    return record


def _is_mean(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and _is_float(pair[0]) and _is_int(pair[1])


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One row: a kind of record, how it is checked, and which of two is kept."""

    name: str
    check: Callable[[Record], object]  # RecordError unless it is a record of this kind
    prefers: Callable[[Envelope, Envelope], bool]  # (mine, other): whether the other one is to be kept on import
    is_wisdom: bool  # exported by default

    @property
    def schema(self) -> int:
        """Version of its layout."""
        return SCHEMAS[self.name]


KINDS: Final[Mapping[str, RecordKind]] = {
    row.name: row
    for row in (
        RecordKind("plan", plan_from_record, _better_plan, is_wisdom=True),
        RecordKind("history", History.from_record, _longer_history, is_wisdom=True),
        RecordKind(
            "machine", _machine, _newer, is_wisdom=False
        ),  # prices: the tuner, which owns them, knows their ranges
        RecordKind("features", _features, _newer, is_wisdom=False),  # of patterns, as learned models see them
        RecordKind(EINSUM.name, _program, _newer, is_wisdom=True),
        RecordKind("device_plan", _device_plan, _newer, is_wisdom=True),
        RecordKind("failure", Failure.from_record, _newer, is_wisdom=False),
    )
}
WISDOM_KINDS: Final = tuple(row.name for row in KINDS.values() if row.is_wisdom)


def is_preferred(mine: Envelope, other: Envelope) -> bool:
    """Whether `other`, which was checked, is kept instead of `mine`, of which nobody knows what it says."""
    row = KINDS[mine.kind]
    try:
        row.check(mine.record)
    except RecordError:
        return True
    return row.prefers(mine, other)
