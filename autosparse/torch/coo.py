"""Coordinate tensors as compressed rows: what is sorted by rows needs row starts only, by columns it is a transpose.

The entries stay where they are. Row starts are kept per index array, as long as that lives and is not written; a
transpose (``A.t()``) of a coalesced tensor is a new array each time, and pays O(nnz) for them again.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse.torch.structure import version

MOST_KEPT: Final = 16


class Starts(NamedTuple):
    """Row starts of one index array, or column starts; None where it is sorted neither way."""

    watched: StorageWeakRef
    version: int
    crow: torch.Tensor | None
    by_columns: bool


_kept: OrderedDict[tuple[int, int, int, int], Starts] = OrderedDict()
_lock = threading.Lock()


def starts_of(A: torch.Tensor) -> Starts:
    """Row (or column) starts of a 2-D COO tensor."""
    indices, (n, m) = A._indices(), A.shape
    key = (indices.data_ptr(), indices.shape[1], n, m)
    known = _kept.get(key)
    if known is not None and known.version == version(indices) and not known.watched.expired():
        return known
    made = _find(indices, n, m, is_sorted=A.is_coalesced())
    with _lock:
        _kept[key] = made
        _kept.move_to_end(key)
        for old in [k for k, starts in _kept.items() if starts.watched.expired()]:
            del _kept[old]
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return made


def _find(indices: torch.Tensor, n: int, m: int, *, is_sorted: bool) -> Starts:
    row, col = indices.unbind(0)
    crow, by_columns = None, False
    if is_sorted or bool((row[1:] >= row[:-1]).all()):
        crow = torch._convert_indices_from_coo_to_csr(row, n)
    elif bool((col[1:] >= col[:-1]).all()):
        crow, by_columns = torch._convert_indices_from_coo_to_csr(col, m), True
    return Starts(StorageWeakRef(indices.untyped_storage()), version(indices), crow, by_columns)
