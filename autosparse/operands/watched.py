"""WatchedArrays: indptr, indices and data of compressed rows, as they are handed out, put in place, and looked at.

Whoever fetches an array may write it; whoever holds one may write it later. `refresh` finds out what was written: from
notes and reference counts that nothing can have been (see `mutation_guard`), else by a look at the arrays concerned,
which hashes their chunks. `Watch` does so in C while the array objects stay the same and the structure does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import forking
from autosparse._native import python_objects
from autosparse.config import get_options
from autosparse.operands import mutation_guard
from autosparse.operands.array_views import Lease, moved, same_memory
from autosparse.operands.mutation_guard import CHUNK_BYTES, Anchors, Print
from autosparse.operands.native_rows import NativeRows
from autosparse.operands.packed_copies import smoothed
from autosparse.operands.watch import CLEANS, INVALIDATED, Watch, can_watch, layout_of

AnyArray = NDArray[Any]  # value arrays may have any dtype

INDPTR: Final = 0
INDICES: Final = 1
DATA: Final = 2
FIELDS: Final = (INDPTR, INDICES, DATA)

NEVER: Final = object()
"""Clean since: not yet."""
NONE_YET: Final[Any] = (None, None, None)
"""Of each array none, before there is a list."""
UNHASHED: Final = Print(np.dtype(object), 0, np.empty(0, np.uint64))
"""Print that no array has: whatever is seen at the next look counts as new."""
_COMPARING: Final = forking.rlock()
"""Held while the prints of a look that Python took are compared."""


class WatchedArrays:
    """The three arrays and their versions. `Operand` says what they mean, and whether they are within bounds."""

    __slots__ = (
        "__weakref__", "_aliases_before", "_anchors", "_arrays", "_checked", "_chunk_versions", "_clean_data",
        "_clean_indices", "_clean_indptr", "_exported", "_is_rebound", "_known_rows", "_leased", "_looks",
        "_native_watch", "_prints", "_invalidated_data", "_invalidated_indices", "_invalidated_indptr", "copied_bytes",
        "unvalidated", "frozen",
        "n_major", "n_minor", "rows", "structure_version", "values_version",
    )  # fmt: skip

    n_major: int
    n_minor: int
    rows: NativeRows | None  # None: look again, `validate`
    unvalidated: bool  # nobody has looked at the arrays: another one is put in place without a word (`arrays.fields`)
    copied_bytes: int | None  # of the caller's arrays, by the constructor; None: they were handed in, and may be shared
    frozen: bool  # the caller has promised that nobody writes to the arrays
    structure_version: int
    values_version: int
    _arrays: list[Any]  # the user's own objects: indptr, indices, data
    _known_rows: NativeRows | None  # as they were when last looked at, good while the array objects are the same
    _checked: bool  # structure is known to be within bounds
    _exported: bool  # an array of the structure was fetched, and may still be held, since the last check
    _aliases_before: int  # references to the arrays when that began
    # Of each array. A touch stores None; a look stores a token of its own and calls it clean only while it is there.
    _invalidated_indptr: object
    _invalidated_indices: object
    _invalidated_data: object
    _clean_indptr: object
    _clean_indices: object
    _clean_data: object
    _anchors: Any  # list of Anchors or None, each array's; NONE_YET
    _leased: Any  # list of arrays of ours or None; NONE_YET
    _prints: Any  # list of the Print of the last look or None, each array's; NONE_YET
    _chunk_versions: AnyArray | None  # of each chunk of the values: `values_version` when it changed last
    _is_rebound: bool  # another array of values was put in place since the last look
    _looks: tuple[int, int, int, int]  # n_looks, look_ns, smoothed_look_ns, total_look_ns before there was a watch
    _native_watch: Watch | None

    # -- as the user's object hands them out and takes them

    def fetch(self, field: int) -> Any:
        """The user's own array object; from now on it may be written."""
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
        """The user's own array object, for reading within one call: it must not leave our code."""
        return self._arrays[field]

    def rebind(self, field: int, value: Any) -> None:
        """Put another array in place; a version rises unless it is the same memory."""
        if self.unvalidated:
            self._arrays[field] = value
            return
        old = self.fetch(field)
        if value is old or same_memory(value, old):
            return
        if self._native_watch is not None:
            self._native_watch.retire()
        if self.frozen:
            self.frozen = False
            for invalidated in INVALIDATED:
                setattr(self, invalidated, None)
        self.copied_bytes = self.rows = None
        self._arrays[field] = value
        for kept in (self._leased, self._anchors, self._prints):
            if kept is not NONE_YET:
                kept[field] = None
        self._known_rows = None
        if field == DATA:
            self._is_rebound = True
            self.values_version += 1
        else:
            self._forget_structure()

    def freeze(self) -> None:
        """Take the caller's promise that nobody writes to the arrays: no look, and views of them that are read-only."""
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
        """See `Operand.validate`."""
        raise NotImplementedError

    # -- as our own code uses them: live read-only views that the guard does not take for aliases

    @property
    def indptr(self) -> AnyArray:
        """Row starts, (n_major + 1,)."""
        return self._lease(INDPTR)

    @property
    def indices(self) -> AnyArray:
        """Columns, (>= nnz,)."""
        return self._lease(INDICES)

    @property
    def data(self) -> AnyArray:
        """Values, (>= nnz,)."""
        return self._lease(DATA)

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return int(self._arrays[INDPTR][-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
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
        """Whether nobody else can reach the arrays now."""
        return all(map(self._is_alone, FIELDS))

    @property
    def is_exposed(self) -> bool:
        """Whether others can write the arrays unseen, so that no look is good for the next product, too."""
        return not self.is_alone

    @property
    def is_untouched(self) -> bool:
        """Whether `refresh` would find at once that nothing can have been written since the last look."""
        return (
            self._invalidated_data is self._clean_data
            and self._invalidated_indices is self._clean_indices
            and self._invalidated_indptr is self._clean_indptr
            and self.is_alone
        )

    @property
    def watch(self) -> Watch | None:
        """What C needs to look; None: only Python can."""
        return self._native_watch

    def refresh(self) -> None:
        """Bring `values_version` and `structure_version` up to date with every write made before this call.

        Raises StructureError when the structure was changed and is not within bounds.
        """
        watch = self._native_watch
        if not (self.is_untouched if watch is None else watch.look(True, get_options().threads or 0)):
            self._look()

    def _look(self) -> None:
        """Compare prints. Safe in several threads at once: whoever sees a difference raises a version."""
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
            # Asked before the bytes are read: an alias that is gone by now has done all the writing it will do.
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
        """Whether the values were put in place since the last look by somebody who has let go of them.

        Their version has risen, and who does so once does it again: a hash of them would be in vain.
        """
        return is_alone and self._is_rebound and self._prints[DATA] is None

    def _compare(self, now: dict[int, Print], looked_at: Iterable[int]) -> None:
        """Take the prints of this look, and raise the versions of what is not as it was."""
        if self._native_watch is not None:
            self._native_watch.retire()  # looks of C that are under way count for nothing
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
        """Raise the version of the values, and of their chunks first, unless they are what they were."""
        last: Print | None = self._prints[DATA]
        version = self.values_version + (last is not None and not now.is_like(last))
        if last is None or not now.is_comparable(last) or self._chunk_versions is None:
            self._chunk_versions = np.full(now.hashes.size, version)
        elif version > self.values_version:
            self._chunk_versions[now.hashes != last.hashes] = version
        self._prints[DATA], self._is_rebound = now, False
        self.values_version = version

    def changed_since(self, version: int) -> list[tuple[int, int]] | None:
        """Ranges of entries whose values may have changed since `values_version` was `version`; None: all of them."""
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
        """Whether nobody else can reach the memory of this array."""
        anchors = self._anchor(field)
        return mutation_guard.is_alone(anchors, n_leased=self._leased[field] is not None and len(anchors.arrays) > 0)

    def _n_aliases(self) -> int:
        """References to the arrays beyond our own, up to a constant; meant to be called with no array in a local."""
        own = sum(leased is not None for leased in self._leased)
        is_nested = self._anchors is NONE_YET and mutation_guard.are_nested(self._arrays)
        for anchors in map(self._anchor, FIELDS) if is_nested else self._anchors:
            if anchors is not None:
                own += len(anchors.arrays) - anchors.n_beneath - mutation_guard.n_others_beneath(anchors)
        if python_objects.references is None:
            return mutation_guard.count_references(self._arrays, own=own)
        n: int = python_objects.references(self._arrays)
        return n - own

    def _can_be_watched(self) -> bool:
        """Whether C can look at the arrays as they are."""
        return self._layout() is not None and can_watch(self._arrays)

    def _layout(self) -> Mapping[str, int] | None:
        """Where slots are: the same in all that are derived from `Operand`, the first class above this one."""
        return layout_of(type(self).__mro__[-3])

    def _fill_in_watch(self) -> None:
        """Let C look next time, where it can."""
        rows = self._known_rows
        if rows is None or rows.dtype is None or not rows.is_live or not self._can_be_watched():
            return
        if self._native_watch is None:
            watch = Watch(self, self._layout() or {})
            record = watch.record
            record.n_looks, record.look_ns, record.smoothed_look_ns, record.total_look_ns = self._looks
            self._native_watch = watch
        anchors, leased = list(map(self._anchor, FIELDS)), [one is not None for one in self._leased]
        self._native_watch.fill_in(
            self._arrays, rows, anchors, leased, prints=self._prints, versions=self._chunk_versions
        )

    # -- what looks cost

    @property
    def n_looks(self) -> int:
        """Times that bytes of the arrays were read to find writes."""
        return self._looks_now()[0]

    @property
    def look_ns(self) -> int:
        """Time of the last of these looks; zero before the first."""
        return self._looks_now()[1]

    @property
    def smoothed_look_ns(self) -> int:
        """Exponential average of the times of looks, see `packed_copies.smoothed`; zero before the first."""
        return self._looks_now()[2]

    @property
    def total_look_ns(self) -> int:
        """Time of all looks together. A product may take two: at the structure, and then at the values."""
        return self._looks_now()[3]

    def _looks_now(self) -> tuple[int, int, int, int]:
        if self._native_watch is None:
            return self._looks
        record = self._native_watch.record
        return record.n_looks, record.look_ns, record.smoothed_look_ns, record.total_look_ns

    def _count_look(self, took_ns: int) -> None:
        n, _, average_ns, total_ns = self._looks_now()
        looks = self._looks = n + 1, took_ns, smoothed(average_ns, took_ns), total_ns + took_ns
        if self._native_watch is not None:
            record = self._native_watch.record
            record.n_looks, record.look_ns, record.smoothed_look_ns, record.total_look_ns = looks
