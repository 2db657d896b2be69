"""Memory available for copies: limits of the system, the control groups and the address space."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autosparse._native import memory
from autosparse.errors import RoomError

CHECKED_FROM_BYTES: Final = 64 << 20
"""Size of a copy in bytes from which on available memory is checked (0.1 ms, 1 % of the time of such a copy)."""
_GROUPS: Final = Path("/sys/fs/cgroup")


def require(needed_bytes: int) -> None:
    """Raise RoomError unless a copy of `needed_bytes` fits into the available memory."""
    available = available_bytes()
    if available is not None and needed_bytes > available:
        memory.release_kept()
        available = available_bytes()
    if available is not None and needed_bytes > available:
        raise RoomError.copy(needed_bytes=needed_bytes, available_bytes=available)


def available_bytes() -> int | None:
    """Return the bytes that system, control groups and address space have left, the least of them; None if unknown."""
    known = [one for one in (_of_system(), _of_groups(), _of_address_space()) if one is not None]
    return max(0, min(known)) if known else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _of_system() -> int | None:
    """Return Linux's estimate of available memory and free swap, to which unused pages can be moved."""
    found = dict(line.split(":", 1) for line in _lines(Path("/proc/meminfo")) if ":" in line)
    if "MemAvailable" not in found:
        return None
    return sum(int(found.get(name, "0").split()[0]) for name in ("MemAvailable", "SwapFree")) << 10


def _of_groups() -> int | None:
    """Return the bytes that this process's control groups (version 2 or 1) and their parents still allow."""
    left: list[int] = []
    for line in _lines(Path("/proc/self/cgroup")):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            left += _left_in(_GROUPS, path, "memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            left += _left_in(_GROUPS / "memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes")
    return min(left, default=None)


def _left_in(root: Path, path: str, limit: str, usage: str) -> list[int]:
    """Return limit less usage of each group from `path` up to `root`; file pages count as free."""
    group = root / path.lstrip("/")
    left = []
    for folder in (group, *group.parents):
        if root not in (folder, *folder.parents):
            break
        bounds = [line.strip() for name in (limit, usage) for line in _lines(folder / name)[:1]]
        if len(bounds) == 2 and all(bound.isdigit() for bound in bounds):
            stat = dict(line.split(" ", 1) for line in _lines(folder / "memory.stat") if " " in line)
            files = sum(int(stat.get(name, "0")) for name in ("inactive_file", "active_file"))
            left.append(int(bounds[0]) - int(bounds[1]) + files)
    return left


def _of_address_space() -> int | None:
    """Return the limit on the address space (``ulimit -v``) less its use."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _lines(Path("/proc/self/statm"))
    if limit == resource.RLIM_INFINITY or not used:
        return None
    return limit - int(used[0].split()[0]) * resource.getpagesize()
