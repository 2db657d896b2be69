"""Parts of compressed rows that numbers, slices and arrays of numbers select, without SciPy's checks.

SciPy's methods take 15 to 70 us for a row of 300 entries, and read the arrays by their attributes, after which products
check them again. Keys that are not plain are left to SciPy.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray
from scipy.sparse._sparsetools import csr_row_index, expandptr, get_csr_submatrix

from autosparse import forking, light
from autosparse.light import INT32, INT64, PLAIN_TYPES, UNSIGNED, takes_as_is
from autosparse.light.adoption import constructed

Arrays = tuple[Any, Any, Any]  # indptr, indices and data; Any: what the user assigned
Part = tuple[tuple[int, int], list[NDArray[Any]], bool]
"""Shape and (indptr, indices, data) of a part, and whether its indices are within bounds whatever those of A are.

Indices and data of adjacent whole rows are views of the arrays of A.
"""

NARROW_FROM_ENTRIES: Final = 1 << 15
NARROW_SHARE: Final = 64
"""Divisor of the number of columns that at most so many selected ones must not exceed for `_narrow` to be faster."""
COPIES_FROM_ENTRIES: Final = 1 << 13
"""Minimum number of entries of a matrix for which `sparse_results` is imported, which takes 0.2 ms."""
_ALL: Final = slice(None)
_ADJACENT: Final = frozenset({slice, int, INT32.type, INT64.type})
"""Types of keys that select one or adjacent rows or columns."""
_BOUNDS: Final = frozenset({type(None), int, INT32.type, INT64.type})
"""Types of the bounds of such a slice."""


def part_of(made: Any, key: Any, arrays: Arrays, refuse: Callable[[], object]) -> Any:
    """Return the element or row that `key` selects of the matrix `made` over `arrays`, or a `Part`.

    Return None for keys that SciPy should interpret. `refuse` is called where SciPy's loops would read out of bounds.
    """
    pair: tuple[Any, Any] = key if type(key) is tuple and len(key) == 2 else (key, _ALL)
    down, across = pair
    if type(down) is slice and not made._transposed:
        across = _as_slice(across, made._shape[-1])
    elif type(across) is slice and made._transposed:
        down = _as_slice(down, made._shape[0])
    chosen, others = (across, down) if made._transposed else (down, across)
    has_step = type(chosen) is slice and chosen.step not in (None, 1)
    if has_step and getattr(arrays[1], "size", 0) < COPIES_FROM_ENTRIES:
        return None
    if type(down) in _ADJACENT and type(across) in _ADJACENT and not has_step:
        return _block(made, (down, across), arrays, refuse)
    if type(others) is not slice or others != _ALL or len(made._shape) != 2:
        return None
    numbers = _numbers(chosen, made._swap(made._shape)[0])
    return None if numbers is None else _gathered(made, numbers, arrays, refuse)


def _numbers(chosen: Any, extent: int) -> NDArray[Any] | range | None:
    """Return the numbers of at least one row that `chosen` selects of so many: negative ones count from the end.

    Return None for keys that SciPy should interpret.
    """
    if type(chosen) is slice:
        if not {type(chosen.start), type(chosen.stop), type(chosen.step)} <= _BOUNDS or chosen.step == 0:
            return None
        return range(*chosen.indices(extent)) or None
    if type(chosen) is list and set(map(type, chosen)) == {int}:
        chosen = np.asarray(chosen)
    if type(chosen) is not np.ndarray or chosen.ndim != 1:
        return None
    if chosen.dtype.kind == "b" and chosen.size == extent:
        chosen = chosen.nonzero()[0]
    return chosen if chosen.dtype.kind == "i" and chosen.size > 0 else None


def _range(key: Any, extent: int) -> tuple[int, int] | None:
    """Return the first number that `key`, a number or a slice, selects and the end; None for steps, or out of range."""
    if type(key) is not slice:
        at = int(key) + (extent if key < 0 else 0)
        return (at, at + 1) if 0 <= at < extent else None
    if key.step not in (None, 1) or not {type(key.start), type(key.stop)} <= _BOUNDS:
        return None  # code of the program that finds bounds may change the matrix meanwhile
    first, end, _ = key.indices(extent)
    return min(first, end), end


def _as_slice(key: Any, extent: int) -> Any:
    """Return the slice that selects what a list or array of one number does; other keys as they are."""
    is_one = len(key) == 1 if type(key) is list else type(key) is np.ndarray and key.shape == (1,)
    if not is_one or type(key[0]) not in _ADJACENT or type(key[0]) is slice:
        return key
    line = _range(key[0], extent)
    return key if line is None else slice(*line)


@functools.cache
def _line_state(index: np.dtype[Any]) -> tuple[tuple[str, Any], ...] | None:
    """Return the attributes, besides shape and entries, of the object that SciPy's arrays return for one row.

    Return None in versions of SciPy where it is not a one-dimensional array of coordinates of the dtype `index`.
    """
    entries = np.ones(1), np.zeros(1, index), np.array([0, 1, 1], index)
    try:
        lines = [constructed(sps.csr_array, entries, (2, 2))[key] for key in (0, (_ALL, 0))]
    except NotImplementedError:  # SciPy 1.13 selects no single rows of arrays
        return None
    own = {"_shape", "coords", "data"}
    for line in lines:
        is_line = isinstance(line, sps.coo_array) and line.ndim == 1 and own <= vars(line).keys()
        if not (is_line and line.coords[0].dtype == index):
            return None
    return tuple((name, value) for name, value in vars(lines[0]).items() if name not in own)


def _is_plain(made: Any, shape: tuple[int, int], arrays: Arrays) -> bool:
    """Return whether a part of `shape` may be made of `arrays` without SciPy, which would not convert them.

    The arrays must be plain NumPy arrays, and the matrix no object of a user's subclass.
    """
    indptr, indices, data = arrays
    is_plain = type(indptr) is type(indices) is type(data) is np.ndarray and data.dtype.char in PLAIN_TYPES
    is_whole = is_plain and data.ndim == 1 and made._twin._twin is type(made)
    return is_whole and takes_as_is(type(made), shape, indptr, indices)


def _block(made: Any, key: tuple[Any, Any], arrays: Arrays, refuse: Callable[[], object]) -> Any:
    """Return the element, row, column or block that two numbers or slices select; None for SciPy to select."""
    full, (rows, cols) = made._shape, key
    if type(rows) not in _ADJACENT or type(cols) not in _ADJACENT or len(full) != 2:
        return None
    down, across = _range(rows, full[0]), _range(cols, full[1])
    if down is None or across is None:
        return None
    shape = (down[1] - down[0], across[1] - across[0])
    part = None if shape == full else _entries(made, (down, across), arrays, refuse)
    if part is None:
        return None
    is_row, is_column = type(rows) is not slice, type(cols) is not slice
    if is_row and is_column:
        return part[2].sum(dtype=part[2].dtype)
    if (is_row or is_column) and isinstance(made, sps.sparray):
        part[1:] = (array.copy() for array in part[1:])
        return _line(made, part, shape[is_row], by_minor=is_row is not made._transposed)
    return shape, part, shape[not made._transposed] != full[not made._transposed]


def _entries(
    made: Any, ranges: tuple[tuple[int, int], tuple[int, int]], arrays: Arrays, refuse: Callable[[], object]
) -> list[NDArray[Any]] | None:
    """Return (indptr, indices, data) of the block in these ranges of rows and columns; None for SciPy.

    A block of whole compressed rows contains their entries as they are; another one has indices within bounds.
    """
    (n_major, n_minor), (major, minor) = made._swap(made._shape), made._swap(ranges)
    indptr, indices, data = arrays
    shape = (ranges[0][1] - ranges[0][0], ranges[1][1] - ranges[1][0])
    if not _is_plain(made, shape, arrays) or indptr.shape != (n_major + 1,):
        return None
    at, to = indptr.item(major[0]), indptr.item(major[1])
    if not 0 <= at <= to <= min(indices.size, data.size):
        refuse()
        return None
    if to - at >= NARROW_FROM_ENTRIES and (minor[1] - minor[0]) * NARROW_SHARE <= n_minor:
        return _narrow(indptr[major[0] : major[1] + 1] - at, indices[at:to], data[at:to], minor)
    if minor != (0, n_minor):
        return list(get_csr_submatrix(n_major, n_minor, *arrays, *major, *minor))
    return [indptr[major[0] : major[1] + 1] - at, indices[at:to], data[at:to]]


def _narrow(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], minor: tuple[int, int]
) -> list[NDArray[Any]]:
    """Return (indptr, indices, data) of the columns in the range `minor`: one vectorised comparison finds them.

    SciPy's loop over the rows takes two to three times as long where few entries are found.
    """
    unsigned = UNSIGNED[indices.dtype]
    offsets = indices.view(unsigned) - unsigned.type(minor[0])  # of columns before the range: large numbers
    places = (offsets < minor[1] - minor[0]).nonzero()[0]
    return [places.searchsorted(indptr).astype(indptr.dtype), offsets[places].view(indices.dtype), data[places]]


def _line(made: Any, part: list[NDArray[Any]], length: int, *, by_minor: bool) -> Any:
    """Return the row or column `part` as SciPy's arrays do: with one dimension, by coordinates.

    `by_minor`: it is one compressed row. Otherwise its elements are in different compressed rows.
    """
    indptr, indices, data = part
    state = _line_state(indices.dtype)
    if state is None:
        return None
    if not by_minor:
        expandptr(indptr.size - 1, indptr, indices)
    line: Any = object.__new__(made._coo_container)
    line._shape, line.coords, line.data = (length,), (indices,), data
    for name, value in state:
        setattr(line, name, value)
    return line


def _gathered(made: Any, chosen: NDArray[Any] | range, arrays: Arrays, refuse: Callable[[], object]) -> Part | None:
    """Return the compressed rows with these numbers; None where SciPy should select them."""
    (n_major, n_minor), n = made._swap(made._shape), len(chosen)
    shape = made._swap((n, n_minor))
    if not _is_plain(made, shape, arrays) or arrays[0].shape != (n_major + 1,):
        return None
    if n == 1:
        lines = _range(int(chosen[0]), n_major)
        part = None if lines is None else _entries(made, made._swap((lines, (0, n_minor))), arrays, refuse)
        return None if part is None else (shape, part, False)
    copies = _copier(arrays[1].size)
    if copies is not None and copies.takes(arrays):
        own = copies.copied(arrays, chosen, refuse)
    else:  # SciPy's method selects a step as fast
        own = None if isinstance(chosen, range) else _copied(arrays, chosen, refuse)
    return None if own is None else (shape, own, False)


_copies: Any = None  # the module `sparse_results`, once it is imported


def _copier(n_entries: int) -> Any:
    """Return `sparse_results` where the C runtime is loaded; None for matrices that do not repay its import."""
    global _copies
    is_due = n_entries >= COPIES_FROM_ENTRIES and (light.is_complete or light._native is not None)
    if _copies is None and is_due and not sys.is_finalizing():
        with contextlib.suppress(ImportError, OSError), forking.loading():
            _copies = importlib.import_module("autosparse.light.sparse_results")
    return _copies


def _copied(arrays: Arrays, chosen: NDArray[Any], refuse: Callable[[], object]) -> list[NDArray[Any]] | None:
    """Return (indptr, indices, data) of the compressed rows with these numbers, as `sparse_results.copied` does."""
    indptr, indices, data = arrays
    n, n_major = chosen.size, indptr.size - 1
    least = chosen.min()
    if least < -n_major or chosen.max() >= n_major:
        return None
    rows = chosen.astype(indptr.dtype)
    if least < 0:
        rows[rows < 0] += n_major
    starts, ends = indptr[rows], indptr[rows + 1]
    lengths = ends - starts
    nnz = int(lengths.sum(dtype=INT64))
    is_sound = starts.min() >= 0 and lengths.min() >= 0 and ends.max() <= min(indices.size, data.size)
    if not is_sound or nnz > np.iinfo(indptr.dtype).max:
        refuse()
        return None
    own_indptr = np.zeros(n + 1, indptr.dtype)
    np.cumsum(lengths, out=own_indptr[1:])
    own = [own_indptr, np.empty(nnz, indices.dtype), np.empty(nnz, data.dtype)]
    csr_row_index(n, rows, indptr, indices, data, *own[1:])
    return own
