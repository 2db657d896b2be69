"""Decide which folders and files are trusted, because records and kernels determine the code that runs here.

A folder is trusted if this user owns it, nobody else can write it, and nobody else can replace it. For the latter, each
folder above it must belong to this user or root, and be closed to others or sticky (/tmp). These are OpenSSH's rules
for ``~/.ssh``. On Windows everything is trusted: profile folders are private by their access lists, and mode bits have
no meaning. Access lists beyond the mode bits are not examined.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse.errors import RecordError

LAYOUT: Final = "cache-v1"
"""Name of the folder below the cache folder that is reserved for this version of the layout."""
PLAN_SCHEMA: Final = 4
"""Version of the plan records' layout and meaning. Increase it when either changes."""
SCHEMAS: Final[Mapping[str, int]] = {
    "plan": PLAN_SCHEMA, "machine": 2, "features": 1, "failure": 1, "rates": 1,
}  # fmt: skip
"""Layout version of each kind of record. It is part of the folder's name, so that versions coexist."""
ATTEMPTS: Final = 4
"""Number of attempts at a file operation while another process clears the cache."""
_ROOT_UID: Final = 0


def root_of(cache_folder: Path) -> Path:
    """Return the folder below `cache_folder` that holds the cache's layout, with links resolved.

    Raise PermissionError with the reason if other users could write it.
    """
    root = Path(os.path.realpath(cache_folder / LAYOUT))
    refuse_untrusted(root)
    return root


def made_root(cache_folder: Path) -> Path:
    """Return `root_of` the cache folder, created if absent; raise OSError on failure."""
    root = root_of(cache_folder)  # checked before anything is created in a place that others can change
    make_folders(root)
    refuse_untrusted(root)
    return root


def refuse_untrusted(root: Path) -> None:
    """Raise PermissionError if `root` is not trusted."""
    reason = untrusted_reason(root)
    if reason:
        raise PermissionError(errno.EPERM, reason, str(root))


def make_folders(folder: Path) -> None:
    """Create `folder` and its missing parents, private to this user regardless of the umask.

    If another process clears the cache, a parent may vanish as soon as it is made, so it is made again.
    """
    for attempt in range(ATTEMPTS):
        try:
            folder.mkdir(mode=0o700)
            return
        except FileExistsError:
            if folder.is_dir():
                return
            if os.path.lexists(folder):
                raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(folder)) from None
        except FileNotFoundError:
            if folder.parent == folder or attempt == ATTEMPTS - 1:
                raise
            make_folders(folder.parent)


def untrusted_reason(folder: Path) -> str | None:
    """Return why `folder` (absolute, without links) is not trusted, or None. Missing parts are skipped."""
    if sys.platform == "win32":
        return None
    for part in (folder, *folder.parents):
        try:
            facts = part.lstat()
        except FileNotFoundError:
            continue
        reason = _reason(facts, is_cache=part == folder)
        if reason:
            return f"{str(part)!r} {reason}"
    return None


def _reason(facts: os.stat_result, *, is_cache: bool) -> str | None:
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    if sys.platform == "win32":
        return None
    if facts.st_uid != os.geteuid() and (is_cache or facts.st_uid not in _trusted_owners()):
        return f"belongs to another user (uid {facts.st_uid}; this process runs as uid {os.geteuid()})"
    protected = bool(facts.st_mode & stat.S_ISVTX) and not is_cache
    if not protected and writable_by_others(facts):
        return f"can be written by other users (mode {stat.S_IMODE(facts.st_mode):o})"
    return None


def writable_by_others(facts: os.stat_result) -> bool:
    """Return whether anyone but the owner may write; a user's private group (same name, no other member) is allowed."""
    if facts.st_mode & stat.S_IWOTH:
        return True
    return bool(facts.st_mode & stat.S_IWGRP) and not _is_private_group(facts.st_gid)


@functools.lru_cache(maxsize=16)
def _is_private_group(gid: int) -> bool:
    if sys.platform == "win32":
        return True
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and set(group.gr_mem) <= {user.pw_name}


@functools.lru_cache(maxsize=1)
def _trusted_owners() -> frozenset[int]:
    """Return the user ids trusted to own folders above the cache: root, and its substitute in rootless containers."""
    owners = {_ROOT_UID}
    try:
        starts = [int(line.split()[0]) for line in Path("/proc/self/uid_map").read_text("ascii").splitlines()]
        if starts and _ROOT_UID not in starts:
            owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text("ascii")))
    except (OSError, ValueError, IndexError):
        pass
    return frozenset(owners)


def check_inside(root: Path, path: Path) -> None:
    """Raise RecordError if a folder between the trusted `root` and `path` is a link, or owned or writable by others."""
    if sys.platform == "win32":
        return
    folder = path.parent
    while folder != root:
        reason = _reason(folder.lstat(), is_cache=True)
        if reason:
            raise RecordError.broken(str(path), reason=f"{str(folder)!r} {reason}")
        folder = folder.parent


def read_trusted(root: Path, path: Path, *, max_bytes: int) -> bytes:
    """Return the content of the regular file `path` below the trusted `root`.

    Raise FileNotFoundError if it is absent. Raise RecordError if it is a link or a device, owned or writable by others,
    larger than `max_bytes`, or unreadable.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        check_inside(root, path)
        fd = os.open(path, flags)
        with open(fd, "rb") as file:
            reason = _file_reason(os.fstat(fd), max_bytes)
            if reason is None:
                return file.read(max_bytes)
    except FileNotFoundError:
        raise
    except OSError as err:
        reason = err.strerror or str(err)
    raise RecordError.broken(str(path), reason=reason)


def _file_reason(facts: os.stat_result, max_bytes: int) -> str | None:
    if not stat.S_ISREG(facts.st_mode):
        return "not a regular file"
    if facts.st_size > max_bytes:
        return f"{facts.st_size:,} bytes, more than the {max_bytes:,} allowed"
    if sys.platform != "win32" and (facts.st_uid != os.geteuid() or writable_by_others(facts)):
        return f"owner {facts.st_uid}, mode {stat.S_IMODE(facts.st_mode):o}: not this user's own"
    return None
