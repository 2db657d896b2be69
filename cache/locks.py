"""Locks between processes and threads, released by the system when their holder dies.

A lock is an `flock` (`msvcrt.locking` on Windows) on a file of its own per entry. The system releases it when the
holder's last descriptor closes. A killed process thus leaves only an empty file, which the next holder takes over and
removes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from autosparse import forking

_FIRST_DELAY_S: Final = 0.001
_LAST_DELAY_S: Final = 0.05
_BUSY: Final = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}

_held: set[int] = set()  # descriptors of held locks, which the child of a fork closes


@contextlib.contextmanager
def hold(path: Path, *, wait_s: float) -> Iterator[bool]:
    """Hold a lock file at `path`, waiting at most `wait_s` seconds for it; yield whether the lock is held.

    Raise OSError if the folder cannot be written or its file system has no locks (ENOLCK, ENOSYS, EOPNOTSUPP).
    """
    fd = _acquire(path, wait_s)
    owner = os.getpid()
    try:
        yield fd is not None
    finally:
        if fd is not None and os.getpid() == owner:  # a forked child has closed it already
            _release(fd, path)


def _acquire(path: Path, wait_s: float) -> int | None:
    deadline_s = time.monotonic() + wait_s
    delay_s = _FIRST_DELAY_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            # The last holder may have removed the file between open and lock: the lock is then void.
            if _try_lock(fd) and _is_same_file(fd, path):
                _held.add(fd)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if time.monotonic() >= deadline_s:
            return None
        time.sleep(delay_s)
        delay_s = min(1.5 * delay_s, _LAST_DELAY_S)


def _release(fd: int, path: Path) -> None:
    """Remove the file while the lock is held, so that no second holder can lock a file that is about to vanish."""
    _held.discard(fd)
    with contextlib.suppress(OSError):  # Windows cannot remove an open file: it stays, empty and unlocked
        path.unlink()
    with contextlib.suppress(OSError):
        _unlock(fd)  # not just close: a forked child may share the descriptor
    os.close(fd)


def _is_same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _lock_now(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

    def _unlock(fd: int) -> None:
        os.lseek(fd, 0, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock_now(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _try_lock(fd: int) -> bool:
    try:
        _lock_now(fd)
    except OSError as err:
        if err.errno in _BUSY:
            return False
        raise
    return True


@forking.in_child
def _close_inherited() -> None:
    """Close the parent's locks in a forked child, as they would otherwise outlive a killed parent."""
    for fd in _held:
        with contextlib.suppress(OSError):
            os.close(fd)
    _held.clear()
