"""Types of one kernel: of stored values, of index arrays, and of sums."""

from __future__ import annotations

from typing import NamedTuple

from autosparse.scalar import SCALARS, ScalarType


class KernelType(NamedTuple):
    """Types of a kernel: of stored values, of index arrays, and in which it multiplies and sums."""

    stored: ScalarType
    indices: ScalarType
    compute: ScalarType

    @classmethod
    def of(cls, values: str, indices: str) -> KernelType:
        """Return the types of the kernel that reads values and index arrays of these dtypes as they are."""
        stored = SCALARS[values]
        return cls(stored, SCALARS[indices], SCALARS[stored.compute])
