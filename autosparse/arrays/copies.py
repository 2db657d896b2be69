"""Copies of autosparse matrices (`copy`, the module `copy`, `pickle`), their parts, and ownership of their arrays.

Conversion between csr and csc by a multithreaded counting sort: arrays, dtypes and the order of entries are those of
SciPy's ``csr_tocsc``, rows in order within each column.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse import light
from autosparse._native import memory, runtime_api
from autosparse.arrays.plain import NAMES, arrays_of, check_starts
from autosparse.config import get_options
from autosparse.light import INT32, PLAIN_TYPES, VERSION_OF_SCIPY, takes_as_is
from autosparse.light.adoption import attributes, set_state
from autosparse.operands import ownership
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand

EXPANDED_FROM_ENTRIES: Final = 1 << 12
"""Minimum number of entries for which the runtime writes the rows of a COO matrix whose constructor is SciPy's."""


@functools.cache
def _state_of_coordinates() -> tuple[tuple[str, Any], ...] | None:
    """Return the attributes, besides shape and entries, of the COO array that `tocoo` of SciPy's csr arrays makes.

    Return None in versions of SciPy whose method copies the arrays unless told otherwise.
    """
    if sps.csr_array.tocoo.__defaults__ != (False,):
        return None
    made = vars(sps.csr_array((np.ones(1), np.zeros(1, INT32), np.array([0, 1], INT32)), shape=(1, 1)).tocoo())
    own = {"_shape", "coords", "data", "has_canonical_format"}
    return tuple((name, value) for name, value in made.items() if name not in own) if own <= made.keys() else None


class Copies:
    """Mixin for `A.copy()`, the module `copy` and `pickle`, placed before SciPy's class."""

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _transposed: ClassVar[bool]
    _twin: ClassVar[type]

    @property
    def owns_arrays(self) -> bool:
        """Return whether the matrix owns its arrays: no caller passed them in, or no other object refers to them.

        A write to the object that the matrix was made from then has no effect on the matrix, and a tuned product need
        not check for it. Arrays that are read from the matrix, like ``A.data``, stay its own.

        >>> m = sps.eye_array(3, format="csr")
        >>> asp.csr(m).owns_arrays, asp.csr(m, copy=False).owns_arrays
        (True, False)
        """
        return ownership.owns_arrays(self._cell)

    def copy(self) -> Any:
        """Return a matrix that owns copies of the arrays, as SciPy's `copy` does, on all threads."""
        made: Any = object.__new__(type(self))
        is_final = self._twin._twin is type(self)  # type: ignore[attr-defined]
        arrays = map(self._cell.peek, (INDPTR, INDICES, DATA))
        if is_final and made._adopt(self._shape, *arrays, copy=True):
            made._cell.source = weakref.ref(self._cell)
            return made
        return super().copy()  # type: ignore[misc]

    def __getitem__(self, key: Any) -> Any:
        cell, part_of = self._cell, light.part_of or light.selector()
        part = part_of(self, key, tuple(cell._arrays), cell.validate) if part_of else None
        if part is None:
            check_starts(cell)
            return super().__getitem__(key)  # type: ignore[misc]
        return self._of_own_rows(*part) if type(part) is tuple else part

    def _of_own_rows(self, shape: tuple[int, int], arrays: list[NDArray[Any]], is_sound: bool) -> Any:
        """Return a matrix of this class over arrays, copied if they are views, with compressed rows of this one.

        `is_sound`: the indices are known to be within bounds.
        """
        if arrays[INDICES].base is not None:
            arrays[1:] = memory.copied_all(arrays[1:], arrays[INDICES].nbytes + arrays[DATA].nbytes)
        made: Any = object.__new__(type(self))
        cell = self._cell
        is_valid = is_sound or (cell._checked and cell.rows is not None and cell.copied_bytes is not None)
        made._cell = Operand.over(arrays[INDPTR].size - 1, shape[not self._transposed], arrays, is_valid=is_valid)
        made._cell.copied_bytes = 0
        set_state(made, shape)
        return made

    def _with_data(self, data: Any, copy: bool = True) -> Any:
        """Return a matrix with copies of this one's index arrays and with other values, as SciPy's method does.

        SciPy's method reads the arrays by their attributes, after which products check them again in both matrices.
        """
        cell, kind, n_replaced = self._cell, type(self), self._cell.n_replaced
        arrays = indptr, indices, _ = cell.peek(INDPTR), cell.peek(INDICES), data
        is_plain = copy and kind._twin._twin is kind and all(type(array) is np.ndarray for array in arrays)  # type: ignore[attr-defined]
        is_plain = is_plain and data.dtype.char in PLAIN_TYPES and data.dtype.isnative and data.base is None
        if not (is_plain and takes_as_is(kind, self._shape, indptr, indices) and _are_exact(cell.n_major, *arrays)):
            return super()._with_data(data, copy=copy)  # type: ignore[misc]
        made: Any = object.__new__(kind)
        made._cell = Operand.over(cell.n_major, cell.n_minor, [indptr.copy(), indices.copy(), data], is_valid=False)
        is_same = cell.n_replaced == n_replaced  # else another thread has replaced an array meanwhile
        made._cell._checked = is_same and cell._checked and cell.copied_bytes is not None
        set_state(made, self._shape)
        return made

    def tocoo(self, *copy: bool, **how: bool) -> Any:
        """Return the matrix in COO format, as SciPy's method does, without array elements behind the last entry."""
        whole = self._without_room()
        made = None if copy or how or self._transposed else whole._by_coordinates()
        return super(Copies, whole).tocoo(*copy, **how) if made is None else made  # type: ignore[misc]

    def _by_coordinates(self) -> Any:
        """Return the COO matrix of a csr matrix over its arrays, as SciPy does; None where SciPy should make it.

        SciPy's loop over the rows takes most of the time of its method, of small matrices the constructor's checks.
        """
        arrays = indptr, indices, values = self._cell.peek(INDPTR), self._cell.peek(INDICES), self._cell.peek(DATA)
        is_plain = all(type(array) is np.ndarray for array in arrays) and values.dtype.char in PLAIN_TYPES
        is_plain = is_plain and values.dtype.isnative and indices.dtype == INT32 and indptr.flags.c_contiguous
        is_plain = is_plain and takes_as_is(type(self), self._shape, indptr, indices) and runtime_api.available
        is_array = isinstance(self, sps.sparray)  # the constructor of matrix classes warns in later versions of SciPy
        state = _state_of_coordinates() if is_plain and (is_array or indices.size >= EXPANDED_FROM_ENTRIES) else None
        if state is None or not _are_exact(self._cell.n_major, *arrays):
            return None
        rows = memory.empty_output(indices.shape, indices.dtype)
        threads = get_options().threads or runtime_api.max_threads()
        addresses = runtime_api.address_of(indptr), indices.size, runtime_api.address_of(rows)
        runtime_api.lib.asp_entry_rows(indptr.size - 1, *addresses, threads)
        kind, values, places = self._coo_container, self.data, (rows, self.indices)  # type: ignore[attr-defined]
        made: Any = object.__new__(kind) if is_array else kind((values, places), self._shape, dtype=values.dtype)
        made.has_canonical_format = self.has_canonical_format  # type: ignore[attr-defined]
        if is_array:
            made._shape, made.coords, made.data = self._shape, places, values
            for name, value in state:
                setattr(made, name, value)
        return made

    def nonzero(self) -> Any:
        """Return the rows and columns of the nonzero entries, as SciPy's method does."""
        return super(Copies, self._without_room()).nonzero()  # type: ignore[misc]

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rows, as SciPy's does: arrays of one dimension, or matrices of one row."""
        indptr, indices, values = map(self._cell.peek, (INDPTR, INDICES, DATA))
        is_plain = type(indptr) is type(indices) is type(values) is np.ndarray and values.dtype.char in PLAIN_TYPES
        is_final = self._twin._twin is type(self) and not self._transposed  # type: ignore[attr-defined]
        if is_plain and is_final and values.ndim == 1 and takes_as_is(type(self), self._shape, indptr, indices):
            return self._rows()
        return super().__iter__()  # type: ignore[misc,no-any-return]

    def _rows(self) -> Iterator[Any]:
        """Yield the rows of a csr object, each over copies of its entries."""
        cell, n_cols, start = self._cell, self._shape[1], 0
        check_starts(cell)
        is_flat = isinstance(self, sps.sparray) and VERSION_OF_SCIPY >= (1, 15)
        shape = (n_cols,) if is_flat else (1, n_cols)
        starts = cell.peek(INDPTR)
        for end in starts[1:].tolist():
            indices, values = (cell.peek(field)[start:end].copy() for field in (INDICES, DATA))
            row: Any = object.__new__(type(self))
            row._cell = own = Operand.over(
                1, n_cols, [np.array((0, end - start), starts.dtype), indices, values], is_valid=False
            )
            set_state(row, shape)
            own.finish(1, n_cols, flat=is_flat)
            yield row
            start = end

    def _without_room(self) -> Any:
        """Return this object, or one whose arrays end with the last entry.

        SciPy's conversions to coordinates leave the rows of such elements uninitialised.
        """
        self._cell.check_bounds()
        indptr, indices, data = self._cell._arrays
        if len(indices) != len(data) or len(indices) == indptr[-1]:
            return self
        whole = self._same()
        whole.prune()
        return whole

    def _same(self) -> Any:
        """Return another object over the same operand. The two separate when either is given new arrays."""
        cell = self._cell
        cell.shared, cell.unvalidated = True, False
        copied: Any = object.__new__(type(self))
        copied._cell = cell
        set_state(copied, self._shape)
        return copied

    def tocsc(self, copy: bool = False) -> Any:
        """Return the matrix as csc, as SciPy's `tocsc` does; several threads convert from csr."""
        made = None if self._transposed else self._regrouped(self._csc_container)  # type: ignore[attr-defined]
        return super().tocsc(copy=copy) if made is None else made  # type: ignore[misc]

    def tocsr(self, copy: bool = False) -> Any:
        """Return the matrix as csr, as SciPy's `tocsr` does; several threads convert from csc."""
        made = self._regrouped(self._csr_container) if self._transposed else None  # type: ignore[attr-defined]
        return super().tocsr(copy=copy) if made is None else made  # type: ignore[misc]

    def _regrouped(self, container: Any) -> Any:
        """Return the same matrix in the class `container` of the other format; None where SciPy should convert."""
        rows = transposed_rows(self._cell)
        if rows is None:
            return None
        made = container._of_rows(self._shape, rows)
        made.has_sorted_indices = True
        return made

    def _freeze(self) -> None:
        """Record the caller's declaration that nobody writes to the arrays, for this object alone."""
        if self._cell.shared:
            self._cell = self._cell.share()  # type: ignore[misc]  # a slot of the class that this is mixed into
        self._cell.freeze()

    def _restore(self, state: dict[str, Any]) -> None:
        """Set this object to `state`: SciPy's attributes, the three arrays included."""
        self._cell = cell = Operand()  # type: ignore[misc]
        cell._arrays = [state.pop(name) for name in NAMES]  # the arrays are not validated yet
        own = attributes(self)
        own.clear()
        own.update(state)
        self._finish()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that SciPy pickles; plans and packed copies are left out."""
        return {**attributes(self), **arrays_of(self)}

    def __copy__(self) -> Any:
        """Return another matrix over the same arrays, as `copy.copy` does for SciPy's classes."""
        copied: Any = object.__new__(type(self))
        copied._restore(self.__getstate__())
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Return another matrix over copies of the arrays."""
        memo[id(self)] = copied = object.__new__(type(self))
        state = {**attributes(self), **{name: self._cell.peek(field) for field, name in enumerate(NAMES)}}
        copied._restore(copy.deepcopy(state, memo))
        copied._cell.copied_bytes = sum(copied._cell.peek(field).nbytes for field in range(3))
        return copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._restore(dict(state))


def _are_exact(n_major: int, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> bool:
    """Return whether the arrays contain as many entries as the row starts count, and no more."""
    return indptr.shape == (n_major + 1,) and not indptr.item(0) and indices.shape == data.shape == (indptr.item(-1),)


Compressed = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # indptr, indices, data


def transposed_rows(cell: Operand) -> Compressed | None:
    """Return (indptr, indices, data) of the transpose of the rows in `cell`, or None where SciPy should convert.

    Raises MemoryError where memory is short, StructureError for indices out of bounds.
    """
    rows, arrays = cell.checked_arrays()
    if rows.dtype_code < 0:
        cell.check_bounds()
        return None
    threads, shape = get_options().threads or runtime_api.max_threads(), (rows.n_major, rows.n_minor)
    made = runtime_api.transpose(arrays, shape, threads=threads, room=memory.empty_output)
    t_indptr, t_indices, t_data, _ = made
    assert t_data is not None
    return t_indptr, t_indices, t_data
