"""Enforce the size limit and remove leftovers, in one process at a time and only at intervals."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from autosparse.cache.folder import Entry, Folder

from autosparse.core.values import dataclass

MAINTAIN_EVERY_S: Final = 3600.0
"""Interval between maintenance rounds, over all processes, in seconds."""
OVERSHOOT: Final = 1 / 16  # fraction of the limit that one process may write before it checks the size again
TARGET_FILL: Final = 0.9  # fraction of the limit: evicting less would make the next eviction due at once
KERNEL_GRACE_S: Final = 60.0  # a kernel used this recently may have been checked and not loaded yet


@dataclass(frozen=True, slots=True)
class Maintained:
    """Result of one round of maintenance: numbers of evicted cache entries and of swept leftover files."""

    n_evicted: int
    n_swept: int


def is_due(folder: Folder, *, now: float, written_bytes: int, max_bytes: int) -> bool:
    """Return whether maintenance is due: this process wrote many bytes, or no process did maintenance recently."""
    if written_bytes > OVERSHOOT * max_bytes:
        return True
    try:
        age_s = now - (folder.root / "maintained").stat().st_mtime
    except OSError:
        return True
    return not 0.0 <= age_s < MAINTAIN_EVERY_S


def maintain(folder: Folder, *, now: float, max_bytes: int) -> Maintained | None:
    """Remove leftover files, then the least recently used entries until the cache takes at most `max_bytes`.

    Return None if another process is doing this. Raise OSError if the folder cannot be written.
    """
    with folder.lock("maintain", "", wait_s=0.0) as held:
        if not held:
            return None
        stamp = folder.root / "maintained"
        stamp.touch(mode=0o600)
        os.utime(stamp, (now, now))
        n_swept = folder.sweep(now=now)
        return Maintained(n_evicted=_evict(folder, now=now, max_bytes=max_bytes), n_swept=n_swept)


def _evict(folder: Folder, *, now: float, max_bytes: int) -> int:
    entries = list(folder.entries())
    size_bytes = sum(entry.n_bytes for entry in entries)
    if size_bytes <= max_bytes:
        return 0
    n_evicted = 0
    for entry in sorted(entries, key=lambda entry: entry.used_at):
        if size_bytes <= TARGET_FILL * max_bytes:
            break
        if _spared(entry, now) or entry.path is None:
            continue
        folder.remove_entry(entry.path)
        size_bytes -= entry.n_bytes
        n_evicted += 1
    return n_evicted


def _spared(entry: Entry, now: float) -> bool:
    return entry.kind == "kernel" and 0.0 <= now - entry.used_at < KERNEL_GRACE_S


def touch(path: Path) -> None:
    """Mark the file `path` as used now; in a read-only folder the order of use stays unchanged."""
    with contextlib.suppress(OSError):
        os.utime(path)
