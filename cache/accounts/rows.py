"""Rows of the file of accounts: fixed size, each with a checksum, folded into one `Account` per problem."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

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
_SPENT_KIND, _PLAN_KIND, _FORGET_KIND, _SEARCH_KIND = 1, 2, 3, 4
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
        return Spent(
            n_calls=self.n_calls + other.n_calls, n_objects=self.n_objects + other.n_objects,
            n_processes=self.n_processes + other.n_processes, product_s=self.product_s + other.product_s,
            tuning_s=self.tuning_s + other.tuning_s, saved_s=self.saved_s + other.saved_s,
            life_s=self.life_s + other.life_s,
        )  # fmt: skip

    @property
    def mean_product_s(self) -> float:
        """Mean seconds per process spent in products of this problem, 0 if unknown."""
        return self.product_s / self.n_processes if self.n_processes else 0.0

    @property
    def mean_saved_s(self) -> float:
        """Mean seconds per process saved by tuned products, 0 if unknown."""
        return self.saved_s / self.n_processes if self.n_processes else 0.0

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Everything that the file records about one problem."""

    spent: Spent = Spent()  # frozen
    plan: PlanNote | None = None
    next_step_s: float = 0.0  # cost in seconds of the step that an unfinished search could not afford; 0 if unknown


def spent_row(key: bytes, spent: Spent, *, process: int, now: float) -> bytes:
    """Return the row that adds `spent` to the account of `key`."""
    payload = _SPENT.pack(
        spent.n_calls, spent.n_objects, spent.n_processes, spent.product_s, spent.tuning_s, spent.saved_s,
        spent.life_s, 0,
    )  # fmt: skip
    return _row(_SPENT_KIND, key, payload, process=process, now=now)


def plan_row(key: bytes, note: PlanNote | None, *, process: int, now: float) -> bytes:
    """Return the row that stores the plan of `key`, or removes it if `note` is None."""
    if note is None:
        return _row(_FORGET_KIND, key, b"", process=process, now=now)
    payload = _PLAN.pack(note.plan, note.stamp, note.default_s, note.measured_s, note.flags)
    return _row(_PLAN_KIND, key, payload, process=process, now=now)


def search_row(key: bytes, next_step_s: float, *, process: int, now: float) -> bytes:
    """Return the row that stores the cost in seconds of the next step of an unfinished search."""
    return _row(_SEARCH_KIND, key, _SEARCH.pack(next_step_s, b""), process=process, now=now)


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
    """Return {key: (date of its newest row, account)}; rows with a wrong checksum or invalid values are skipped."""
    accounts: dict[bytes, tuple[float, Account]] = {}
    for row in rows:
        version, kind, checksum, key, process, date, payload = ROW.unpack(row)
        bare = ROW.pack(version, kind, 0, key, process, date, payload)
        if version != VERSION or checksum != zlib.crc32(bare) or not _is_amount(date):
            continue
        newest, account = accounts.get(key, (0.0, Account()))
        changed = _changed(account, kind, payload)
        if changed is not None:
            accounts[key] = max(newest, date), changed
    return accounts


def _changed(account: Account, kind: int, payload: bytes) -> Account | None:
    if kind == _SPENT_KIND:
        *values, _reserved = _SPENT.unpack(payload)
        if not all(map(_is_amount, values)):
            return None
        names = ("n_calls", "n_objects", "n_processes", "product_s", "tuning_s", "saved_s", "life_s")
        spent = account.spent + Spent(**dict(zip(names, values, strict=True)))
        return Account(spent=spent, plan=account.plan, next_step_s=account.next_step_s)
    if kind == _PLAN_KIND:
        plan, stamp, default_s, measured_s, flags = _PLAN.unpack(payload)
        if not (_is_amount(default_s) and _is_amount(measured_s)):
            return None
        note = PlanNote(plan=plan, stamp=stamp, default_s=default_s, measured_s=measured_s, flags=flags)
        return Account(spent=account.spent, plan=note)
    if kind == _SEARCH_KIND:
        next_step_s, _reserved = _SEARCH.unpack(payload)
        is_amount = _is_amount(next_step_s)
        return Account(spent=account.spent, plan=account.plan, next_step_s=next_step_s) if is_amount else None
    return Account(spent=account.spent) if kind == _FORGET_KIND else None


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and 0.0 <= value <= _MAX_NUMBER
