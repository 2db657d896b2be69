"""Sizes: kinds of tuning steps by the number of entries that they walk."""

from __future__ import annotations

from typing import Final

LARGE_ENTRIES: Final = 1 << 22
"""A virtual machine that gets its memory when that is first touched packed 39 million entries in 0.95 s, and in 0.07 s
the next time, in the same pages. What small steps take says nothing about that: large ones have rates of their own."""


def sized(kind: str, n_entries: int) -> str:
    """Return the kind of a step that walks so many entries once: "... large" where no cache holds them."""
    return f"{kind} large" if n_entries >= LARGE_ENTRIES else kind
