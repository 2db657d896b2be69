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
from scipy.sparse._sparsetools import csr_row_index, expandptr, get_csr_submatrix

from autosparse._native import memory, runtime_api
from autosparse.arrays.plain import NAMES, VERSION_OF_SCIPY, arrays_of, check_starts, constructed
from autosparse.config import get_options
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.light import VALUE_TYPES, takes_as_is
from autosparse.light.adoption import attributes, set_state
from autosparse.operands import ownership
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand

_ALL: Final = slice(None)
_PLAIN_TYPES: Final = VALUE_TYPES - frozenset("qQ")
"""Type codes of values for which SciPy's results have the type of the values; for synonyms of int64 some have not."""
_ADJACENT: Final = frozenset({slice, int, NarrowIndex, WideIndex})
"""Types of keys that select one or adjacent rows or columns."""
_INT32: Final = np.dtype(NarrowIndex)


def _range(key: Any, extent: int) -> tuple[int, int] | None:
    """Return the first number that `key`, a number or a slice, selects and the end; None for steps, or out of range."""
    if type(key) is not slice:
        at = int(key) + (extent if key < 0 else 0)
        return (at, at + 1) if 0 <= at < extent else None
    if key.step not in (None, 1):
        return None
    try:
        first, end, _ = key.indices(extent)
    except TypeError:
        return None
    return min(first, end), end


@functools.cache
def _line_state() -> tuple[tuple[str, Any], ...] | None:
    """Return the attributes, besides shape and entries, of the object that SciPy's arrays return for one row.

    Return None in versions of SciPy where it is not a one-dimensional array of coordinates.
    """
    line = constructed(sps.csr_array, (2, 2), (2, 2))[0]
    own = {"_shape", "coords", "data"}
    if not isinstance(line, sps.coo_array) or line.ndim != 1 or not own <= vars(line).keys():
        return None
    return tuple((name, value) for name, value in vars(line).items() if name not in own)


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
        """Return a matrix that owns copies of the arrays, as SciPy's `copy` does; all threads copy."""
        made: Any = object.__new__(type(self))
        is_final = self._twin._twin is type(self)  # type: ignore[attr-defined]
        arrays = map(self._cell.peek, (INDPTR, INDICES, DATA))
        if is_final and made._adopt(self._shape, *arrays, copy=True):
            made._cell.source = weakref.ref(self._cell)
            return made
        return super().copy()  # type: ignore[misc]

    def __getitem__(self, key: Any) -> Any:
        kind = type(key)
        if kind is tuple:
            part = self._block(*key) if len(key) == 2 and type(key[1]) in _ADJACENT else None
        elif kind is np.ndarray:
            part = self._gathered_rows(key)
        else:
            part = self._block(key, _ALL)
        if part is not None:
            return part
        check_starts(self._cell)
        return super().__getitem__(key)  # type: ignore[misc]

    def _block(self, rows: Any, cols: Any) -> Any:
        """Return the element, row, column or block that two numbers or slices select; None for SciPy to select.

        SciPy reads the arrays by their attributes, after which products must check them again.
        """
        full = self._shape
        if type(rows) not in _ADJACENT or type(cols) not in _ADJACENT or len(full) != 2:
            return None
        down, across = _range(rows, full[0]), _range(cols, full[1])
        if down is None or across is None:
            return None
        shape = (down[1] - down[0], across[1] - across[0])
        part = None if shape == full else self._entries(shape, down, across)
        if part is None:
            return None
        is_row, is_column = type(rows) is not slice, type(cols) is not slice
        if is_row and is_column:
            return part[DATA].sum(dtype=part[DATA].dtype)
        if (is_row or is_column) and isinstance(self, sps.sparray):
            return self._line(part, shape[is_row], by_minor=is_row is not self._transposed)
        n_minor = shape[not self._transposed]
        return self._of_own_rows(part, shape, n_minor, is_sound=n_minor != self._cell.n_minor)

    def _entries(
        self, shape: tuple[int, int], down: tuple[int, int], across: tuple[int, int]
    ) -> list[NDArray[Any]] | None:
        """Return new (indptr, indices, data) of the block of `shape` in these rows and columns; None for SciPy.

        A block of whole compressed rows contains their entries as they are; another one has indices within bounds.
        """
        cell, kind = self._cell, type(self)
        indptr, indices, data = arrays = tuple(cell._arrays)
        is_plain = type(indptr) is type(indices) is type(data) is np.ndarray and data.dtype.char in _PLAIN_TYPES
        is_final = self._twin._twin is kind  # type: ignore[attr-defined]
        is_whole = is_plain and is_final and indptr.shape == (cell.n_major + 1,)
        if not is_whole or not takes_as_is(kind, shape, indptr, indices):
            return None
        major, minor = (across, down) if self._transposed else (down, across)
        at, to = indptr.item(major[0]), indptr.item(major[1])
        if not 0 <= at <= to <= min(indices.size, data.size):
            cell.validate()  # raises where SciPy's loop would read out of bounds
            return None
        if minor != (0, cell.n_minor):
            return list(get_csr_submatrix(cell.n_major, cell.n_minor, *arrays, *major, *minor))
        own = memory.copied_all([indices[at:to], data[at:to]], (to - at) * (indices.itemsize + data.itemsize))
        return [indptr[major[0] : major[1] + 1] - at, *own]

    def _line(self, part: list[NDArray[Any]], length: int, *, by_minor: bool) -> Any:
        """Return the row or column `part` as SciPy's arrays do: with one dimension, by coordinates.

        `by_minor`: it is one compressed row. Otherwise its elements are in different compressed rows.
        """
        state = _line_state()
        indptr, indices, data = part
        if state is None or indices.dtype != _INT32:
            return None
        if not by_minor:
            expandptr(indptr.size - 1, indptr, indices)
        line: Any = object.__new__(self._coo_container)  # type: ignore[attr-defined]
        line._shape, line.coords, line.data = (length,), (indices,), data
        for name, value in state:
            setattr(line, name, value)
        return line

    def _gathered_rows(self, rows: NDArray[Any]) -> Any:
        """Return the rows of a csr array with these numbers; None for other parts, which SciPy selects."""
        cell, kind = self._cell, type(self)
        indptr, indices, data = map(cell.peek, (INDPTR, INDICES, DATA))
        is_plain = type(indptr) is type(indices) is type(data) is np.ndarray and data.dtype.char in _PLAIN_TYPES
        is_one_by_one = rows.ndim == 1 and rows.dtype.kind == "i" and rows.size > 0
        if not is_plain or not is_one_by_one or self._transposed or len(self._shape) != 2:
            return None
        n, shape = cell.n_major, (rows.size, self._shape[-1])
        is_final = self._twin._twin is kind and indptr.shape == (n + 1,)  # type: ignore[attr-defined]
        if not is_final or not takes_as_is(kind, shape, indptr, indices):
            return None
        least = rows.min()
        if least < -n or rows.max() >= n:
            return None
        chosen = rows.astype(indptr.dtype)
        if least < 0:
            chosen[chosen < 0] += n
        starts, ends = indptr[chosen], indptr[chosen + 1]
        lengths = ends - starts
        nnz = int(lengths.sum(dtype=WideIndex))
        is_sound = starts.min() >= 0 and lengths.min() >= 0 and ends.max() <= min(indices.size, data.size)
        if not is_sound or nnz > np.iinfo(indptr.dtype).max:
            cell.validate()
            return None
        own_indptr = np.zeros(rows.size + 1, indptr.dtype)
        np.cumsum(lengths, out=own_indptr[1:])
        own = [own_indptr, np.empty(nnz, indices.dtype), np.empty(nnz, data.dtype)]
        csr_row_index(rows.size, chosen, indptr, indices, data, *own[1:])
        return self._of_own_rows(own, shape, cell.n_minor)

    def _of_own_rows(
        self, arrays: list[NDArray[Any]], shape: tuple[int, ...], n_minor: int, *, is_sound: bool = False
    ) -> Any:
        """Return a matrix of this class over new arrays, which hold (parts of) compressed rows of this one.

        `is_sound`: the indices are known to be within bounds.
        """
        made: Any = object.__new__(type(self))
        cell = self._cell
        is_valid = is_sound or (cell._checked and cell.rows is not None and cell.copied_bytes is not None)
        made._cell = Operand.over(arrays[INDPTR].size - 1, n_minor, arrays, is_valid=is_valid)
        made._cell.copied_bytes = 0
        set_state(made, shape)
        return made

    def tocoo(self, *copy: bool, **how: bool) -> Any:
        """Return the entries by coordinates, as SciPy's method does, without spare room behind the last entry."""
        return super(Copies, self._without_room()).tocoo(*copy, **how)  # type: ignore[misc]

    def nonzero(self) -> Any:
        """Return the rows and columns of entries that are not zero, as SciPy's method does, without spare room."""
        whole = self._without_room()
        return super().nonzero() if whole is self else whole.nonzero()  # type: ignore[misc]

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rows, as SciPy's does: arrays of one dimension, or matrices of one row."""
        indptr, indices, values = map(self._cell.peek, (INDPTR, INDICES, DATA))
        is_plain = type(indptr) is type(indices) is type(values) is np.ndarray and values.dtype.char in _PLAIN_TYPES
        is_final = self._twin._twin is type(self) and not self._transposed  # type: ignore[attr-defined]
        if is_plain and is_final and takes_as_is(type(self), self._shape, indptr, indices):
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
        """Return this object, or another one without spare room behind the last entry.

        SciPy's conversions to coordinates leave the rows of such elements uninitialised.
        """
        check_starts(self._cell)
        indptr, indices, data = self._cell._arrays
        if len(indices) == len(data) == indptr[-1]:
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


Compressed = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # indptr, indices, data


def transposed_rows(cell: Operand) -> Compressed | None:
    """Return (indptr, indices, data) of the transpose of the rows in `cell`, or None where SciPy should convert.

    Raises MemoryError where memory is short, StructureError for indices out of bounds.
    """
    rows, arrays = cell.checked_arrays()
    if rows.dtype_code < 0:
        return None
    threads, shape = get_options().threads or runtime_api.max_threads(), (rows.n_major, rows.n_minor)
    made = runtime_api.transpose(arrays, shape, threads=threads, room=memory.empty_output)
    t_indptr, t_indices, t_data, _ = made
    assert t_data is not None
    return t_indptr, t_indices, t_data
