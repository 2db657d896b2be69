"""Packed copies of the parts of a composite, and the map by which all of them take new values."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any, Final

import numpy as np
from autosparse._native.ir.spec import expression_of
from autosparse._native.storage.packers import ValuePositions
from autosparse._native.storage.packing import PackedOperand, Ranges, pack, packed_bytes, reason_unfit
from autosparse._native.storage.parts import Subset, subsets
from autosparse._native.storage.structure import PackedStructure, pack_structure, structure_bytes
from numpy.typing import NDArray

from autosparse.core.composite import Composite
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.errors import PackError

Array = NDArray[Any]  # indices or values of any supported dtype
LISTED: Final = "listed"
"""Order of rows of a format whose rows of C are not neighbours."""


def is_sampled(composite: Composite) -> bool:
    """Whether the result has the entries of the sparse operand, one each."""
    return expression_of(composite.schedules[0]).sampled


def part_schedules(composite: Composite) -> tuple[SuperSchedule, ...]:
    """The schedules of its parts as they are compiled: rows of a part that is no whole matrix are listed.

    Entries of parts of sampled operations are numbered one by one, which plain CSR has no place for: listed too.
    """
    lists = composite.n_row_parts > 0 or is_sampled(composite)
    return tuple(
        dataclasses.replace(one, format=dataclasses.replace(one.format, rows=LISTED))
        if lists and not one.format.rows and not one.format.is_sliced
        else one
        for one in composite.schedules
    )


@dataclass(eq=False)
class PackedPart:
    """One part: its packed copy with rows numbered within the part, and which values of A it holds, in its order."""

    packed: PackedOperand | PackedStructure
    subset: Subset = field(repr=False)
    _places: list[ValuePositions | None] = field(
        default_factory=list, repr=False
    )  # of its values, once one was looked for

    @property
    def as_bound(self) -> PackedOperand | PackedStructure:
        """The same arrays with the rows of C, and with numbers of A's entries, as kernels read them."""
        packed, rows = self.packed, self.subset.rows
        crd = packed.crd
        if rows is not None and packed.fmt.rows:
            crd = {**crd, "rows": np.ascontiguousarray(rows[crd["rows"]])}
        if isinstance(packed, PackedOperand):
            return dataclasses.replace(packed, crd=crd)
        origin, repeats, entries = packed.origin, packed.repeats, self.subset.entries
        numbers = entries if origin is None else np.where(origin >= 0, entries[origin], -1).astype(entries.dtype)
        if repeats is not None:
            whole = np.full(int(entries.max(initial=-1)) + 1, -1, dtype=entries.dtype)
            whole[entries] = np.where(repeats >= 0, entries[repeats], -1)
            repeats = whole
        return dataclasses.replace(packed, crd=crd, origin=numbers, repeats=repeats)

    @property
    def nbytes(self) -> int:
        """Bytes that the part takes, its map of entries included."""
        packed, rows = self.packed, self.subset.rows
        if isinstance(packed, PackedOperand):
            origins = (one.origin for one in self._places if one is not None)
            kept = sum(array.nbytes for array in origins if array is not None)
            own = sum(array.nbytes for array in packed.arrays) if packed.live else packed.nbytes
            return own + self.subset.nbytes + kept
        own = sum(array.nbytes for array in (*packed.pos.values(), *packed.crd.values()))
        own += self.subset.entries.nbytes if packed.origin is None else packed.origin.nbytes
        return own + (0 if rows is None else rows.nbytes)

    def refresh(self, values: Array, room_bytes: int | None) -> None:
        """Take the part's values from `values` of A."""
        assert isinstance(self.packed, PackedOperand)
        places = self._positions_of_A(room_bytes)
        if places is not None:
            places.fill(values, self.packed.values)
        elif self.packed.live:  # "live" arrays of a part are copies that it has made
            self.packed.values[...] = values[self.subset.entries]
        else:
            self.packed.refresh(values[self.subset.entries], room_bytes=room_bytes)

    def _positions_of_A(self, room_bytes: int | None) -> ValuePositions | None:
        """Return the positions of A's values in the part; None where entries share one, or there is no room."""
        packed = self.packed
        assert isinstance(packed, PackedOperand)
        if not self._places:
            needed = (8 if self.subset.pattern.indptr.itemsize == 8 else 4) * self.subset.pattern.nnz
            if room_bytes is not None and 2 * needed > room_bytes:
                return None
            own = ValuePositions(self.subset.pattern.nnz, None) if packed.live else packed.places()
            self._places.append(own and replace(own, origin=np.ascontiguousarray(self.subset.entries)))
        return self._places[0]


@dataclass(eq=False)
class PackedComposite:
    """The parts of op(A), each in its format; together they hold every entry once."""

    composite: Composite
    pattern: Pattern = field(repr=False)  # of A
    parts: tuple[PackedPart, ...]
    n_rows: int  # of op(A)

    @property
    def nbytes(self) -> int:
        """Bytes taken beside the user's own arrays."""
        return sum(part.nbytes for part in self.parts)

    @property
    def fmt(self) -> Composite:
        """What it is packed as."""
        return self.composite

    def refresh(self, values: Array, ranges: Ranges = None, *, room_bytes: int | None = None) -> None:
        """Take new values of the same pattern, in A's own order; see `PackedOperand.refresh`. All are written anew."""
        values = np.ascontiguousarray(values[: self.pattern.nnz])
        for part in self.parts:
            before = part.nbytes
            part.refresh(values, room_bytes)
            room_bytes = None if room_bytes is None else room_bytes - (part.nbytes - before)


def composite_reason_unfit(pattern: Pattern, composite: Composite, *, transposed: bool) -> str | None:
    """Why `pattern` cannot be stored in these parts, or None. O(nnz)."""
    if min(pattern.shape) == 0 or pattern.nnz == 0:
        return "a matrix without entries has no parts"
    schedules = part_schedules(composite)
    for schedule, subset in zip(schedules, subsets_of(pattern, composite, transposed=transposed), strict=True):
        if schedule.format.values or schedule.format.symmetric:
            return f"parts hold their values as they are: {schedule.format}"
        if (reason := reason_unfit(subset.pattern, schedule.format, transposed=False)) is not None:
            return reason
    return None


def subsets_of(pattern: Pattern, composite: Composite, *, transposed: bool) -> tuple[Subset, ...]:
    """The entries of each part; kept with the pattern for the next one who asks."""
    selections = tuple(part.select for part in composite.parts)
    key = ("subsets", selections, transposed)
    if key not in pattern.counts:
        for old in [one for one in pattern.counts if isinstance(one, tuple) and one[:1] == ("subsets",)]:
            pattern.counts.pop(old, None)
        pattern.counts[key] = subsets(pattern, selections, transposed=transposed)
    found: tuple[Subset, ...] = pattern.counts[key]
    return found


def _bytes(subset: Subset, fmt: Format, value_bytes: int, sampled: bool) -> int:
    if sampled:
        return structure_bytes(subset.pattern, fmt) + (0 if subset.rows is None else subset.rows.nbytes)
    own = packed_bytes(subset.pattern, fmt, value_bytes, transposed=False)
    if fmt.is_csr:  # a copy here
        own = subset.pattern.csr_bytes(value_bytes)
    return own + subset.nbytes


def composite_bytes(pattern: Pattern, composite: Composite, value_bytes: int, *, transposed: bool) -> int:
    """Bytes of `pack_composite`'s result, known before: an upper bound. O(nnz)."""
    found = zip(subsets_of(pattern, composite, transposed=transposed), part_schedules(composite), strict=True)
    return sum(_bytes(subset, one.format, value_bytes, is_sampled(composite)) for subset, one in found)


def pack_composite(pattern: Pattern, values: Array, composite: Composite, *, transposed: bool) -> PackedComposite:
    """op(A) in parts. PackError where a part does not fit its format; a bound on memory is the caller's to check."""
    if (reason := composite_reason_unfit(pattern, composite, transposed=transposed)) is not None:
        raise PackError.unfit(composite, reason)
    parts = []
    for schedule, subset in zip(
        part_schedules(composite), subsets_of(pattern, composite, transposed=transposed), strict=True
    ):
        if is_sampled(composite):
            packed: PackedOperand | PackedStructure = pack_structure(subset.pattern, schedule.format)
        else:
            packed = pack(subset.pattern, values[subset.entries], schedule.format, transposed=False)
        parts.append(PackedPart(packed, subset))
    return PackedComposite(composite, pattern, tuple(parts), pattern.shape[1 if transposed else 0])
