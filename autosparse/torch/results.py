"""Memory for large results: storages of PyTorch's own that earlier results no longer use.

A fresh large block costs a page fault for each page, as much time as the product that fills it. The pool holds a
reference to each storage that it gives out; when no tensor is left it is the only one, and the storage serves again.
Tensors from here are ordinary: their storage can be resized, and PyTorch's allocator and profiler know their memory.
"""

from __future__ import annotations

import math
import sys
from collections import OrderedDict, deque
from typing import Any, Final

import torch

from autosparse import forking
from autosparse._native import memory
from autosparse.config import get_options

CPU: Final = torch.device("cpu")
MAX_STORAGES: Final = 12
"""Storages that the pool holds at a time, in use or not; more would keep memory that PyTorch could use elsewhere."""

_uses: Final = torch._C._storage_Use_Count  # type: ignore[attr-defined]
_is_profiled: Final = torch._C._autograd._profiler_enabled
_lock = forking.lock()
_pool: OrderedDict[int, deque[Any]] = OrderedDict()  # bytes → torch.UntypedStorage, used longest ago first
_samples: dict[torch.dtype, Any] = {}  # dtype → its tensor that makes others


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Return uninitialised memory of this shape, without gaps.

    At most `output_pool_bytes` (setting) are held; 0 turns the pool off.
    """
    limit_bytes = get_options().output_pool_bytes
    if limit_bytes is None:
        limit_bytes = memory.default_pool_bytes()
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes > limit_bytes or _is_profiled():  # a storage that serves again is no event for the profiler
        return torch.empty(shape, dtype=dtype, device=CPU)
    storage = _free_storage(n_bytes) or _new_storage(n_bytes, limit_bytes)
    sample = _samples.get(dtype)
    if sample is None:
        sample = _samples[dtype] = torch.empty(0, dtype=dtype, device=CPU)
    made: torch.Tensor = sample.new(storage).resize_(shape)
    return made


def keep_out(*arrays: torch.Tensor) -> None:
    """Take the storages of these tensors out of the pool: their addresses identify what is in them."""
    if not _pool:
        return
    places = {array.untyped_storage()._cdata for array in arrays}
    with _lock:
        for storages in list(_pool.values()):
            for storage in [one for one in list(storages) if one._cdata in places]:
                storages.remove(storage)


def forget() -> None:
    """Give up all storages; those that nobody uses are freed."""
    with _lock:
        _pool.clear()


def _references(storage: Any) -> int:
    return sys.getrefcount(storage)


def _references_of_one() -> int:
    """References to the object of a storage that one name has, counted as `_free_storage` does."""
    storages = deque([torch.empty(1, device=CPU).untyped_storage()])
    storage = storages.popleft()
    return _references(storage)


_ALONE: Final = _references_of_one()


def _free_storage(n_bytes: int) -> Any | None:
    """A storage of this size that only the pool refers to."""
    storages = _pool.get(n_bytes)
    if storages is None:
        return None
    for _ in range(len(storages)):
        try:
            storage = storages.popleft()  # nobody else has it meanwhile
        except IndexError:  # another thread was faster
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
    storage = torch.empty(n_bytes, dtype=torch.uint8, device=CPU).untyped_storage()
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
