"""Pool of memory for large results: reuses torch storages that earlier results no longer use.

A new large block costs a page fault per page, as much time as the product that fills it. The pool holds a reference to
each storage that it gives out. When the pool's reference is the only one left, the storage is used again. The tensors
are ordinary: their storage can be resized, and PyTorch's allocator and profiler account for their memory.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict, deque
from typing import Any, Final

import torch

from autosparse import forking
from autosparse._native import memory
from autosparse._native.runtime_api import lib
from autosparse.config import get_options
from autosparse.scalar.tensors import byte

CPU: Final = torch.device("cpu")
"""Device of the pool's tensors, named because the user may have set another default device."""
MAX_STORAGES: Final = 12
"""Maximal number of storages in the pool, used or free; a larger pool keeps memory from PyTorch's other uses."""
MERGED_BYTES: Final = 8 << 20
"""Bytes of results after which malloc merges free blocks if the heap has grown. It takes 1.3 µs, such a result 400."""

_taken_bytes = 0  # bytes of results since malloc merged free blocks
_uses: Final = torch._C._storage_Use_Count  # type: ignore[attr-defined]
_is_profiled: Final = torch._C._autograd._profiler_enabled
_lock = forking.lock()
_pool: OrderedDict[int, deque[Any]] = OrderedDict()  # bytes → torch.UntypedStorage, least recently used first
_samples: dict[torch.dtype, Any] = {}  # dtype → an empty tensor, which makes tensors of this dtype


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return uninitialised contiguous memory of this shape.

    The pool holds at most `output_pool_bytes` (setting); 0 turns it off.
    """
    limit_bytes = get_options().output_pool_bytes
    if limit_bytes is None:
        limit_bytes = memory.default_pool_bytes()
    n_bytes = math.prod(shape) * dtype.itemsize
    _merge_after(n_bytes)
    if n_bytes > limit_bytes or _is_profiled():  # the profiler would not see a reused storage
        return torch.empty(shape, dtype=dtype, device=CPU)
    storage = _free_storage(n_bytes) or _new_storage(n_bytes, limit_bytes)
    sample = _samples.get(dtype)
    if sample is None:
        sample = _samples[dtype] = torch.empty(0, dtype=dtype, device=CPU)
    made: torch.Tensor = sample.new(storage).resize_(shape)
    return made


def _merge_after(n_bytes: int) -> None:
    """Let malloc merge free blocks of a growing heap after each `MERGED_BYTES` of results, counting `n_bytes` more.

    PyTorch's own results are aligned, and the place of an aligned block often does not fit the next one of its size.
    The heap of programs with many large results grew by half.
    """
    global _taken_bytes
    _taken_bytes += n_bytes
    if _taken_bytes >= MERGED_BYTES:
        _taken_bytes = 0
        lib.asp_output_merge()


def keep_out(*arrays: torch.Tensor) -> None:
    """Remove the storages of these tensors from the pool: `Structure` identifies index arrays by address."""
    if not _pool:
        return
    places = {array.untyped_storage()._cdata for array in arrays}
    with _lock:
        for storages in list(_pool.values()):
            for storage in [one for one in list(storages) if one._cdata in places]:
                storages.remove(storage)


def forget() -> None:
    """Remove all storages from the pool; unused ones are freed."""
    with _lock:
        _pool.clear()


def _references(storage: Any) -> int:
    return sys.getrefcount(storage)


def _references_of_one() -> int:
    """Return the reference count that `_free_storage` sees for a storage object that nothing else refers to."""
    storages = deque([torch.empty(1, device=CPU).untyped_storage()])
    storage = storages.popleft()
    return _references(storage)


_ALONE: Final = _references_of_one()
"""Reference count of a storage to which only the pool refers."""


def _free_storage(n_bytes: int) -> Any | None:
    """Return a pooled storage of exactly `n_bytes` to which only the pool refers, or None if there is none."""
    storages = _pool.get(n_bytes)
    if storages is None:
        return None
    for _ in range(len(storages)):
        try:
            storage = storages.popleft()  # no other thread has this storage meanwhile
        except IndexError:  # another thread took the last one
            return None
        is_free = storage.nbytes() == n_bytes and _uses(storage._cdata) == 1 and _references(storage) <= _ALONE
        storages.append(storage)
        if is_free:
            if len(_pool) > 1:
                with _lock:
                    if n_bytes in _pool:
                        _pool.move_to_end(n_bytes)
            return storage
    return None


def _new_storage(n_bytes: int, limit_bytes: int) -> Any:
    storage = torch.empty(n_bytes, dtype=byte, device=CPU).untyped_storage()
    with _lock:
        _pool.setdefault(n_bytes, deque()).append(storage)
        _pool.move_to_end(n_bytes)
        while sum(map(len, _pool.values())) > MAX_STORAGES or _held_bytes() > limit_bytes:
            oldest = next(iter(_pool))
            if _pool[oldest]:
                _pool[oldest].popleft()
            if not _pool[oldest]:
                del _pool[oldest]
    return storage


def _held_bytes() -> int:
    return sum(storage.nbytes() for storages in _pool.values() for storage in list(storages))
