"""Structure: compressed rows that live in torch tensors, known by their addresses; what is derived from them is kept.

A sparse tensor hands out new objects for its indices at every look, so a structure is recognised by the addresses of
its index arrays. An entry is believed while their storages live and their version counters stand still (a storage that
died may have given its address to another matrix). Values are never kept: they are read at every product.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse._native import runtime_api

ffi: Any = runtime_api.ffi  # Any: cffi objects carry no types
lib: Any = runtime_api.lib

INDEX_CODES: Final = {torch.int32: 0, torch.int64: 1}
VALUE_CODES: Final = {torch.float32: 0, torch.float64: 1, torch.complex64: 2, torch.complex128: 3}
MOST_STRUCTURES: Final = 64  # remembered at a time; each costs little until a transpose is built


def pointer(tensor: torch.Tensor) -> Any:
    """``void *`` to the first element; the caller keeps `tensor` alive."""
    return ffi.cast("void *", tensor.data_ptr())


class Structure:
    """Rows ``col[crow[i]:crow[i+1]]`` of an ``n_rows`` x ``n_cols`` matrix: crow (n_rows + 1,), col (nnz,).

    Holds addresses, not tensors: whoever calls keeps crow and col alive for the length of the call.
    """

    __slots__ = (
        "_lock", "_print", "_transposed", "_versions", "_watched", "col", "crow", "index_code", "n_cols", "n_rows",
        "n_transposed_products", "nnz", "inverse_lengths",
    )  # fmt: skip

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.n_rows, self.n_cols, self.nnz = n_rows, n_cols, col.numel()
        self.index_code = INDEX_CODES[col.dtype]
        self.crow, self.col = pointer(crow), pointer(col)
        self.inverse_lengths: dict[torch.dtype, torch.Tensor] = {}
        self.n_transposed_products = 0
        self._watched = (StorageWeakRef(crow.untyped_storage()), StorageWeakRef(col.untyped_storage()))
        self._versions = (crow._version, col._version)
        self._transposed: Transposed | None = None
        self._print = 0
        self._lock = threading.Lock()

    def stands(self, crow: torch.Tensor, col: torch.Tensor) -> bool:
        """Whether `crow` and `col`, found at the same addresses, are still the arrays that we saw."""
        a, b = self._watched
        return self._versions == (crow._version, col._version) and not (a.expired() or b.expired())

    @property
    def dead(self) -> bool:
        """Whether the memory of an index array was given back."""
        a, b = self._watched
        return bool(a.expired() or b.expired())

    def transposed(self) -> Transposed:
        """Rows of the transpose with the place of each value in ours; built once, O(nnz)."""
        seen = lib.asp_probe(self.crow, self.index_bytes * (self.n_rows + 1)) ^ lib.asp_probe(
            self.col, self.index_bytes * self.nnz
        )
        with self._lock:
            if self._transposed is None or self._print != seen:  # written behind torch's back (NumPy, .data)
                self._transposed, self._print = Transposed(self), seen
            return self._transposed

    @property
    def index_bytes(self) -> int:
        """Bytes of one index."""
        return 8 if self.index_code else 4


class Transposed:
    """CSR structure of the transpose: entry p of it has its value at ``values[perm[p]]`` of the original."""

    __slots__ = ("col", "crow", "index_code", "n_cols", "n_rows", "nnz", "perm", "tensors")

    def __init__(self, of: Structure) -> None:
        self.n_rows, self.n_cols, self.nnz = of.n_cols, of.n_rows, of.nnz
        narrow = max(of.n_rows, of.n_cols, of.nnz) < 2**31 - 1
        dtype = torch.int32 if narrow else torch.int64
        self.index_code = INDEX_CODES[dtype]
        self.tensors = tuple(torch.empty(n, dtype=dtype) for n in (self.n_rows + 1, self.nnz, self.nnz))
        self.crow, self.col, self.perm = map(pointer, self.tensors)
        runtime_api.raise_for(
            lib.asp_graph_transpose(
                of.index_code, self.index_code, of.n_rows, of.n_cols, of.crow, of.col, self.crow, self.col, self.perm
            )
        )


class Rows:
    """Index arrays kept alive together with what is known about them; contiguous int32 or int64, of one dtype."""

    __slots__ = ("_structure", "col", "crow", "n_cols", "n_rows")

    def __init__(self, crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> None:
        self.crow, self.col, self.n_rows, self.n_cols = crow, col, n_rows, n_cols
        self._structure = structure_of(crow, col, n_rows, n_cols)

    @property
    def structure(self) -> Structure:
        """The structure of these arrays, a new one after they were written."""
        if not self._structure.stands(self.crow, self.col):
            self._structure = structure_of(self.crow, self.col, self.n_rows, self.n_cols)
        return self._structure

    def inverse_lengths(self, dtype: torch.dtype) -> torch.Tensor:
        """1 / (entries of row i), 1 for an empty row: (n_rows, 1)."""
        kept = self.structure.inverse_lengths
        if dtype not in kept:
            kept[dtype] = self.crow.diff().clamp_(min=1).to(dtype).reciprocal_().unsqueeze(1)
        return kept[dtype]


_lock = threading.Lock()
_structures: OrderedDict[tuple[int, int, int, int, int, torch.dtype], Structure] = OrderedDict()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_rows: int, n_cols: int) -> Structure:
    """The structure at these arrays, from the registry when it was seen before. Arrays must be contiguous."""
    key = (crow.data_ptr(), col.data_ptr(), col.numel(), n_rows, n_cols, col.dtype)
    known = _structures.get(key)
    if known is not None and known.stands(crow, col):
        return known
    made = Structure(crow, col, n_rows, n_cols)
    with _lock:
        _structures[key] = made
        _structures.move_to_end(key)
        if len(_structures) > 8:
            for old in [k for k, s in _structures.items() if s.dead]:
                del _structures[old]
        while len(_structures) > MOST_STRUCTURES:
            _structures.popitem(last=False)
    return made


def forget_structures() -> None:
    """Forget every structure: after index arrays were written in a way that torch does not count (NumPy, ``.data``)."""
    with _lock:
        _structures.clear()
