"""Rows of the file of accounts: fixed size, each with a checksum, folded into one `Account` per problem."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from operator import add, attrgetter
from typing import Any, Final

from autosparse.core.values import dataclass

ACCOUNTS: Final = "accounts"
"""Name of the file, below the root of the cache."""
MAX_BYTES: Final = 1 << 18
"""Size in bytes at which the file is folded: 2,730 rows, which are read and searched in 0.1 ms."""
VERSION: Final = 1
"""Version number in every row. Increase it when a field's meaning changes: rows of other versions are ignored."""
ROW: Final = struct.Struct("<HHI16sQd56s")
"""Layout of a row: version, kind, CRC-32 of the rest, key, process token, date, and 56 bytes of payload."""
_SPENT: Final = struct.Struct("<QIIddddQ")
_PLAN: Final = struct.Struct("<16s16sddQ")
_SEARCH: Final = struct.Struct("<d48s")
_KERNEL: Final = struct.Struct("<16s16s16sQ")
_SPENT_KIND, _PLAN_KIND, _FORGET_KIND, _SEARCH_KIND, _KERNEL_KIND = 1, 2, 3, 4, 5
_FIELDS: Final = ("n_calls", "n_objects", "n_processes", "product_s", "tuning_s", "saved_s", "life_s")  # of `Spent`
_amounts: Final = attrgetter(*_FIELDS)
_NO_CHECKSUM: Final = bytes(4)
_MAX_NUMBER: Final = 1e15
"""Maximum of counts, seconds and dates. Sums of smaller values are sufficiently exact and finite."""
NEEDS_SORTED: Final = 1
"""Flag of a plan: its generated kernel requires the list of sorted levels."""
ASKED: Final = 2
"""Flag of a plan: a call of `tune` found it."""
NOTHING_FASTER: Final = 4
"""Flag of a plan: the default kernel is fastest."""
EARLY: Final = 8
"""Flag of a note that states the winner of an early race (`tuning.memory.early_notes`) and has no record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Totals over all processes for one problem: calls, matrix objects, processes, and seconds by purpose."""

    n_calls: int = 0
    n_objects: int = 0
    n_processes: int = 0
    product_s: float = 0.0
    tuning_s: float = 0.0
    saved_s: float = 0.0  # time saved by tuned products compared with the default kernel
    life_s: float = 0.0  # from the start of the process to its end

    def __add__(self, other: Spent) -> Spent:
        return Spent(**dict(zip(_FIELDS, map(add, _amounts(self), _amounts(other)), strict=True)))

    @property
    def mean_product_s(self) -> float:
        """Mean seconds per process spent in products of this problem, 0 if unknown."""
        return self.product_s / self.n_processes if self.n_processes else 0.0

    @property
    def mean_life_s(self) -> float:
        """Mean lifetime of a process in seconds, 0 if unknown."""
        return self.life_s / self.n_processes if self.n_processes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNote:
    """Cache key of a problem's plan, with a digest of the conditions under which that key is still valid."""

    plan: bytes  # the plan's key, 16 bytes
    stamp: bytes  # digest of the machine, the compiler, the sources and the options: 16 bytes
    default_s: float = 0.0  # measured seconds of a product by the default kernel; 0 if not measured
    measured_s: float = 0.0  # measured seconds by the plan's kernel; 0 if not measured
    flags: int = 0

    @property
    def is_asked(self) -> bool:
        """Return whether the plan was found by an explicit call of `tune`."""
        return bool(self.flags & ASKED)

    @property
    def is_early(self) -> bool:
        """Return whether an early race found the kernel, so that the note itself states it."""
        return bool(self.flags & EARLY)


_NOTHING: Final = Spent()
KernelNote = tuple[bytes, bytes, bytes, int]
"""Kernel on slices of a noted plan: its name, the digest of its file (zeros: shipped), a stamp, and packed numbers.

`tuning.memory.kernel_notes` writes and reads it.
"""


NEWEST: Final = 0.5
"""Weight of the newest process in the decayed mean of calls; each newer process halves the weight of older ones."""


class Account:
    """Everything that the file records about one problem."""

    __slots__ = ("horizon_calls", "kernel", "last_calls", "next_step_s", "plan", "spent")

    def __init__(self, spent: Spent = _NOTHING, plan: PlanNote | None = None, next_step_s: float = 0.0) -> None:
        self.spent = spent
        self.plan = plan
        self.next_step_s = next_step_s  # seconds of the step that an unfinished search could not afford; 0: unknown
        self.kernel: KernelNote | None = None  # of the plan, if it reads slices
        self.horizon_calls = self.last_calls = 0.0  # decayed mean of the calls per process, calls of the last one

    @property
    def expected_calls(self) -> float | None:
        """Number of calls per matrix object that earlier processes suggest; None if fewer than two processes ran.

        It is the least of three estimates, since an overestimate spends tuning time in vain.
        """
        spent = self.spent
        if spent.n_processes < 2:
            return None
        return min(self.horizon_calls, self.last_calls, spent.n_calls / max(1, spent.n_objects)) or None


def spent_row(key: bytes, spent: Spent, *, process: int, now: float) -> bytes:
    """Return the row that adds `spent` to the account of `key`."""
    return _row(_SPENT_KIND, key, _SPENT.pack(*_amounts(spent), 0), process=process, now=now)


def plan_row(key: bytes, note: PlanNote | None, *, process: int, now: float) -> bytes:
    """Return the row that stores the plan of `key`, or removes it if `note` is None."""
    if note is None:
        return _row(_FORGET_KIND, key, b"", process=process, now=now)
    payload = _PLAN.pack(note.plan, note.stamp, note.default_s, note.measured_s, note.flags)
    return _row(_PLAN_KIND, key, payload, process=process, now=now)


def search_row(key: bytes, next_step_s: float, *, process: int, now: float) -> bytes:
    """Return the row that stores the cost in seconds of the next step of an unfinished search."""
    return _row(_SEARCH_KIND, key, _SEARCH.pack(next_step_s, b""), process=process, now=now)


def kernel_row(key: bytes, note: KernelNote, *, process: int, now: float) -> bytes:
    """Return the row that stores the kernel of the plan of `key`."""
    return _row(_KERNEL_KIND, key, _KERNEL.pack(*note), process=process, now=now)


def _row(kind: int, key: bytes, payload: bytes, *, process: int, now: float) -> bytes:
    bare = ROW.pack(VERSION, kind, 0, key, process, now, payload)
    return ROW.pack(VERSION, kind, zlib.crc32(bare), key, process, now, payload)


def rows_of(content: bytes) -> Iterator[bytes]:
    """Yield the rows of a file's content, valid or not; an incomplete row at the end is skipped."""
    for at in range(0, len(content) - ROW.size + 1, ROW.size):
        yield content[at : at + ROW.size]


def with_key(content: bytes, key: bytes) -> list[bytes]:
    """Return the rows in a file's `content` that belong to `key`, found without parsing the others."""
    found, at = [], content.find(key)
    while at >= 0:
        begin = at - (at % ROW.size)
        if at - begin == 8 and begin + ROW.size <= len(content):
            found.append(content[begin : begin + ROW.size])
        at = content.find(key, at + 1)
    return found


def folded(rows: Iterable[bytes]) -> dict[bytes, tuple[float, Account]]:
    """Return {key: (date of its newest row, account)}; rows with a wrong checksum or invalid values are skipped.

    Spent amounts are added as tuples, because a program that runs often leaves thousands of rows.
    """
    accounts: dict[bytes, tuple[float, Account]] = {}
    totals: dict[bytes, tuple[Any, ...]] = {}  # Any: counts and seconds
    for row in rows:
        version, kind, checksum, key, _process, date, payload = ROW.unpack(row)
        if version != VERSION or checksum != zlib.crc32(row[:4] + _NO_CHECKSUM + row[8:]) or not _is_amount(date):
            continue
        newest, account = accounts.get(key) or (0.0, Account())
        if kind == _SPENT_KIND:
            amounts = _SPENT.unpack(payload)[:-1]
            if not all(map(_is_amount, amounts)):
                continue
            n_calls, _, n_processes, *_ = amounts
            if n_processes:  # a folded row has several
                account.last_calls = n_calls / n_processes
                older = account.horizon_calls if key in totals else account.last_calls
                account.horizon_calls = (1.0 - NEWEST) * older + NEWEST * account.last_calls
            totals[key] = tuple(map(add, totals[key], amounts)) if key in totals else amounts
        elif not _change(account, kind, payload):
            continue
        accounts[key] = max(newest, date), account
    for key, total in totals.items():
        accounts[key][1].spent = Spent(**dict(zip(_FIELDS, total, strict=True)))
    return accounts


def _change(account: Account, kind: int, payload: bytes) -> bool:
    """Apply a row that is not about spent amounts; return False if it is invalid."""
    if kind == _PLAN_KIND:
        plan, stamp, default_s, measured_s, flags = _PLAN.unpack(payload)
        if not (_is_amount(default_s) and _is_amount(measured_s)):
            return False
        account.plan = PlanNote(plan=plan, stamp=stamp, default_s=default_s, measured_s=measured_s, flags=flags)
        account.kernel, account.next_step_s = None, 0.0
    elif kind == _SEARCH_KIND:
        next_step_s, _reserved = _SEARCH.unpack(payload)
        if not _is_amount(next_step_s):
            return False
        account.next_step_s = next_step_s
    elif kind == _KERNEL_KIND:
        account.kernel = _KERNEL.unpack(payload)
    elif kind == _FORGET_KIND:
        account.plan, account.kernel, account.next_step_s = None, None, 0.0
    else:
        return False
    return True


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= _MAX_NUMBER
