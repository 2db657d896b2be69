"""File of accounts: read as a whole by processes that may need it, appended to at exit, and bounded in size.

Rows are appended by a single `write`, which the system does not interleave with those of other processes. A file larger
than MAX_BYTES is folded to a few rows per problem under a lock, and the least recently used problems are dropped.
Readers take no lock, because each row has a checksum and the folded file is renamed into place. Nothing here warns:
without a readable account, a program starts as if the problem were new.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from autosparse.cache import trust
from autosparse.cache.accounts.rows import (
    ACCOUNTS,
    MAX_BYTES,
    ROW,
    Account,
    Spent,
    folded,
    kernel_row,
    plan_row,
    rows_of,
    search_row,
    spent_row,
    with_key,
)

from autosparse.errors import RecordError

MAX_PROBLEMS: Final = 512
"""Maximum number of problems kept when the file is folded."""
_ATTEMPTS: Final = 8
"""Number of attempts to open a file that other processes are folding."""
_process: list[tuple[int, int]] = []  # (process id, token)


def token() -> int:
    """Return a random number that identifies this process in account rows; a forked child has another."""
    if not _process or _process[0][0] != os.getpid():
        _process[:] = [(os.getpid(), int.from_bytes(os.urandom(8), "little"))]
    return _process[0][1]


def read(root: Path, key: bytes) -> Account | None:
    """Return the account of `key` in the file below the trusted `root`, or None if there is no valid one."""
    found = folded(with_key(_content(root), key)).get(key)
    return None if found is None else found[1]


def total(root: Path) -> Spent:
    """Return what earlier processes spent on all problems of the file together."""
    return sum((account.spent for _, account in folded(rows_of(_content(root))).values()), Spent())


def _content(root: Path) -> bytes:
    """Return the content of the file below the trusted `root`; nothing where it cannot be read."""
    try:
        return trust.read_trusted(root, root / ACCOUNTS, max_bytes=4 * MAX_BYTES)
    except (OSError, RecordError):
        return b""


def append(cache_folder: Path, rows: Sequence[bytes], *, max_bytes: int = MAX_BYTES) -> bool:
    """Append rows to the file of accounts; return whether all were written. Beyond `max_bytes`, rows are merged."""
    try:
        path = trust.made_root(cache_folder) / ACCOUNTS
        size = 0
        with _opened(path) as fd:
            size = os.fstat(fd).st_size
            if size % ROW.size == 0 and size + len(rows) * ROW.size <= max_bytes:
                content = b"".join(rows)
                return os.write(fd, content) == len(content)
        return _fold(path, rows, max_bytes=max_bytes)
    except (OSError, RecordError):
        return False


@contextlib.contextmanager
def _opened(path: Path, *, alone: bool = False) -> Iterator[int]:
    """Open the accounts file for appending and lock it, shared or exclusively if `alone`; yield the descriptor."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    for _ in range(_ATTEMPTS):
        fd = os.open(path, flags, 0o600)
        try:
            _lock(fd, alone=alone)
            facts, there = os.fstat(fd), path.stat()
            if (facts.st_dev, facts.st_ino) == (there.st_dev, there.st_ino):  # otherwise it was folded meanwhile
                yield fd
                return
        finally:
            os.close(fd)
    raise FileNotFoundError(str(path))


def _lock(fd: int, *, alone: bool) -> None:
    """Lock the file if the system supports it; elsewhere, rows appended during folding may be lost."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)


def _fold(path: Path, rows: Sequence[bytes], *, max_bytes: int) -> bool:
    """Replace the file by one with the same accounts, and `rows`, in as few rows as possible."""
    with _opened(path, alone=True):
        content = trust.read_trusted(path.parent, path, max_bytes=max(4 * MAX_BYTES, 4 * max_bytes))
        accounts = folded([*rows_of(content), *rows])
        most = min(MAX_PROBLEMS, max_bytes // (4 * ROW.size))  # of four rows at most
        kept = sorted(accounts.items(), key=lambda item: -item[1][0])[:most]
        made = b"".join(part for key, (date, account) in kept for part in _whole(key, account, date))
        staged = path.parent / "staging" / f"{ACCOUNTS}.{os.urandom(8).hex()}"
        trust.make_folders(staged.parent)
        try:
            fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with open(fd, "wb") as file:
                file.write(made)
            staged.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                staged.unlink()
            raise
    return True


def _whole(key: bytes, account: Account, date: float) -> Iterator[bytes]:
    yield spent_row(key, account.spent, process=0, now=date)
    if account.plan is not None:
        yield plan_row(key, account.plan, process=0, now=date)
    if account.kernel is not None:
        yield kernel_row(key, account.kernel, process=0, now=date)
    if account.next_step_s:
        yield search_row(key, account.next_step_s, process=0, now=date)


def now() -> float:
    """Return the current date for new rows."""
    return time.time()
