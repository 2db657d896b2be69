"""Size classes of tuning steps by the number of entries that they process."""

from __future__ import annotations

from typing import Final

LARGE_ENTRIES: Final = 1 << 22
"""Minimum number of entries of steps with prices of their own, separate from the prices of small steps.

Memory touched for the first time dominates large steps: packing 39 million entries took 0.95 s in new pages, and
0.07 s in reused pages (virtual machine).
"""


def sized(kind: str, n_entries: int) -> str:
    """Return the name under which a step over `n_entries` is priced: `kind`, or "`kind` large" beyond cache sizes."""
    return f"{kind} large" if n_entries >= LARGE_ENTRIES else kind
