"""Structure of a sparse tensor on a GPU: its index arrays, and data that products have derived from them."""

# mypy: allow-untyped-calls
from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from autosparse import forking
from autosparse._native.triton.entries import DeviceEntries, entries_of_csr, entries_of_transpose
from autosparse.core.composite import Selection
from autosparse.errors import StructureError
from autosparse.tuner.gpu.facts import DevicePattern, facts_of

MAX_KEPT: Final = 64
"""Maximum number of patterns whose derived data are kept; the least recently used are removed first."""
MAX_CHOICES: Final = 32
"""Maximum number of product kinds per pattern whose choice is kept; the oldest are removed first."""


@dataclass(slots=True, eq=False)
class KnownPattern:
    """Data derived from one pattern: choices by kind of product, counts, hash. Does not keep the row starts alive."""

    choices: OrderedDict[tuple[object, ...], Any] = field(default_factory=OrderedDict)  # Any: Choice, above this module
    facts: dict[bool, DevicePattern] = field(default_factory=dict)
    given: dict[tuple[bool, tuple[Selection, ...]], dict[Selection, DevicePattern]] = field(default_factory=dict)
    stable_hash: str = ""
    is_sound: bool = False  # the index arrays were checked
    ready: dict[tuple[object, ...], Any] = field(default_factory=dict)  # signature of operands -> Choice for them
    order: torch.Tensor | slice = field(default_factory=lambda: slice(None))  # of the values, for fibers

    def choose(self, key: tuple[object, ...], made: Any) -> Any:
        """Return the choice stored under `key`; if there is none, store `made` and return it."""
        kept = self.choices.setdefault(key, made)
        while len(self.choices) > MAX_CHOICES:
            self.choices.popitem(last=False)
            self.ready.clear()
        return kept

    def note(self, signature: tuple[object, ...], made: Any) -> None:
        """Record `made` as the choice for products whose operands have this `signature`."""
        if len(self.ready) >= MAX_CHOICES:
            self.ready.clear()
        self.ready[signature] = made


class CudaPattern(Protocol):
    """Protocol of index arrays for products: a `CudaStructure`, or the fibers of a tensor."""

    known: KnownPattern

    @property
    def choices(self) -> OrderedDict[tuple[object, ...], Any]:
        """Choices of kernels by kind of product, each a `PlannedProduct`."""

    @property
    def nnz(self) -> int:
        """Number of stored entries."""

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the index arrays."""

    @property
    def col(self) -> torch.Tensor:
        """Columns of the entries; their device is that of the product."""

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Return the number of rows of the result and of the dense operand; `transposed` is the product with Aᵀ."""

    def facts(self, transposed: bool) -> DevicePattern:
        """Return statistics of the pattern (of its transpose if `transposed`) for the cost model."""

    def entries(self, transposed: bool) -> DeviceEntries:
        """Return the entries of the pattern (of its transpose if `transposed`), from which layouts are packed."""

    def stable_hash(self) -> str:
        """Return a hash of the pattern for cache keys."""


@dataclass(slots=True, eq=False)
class CudaStructure:
    """Compressed rows: crow (n + 1,), col (nnz,), with `n_cols` columns, and the data derived from them."""

    crow: torch.Tensor
    col: torch.Tensor
    n_cols: int
    known: KnownPattern = field(default_factory=KnownPattern)

    @property
    def choices(self) -> OrderedDict[tuple[object, ...], Any]:
        """Choices of kernels by kind of product, each a `PlannedProduct`."""
        return self.known.choices

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.crow.shape[0] - 1

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return self.col.shape[0]

    @property
    def n_bytes(self) -> int:
        """Number of bytes of the index arrays."""
        return (self.crow.shape[0] + self.nnz) * self.col.element_size()

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Return the shape of the matrix, or that of its transpose if `transposed`."""
        return (self.n_cols, self.n_rows) if transposed else (self.n_rows, self.n_cols)

    def rows(self) -> torch.Tensor:
        """Return the row of each entry, (nnz,) int64."""
        counts = self.crow.long().diff()
        ids = torch.arange(self.n_rows, device=self.col.device)
        return torch.repeat_interleave(ids, counts, output_size=self.nnz)  # the known size avoids a synchronisation

    def check(self) -> None:
        """Check the index arrays, once, since it waits for the GPU. Raises StructureError for invalid indices."""
        if self.known.is_sound:
            return
        starts, col = self.crow, self.col
        faults = {
            "its row starts do not begin with 0 or do not end with the number of entries":
                (starts[:1] != 0).any() | (starts[-1:] != self.nnz).any(),
            "its row starts decrease": (starts[1:] < starts[:-1]).any(),
            "it has column indices outside of the matrix": ((col < 0) | (col >= self.n_cols)).any(),
        }  # fmt: skip
        found = torch.stack(list(faults.values())).tolist()
        for fault, is_there in zip(faults, found, strict=True):
            if is_there:
                raise StructureError.unsound(fault, shape=(self.n_rows, self.n_cols), n_stored=self.nnz)
        self.known.is_sound = True

    def facts(self, transposed: bool) -> DevicePattern:
        """Return statistics of the pattern or its transpose; waits for the GPU once. Raises StructureError."""
        self.check()
        known = self.known.facts
        if transposed not in known:
            known[transposed] = facts_of(*self.compressed(transposed), self.shape(transposed)[1])
        return known[transposed]

    def compressed(self, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (row starts, column indices) of the matrix, or those of its transpose if `transposed`."""
        if not transposed:
            return self.crow, self.col
        order = torch.sort(self.col, stable=True).indices
        ends = torch.cumsum(torch.bincount(self.col, minlength=self.n_cols), 0)
        return torch.cat([ends.new_zeros(1), ends]), self.rows()[order]

    def entries(self, transposed: bool) -> DeviceEntries:
        """Return the entries of the matrix, or of its transpose, to pack. Raises StructureError for invalid indices."""
        self.check()
        make = entries_of_transpose if transposed else entries_of_csr
        return make(self.crow, self.col, self.n_cols)

    def stable_hash(self) -> str:
        """Return 32 hex digits of shape and index arrays; the first call copies them to the host."""
        if not self.known.stable_hash:
            digest = hashlib.blake2b(f"{self.n_rows} {self.n_cols}".encode(), digest_size=16)
            for array in (self.crow, self.col):
                digest.update(array.cpu().long().numpy().tobytes())
            self.known.stable_hash = digest.hexdigest()
        return self.known.stable_hash


def version_of(array: torch.Tensor) -> int:
    """Return torch's version counter (number of writes), or 0 for tensors made in inference mode, which have none."""
    return 0 if array.is_inference() else array._version


_seen: Final[OrderedDict[tuple[object, ...], tuple[StorageWeakRef, KnownPattern]]] = OrderedDict()
_mutex: Final = forking.lock()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> CudaStructure:
    """Return the structure of these arrays, with cached data while their memory lives and is not written.

    A sparse tensor returns new index tensors at every access, so arrays are identified by their memory. The cache does
    not keep the memory: derived data are dropped after the row starts are freed.
    """
    key = (
        crow.data_ptr(), col.data_ptr(), crow.shape[0], col.shape[0], n_cols, col.dtype, col.device,
        version_of(crow), version_of(col),
    )  # fmt: skip
    return CudaStructure(crow, col, n_cols, known_of(key, crow))


def known_of(key: tuple[object, ...], array: torch.Tensor) -> KnownPattern:
    """Return the data derived from a pattern and stored under `key` while `array`'s memory lives, else a new record."""
    with _mutex:
        found = _seen.get(key)
        if found is not None and not found[0].expired():
            _seen.move_to_end(key)
            return found[1]
        for old in [one for one, (storage, _) in _seen.items() if storage.expired()]:
            del _seen[old]
        known = KnownPattern()
        _seen[key] = StorageWeakRef(array.untyped_storage()), known
        while len(_seen) > MAX_KEPT:
            _seen.popitem(last=False)
    return known
