"""Ownership of the arrays that a matrix is made over, and copies of arrays that belong to the caller.

`copy` of `autosparse.csr` has three values: None (the matrix owns its arrays: the caller's are copied once), False
(they are shared wherever SciPy shares them) and True (everything is copied). Memory that cannot be written through
NumPy is shared under None as well: a read-only map stays a map, and `bytes` never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import memory
from autosparse.errors import RoomError
from autosparse.operands.mutation_guard import is_immutable

if TYPE_CHECKING:
    from typing import Protocol

    from autosparse.operands.csr import Operand

    class Holder(Protocol):
        """Protocol of an operand, or of the entries of a tensor."""

        copied_bytes: int | None

        @property
        def is_alone(self) -> bool:
            """Return whether no other object can reach the arrays now."""


AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes

_ALWAYS_NEW: Final = (list, int, float, complex, bool, np.generic, range, type(None))
"""Types from which NumPy makes a new array. An array made from a tuple or another type may share memory."""


def copies_of_rows(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, n_minor: int, *, everything: bool
) -> tuple[list[AnyArray], int | None, bool]:
    """Copy the three arrays of a matrix as `copies_of` does, and return whether the structure is known to be in bounds.

    Small arrays are copied directly in half a microsecond. Larger ones are checked by the threads that copy them.
    """
    n_bytes = indptr.nbytes + indices.nbytes + data.nbytes
    if everything or (indptr.flags.writeable and indices.flags.writeable and data.flags.writeable):
        if n_bytes < memory.ALL_THREADS_FROM_BYTES:
            return [indptr.copy(), indices.copy(), data.copy()], n_bytes, False
        with _room_for(n_bytes):
            made = memory.copied_rows(indptr, indices, data, n_minor)
        if made is not None:
            return made[0], n_bytes, made[1]
    return *copies_of((indptr, indices, data), everything=everything), False


@contextmanager
def _room_for(n_bytes: int) -> Iterator[None]:
    """Raise RoomError before copies of `n_bytes` that do not fit into memory, or where allocating them fails."""
    from autosparse.operands import room  # small matrices do without it

    if n_bytes >= room.CHECKED_FROM_BYTES:
        room.require(n_bytes)
    try:
        yield
    except MemoryError:
        raise RoomError.copy(needed_bytes=n_bytes, available_bytes=None) from None


def copies_of(arrays: Sequence[AnyArray], *, everything: bool) -> tuple[list[AnyArray], int | None]:
    """Return the arrays with copies in place of those that can be written, or of all if `everything`, and their bytes.

    The bytes are None if an array that is not copied may change (a read-only map whose file is written).
    Raises RoomError, before anything is allocated, where the copies do not fit into memory.
    """
    own = [array for array in arrays if everything or array.flags.writeable or not is_fixed(array)]
    copied_bytes = sum(array.nbytes for array in own)
    with _room_for(copied_bytes):
        copies = memory.copied_all(own, copied_bytes)
    if len(own) == len(arrays):
        return copies, copied_bytes
    made = {id(array): copy for array, copy in zip(own, copies, strict=True)}
    is_owned = all(id(array) in made or is_immutable(array) for array in arrays)
    return [made.get(id(array), array) for array in arrays], copied_bytes if is_owned else None


def is_fixed(array: AnyArray) -> bool:
    """Return whether neither this array nor any that it is a view of can be made writeable: maps, `bytes`."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        if owner.base is None:
            return False  # it owns its memory, so its flag can be set
        owner = owner.base
    return is_immutable(array) or _is_read_only(owner)


def _is_read_only(owner: Any) -> bool:  # Any: an object that lends memory to an array
    try:
        with memoryview(owner) as view:
            if not view.readonly:
                return False
            beneath = view.obj
    except (TypeError, ValueError, BufferError):  # a tensor, or an object with __array_interface__
        return False
    return beneath is owner or _is_read_only(beneath)


def owns_arrays(holder: Holder) -> bool:
    """Return whether no caller passed the arrays in, or no other object holds them any more."""
    return holder.copied_bytes is not None or holder.is_alone


def take_over(operand: Operand, given: Given, *, everything: bool) -> None:
    """Let a new matrix own its arrays: copy those that belong to the caller. Raises RoomError."""
    places = [place for place in range(3) if given.holds(operand.peek(place))]
    copies, copied_bytes = copies_of([operand.peek(place) for place in places], everything=everything)
    for place, array in zip(places, copies, strict=True):
        operand.rebind(place, array)
    operand.copied_bytes, operand.unvalidated = copied_bytes, False


class Given:
    """Arrays inside the object that a matrix was made from."""

    def __init__(self, obj: Any) -> None:  # Any: an object that `csr` takes
        self._arrays: list[AnyArray] = []
        self._is_known = True
        from scipy.sparse import issparse  # products of torch tensors, which import this module, do without

        if issparse(obj):
            self._is_known = type(obj).__module__.startswith(("scipy.sparse.", "autosparse"))
            self._note(_parts(obj))
        elif isinstance(obj, tuple):
            self._note(obj)

    def _note(self, parts: Iterable[Any]) -> None:
        for part in parts:
            if isinstance(part, np.ndarray):
                self._arrays.append(part)
            elif isinstance(part, tuple):
                self._note(part)
            elif not isinstance(part, _ALWAYS_NEW):
                self._is_known = False

    def holds(self, array: AnyArray) -> bool:
        """Return whether `array` may lie in memory of the caller."""
        return not self._is_known or any(np.may_share_memory(array, one) for one in self._arrays)


def _parts(obj: Any) -> Iterable[Any]:
    """Return the arrays of a sparse object that conversions may share: none for the formats lil and dok."""
    names = {"coo": ("coords", "data"), "dia": ("data", "offsets")}.get(obj.format, ("data", "indices", "indptr"))
    if obj.format in ("lil", "dok"):
        return ()
    if names[0] == "coords" and not hasattr(obj, "coords"):  # SciPy 1.13
        names = ("row", "col", "data")
    return [getattr(obj, name) for name in names]
