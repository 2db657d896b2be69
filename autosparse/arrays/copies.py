"""Copies of autosparse matrices (`copy`, the module `copy`, `pickle`) and of their rows, and ownership of their arrays.

Conversion between csr and csc by a multithreaded counting sort, and dense results (`toarray`, `diagonal`, `sum`):
arrays, dtypes and the order of entries are those of SciPy's ``csr_tocsc``, rows in order within each column.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sparsetools import csr_diagonal, csr_row_index, csr_todense

from autosparse._native import memory, runtime_api
from autosparse.arrays.plain import NAMES, arrays_of, attributes
from autosparse.config import get_options
from autosparse.core.dtypes import WideIndex
from autosparse.light import takes_as_is
from autosparse.light.matrices import set_state
from autosparse.operands import ownership
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand
from autosparse.operands.native_rows import NATIVE

_ALL: Final = slice(None)


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
        if kind is slice or (kind is tuple and len(key) == 2 and type(key[0]) is type(key[1]) is slice):
            part = self._adjacent_rows(key)
        else:
            part = self._gathered_rows(key) if kind is np.ndarray else None
        return super().__getitem__(key) if part is None else part  # type: ignore[misc]

    def _adjacent_rows(self, key: Any) -> Any:
        """Return the compressed rows that `key`, a slice or two, selects; None for other parts, which SciPy selects.

        SciPy reads the arrays by their attributes, after which products must check them again.
        """
        rows, others = (key, _ALL) if type(key) is slice else key
        rows, others = (others, rows) if self._transposed else (rows, others)
        if others != _ALL or rows.step not in (None, 1) or len(self._shape) != 2:
            return None
        cell, kind = self._cell, type(self)
        indptr, indices, data = map(cell.peek, (INDPTR, INDICES, DATA))
        if not type(indptr) is type(indices) is type(data) is np.ndarray or data.dtype.char not in NATIVE:
            return None
        try:
            first, end, _ = rows.indices(cell.n_major)
        except TypeError:
            return None
        first = min(first, end)
        shape = (self._shape[0], end - first) if self._transposed else (end - first, self._shape[1])
        is_final = self._twin._twin is kind and indptr.shape == (cell.n_major + 1,)  # type: ignore[attr-defined]
        if not is_final or shape == self._shape or not takes_as_is(kind, shape, indptr, indices):
            return None
        at, to = indptr.item(first), indptr.item(end)
        if not 0 <= at <= to <= min(indices.size, data.size):
            cell.validate()  # raises where SciPy's loop would read out of bounds
            return None
        own = memory.copied_all([indices[at:to], data[at:to]], (to - at) * (indices.itemsize + data.itemsize))
        return self._of_own_rows([indptr[first : end + 1] - at, *own], shape)

    def _gathered_rows(self, rows: NDArray[Any]) -> Any:
        """Return the rows of a csr array with these numbers; None for other parts, which SciPy selects."""
        cell, kind = self._cell, type(self)
        indptr, indices, data = map(cell.peek, (INDPTR, INDICES, DATA))
        is_plain = type(indptr) is type(indices) is type(data) is np.ndarray and data.dtype.char in NATIVE
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
        return self._of_own_rows(own, shape)

    def _of_own_rows(self, arrays: list[NDArray[Any]], shape: tuple[int, ...]) -> Any:
        """Return a matrix of this class over new arrays, which hold compressed rows of this one."""
        made: Any = object.__new__(type(self))
        cell = self._cell
        is_valid = cell._checked and cell.rows is not None and cell.copied_bytes is not None
        made._cell = Operand.over(arrays[INDPTR].size - 1, cell.n_minor, arrays, is_valid=is_valid)
        made._cell.copied_bytes = 0
        set_state(made, shape)
        return made

    def tocoo(self, *copy: bool, **how: bool) -> Any:
        """Return the entries by coordinates, as SciPy's method does, without spare room behind the last entry."""
        return super(Copies, self._without_room()).tocoo(*copy, **how)  # type: ignore[misc]

    def nonzero(self) -> Any:
        """Return the rows and columns of entries that are not zero, as SciPy's method does, without spare room."""
        return super(Copies, self._without_room()).nonzero()  # type: ignore[misc]

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the rows, as SciPy's does: arrays of one dimension, or matrices of one row."""
        indptr, indices, values = map(self._cell.peek, (INDPTR, INDICES, DATA))
        is_plain = type(indptr) is type(indices) is type(values) is np.ndarray and values.dtype.char in NATIVE
        is_final = self._twin._twin is type(self) and not self._transposed  # type: ignore[attr-defined]
        if is_plain and is_final and takes_as_is(type(self), self._shape, indptr, indices):
            return self._rows()
        return super().__iter__()  # type: ignore[misc,no-any-return]

    def _rows(self) -> Iterator[Any]:
        """Yield the rows of a csr object, each over copies of its entries."""
        cell, n_cols, start = self._cell, self._shape[1], 0
        is_array = isinstance(self, sps.sparray)
        shape = (n_cols,) if is_array else (1, n_cols)
        starts = cell.peek(INDPTR)
        for end in starts[1:].tolist():
            indices, values = (cell.peek(field)[start:end].copy() for field in (INDICES, DATA))
            row: Any = object.__new__(type(self))
            row._cell = own = Operand.over(
                1, n_cols, [np.array((0, end - start), starts.dtype), indices, values], is_valid=False
            )
            set_state(row, shape)
            own.finish(1, n_cols, flat=is_array)
            yield row
            start = end

    def _without_room(self) -> Any:
        """Return this object, or another one without spare room behind the last entry.

        SciPy's conversions to coordinates leave the rows of such elements uninitialised.
        """
        if len(self._cell.peek(INDICES)) == len(self._cell.peek(DATA)) == self._cell.nnz:
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


_MINOR_AXES = ((1, -1), (0, -2))
"""Axes along which the compressed rows are summed: for csr, for csc."""

Compressed = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # indptr, indices, data


def transposed_rows(cell: Operand) -> Compressed | None:
    """Return (indptr, indices, data) of the transpose of the rows in `cell`, or None where SciPy should convert.

    Raises MemoryError where memory is short, StructureError for indices out of bounds.
    """
    rows = cell.rows or cell.validate()
    if rows.dtype is None:
        return None
    indptr, indices, data = (cell.peek(field) for field in (INDPTR, INDICES, DATA))
    threads, shape = get_options().threads or runtime_api.max_threads(), (rows.n_major, rows.n_minor)
    made = runtime_api.transpose((indptr, indices, data), shape, threads=threads, room=memory.empty_output)
    t_indptr, t_indices, t_data, _ = made
    assert t_data is not None
    return t_indptr, t_indices, t_data


class DenseResults:
    """Mixin with ``A.toarray()``, ``A.diagonal()`` and ``A.sum()``, placed before SciPy's class.

    SciPy's compiled loops are called directly on the arrays, which therefore do not count as exported. Calls with
    further arguments go to SciPy's methods.
    """

    __slots__ = ()

    _cell: Operand
    _shape: tuple[int, ...]
    _transposed: ClassVar[bool]

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return the matrix as an ndarray, as SciPy's `toarray` does."""
        arrays = self._cell._arrays
        if order is not None or out is not None or len(self._shape) != 2 or type(arrays[DATA]) is not np.ndarray:
            return super().toarray(order=order, out=out)  # type: ignore[misc]
        dense = np.zeros(self._shape, arrays[DATA].dtype, "F" if self._transposed else "C")
        rows = dense.T if self._transposed else dense
        csr_todense(*rows.shape, *arrays, rows)
        return dense

    def diagonal(self, k: int = 0) -> Any:
        """Return the k-th diagonal of the matrix, as SciPy's `diagonal` does."""
        arrays = self._cell._arrays
        is_plain = type(arrays[DATA]) is np.ndarray and arrays[DATA].dtype.char in NATIVE
        if k != 0 or len(self._shape) != 2 or not is_plain:
            return super().diagonal(k)  # type: ignore[misc]
        diagonal = np.empty(min(self._shape), arrays[DATA].dtype)
        csr_diagonal(0, self._cell.n_major, self._cell.n_minor, *arrays, diagonal)
        return diagonal

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum over all entries or along an axis, as SciPy's `sum` does."""
        values = self._cell._arrays[DATA]
        is_plain = dtype is None and out is None and type(values) is np.ndarray
        # Summing duplicates separately changes only sums of booleans and of integers that overflow.
        if is_plain and values.dtype.char in NATIVE and 0 < values.size == self._cell.nnz:
            if axis is None:
                return values.sum()
            if axis in _MINOR_AXES[self._transposed] and len(self._shape) == 2 and isinstance(self, sps.sparray):
                return self._sums_of_rows(values)
        return super().sum(axis=axis, dtype=dtype, out=out)  # type: ignore[misc]

    def _sums_of_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of each compressed row, added in SciPy's order."""
        starts = self._cell._arrays[INDPTR]
        filled = (starts[1:] != starts[:-1]).nonzero()[0]
        sums = np.zeros(starts.size - 1, values.dtype)
        sums[filled] = np.add.reduceat(values, starts[filled])
        return sums
