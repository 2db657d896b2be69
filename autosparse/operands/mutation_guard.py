"""Detection of writes to the user's arrays, checked at every product that uses a packed copy of them.

Writing needs a reference to the array, or to a view, memoryview or tensor that refers to it. Nothing can have changed
if

1. no array was exported through a property since the last look, and
2. no other object holds a reference to the arrays, by CPython's reference counts.

Where either fails for an array, hashes of its bytes decide (`Print`).

The extension module counts references exactly. Without it, the counts that mean "no other reference" depend on the
interpreter. They are measured at first use, on a fresh array and on an aliased one. Where the two cannot be
distinguished (free-threaded builds, other interpreters), every look hashes. Bases of views are counted as well: another
view, or the bytes that an array was unpickled from. Not covered: raw addresses kept by C code.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import python_objects
from autosparse.core.dtypes import Byte, Hash

AnyArray = NDArray[Any]  # Any: the guard reads bytes of any dtype

NEVER_ALONE: Final = -1
"""Expected reference total of arrays that other code can always reach; no count equals it."""


class Anchors:
    """Objects by which the memory can be reached, and `expected`: their reference total if no other code holds them.

    Arrays come first, then their bases, then the objects beneath these: the last `n_beneath`.
    """

    __slots__ = ("arrays", "expected", "n_beneath")

    def __init__(self, arrays: tuple[Any, ...], expected: int, n_beneath: int = 0) -> None:
        self.arrays, self.expected, self.n_beneath = arrays, expected, n_beneath


class _Counts:
    """References to an array held by one owner and the anchors, and to the base of a view held by one owner."""

    __slots__ = ("array", "base")

    def __init__(self, array: int, base: int) -> None:
        self.array, self.base = array, base


_EXACT_COUNTS: Final = _Counts(array=2, base=2)  # the owner, or the view, and the tuple of anchors
_getrefcount = getattr(sys, "getrefcount", None)


def _reference_total(arrays: tuple[AnyArray, ...]) -> int:
    return sum(map(_getrefcount, arrays)) if _getrefcount else 0


reference_total: Final[Callable[[tuple[Any, ...]], int]] = python_objects.references or _reference_total
"""Return the sum of the reference counts; references by the tuple itself and by this call are part of every sum."""


def _measure_counts() -> tuple[int, int] | None:
    """Return the reference counts of a fresh array and a fresh view; None if an alias does not change them."""
    owner: list[AnyArray] = [np.empty(2)]
    anchors: tuple[AnyArray, ...] = (owner[0],)
    alone = reference_total(anchors)
    aliases: list[AnyArray] = [owner[0]]
    aliased = reference_total(anchors)
    aliases.clear()
    owner[0] = np.empty(2)[:1]
    anchors = (owner[0], _base_of(owner[0]))
    view_alone = reference_total(anchors)
    aliases.append(_base_of(owner[0]))
    view_aliased = reference_total(anchors)
    if aliased != alone + 1 or view_aliased != view_alone + 1:
        return None
    return alone, view_alone - alone


def _base_of(view: AnyArray) -> AnyArray:
    base = view.base
    assert base is not None
    return base


@functools.lru_cache(maxsize=1)
def calibrated_counts() -> _Counts | None:
    """Return the counts that mean "no other reference" on this interpreter; None where counts are unreliable."""
    if python_objects.references is not None:
        return _EXACT_COUNTS
    if _getrefcount is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    seen = {_measure_counts() for _ in range(20)}  # repeated: adaptive interpreters change after a few runs
    found = seen.pop()
    return None if found is None or seen else _Counts(*found)


def anchors_of(arrays: Iterable[AnyArray]) -> Anchors:
    """Return the anchors of arrays that one owner holds once each (the owner and the returned tuple).

    Arrays over `bytes` that were never writeable have none: they cannot be written.
    """
    held = tuple(arrays)
    counts = calibrated_counts()
    if counts is None:
        return Anchors(held, NEVER_ALONE)
    watched = [array for array in held if not (type(array) is np.ndarray and is_immutable(array))]
    bases: list[Any] = []
    beneath: list[Any] = []
    for array in watched:
        owners = _owners(array) if type(array) is np.ndarray else None
        if owners is None:
            return Anchors(held, NEVER_ALONE)
        bases += owners[:1]
        beneath += owners[1:]
    expected = counts.array * len(watched) + counts.base * (len(bases) + len(beneath))
    return Anchors((*watched, *bases, *beneath), expected, len(beneath))


def _owners(array: AnyArray) -> list[Any] | None:
    """Return the owners of the memory of `array`, nearest first: views of views that pickle and SciPy's prune() make.

    Return None where a reference to the memory would not show in the counts of these objects.
    """
    owners: list[Any] = []
    owner: Any = array
    while type(owner) is np.ndarray and owner.base is not None:
        owner = owner.base
        owners.append(owner)
    if type(owner) is memoryview:
        # Views of one buffer share this object, which no attribute refers to.
        owners += [buffer for buffer in gc.get_referents(owner) if type(buffer).__name__ == "managedbuffer"]
        owner = owner.obj
        owners.append(owner)
        return owners if type(owner) in (bytes, bytearray) and type(owners[-2]).__name__ == "managedbuffer" else None
    is_whole = owner.flags.owndata if type(owner) is np.ndarray else type(owner) in (bytes, bytearray)
    return owners if is_whole and len(owners) <= MAX_OWNERS else None


MAX_OWNERS: Final = 4
"""Maximum number of objects beneath one array of an unpickled matrix: view, memoryview, buffer, bytearray."""


def is_immutable(array: AnyArray) -> bool:
    """Return whether the memory is that of a `bytes` object and no array on the way to it is writeable."""
    owner: Any = array
    while type(owner) is np.ndarray and not owner.flags.writeable:
        owner = owner.base
    return type(owner.obj if type(owner) is memoryview else owner) is bytes


def are_nested(arrays: Iterable[Any]) -> bool:  # Any: an object that the user assigned as an array
    """Return whether the base of one of the arrays is itself a view, or a memoryview."""
    bases = [base for array in arrays if (base := getattr(array, "base", None)) is not None]
    return any(type(base) is memoryview or getattr(base, "base", None) is not None for base in bases)


def n_others_beneath(anchors: Anchors) -> int:
    """Return the number of other references to the objects beneath the bases."""
    counts = calibrated_counts()
    if not anchors.n_beneath or counts is None:
        return 0
    beneath = anchors.arrays[-anchors.n_beneath :]  # the slice adds one reference to each
    return reference_total(beneath) - (counts.base + 1) * len(beneath)


def is_alone(anchors: Anchors, *, n_leased: int = 0) -> bool:
    """Return whether only the owner of `anchors` and `n_leased` internal views can reach the memory, now or later."""
    return (
        anchors.expected != NEVER_ALONE
        and reference_total(anchors.arrays) == anchors.expected + n_leased
        and not any(map(weakref.getweakrefcount, anchors.arrays))  # could bring an alias back: no count shows it
    )


CHUNK_BYTES: Final = 1 << 16
"""Bytes of a chunk (ASP_LOOK_CHUNK in look_api.h), the unit in which a look detects changes."""


class Print:
    """Hashes of the chunks of an array's bytes, in order; only prints of the same process are comparable."""

    __slots__ = ("dtype", "hashes", "n_bytes")

    def __init__(self, dtype: np.dtype[Any], n_bytes: int, hashes: NDArray[Hash]) -> None:
        self.dtype, self.n_bytes, self.hashes = dtype, n_bytes, hashes

    @classmethod
    def of(cls, array: AnyArray) -> Print:
        """Hash a one-dimensional array, by all threads where that pays."""
        whole = np.ascontiguousarray(array)
        return cls(whole.dtype, whole.nbytes, _hasher()(whole))

    def is_comparable(self, other: Print | None) -> bool:
        """Return whether `other` is the print of an array of the same dtype and number of bytes."""
        return other is not None and self.dtype == other.dtype and self.n_bytes == other.n_bytes

    def is_like(self, other: Print | None) -> bool:
        """Return whether `other` is the print of the same bytes, of the same dtype."""
        return other is not None and self.is_comparable(other) and np.array_equal(self.hashes, other.hashes)


@functools.lru_cache(maxsize=1)
def _hasher() -> Any:  # Any: callable of an array, native or not
    """Return the function from a contiguous array to the hashes of its chunks."""
    from autosparse._native import runtime_api

    return runtime_api.chunk_hashes if runtime_api.available else _slow_hashes


def _slow_hashes(array: AnyArray) -> NDArray[Hash]:
    """Hash chunks by blake2b where the native hash is missing; about ten times slower than xxh3."""
    whole = array.view(Byte).data
    parts = (whole[begin : begin + CHUNK_BYTES] for begin in range(0, array.nbytes, CHUNK_BYTES))
    return np.array(
        [int.from_bytes(hashlib.blake2b(part, digest_size=8).digest(), "little") for part in parts], dtype=Hash
    )


def count_references(arrays: list[Any], *, own: int) -> int:
    """Return the number of references to the members of a list and to their bases, less `own`."""
    if _getrefcount is None:
        return 0
    total: int = sum(map(_getrefcount, arrays)) - own
    for array in arrays:
        base = getattr(array, "base", None)
        if base is not None:
            total += _getrefcount(base)
    return total


class _Dummy:
    __slots__ = ("_cell",)

    def __init__(self, cell: object) -> None:
        self._cell = cell


@functools.lru_cache(maxsize=1)
def _held_once_count() -> int | None:
    """Return the count that `is_held_once` sees for an object with one owner; None where an alias does not show."""
    if calibrated_counts() is None or _getrefcount is None:
        return None
    owner = _Dummy(_Dummy(None))
    alone: int = _getrefcount(owner._cell)
    alias = owner._cell
    aliased: int = _getrefcount(owner._cell)
    return alone if alias is not None and aliased == alone + 1 else None


def is_held_once(owner: Any) -> bool:  # Any: an object with the attribute `_cell`
    """Return whether no other reference to ``owner._cell`` exists; False where that cannot be known."""
    return _getrefcount is not None and _getrefcount(owner._cell) == _held_once_count()
