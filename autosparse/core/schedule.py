"""SuperSchedule: format and loop schedule in one value (WACO §4.1.2, Table 3, Fig. 10), with additional parameters."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Final

from autosparse.core.formats import CSR, MAX_SPLIT, Format
from autosparse.core.values import dataclass
from autosparse.errors import ScheduleError

PARTITIONS: Final = ("nnz", "dynamic")
GENERATED: Final = "generated"
RUNTIME: Final = "runtime"
IMPLEMENTATIONS: Final = (GENERATED, RUNTIME)
"""Implementations of a schedule: a kernel that is generated for it, or loops compiled at installation."""
RUNTIME_TILE: Final = 32768
"""Tile size of `j` that marked the runtime's loops in texts written before the field `implementation` existed."""
RUN_TIME: Final = ("partition", "chunk", "threads")
"""Fields that are arguments at run time; generated code does not depend on them."""
L2_AHEAD: Final = 16
"""Prefetch distance, in nonzeros, from which rows are prefetched into L2: L1 would evict them before their use."""
MAX_CHUNK: Final = 1 << 20
MAX_THREADS: Final = 1 << 16
MAX_UNROLL: Final = 64
MAX_PREFETCH: Final = 1 << 12
"""Upper bound of prefetch distances, far above any search space: schedules from files reach kernels unchecked."""
SCHEDULE_VERSION: Final = 1
"""Version of the text form; raise it when a field changes its meaning. Kernels and plans of others are not reused."""


class _HashOnce:
    """Base class with room for a hash, which is computed once and is not pickled: texts hash anew in each process."""

    __slots__ = ("_hash",)

    _hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperSchedule(_HashOnce):
    """Description of how one operation is computed: format, loop order, tiles, parallel loop and implementation.

    Coordinates: ``i`` rows, ``k`` columns of the sparse operand A (of its transpose for transposed products), ``j``
    columns of the dense operands; ``x1``/``x0`` outer/inner after a split. `loop_order` lists every coordinate that
    has a loop, outermost first; coordinates of split size 1 have none. Sizes of the operands are run-time arguments.
    """

    operation: str = "matmul"
    format: Format = CSR
    loop_order: tuple[str, ...] = ("i1", "k1")
    dense_splits: tuple[tuple[str, int], ...] = ()  # of indices that A lacks, e.g. (("j", 32),): column tile
    parallel: str = "i1"  # coordinate of the parallel loop
    partition: str = "nnz"  # "nnz": static, equal nonzeros per thread; "dynamic": chunks are assigned at run time
    chunk: int = 32  # iterations of the parallel loop per assignment, for "dynamic"
    threads: int = 0  # maximum number of threads; 0: as many as the caller allows
    unroll: int = 1  # unrolling factor of the innermost loop over nonzeros
    prefetch: int = 0  # prefetch distance of rows of B, in nonzeros; 0: none
    implementation: str = GENERATED  # RUNTIME loops tile dense columns themselves: `loop_order` then has none of these

    def __post_init__(self) -> None:
        reason = self.reason_illegal()
        if reason:
            raise ScheduleError.illegal(self.to_json(), reason)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            own = hash(tuple(getattr(self, name) for name in _FIELDS))
            object.__setattr__(self, "_hash", own)
            return own

    def reason_illegal(self) -> str | None:
        """Return why the fields form no schedule, or None. A backend's `supports` says whether it can lower it."""
        if self.implementation not in IMPLEMENTATIONS:
            return f"implementation must be one of {IMPLEMENTATIONS}, not {self.implementation!r}"
        if self.partition not in PARTITIONS:
            return f"partition must be one of {PARTITIONS}, not {self.partition!r}"
        if not (0 < self.chunk <= MAX_CHUNK and 0 < self.unroll <= MAX_UNROLL and 0 <= self.prefetch <= MAX_PREFETCH):
            domain = f"chunk in 1..{MAX_CHUNK}, unroll in 1..{MAX_UNROLL}, prefetch in 0..{MAX_PREFETCH}"
            return f"chunk={self.chunk}, unroll={self.unroll}, prefetch={self.prefetch} must be {domain}"
        if not 0 <= self.threads <= MAX_THREADS:
            return f"threads={self.threads} must lie in 0..{MAX_THREADS} (0: as many as the caller allows)"
        bad = [f"{index}={size}" for index, size in self.dense_splits if not 1 <= size <= MAX_SPLIT]
        if bad:
            return f"dense splits must lie in 1..{MAX_SPLIT}: {', '.join(bad)}"
        dense = {f"{index}1" for index, _ in self.dense_splits} | {f"{index}0" for index, _ in self.dense_splits}
        wanted = set(self.format.order) | dense
        if set(self.loop_order) != wanted or len(self.loop_order) != len(wanted):
            return f"loop_order {self.loop_order} must be a permutation of {tuple(sorted(wanted))}"
        if self.parallel not in self.loop_order:
            return f"parallel loop {self.parallel!r} is not in loop_order {self.loop_order}"
        return None

    @property
    def is_precompiled(self) -> bool:
        """Return whether the runtime's precompiled loops compute the schedule; they tile dense columns themselves."""
        return self.implementation == RUNTIME

    def dense_split(self, index: str) -> int:
        """Return the compile-time tile of the dense index, 0 when the operation has none."""
        return dict(self.dense_splits).get(index, 0)

    def as_compiled(self) -> SuperSchedule:
        """Return the schedule with run-time arguments at their defaults; schedules with equal results share code."""
        run_time: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(self) if one.name in RUN_TIME}
        return dataclasses.replace(self, format=self.format.as_compiled(), **run_time)

    def to_json(self) -> str:
        """Return the canonical text, which `from_json` reads."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["format"] = str(self.format)
        if self.implementation == GENERATED:
            del values["implementation"]  # keeps the names of kernels and records from before the field existed
        return json.dumps({"version": SCHEDULE_VERSION, **values}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SuperSchedule:
        """Parse text of `to_json`; raise ScheduleError when it is no schedule of this version."""
        try:
            values: dict[str, Any] = json.loads(text)
            version = values.pop("version")
            if version != SCHEDULE_VERSION:
                raise ScheduleError.unparsable(text, expected=f"a schedule of version {SCHEDULE_VERSION}")
            values["format"] = Format.parse(values["format"])
            values["loop_order"] = tuple(values["loop_order"])
            values["dense_splits"] = tuple((name, size) for name, size in values["dense_splits"])
            _check_types(values)
            return cls(**_with_implementation(values))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as err:
            if isinstance(err, ScheduleError):
                raise
            raise ScheduleError.unparsable(text, expected=f"a SuperSchedule as JSON ({err})") from err

    def stable_hash(self) -> str:
        """Return 16 hex digits that identify the schedule in cache keys."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=8).hexdigest()


_FIELDS: Final = tuple(one.name for one in dataclasses.fields(SuperSchedule))


def _with_implementation(values: dict[str, Any]) -> dict[str, Any]:
    """Convert fields of an older text, where the tile RUNTIME_TILE meant the runtime's loops, to `implementation`."""
    if "implementation" in values or ("j", RUNTIME_TILE) not in values["dense_splits"]:
        return values
    loops = tuple(name for name in values["loop_order"] if name not in ("j1", "j0"))
    return values | {"implementation": RUNTIME, "dense_splits": (), "loop_order": loops}


_INTEGERS: Final = ("chunk", "threads", "unroll", "prefetch")
_WORDS: Final = ("operation", "parallel", "partition", "implementation")


def _check_types(values: dict[str, Any]) -> None:
    """Raise TypeError for fields of another type than the code needs: ``True`` and ``1.5`` are not thread counts."""
    splits = values["dense_splits"]
    whole: list[tuple[str, Any]] = [(name, values[name]) for name in _INTEGERS if name in values]
    whole += [("dense_splits", size) for _, size in splits]
    words: list[tuple[str, Any]] = [(name, values[name]) for name in _WORDS if name in values]
    words += [("dense_splits", name) for name, _ in splits] + [("loop_order", name) for name in values["loop_order"]]
    for expected, fields in ((int, whole), (str, words)):
        for name, value in fields:
            if type(value) is not expected:
                raise TypeError(f"{name}: {value!r} is not of type {expected.__name__}")
