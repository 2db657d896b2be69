"""Offsets of the fields of Python objects that fast paths read (`dispatch.fast_path`), determined at import.

Where a field is not found as expected, fast paths are disabled: on other interpreters, without a GIL, or if Python's
headers were missing at build time.
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
"""Offsets in bytes from an Operand to its slots; empty where they were not found."""
OF_PACKED_COPY: Final[Mapping[str, int]] = python_objects.slot_offsets(_packed_copy, ("values_version",)) or {}
"""Offsets in bytes from a PackedCopy to its slots; empty where they were not found."""
make: Final[Make | None] = python_objects.maker("asp_entry_maker") if OFFSETS else None
"""Function (address of an asp_entry, objects to keep alive) -> builtin; None where fast paths are disabled."""
