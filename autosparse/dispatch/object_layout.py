"""What a fast path needs of the fields of Python objects (`dispatch.fast_path`), tried out at import.

Where something is not found as expected, there are no fast paths: on other interpreters, without a GIL, without
Python's headers at build time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from autosparse._native import python_objects
from autosparse.operands.csr import Operand
from autosparse.operands.packed_copies import PackedCopy

Make = Callable[[int, object], Callable[..., bool]]


def _packed_copy() -> PackedCopy:
    return PackedCopy(None, 0, 0)


OFFSETS: Final[Mapping[str, int]] = (
    python_objects.slot_offsets(Operand, ("rows", "structure_version", "values_version")) or {}
)
"""Bytes from an Operand to its slots; empty where they were not found."""
OF_PACKED_COPY: Final[Mapping[str, int]] = python_objects.slot_offsets(_packed_copy, ("values_version",)) or {}
"""Bytes from a PackedCopy to its slots; empty where they were not found."""
make: Final[Make | None] = python_objects.maker("asp_entry_maker") if OFFSETS else None
"""(address of an asp_entry, what to keep alive) -> the builtin; None where there can be no fast paths."""
