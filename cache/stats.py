"""Statistics of one store: its state, its contents and the operations of this process."""

from __future__ import annotations

from pathlib import Path

from autosparse.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """State and contents of one store, and counts of this process's operations on it."""

    folder: Path | None
    access: str  # "read and write", "read only" or "memory"
    reason: str | None  # reason for not being "read and write", else None
    max_bytes: int
    n_entries: dict[str, int]  # by kind, "kernel" included
    n_bytes: int
    n_memory_hits: int = 0
    n_disk_hits: int = 0
    n_misses: int = 0
    n_saves: int = 0
    n_kernels_built: int = 0
    n_kernels_reused: int = 0
    n_quarantined: int = 0
    n_evicted: int = 0
    n_swept: int = 0
