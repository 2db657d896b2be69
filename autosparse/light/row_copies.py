"""Copies of selected compressed rows by the C runtime, on all threads.

Each thread copies the rows that it multiplies in the next product. On one thread, SciPy's loops take as long, but half
of the result, and of the freed result before it, then lies in the wrong core's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse import light, scalar
from autosparse._native import loaded_runtime
from autosparse.light import INT64

_lib, _ffi = loaded_runtime()
_INDEX_CODES: Final = {np.dtype(name): code for name, code in scalar.INDEX_CODES.items()}
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
_OUT_OF_RANGE: Final = -1  # result of asp_count_selected for row numbers beyond the matrix


def takes(arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]]) -> bool:
    """Return whether `copied` accepts (indptr, indices, data), whose index arrays have one dtype."""
    indptr, indices, data = arrays
    flags = indptr.flags.num & indices.flags.num & data.flags.num
    return _lib is not None and data.dtype.isnative and flags & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED


def copied(
    arrays: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], chosen: NDArray[Any] | range, refuse: Callable[[], object]
) -> list[NDArray[Any]] | None:
    """Return (indptr, indices, data) of the rows `chosen` of arrays that `takes` accepts; None for SciPy to select.

    Negative numbers count from the end. `refuse` is called where the rows are not within the arrays.
    """
    indptr, indices, data = arrays
    at, n = _ffi.from_buffer, len(chosen)
    code, n_rows = _INDEX_CODES[indptr.dtype], indptr.size - 1
    if isinstance(chosen, range):
        numbers = _ffi.NULL, chosen.start, chosen.step, n
    else:
        whole = np.ascontiguousarray(chosen, INT64)
        numbers = at(scalar.WIDE_INDEX.array, whole), 0, 0, n
    own_indptr = np.empty(n + 1, indptr.dtype)
    nnz = _lib.asp_count_selected(code, n_rows, at(indptr), min(indices.size, data.size), *numbers, at(own_indptr))
    if nnz < 0:
        if nnz != _OUT_OF_RANGE:
            refuse()
        return None
    empty, threads = _means()
    own = [own_indptr, empty((nnz,), indices.dtype), empty((nnz,), data.dtype)]
    _lib.asp_copy_selected(
        code, data.itemsize, n_rows, at(indptr), at(indices), at(data), *numbers, *map(at, own), threads
    )
    return own


def _means() -> tuple[Callable[..., NDArray[Any]], int]:
    """Return the allocator of results, and the maximum number of threads (0: all)."""
    if not light.is_complete:
        return light._native.empty, 0
    from autosparse._native import memory
    from autosparse.config import get_options

    return memory.empty_output, get_options().threads or 0
