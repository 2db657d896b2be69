"""Compressed rows (CSR) of coordinate (COO) tensors, kept while the tensor lives and its indices are unwritten.

Entries in any order are sorted once. A transpose (``A.t()``) is a new tensor each time, as is a matrix that is made
again at each step. New tensors are recognised by fingerprints of their row and column ids.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Final, NamedTuple

import torch

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.scalar.tensors import narrow_index, wide_index
from autosparse.torch import native
from autosparse.torch.structure import CPU, forgotten_too, lib, pointer, version

MAX_KEPT: Final = 16
"""Maximum number of tensors whose rows are cached; the oldest are removed first."""
ENTRY_BYTES: Final = 2 * 8 + 4
"""Bytes of an entry of a COO tensor of float32."""


class Rows:
    """Entries of a COO tensor by rows, with int32 indices of their own; `order` is None if they are by rows already.

    `content` holds the shape, the number of entries, and fingerprints of row ids and column ids.
    """

    __slots__ = ("_ordered", "_wide_crow", "col", "content", "crow", "order")

    def __init__(
        self, content: tuple[int, ...], crow: torch.Tensor, col: torch.Tensor, order: torch.Tensor | None
    ) -> None:
        self.content, self.crow, self.col, self.order = content, crow, col, order
        self._ordered: tuple[int, torch.Tensor] | None = None  # fingerprint of the tensor's values, values by rows
        self._wide_crow: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.content[0], self.content[1]

    @property
    def wide_crow(self) -> torch.Tensor:
        """Row starts of type int64."""
        if self._wide_crow is None:
            self._wide_crow = self.crow.to(wide_index)
        return self._wide_crow

    def ordered(self, values: torch.Tensor) -> torch.Tensor:
        """Return contiguous `values` in the order of the rows, copied again only if they differ from the last ones."""
        if self.order is None:
            return values
        width, n = values.element_size(), values.shape[0]
        seen = lib.asp_look_low(pointer(values), n * width, native.threads())
        kept = self._ordered
        if kept is not None and kept[0] == seen and kept[1].dtype is values.dtype:
            return kept[1]
        if width not in native.TRANSPOSED_BYTES:  # half precision
            return values[self.order]
        new = torch.empty_like(values)
        arrays = map(pointer, (self.order, values, new))
        runtime_api.raise_for(lib.asp_gather(width, 0, *arrays, n, native.threads()))
        self._ordered = seen, new
        return new


class Found(NamedTuple):
    """Rows of the tensor `owner`, or of its transpose (`transposed`).

    `rows` is None if PyTorch has to compute: an id lies outside the shape, or rows would need too much memory.
    """

    owner: weakref.ref[torch.Tensor]
    written: tuple[int, int]  # PyTorch's number of writes to the tensor, and a fingerprint of samples of its indices
    rows: Rows | None
    transposed: bool


_kept: OrderedDict[tuple[int, ...], Found] = OrderedDict()
_lock = forking.lock()


def rows_of(A: torch.Tensor) -> Found:
    """Return the rows of a 2-D COO tensor, from a cache if the tensor, or the content of its index array, is known."""
    indices, (n, m) = A._indices(), A.shape
    key = (indices.data_ptr(), indices.shape[1], *indices.stride(), n, m)
    known = _kept.get(key)
    n_places = 1 + sum((size - 1) * step for size, step in zip(indices.shape, indices.stride(), strict=True))
    written = version(A), lib.asp_probe(pointer(indices), 8 * n_places if indices.numel() else 0)
    if known is not None and known.written == written and known.owner() is A:
        return known
    rows, transposed = _look(indices.contiguous(), (n, m), may_turn=not A.is_coalesced())
    made = Found(weakref.ref(A), written, rows, transposed)
    with _lock:
        _kept[key] = made
        _kept.move_to_end(key)
        for old in [k for k, found in _kept.items() if found.owner() is None]:
            del _kept[old]
        while len(_kept) > MAX_KEPT:
            _kept.popitem(last=False)
    return made


def _look(indices: torch.Tensor, shape: tuple[int, int], *, may_turn: bool) -> tuple[Rows | None, bool]:
    """Return known rows with the content of these contiguous indices, or new rows, and whether they are of Aᵀ.

    The rows are of A itself unless `may_turn`.
    """
    (n, m), nnz = shape, indices.shape[1]
    row, col = map(pointer, indices)
    prints = [lib.asp_look_low(ids, 8 * nnz, native.threads()) for ids in (row, col)]
    content, turned = (n, m, nnz, *prints), (m, n, nnz, *prints[::-1])
    with _lock:
        all_known = [found.rows for found in _kept.values() if found.rows is not None]
    for rows in all_known:
        if rows.content == content or (may_turn and rows.content == turned):
            return rows, rows.content != content
    if max(n, m, nnz) >= torch.iinfo(narrow_index).max:
        return None, False
    crow, new, order = (torch.empty(size, dtype=narrow_index, device=CPU) for size in (n + 1, nnz, nnz))
    status = lib.asp_coo_rows(n, m, nnz, row, col, 1, *map(pointer, (crow, new, order)))
    if status < 0 or (status and 3 * order.element_size() > get_options().extra_memory * ENTRY_BYTES):
        return None, False
    return Rows(content, crow, new, order if status else None), False


forgotten_too.append(_kept.clear)
