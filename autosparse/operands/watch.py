"""Watch: the mutation guard of one operand in C. A check runs no Python code while only values were written.

`asp_watch` (``runtime/python/watch_api.h``) holds the offsets of the operand's slots, its array objects with the
expected references, and the hashes of the last look. `operands.watched` fills it in after each look in Python. There is
none where the runtime cannot read Python's objects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosparse._native import python_objects, runtime_api
from autosparse.operands import mutation_guard

if TYPE_CHECKING:
    from autosparse.operands.mutation_guard import Anchors, AnyArray, Print
    from autosparse.operands.native_rows import NativeRows

MAX_HELD: Final = 6
"""Maximum number of objects through which the memory of one array can be reached (`asp_watched.held`)."""
_PLAIN: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
INVALIDATED: Final = ("_invalidated_indptr", "_invalidated_indices", "_invalidated_data")
CLEANS: Final = ("_clean_indptr", "_clean_indices", "_clean_data")
_SLOTS: Final = ("_arrays", "rows", "_checked", "_exported", "_aliases_before", "values_version")

make: Final = python_objects.maker("asp_watch_maker")
"""Function (address of an asp_watch, object to keep alive) -> builtin; None where watches are not supported."""


@functools.cache
def layout_of(operand_type: Callable[[], Any]) -> Mapping[str, int] | None:
    """Return the offsets of an operand's slots; None where they are not found, or reference counts are unreliable."""
    if make is None or _references_beside() is None:
        return None
    return python_objects.slot_offsets(operand_type, (*_SLOTS, *INVALIDATED, *CLEANS))


@functools.lru_cache(maxsize=1)
def _references_beside() -> int | None:
    """Return how many references `mutation_guard.reference_total` counts beyond C's per object; None if that varies."""
    if mutation_guard.calibrated_counts() is None:
        return None
    seen = set()
    for n in (1, 2, 3, 3, 2, 1):
        arrays = tuple(np.empty(2) for _ in range(n))
        native = sum(map(runtime_api.lib.asp_references_to, map(id, arrays)))
        more, rest = divmod(mutation_guard.reference_total(arrays) - native, n)
        seen.add(None if rest else more)
    return seen.pop() if len(seen) == 1 else None


class Watch:
    """C structure asp_watch of an operand; its `look` checks for writes in C, and returns False if Python must."""

    __slots__ = ("_kept", "look", "record")

    def __init__(self, operand: Any, layout: Mapping[str, int]) -> None:
        cast = runtime_api.ffi.cast
        self.record = record = runtime_api.ffi.new("asp_watch *")
        record.header, record.array_type = python_objects.HEADER, cast("void *", id(np.ndarray))
        record.operand = cast("char *", id(operand))
        for name in _SLOTS:
            setattr(record, f"{name.removeprefix('_')}_at", layout[name])
        for one, invalidated, clean in zip(record.of, INVALIDATED, CLEANS, strict=True):
            one.invalidated_at, one.clean_at = layout[invalidated], layout[clean]
        assert make is not None
        self._kept: Any = None
        self.look: Callable[[bool, int], bool] = make(python_objects.address_of(record), record)

    def retire(self) -> None:
        """Disable answers until it is filled in again."""
        self.record.rows = runtime_api.ffi.NULL
        self.record.generation += 1

    def fill_in(
        self,
        arrays: list[Any],
        rows: NativeRows,
        anchors: list[Anchors],
        n_leased: list[bool],
        *,
        prints: list[Print | None],
        versions: AnyArray | None,
    ) -> None:
        """Watch these arrays from now on. Array objects are borrowed: the operand holds them."""
        record, nnz = self.record, int(arrays[0][-1])
        cast, null = runtime_api.ffi.cast, runtime_api.ffi.NULL
        least = (rows.n_major + 1, nnz, nnz)
        for field, one in enumerate(record.of):
            array, known, held = arrays[field], prints[field], anchors[field]
            one.array, one.descr = cast("void *", id(array)), cast("void *", id(array.dtype))
            one.data, one.n_least, one.n_bytes = runtime_api.pointer(array), least[field], least[field] * array.itemsize
            one.n_held = one.n_beneath = 0
            one.references = -1
            if _can_be_counted(held):
                one.n_held, one.n_beneath = len(held.arrays), held.n_beneath
                one.held[0 : one.n_held] = [cast("void *", id(each)) for each in held.arrays]
                one.weak_at[0 : one.n_held] = [type(each).__weakrefoffset__ for each in held.arrays]
                n_leased_here = n_leased[field] and one.n_held > 0
                one.references = held.expected + n_leased_here - (_references_beside() or 0) * one.n_held
            is_known = known is not None and (known.dtype, known.n_bytes) == (array.dtype, one.n_bytes)
            one.hashes = (
                cast("uint64_t *", runtime_api.pointer(known.hashes)) if known is not None and is_known else null
            )
            one.versions = null
        if versions is not None and prints[2] is not None and versions.size == prints[2].hashes.size:
            record.of[2].versions = cast("int64_t *", runtime_api.pointer(versions))
        counts = mutation_guard.calibrated_counts()
        record.beneath_references = counts.base - (_references_beside() or 0) if counts is not None else 0
        record.n_own = sum(n_leased) + sum(len(held.arrays) - held.n_beneath for held in anchors)
        record.n_rows, record.nnz, record.itype = rows.n_major, nnz, rows.index_code
        record.just_seen = 0
        record.generation += 1
        self._kept = (rows, list(prints), versions)
        record.rows = cast("void *", id(rows))

    def note_lease(self, field: int) -> None:
        """Count one more reference to an array as the package's own."""
        one = self.record.of[field]
        one.references += one.n_held > 0
        self.record.n_own += 1


def can_watch(arrays: list[Any]) -> bool:
    """Return whether the guard in C can check these arrays: contiguous, aligned, one-dimensional ndarrays."""
    return all(type(array) is np.ndarray and array.ndim == 1 and array.flags.num & _PLAIN == _PLAIN for array in arrays)


def _can_be_counted(anchors: Anchors) -> bool:
    """Return whether reference counts, read in C, show that no other object refers to the memory."""
    return (
        anchors.expected != mutation_guard.NEVER_ALONE
        and len(anchors.arrays) <= MAX_HELD
        and all(type(one).__weakrefoffset__ >= 0 for one in anchors.arrays)
    )
