"""What a fast path needs of the fields of Python objects (`dispatch.fast_path`), tried out at import.

Where something is not found as expected, there are no fast paths: on other interpreters, without a GIL, without
Python's headers at build time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from autosparse._native import python_objects, runtime_api
from autosparse.operands import mutation_guard
from autosparse.operands.csr import Operand

GUARDED_SLOTS: Final = (
    "_touch_values", "_clean_values", "_touch_structure", "_clean_structure", "structure_version", "values_version",
)  # fmt: skip
"""Slots of an Operand in the order of `asp_entry.slots`."""

Make = Callable[[int, object], Callable[..., bool]]


def _find_references_beside() -> int | None:
    """What `mutation_guard.reference_total` counts of each array beyond its references; None where that varies."""
    if make is None or mutation_guard.calibrated_counts() is None:
        return None
    seen = set()
    for n in (1, 2, 3, 3, 2, 1):
        arrays = tuple(np.empty(2) for _ in range(n))
        record = runtime_api.ffi.new("asp_entry *")
        record.guarded = [runtime_api.ffi.cast("void *", address) for address in map(id, arrays)]
        record.n_guarded = n
        more, rest = divmod(mutation_guard.reference_total(arrays) - runtime_api.lib.asp_entry_references(record), n)
        seen.add(None if rest else more)
    return seen.pop() if len(seen) == 1 else None


OFFSETS: Final[Mapping[str, int]] = python_objects.slot_offsets(Operand, ("rows", *GUARDED_SLOTS)) or {}
"""Bytes from an Operand to its slots; empty where they were not found."""
make: Final[Make | None] = python_objects.maker("asp_entry_maker") if OFFSETS else None
"""(address of an asp_entry, what to keep alive) -> the builtin; None where there can be no fast paths."""
references_beside: Final = _find_references_beside()
"""None: packed copies cannot be guarded from C."""
