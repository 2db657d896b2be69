"""Coordinate tensors as compressed rows: what is sorted by rows needs row starts only, by columns it is a transpose.

The entries stay where they are. Row starts are kept per index array, as long as that lives and is not written; a
transpose (``A.t()``) of a coalesced tensor is a new array each time, and pays O(nnz) for them again.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse import forking
from autosparse.torch.structure import ffi, is_gone, lib, pointer, version

MAX_KEPT: Final = 16


class Starts(NamedTuple):
    """Row starts of one index array, or column starts; None where it is sorted neither way."""

    watched: StorageWeakRef
    version: int
    crow: torch.Tensor | None
    by_columns: bool


_kept: OrderedDict[tuple[int, int, int, int], Starts] = OrderedDict()
_lock = forking.lock()


def starts_of(A: torch.Tensor) -> Starts:
    """Row (or column) starts of a 2-D COO tensor."""
    indices, (n, m) = A._indices(), A.shape
    key = (indices.data_ptr(), indices.shape[1], n, m)
    known = _kept.get(key)
    if known is not None and known.version == version(indices) and not is_gone(known.watched):
        return known
    made = _find(indices, n, m, is_sorted=A.is_coalesced())
    with _lock:
        _kept[key] = made
        _kept.move_to_end(key)
        for old in [k for k, starts in _kept.items() if is_gone(starts.watched)]:
            del _kept[old]
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return made


def _find(indices: torch.Tensor, n: int, m: int, *, is_sorted: bool) -> Starts:
    row, col = indices.contiguous().unbind(0)
    crow, by_columns = None, False
    if not _lie_within(row, n) or not _lie_within(col, m):  # what PyTorch's own kernels find at each entry
        pass
    elif is_sorted or bool((row[1:] >= row[:-1]).all()):
        crow = torch._convert_indices_from_coo_to_csr(row, n)
        if is_sorted and not _lead(crow, col, m):  # somebody said so, and it is not
            crow = None
    elif bool((col[1:] >= col[:-1]).all()):
        crow, by_columns = torch._convert_indices_from_coo_to_csr(col, m), True
    return Starts(StorageWeakRef(indices.untyped_storage()), version(indices), crow, by_columns)


def _lie_within(ids: torch.Tensor, extent: int) -> bool:
    """Whether all ids, a vector without gaps, are from 0 to extent - 1: kernels do not look at each again."""
    ends = ffi.new("int64_t[2]", [0, ids.shape[0]])  # as the one row of a matrix
    return not lib.asp_csr_check(1, 1, extent, ends, pointer(ids), ids.shape[0], torch.get_num_threads())


def _lead(crow: torch.Tensor, col: torch.Tensor, extent: int) -> bool:
    """Whether row starts rise from 0 to the number of entries."""
    n, nnz = crow.shape[0] - 1, col.shape[0]
    code = lib.asp_csr_check(1, n, extent, pointer(crow), pointer(col), nnz, torch.get_num_threads())
    return not code and int(crow[n]) == nnz
