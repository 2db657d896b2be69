"""WatchedArrays: indptr, indices and data of compressed rows: exporting, replacing and checking them.

Code that fetches an array may write it, and code that holds one may write it later. `refresh` detects writes: by notes
and reference counts if these exclude any (see `mutation_guard`), else by a look that hashes the chunks of the arrays.
A watch does the same in C while array objects and structure stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import forking
from autosparse._native import python_objects
from autosparse.config import get_options
from autosparse.core.dtypes import Hash
from autosparse.operands import mutation_guard, watch
from autosparse.operands.mutation_guard import CHUNK_BYTES, Anchors, Print
from autosparse.operands.native_rows import Lease, NativeRows, moved, same_memory
from autosparse.operands.packed_copies import smoothed
from autosparse.operands.watch import CLEANS, INVALIDATED

AnyArray = NDArray[Any]  # Any: value arrays may have any dtype

INDPTR: Final = 0
INDICES: Final = 1
DATA: Final = 2
FIELDS: Final = (INDPTR, INDICES, DATA)

NEVER: Final = object()
"""Initial value of the clean tokens: no look has found the array clean."""
NONE_YET: Final[Any] = (None, None, None)
"""Placeholder for per-array lists that were not made yet."""
UNHASHED: Final = Print(np.dtype(object), 0, np.empty(0, Hash))
"""Print that differs from every array's, so that the next look counts as a change."""
_COMPARING: Final = forking.rlock()
"""Lock held while the prints of a look in Python are compared."""
REPLACING: Final = forking.lock()
"""Lock held while an array is replaced, and while addresses of checked arrays are stored."""


class WatchedArrays(python_objects.OperandFields):
    """Three arrays and their versions. `Operand` gives them their meaning and checks bounds."""

    __slots__ = (
        "__weakref__", "_anchors", "_chunk_versions", "_is_rebound", "_known_rows", "_leased", "_looks", "_prints",
        "copied_bytes", "frozen", "n_invalidated", "n_major", "n_minor", "n_replaced",
    )  # fmt: skip

    n_major: int
    n_minor: int
    n_invalidated: int  # number of checks that found arrays exported or replaced
    n_replaced: int  # number of arrays that were replaced by others
    rows: NativeRows | None  # None: `validate` must look again
    unvalidated: bool  # no code has read the arrays: they are replaced without a record (`arrays.plain`)
    copied_bytes: int | None  # bytes that the constructor copied; None: nothing copied, arrays may be shared
    frozen: bool  # the caller declares that nobody writes to the arrays
    structure_version: int
    values_version: int
    _arrays: list[Any]  # the user's own objects: indptr, indices, data
    _known_rows: NativeRows | None  # as of the last look, valid while the array objects are the same
    _checked: bool  # structure is known to be within bounds
    _exported: bool  # an array of the structure was fetched since the last check, and may still be held
    _aliases_before: int  # number of references to the arrays when that began
    # Per array. Exporting stores None as the touch. A look stores a token, which it marks as clean at its end if the
    # token is still there.
    _invalidated_indptr: object
    _invalidated_indices: object
    _invalidated_data: object
    _clean_indptr: object
    _clean_indices: object
    _clean_data: object
    _anchors: Any  # list of Anchors or None per array; NONE_YET
    _leased: Any  # list of internal views or None per array; NONE_YET
    _prints: Any  # list of the Print of the last look or None per array; NONE_YET
    _chunk_versions: AnyArray | None  # `values_version` at the last change of each chunk of the values
    _is_rebound: bool  # whether the array of values was replaced since the last look
    _looks: tuple[int, int, int, int]  # n_looks, look_ns, smoothed_look_ns, total_look_ns before there was a watch
    _native_watch: Any  # a Watch of the extension module, or None

    # -- access by the user's object

    def fetch(self, field: int) -> Any:
        """Return the user's own array object and mark it as exported: later writes to it are expected."""
        if self.frozen:
            return self._arrays[field]
        setattr(self, INVALIDATED[field], None)
        if field != DATA:
            self._checked = False
            if not self._exported:
                self._exported = True
                self._aliases_before = self._n_aliases()
        self.rows = None
        return self._arrays[field]

    def peek(self, field: int) -> Any:
        """Return the user's own array object for reading within one call. It must not leave the package."""
        return self._arrays[field]

    def rebind(self, field: int, value: Any) -> None:
        """Replace array number `field` by `value`; its version increases unless the memory is the same."""
        swapped = None
        if self._is_unread():
            swapped, self._arrays[field] = self._arrays[field], value
            self._checked = self._checked and field == DATA
            if self._is_unread():  # still: no other thread has begun to read the arrays
                return
        old = self.fetch(field)
        if swapped is None and (value is old or same_memory(value, old)):
            return
        if self._native_watch is not None:
            self._native_watch.retire()
        if self.frozen:
            self.frozen = False
            for invalidated in INVALIDATED:
                setattr(self, invalidated, None)
        self.copied_bytes = None
        with REPLACING:
            old, self._arrays[field] = self._arrays[field], value  # not the array above, if another thread replaced it
            self.n_replaced += 1
            self._known_rows = self.rows = None
        self.retain(old)  # now: a product of another thread that begins later reads the new array
        self.retain(swapped)
        for kept in (self._leased, self._anchors, self._prints):
            if kept is not NONE_YET:
                kept[field] = None
        if field == DATA:
            self._is_rebound = True
            self.values_version += 1
        else:
            self._forget_structure()

    def _is_unread(self) -> bool:
        return self.unvalidated

    def freeze(self) -> None:
        """Treat the arrays as read-only, as the caller declared: use read-only views and no checks for writes."""
        self._arrays = [array.view() for array in self._arrays]
        for array in self._arrays:
            array.flags.writeable = False
        self._leased = self._anchors = self._prints = NONE_YET
        self._known_rows, self.frozen, self.unvalidated = None, True, False
        if self._native_watch is not None:
            self._native_watch.retire()

    def _forget_structure(self) -> None:
        raise NotImplementedError

    def validate(self) -> NativeRows:
        """Check the arrays (see `Operand.validate`)."""
        raise NotImplementedError

    # -- access by the package: live read-only views that the guard does not count as aliases

    @property
    def indptr(self) -> AnyArray:
        """Row starts, (n_major + 1,)."""
        return self._lease(INDPTR)

    @property
    def indices(self) -> AnyArray:
        """Column indices, (>= nnz,)."""
        return self._lease(INDICES)

    @property
    def data(self) -> AnyArray:
        """Values, (>= nnz,)."""
        return self._lease(DATA)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self._arrays[INDPTR][-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        dtype: np.dtype[Any] = self._arrays[DATA].dtype
        return dtype

    def _lease(self, field: int) -> AnyArray:
        self.unvalidated = False
        array = self._arrays[field]
        leased: AnyArray | None = self._leased[field]
        if leased is None or moved(leased, array):
            if self._leased is NONE_YET:
                self._leased = [None, None, None]
            if leased is None and self._native_watch is not None:
                self._native_watch.note_lease(field)
            leased = self._leased[field] = np.asarray(Lease(array))
        return leased

    # -- the guard

    @property
    def is_alone(self) -> bool:
        """Return whether no other object can reach the arrays now."""
        return all(map(self._is_alone, FIELDS))

    @property
    def is_exposed(self) -> bool:
        """Return whether other code can write the arrays unnoticed, so that each product needs a look."""
        return not self.is_alone

    @property
    def is_untouched(self) -> bool:
        """Return whether `refresh` would find, without hashing, that nothing was written since the last look."""
        return (
            self._invalidated_data is self._clean_data
            and self._invalidated_indices is self._clean_indices
            and self._invalidated_indptr is self._clean_indptr
            and self.is_alone
        )

    @property
    def watch(self) -> Any:
        """Watch by which C checks the arrays for writes; None if only Python can check them."""
        return self._native_watch

    def refresh(self) -> None:
        """Bring `values_version` and `structure_version` up to date with every write made before this call.

        Raises StructureError when the structure was changed and is not within bounds.
        """
        native = self._native_watch
        self.n_invalidated += self.rows is None  # the watch may set `rows` again
        if not (self.is_untouched if native is None else native.look(self, True, get_options().threads or 0)):
            self._look()

    def _look(self) -> None:
        """Hash the arrays and compare with the last look, in any thread; versions of arrays that changed increase."""
        if self.rows is None:
            self.validate()
        if self.frozen:
            for invalidated, clean in zip(INVALIDATED, CLEANS, strict=True):
                setattr(self, clean, getattr(self, invalidated))
            self._fill_in_watch()
            return
        start_ns, token = perf_counter_ns(), object()
        alone: dict[int, bool] = {}
        for field in FIELDS:
            # Checked before the bytes are read: an alias that no longer exists cannot write any more.
            is_alone = self._is_alone(field)
            if not is_alone or getattr(self, INVALIDATED[field]) is not getattr(self, CLEANS[field]):
                setattr(self, INVALIDATED[field], token)
                alone[field] = is_alone
        now = {field: self._print_of(field) for field in alone if field != DATA or not self._is_new(alone[DATA])}
        with _COMPARING:
            self._compare(now, alone)
            for field, is_alone in alone.items():
                if is_alone:
                    setattr(self, CLEANS[field], token)
            if alone:
                self._count_look(perf_counter_ns() - start_ns)
            self._fill_in_watch()

    def _is_new(self, is_alone: bool) -> bool:
        """Return whether the values were replaced since the last look by code that no longer holds them.

        Their version has risen already, and code that replaces them once does so again, so hashing them would be
        useless.
        """
        return is_alone and self._is_rebound and self._prints[DATA] is None

    def _compare(self, now: dict[int, Print], looked_at: Iterable[int]) -> None:
        """Store the prints of this look, and increase the versions of arrays that changed."""
        if self._native_watch is not None:
            self._native_watch.retire()  # concurrent looks in C become invalid
        if self._prints is NONE_YET:
            self._prints = [None, None, None]
        known: list[Print | None] = self._prints
        structure = {field: one for field, one in now.items() if field != DATA}
        if any(known[field] is not None and not one.is_like(known[field]) for field, one in structure.items()):
            self._forget_structure()
            self.validate()
        for field, one in structure.items():
            known[field] = one
        if DATA in now:
            self._compare_values(now[DATA])
        elif DATA in looked_at:
            known[DATA], self._chunk_versions, self._is_rebound = UNHASHED, None, False

    def _compare_values(self, now: Print) -> None:
        """Raise the version of the values, and before it those of their changed chunks, if the prints differ."""
        last: Print | None = self._prints[DATA]
        version = self.values_version + (last is not None and not now.is_like(last))
        if last is None or not now.is_comparable(last) or self._chunk_versions is None:
            self._chunk_versions = np.full(now.hashes.size, version)
        elif version > self.values_version:
            self._chunk_versions[now.hashes != last.hashes] = version
        self._prints[DATA], self._is_rebound = now, False
        self.values_version = version

    def changed_since(self, version: int) -> list[tuple[int, int]] | None:
        """Return ranges of entries whose values may have changed since `values_version` was `version`; None for all."""
        versions, known = self._chunk_versions, self._prints[DATA]
        if versions is None or known is None:
            return None
        chunks = np.flatnonzero(versions > version)
        if not 0 < 2 * chunks.size <= versions.size:
            return None if chunks.size else []
        width = CHUNK_BYTES // known.dtype.itemsize
        first = np.flatnonzero(np.diff(chunks, prepend=-2) > 1)
        last = np.append(first[1:], chunks.size) - 1
        return [(int(chunks[a]) * width, int(chunks[b] + 1) * width) for a, b in zip(first, last, strict=True)]

    def _print_of(self, field: int) -> Print:
        array = self._arrays[field]
        return Print.of(array if field == INDPTR else array[: self.nnz])

    def _anchor(self, field: int) -> Anchors:
        if self._anchors is NONE_YET:
            self._anchors = [None, None, None]
        if self._anchors[field] is None:
            watched = () if self.frozen else (self._arrays[field],)
            self._anchors[field] = mutation_guard.anchors_of(watched)
        anchors: Anchors = self._anchors[field]
        return anchors

    def _is_alone(self, field: int) -> bool:
        """Return whether no other object can reach the memory of this array."""
        anchors = self._anchor(field)
        return mutation_guard.is_alone(anchors, n_leased=self._leased[field] is not None and len(anchors.arrays) > 0)

    def _n_aliases(self) -> int:
        """Return the references to the arrays beyond the package's own, up to a constant.

        No local variable of the caller may hold one of the arrays.
        """
        own = sum(leased is not None for leased in self._leased)
        is_nested = self._anchors is NONE_YET and mutation_guard.are_nested(self._arrays)
        for anchors in map(self._anchor, FIELDS) if is_nested else self._anchors:
            if anchors is not None:
                own += len(anchors.arrays) - anchors.n_beneath - mutation_guard.n_others_beneath(anchors)
        if python_objects.references_with_bases is None:
            return mutation_guard.count_references(self._arrays, own=own)
        n: int = python_objects.references_with_bases(self._arrays)
        return n - own

    def _can_be_watched(self) -> bool:
        """Return whether the guard in C can check the present arrays."""
        return watch.can_watch(self._arrays)

    def _fill_in_watch(self) -> None:
        """Let C do the next look where it can."""
        rows = self._known_rows
        if rows is None or rows.dtype is None or not rows.is_live or not self._can_be_watched():
            return
        if self._native_watch is None:
            assert watch.make is not None
            native = watch.make()
            native.n_looks, native.look_ns, native.smoothed_look_ns, native.total_look_ns = self._looks
            self._native_watch = native
        anchors, leased = list(map(self._anchor, FIELDS)), [one is not None for one in self._leased]
        watch.fill_in(
            self._native_watch, self._arrays, rows, anchors, leased, prints=self._prints, versions=self._chunk_versions
        )

    # -- cost of looks

    @property
    def n_looks(self) -> int:
        """Number of looks: passes over the bytes of the arrays to detect writes."""
        return self._looks_now()[0]

    @property
    def look_ns(self) -> int:
        """Time of the last look in ns; zero before the first."""
        return self._looks_now()[1]

    @property
    def smoothed_look_ns(self) -> int:
        """Exponential average of the times of looks in ns (`packed_copies.smoothed`); zero before the first."""
        return self._looks_now()[2]

    @property
    def total_look_ns(self) -> int:
        """Total time of all looks in ns. A product may need two: one at the structure, one at the values."""
        return self._looks_now()[3]

    def _looks_now(self) -> tuple[int, int, int, int]:
        native = self._native_watch
        if native is None:
            return self._looks
        return native.n_looks, native.look_ns, native.smoothed_look_ns, native.total_look_ns

    def _count_look(self, took_ns: int) -> None:
        n, _, average_ns, total_ns = self._looks_now()
        looks = self._looks = n + 1, took_ns, smoothed(average_ns, took_ns), total_ns + took_ns
        native = self._native_watch
        if native is not None:
            native.n_looks, native.look_ns, native.smoothed_look_ns, native.total_look_ns = looks
