"""Memory for results: arrays that own their elements, in pages reused from earlier results.

A fresh large array costs a page fault per page, which takes as long as a product that writes it once. NumPy allows an
array to have its own allocator (NEP 49); this one (`dense/output.c`) is active only while `empty_output` allocates.
Without the extension module, ``numpy.empty`` is used.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from autosparse._native import python_objects
from autosparse._native.runtime_api import CODE_OF_INDEX, address_of, available, lib
from numpy.typing import NDArray

from autosparse import forking
from autosparse.config import get_options

RECYCLED_FROM_BYTES: Final = 1 << 17  # smaller results come from malloc, which maps fresh pages from this size on
VECTOR_FROM_BYTES: Final = 1 << 12  # below, calling the allocator takes longer than it saves
_LARGEST_DEFAULT_BYTES: Final = 512 << 20

_allocate: Final = python_objects.empty
_limit_bytes = -1  # limit that the allocator has; -1: none was set


def _limit(wanted_bytes: int | None) -> int:
    """Apply the setting `output_pool_bytes` and return the limit that now holds."""
    global _limit_bytes
    limit_bytes = default_pool_bytes() if wanted_bytes is None else wanted_bytes
    if limit_bytes != _limit_bytes:
        lib.asp_output_limit(limit_bytes)
        _limit_bytes = limit_bytes
    return limit_bytes


_default_pool_bytes: int | None = None


def default_pool_bytes() -> int:
    """Return the default size of the pool of freed results: 1/16 of this machine's memory, at most 512 MiB."""
    global _default_pool_bytes
    if _default_pool_bytes is None:
        try:
            ram_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            ram_bytes = 4 << 30
        _default_pool_bytes = min(_LARGEST_DEFAULT_BYTES, ram_bytes // 16)
    return _default_pool_bytes


def release_kept() -> None:
    """Return the pages of freed results, which are kept for reuse, to the system."""
    if _limit_bytes > 0:
        lib.asp_output_limit(0)
        lib.asp_output_limit(_limit_bytes)


def is_recycled(n_bytes: int) -> bool:
    """Return whether the memory of an array of `n_bytes` from `empty_output` is the runtime's, not NumPy's."""
    if n_bytes < RECYCLED_FROM_BYTES or _allocate is None:
        return False
    return _limit(get_options().output_pool_bytes) != 0


def empty_output(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialised C-ordered array of `shape` that owns its elements; from 128 KiB on its pages are reused.

    At most `output_pool_bytes` (setting) of freed results are kept; 0 turns reuse off.
    """
    if _allocate is None or not is_recycled(math.prod(shape) * dtype.itemsize):
        return np.empty(shape, dtype)
    array: NDArray[Any] = _allocate(shape, dtype, False)
    return array


def empty_vector(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialised array like `empty_output`'s that begins on a cache line, from 4 KiB on.

    Vectors of the widest instruction set that cross cache lines take half as long again in the caches.
    """
    is_small = VECTOR_FROM_BYTES <= math.prod(shape) * dtype.itemsize < RECYCLED_FROM_BYTES
    if _allocate is None or not is_small:
        return empty_output(shape, dtype)
    array: NDArray[Any] = _allocate(shape, dtype, False)
    return array


def empty_scratch(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an uninitialised array for packed copies and results of tuning, whose pages are reused only inside
    `scratch_recycled`.
    """
    if math.prod(shape) * dtype.itemsize < RECYCLED_FROM_BYTES:
        return np.empty(shape, dtype)
    return np.empty(shape, dtype) if _allocate is None else _allocate(shape, dtype, True)


class ScratchPool:
    """Pool of freed scratch memory, which is kept for the next packed copy while at least one tuning holds the pool.

    The last `release` returns all of it to the system.
    """

    def __init__(self) -> None:
        self._n_holders = self._limit_bytes = 0
        self._lock = forking.lock()

    def hold(self) -> None:
        """Keep freed scratch memory until `release`."""
        with self._lock:
            self._n_holders += 1
            if self._n_holders == 1 and available:
                wanted_bytes = get_options().output_pool_bytes
                self._limit_bytes = default_pool_bytes() if wanted_bytes is None else wanted_bytes
                lib.asp_scratch_limit(self._limit_bytes)

    def trim(self, kept_bytes: int) -> None:
        """Return freed scratch memory to the system until at most `kept_bytes` bytes are kept for the next step."""
        with self._lock:
            if self._n_holders and available and lib.asp_scratch_kept_bytes() > kept_bytes:
                lib.asp_scratch_limit(kept_bytes)
                lib.asp_scratch_limit(self._limit_bytes)

    def release(self) -> None:
        """Undo one `hold`."""
        with self._lock:
            self._n_holders -= 1
            if not self._n_holders and available:
                lib.asp_scratch_limit(0)


SCRATCH: Final = ScratchPool()


@contextmanager
def scratch_recycled() -> Iterator[None]:
    """Reuse scratch memory inside the block; afterwards, trim the pool of results to its previous size."""
    kept_bytes = lib.asp_output_kept_bytes() if available else 0
    SCRATCH.hold()
    try:
        yield
    finally:
        SCRATCH.release()
        if available:
            lib.asp_output_trim(kept_bytes)


LINE_BYTES: Final = 64
LARGE_OUTPUT_BYTES: Final = 1 << 20
"""Bytes of a result from which recycled pages are used, because fresh pages cost as much time as the product."""


def empty_result(shape: tuple[int, ...], dtype: Any, transposed: bool = False) -> NDArray[Any]:
    """Return uninitialised memory for the result of a product, allocated as the executor does.

    Rows of a result of Mᵀ @ B, to which kernels add, begin on cache lines where they have whole ones.
    """
    row_bytes = dtype.itemsize * (shape[1] if len(shape) == 2 else 1)
    n_bytes = shape[0] * row_bytes
    if transposed and row_bytes >= LINE_BYTES and n_bytes < LARGE_OUTPUT_BYTES:
        return empty_vector(shape, dtype)
    return np.empty(shape, dtype) if n_bytes < LARGE_OUTPUT_BYTES else empty_output(shape, dtype)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous copy of `array` in memory from `empty_output`."""
    copy = empty_output(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy


ALL_THREADS_FROM_BYTES: Final = 1 << 20
"""Bytes from which `copied_all` uses all threads; below, one thread finishes before others have started."""


def copied_all(arrays: Sequence[NDArray[Any]], n_bytes: int) -> list[NDArray[Any]]:
    """Return contiguous copies of one-dimensional arrays of `n_bytes` in total; large ones are copied by all threads.

    Raises MemoryError.
    """
    if n_bytes < ALL_THREADS_FROM_BYTES or not available:
        return [array.copy() for array in arrays]
    copies = [empty_output(array.shape, array.dtype) for array in arrays]
    blocks = []
    for array, copy in zip(arrays, copies, strict=True):
        if array.dtype.hasobject or not array.flags.c_contiguous:
            np.copyto(copy, array)
        else:
            blocks.append((address_of(array), address_of(copy), array.nbytes))
    if blocks:
        lib.asp_copy_blocks(len(blocks), *map(list, zip(*blocks, strict=True)), get_options().threads or 0)
    return copies


def copied_rows(
    indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], n_minor: int
) -> tuple[list[NDArray[Any]], bool] | None:
    """Return copies of the arrays of compressed rows, and whether the copied structure is within bounds.

    All threads copy and check at once. None for arrays that C cannot copy. Raises MemoryError.
    """
    arrays = (indptr, indices, data)
    itype = CODE_OF_INDEX.get(indptr.dtype)
    if not available or itype is None or indices.dtype != indptr.dtype or data.dtype.hasobject:
        return None
    if not (indptr.flags.c_contiguous and indices.flags.c_contiguous and data.flags.c_contiguous):
        return None
    copies = [empty_output(array.shape, array.dtype) for array in arrays]
    from_, to = list(map(address_of, arrays)), list(map(address_of, copies))
    n_bytes = [indptr.nbytes, indices.nbytes, data.nbytes]
    fault = lib.asp_csr_copy(itype, indptr.size - 1, n_minor, from_, to, n_bytes, get_options().threads or 0)
    return copies, not fault
