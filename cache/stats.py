"""Stats: state and contents of one store, and what this process did with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

COUNTERS: Final = {
    "n_memory_hits": "memory hit", "n_disk_hits": "disk hit", "n_misses": "miss", "n_saves": "save",
    "n_kernels_built": "kernel built", "n_kernels_reused": "kernel reused", "n_quarantined": "quarantined",
    "n_evicted": "evicted", "n_swept": "swept",
}  # fmt: skip
"""Field of Stats -> what the store counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """State and contents of one store, and what this process did with it."""

    folder: Path | None
    access: str  # "read and write", "read only" or "memory"
    reason: str | None  # why not "read and write"
    max_bytes: int
    n_entries: dict[str, int]  # by kind, "kernel" included
    n_bytes: int
    n_memory_hits: int
    n_disk_hits: int
    n_misses: int
    n_saves: int
    n_kernels_built: int
    n_kernels_reused: int
    n_quarantined: int
    n_evicted: int
    n_swept: int
