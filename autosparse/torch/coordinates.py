"""Conversion of coordinate (COO) tensors to compressed rows (CSR) without moving entries.

Entries sorted by rows need only row starts. Entries sorted by columns become the CSR arrays of the transpose. The
starts are kept per index array, until the array is freed or written. A transpose (``A.t()``) of a coalesced tensor has
a new index array each time, so its starts are computed again, O(nnz).
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse import forking
from autosparse.scalar import C_SIZE
from autosparse.torch.structure import ffi, is_gone, lib, pointer, version

MAX_KEPT: Final = 16
"""Maximum number of index arrays whose starts are cached; the oldest are removed first."""


class Starts(NamedTuple):
    """Row starts of a COO tensor, or column starts if `by_columns`; `crow` is None if its entries are unsorted."""

    watched: StorageWeakRef
    version: int
    crow: torch.Tensor | None
    by_columns: bool


_kept: OrderedDict[tuple[int, int, int, int], Starts] = OrderedDict()
_lock = forking.lock()


def starts_of(A: torch.Tensor) -> Starts:
    """Return the row or column starts of a 2-D COO tensor, from a cache as long as its index array is unchanged."""
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
    if not _lie_within(row, n) or not _lie_within(col, m):  # PyTorch's own kernels check each entry and raise
        pass
    elif is_sorted or bool((row[1:] >= row[:-1]).all()):
        crow = torch._convert_indices_from_coo_to_csr(row, n)
        if is_sorted and not _lead(crow, col, m):  # the tensor is marked as coalesced but is not sorted
            crow = None
    elif bool((col[1:] >= col[:-1]).all()):
        crow, by_columns = torch._convert_indices_from_coo_to_csr(col, m), True
    return Starts(StorageWeakRef(indices.untyped_storage()), version(indices), crow, by_columns)


def _lie_within(ids: torch.Tensor, extent: int) -> bool:
    """Return whether all `ids`, a contiguous vector, are in [0, extent)."""
    ends = ffi.new(f"{C_SIZE}[2]", [0, ids.shape[0]])  # the ids as the single row of a matrix
    return not lib.asp_csr_check(1, 1, extent, ends, pointer(ids), ids.shape[0], torch.get_num_threads())


def _lead(crow: torch.Tensor, col: torch.Tensor, extent: int) -> bool:
    """Return whether `crow` and `col` are row starts and columns of a valid matrix with `extent` columns."""
    n, nnz = crow.shape[0] - 1, col.shape[0]
    code = lib.asp_csr_check(1, n, extent, pointer(crow), pointer(col), nnz, torch.get_num_threads())
    return not code and int(crow[n]) == nnz
