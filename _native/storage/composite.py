"""Packed copies of the parts of a composite, and the maps by which all of them take new values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from autosparse._native.storage.packers import ValuePositions
from autosparse._native.storage.packing import PackedOperand, Ranges, pack, packed_bytes, reason_unfit
from autosparse._native.storage.parts import Subset, subsets
from numpy.typing import NDArray

from autosparse.core.composite import Composite
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.errors import PackError

Array = NDArray[Any]  # indices or values of any supported dtype
LISTED: Final = "listed"
"""Row permutation of a format whose rows are not consecutive rows of C."""


def part_schedules(composite: Composite) -> tuple[SuperSchedule, ...]:
    """Return the schedules of the parts as they are compiled: rows of a part that is not a whole matrix are listed."""
    return tuple(
        one if one.format.rows else replace(one, format=replace(one.format, rows=LISTED)) for one in composite.schedules
    )


@dataclass(eq=False)
class PackedPart:
    """Packed copy of one part, with rows numbered within the part, and the numbers of its values in A."""

    packed: PackedOperand
    subset: Subset = field(repr=False)
    _places: list[ValuePositions | None] = field(
        default_factory=list, repr=False
    )  # of its values; filled at the first refresh

    @property
    def as_bound(self) -> PackedOperand:
        """The packed arrays with rows of C, as kernels read them."""
        packed, rows = self.packed, self.subset.rows
        if rows is None or not packed.fmt.rows:
            return packed
        return replace(packed, crd={**packed.crd, "rows": np.ascontiguousarray(rows[packed.crd["rows"]])})

    @property
    def nbytes(self) -> int:
        """Bytes that the part takes, including its map of entries."""
        origins = (one.origin for one in self._places if one is not None)
        kept = sum(array.nbytes for array in origins if array is not None)
        own = sum(array.nbytes for array in self.packed.arrays) if self.packed.live else self.packed.nbytes
        return own + self.subset.nbytes + kept

    def refresh(self, values: Array, room_bytes: int | None) -> None:
        """Take the part's values from `values` of A."""
        places = self._positions_of_A(room_bytes)
        if places is not None:
            places.fill(values, self.packed.values)
        elif self.packed.live:  # "live" arrays of a part are the part's own copies
            self.packed.values[...] = values[self.subset.entries]
        else:
            self.packed.refresh(values[self.subset.entries], room_bytes=room_bytes)

    def _positions_of_A(self, room_bytes: int | None) -> ValuePositions | None:
        """Return the positions of A's values in the part, or None if entries share one or memory is insufficient."""
        packed = self.packed
        if not self._places:
            needed = (8 if self.subset.pattern.indptr.itemsize == 8 else 4) * self.subset.pattern.nnz
            if room_bytes is not None and 2 * needed > room_bytes:
                return None
            own = ValuePositions(self.subset.pattern.nnz, None) if packed.live else packed.places()
            self._places.append(own and replace(own, origin=np.ascontiguousarray(self.subset.entries)))
        return self._places[0]


@dataclass(eq=False)
class PackedComposite:
    """The parts of op(A), each packed in its format; together they hold every entry once."""

    composite: Composite
    pattern: Pattern = field(repr=False)  # of A
    parts: tuple[PackedPart, ...]
    n_rows: int  # of op(A)

    @property
    def nbytes(self) -> int:
        """Bytes taken in addition to the user's arrays."""
        return sum(part.nbytes for part in self.parts)

    @property
    def fmt(self) -> Composite:
        """The composite that describes the parts' formats."""
        return self.composite

    def refresh(self, values: Array, ranges: Ranges = None, *, room_bytes: int | None = None) -> None:
        """Take new values of the same pattern, in A's order; see `PackedOperand.refresh`. All values are rewritten."""
        values = np.ascontiguousarray(values[: self.pattern.nnz])
        for part in self.parts:
            before = part.nbytes
            part.refresh(values, room_bytes)
            room_bytes = None if room_bytes is None else room_bytes - (part.nbytes - before)


def composite_reason_unfit(pattern: Pattern, composite: Composite, *, transposed: bool) -> str | None:
    """Return why `pattern` cannot be stored in these parts, or None. Takes O(nnz)."""
    if min(pattern.shape) == 0 or pattern.nnz == 0:
        return "a matrix without entries has no parts"
    schedules = part_schedules(composite)
    for schedule, subset in zip(schedules, subsets_of(pattern, composite, transposed=transposed), strict=True):
        if (reason := reason_unfit(subset.pattern, schedule.format, transposed=False)) is not None:
            return reason
    return None


def subsets_of(pattern: Pattern, composite: Composite, *, transposed: bool) -> tuple[Subset, ...]:
    """Return the entries of each part. The latest result is cached with the pattern."""
    selections = tuple(part.select for part in composite.parts)
    key = ("subsets", selections, transposed)
    if key not in pattern.counts:
        for old in [one for one in pattern.counts if isinstance(one, tuple) and one[:1] == ("subsets",)]:
            pattern.counts.pop(old, None)
        pattern.counts[key] = subsets(pattern, selections, transposed=transposed)
    found: tuple[Subset, ...] = pattern.counts[key]
    return found


def _bytes(subset: Subset, fmt: Format, value_bytes: int) -> int:
    own = packed_bytes(subset.pattern, fmt, value_bytes, transposed=False)
    if fmt.is_csr:  # a copy in this case
        own = subset.pattern.csr_bytes(value_bytes)
    return own + subset.nbytes


def composite_bytes(pattern: Pattern, composite: Composite, value_bytes: int, *, transposed: bool) -> int:
    """Return an upper bound of the bytes of `pack_composite`'s result. Takes O(nnz)."""
    found = zip(subsets_of(pattern, composite, transposed=transposed), part_schedules(composite), strict=True)
    return sum(_bytes(subset, one.format, value_bytes) for subset, one in found)


def pack_composite(pattern: Pattern, values: Array, composite: Composite, *, transposed: bool) -> PackedComposite:
    """Pack op(A) in parts. Raises PackError if a part does not fit its format; the caller checks memory limits."""
    if (reason := composite_reason_unfit(pattern, composite, transposed=transposed)) is not None:
        raise PackError.unfit(composite, reason)
    found = zip(part_schedules(composite), subsets_of(pattern, composite, transposed=transposed), strict=True)
    parts = [
        PackedPart(pack(subset.pattern, values[subset.entries], schedule.format, transposed=False), subset)
        for schedule, subset in found
    ]
    return PackedComposite(composite, pattern, tuple(parts), pattern.shape[1 if transposed else 0])
