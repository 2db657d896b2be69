"""Structure: the index arrays of a sparse tensor on a GPU, and what is known and chosen for its products."""

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
"""Patterns that are remembered for tensors that torch hands over again and again; the oldest go first."""
MAX_CHOICES: Final = 32
"""Kinds of product of one pattern whose choice is remembered; the oldest go first."""


@dataclass(slots=True, eq=False)
class KnownPattern:
    """What is known of one pattern: choices by kind of product, counts, hash. It does not keep row starts alive."""

    choices: OrderedDict[tuple[object, ...], Any] = field(default_factory=OrderedDict)  # Any: Choice, above this module
    facts: dict[bool, DevicePattern] = field(default_factory=dict)
    given: dict[tuple[bool, tuple[Selection, ...]], dict[Selection, DevicePattern]] = field(default_factory=dict)
    stable_hash: str = ""
    is_sound: bool = False  # the index arrays were looked through
    ready: dict[tuple[object, ...], Any] = field(default_factory=dict)  # signature of operands -> Choice for them
    order: torch.Tensor | slice = field(default_factory=lambda: slice(None))  # values as kernels of fibers read them

    def choose(self, key: tuple[object, ...], made: Any) -> Any:
        """`made` under `key`, or what stands there already."""
        kept = self.choices.setdefault(key, made)
        while len(self.choices) > MAX_CHOICES:
            self.choices.popitem(last=False)
            self.ready.clear()
        return kept

    def note(self, signature: tuple[object, ...], made: Any) -> None:
        """Products with operands of this `signature` need no further look: `made` serves them."""
        if len(self.ready) >= MAX_CHOICES:
            self.ready.clear()
        self.ready[signature] = made


class CudaPattern(Protocol):
    """What is asked of index arrays: a `CudaStructure`, or the fibers of a tensor."""

    known: KnownPattern

    @property
    def choices(self) -> OrderedDict[tuple[object, ...], Any]:
        """Kind of product -> `Choice`."""

    @property
    def nnz(self) -> int:
        """Stored entries."""

    @property
    def n_bytes(self) -> int:
        """Of the index arrays."""

    @property
    def col(self) -> torch.Tensor:
        """Columns of the entries: tells the device."""

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Rows of the result and of the dense operand."""

    def facts(self, transposed: bool) -> DevicePattern:
        """Counts for the model."""

    def entries(self, transposed: bool) -> DeviceEntries:
        """What is packed."""

    def stable_hash(self) -> str:
        """Names the pattern in keys."""


@dataclass(slots=True, eq=False)
class CudaStructure:
    """Compressed rows: crow (n + 1,), col (nnz,), of `n_cols` columns, and what is known of them."""

    crow: torch.Tensor
    col: torch.Tensor
    n_cols: int
    known: KnownPattern = field(default_factory=KnownPattern)

    @property
    def choices(self) -> OrderedDict[tuple[object, ...], Any]:
        """Kind of product -> `Choice`."""
        return self.known.choices

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.crow.shape[0] - 1

    @property
    def nnz(self) -> int:
        """Entries."""
        return self.col.shape[0]

    @property
    def n_bytes(self) -> int:
        """Of the index arrays."""
        return (self.crow.shape[0] + self.nnz) * self.col.element_size()

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Rows and columns of the matrix or of its transpose."""
        return (self.n_cols, self.n_rows) if transposed else (self.n_rows, self.n_cols)

    def rows(self) -> torch.Tensor:
        """Row of each entry, (nnz,) int64."""
        counts = self.crow.long().diff()
        ids = torch.arange(self.n_rows, device=self.col.device)
        return torch.repeat_interleave(ids, counts, output_size=self.nnz)  # known: the host does not wait

    def check(self) -> None:
        """StructureError for what a kernel must not follow; looked through once, and the host waits for it."""
        if self.known.is_sound:
            return
        starts, col = self.crow, self.col
        faults = {
            "its starts of rows do not begin with 0 or do not end with the number of entries":
                (starts[:1] != 0).any() | (starts[-1:] != self.nnz).any(),
            "its starts of rows fall": (starts[1:] < starts[:-1]).any(),
            "it has columns outside of the matrix": ((col < 0) | (col >= self.n_cols)).any(),
        }  # fmt: skip
        found = torch.stack(list(faults.values())).tolist()
        for fault, is_there in zip(faults, found, strict=True):
            if is_there:
                raise StructureError.unsound(fault, shape=(self.n_rows, self.n_cols), n_stored=self.nnz)
        self.known.is_sound = True

    def facts(self, transposed: bool) -> DevicePattern:
        """Counts of the pattern, taken once; the host waits for them. StructureError."""
        self.check()
        known = self.known.facts
        if transposed not in known:
            known[transposed] = facts_of(*self.compressed(transposed), self.shape(transposed)[1])
        return known[transposed]

    def compressed(self, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """(crow, col) of the matrix or of its transpose."""
        if not transposed:
            return self.crow, self.col
        order = torch.sort(self.col, stable=True).indices
        ends = torch.cumsum(torch.bincount(self.col, minlength=self.n_cols), 0)
        return torch.cat([ends.new_zeros(1), ends]), self.rows()[order]

    def entries(self, transposed: bool) -> DeviceEntries:
        """What is packed of the matrix or of its transpose. StructureError."""
        self.check()
        make = entries_of_transpose if transposed else entries_of_csr
        return make(self.crow, self.col, self.n_cols)

    def stable_hash(self) -> str:
        """32 hex digits of shape and index arrays, which are copied to the host for it once."""
        if not self.known.stable_hash:
            digest = hashlib.blake2b(f"{self.n_rows} {self.n_cols}".encode(), digest_size=16)
            for array in (self.crow, self.col):
                digest.update(array.cpu().long().numpy().tobytes())
            self.known.stable_hash = digest.hexdigest()
        return self.known.stable_hash


def version_of(array: torch.Tensor) -> int:
    """Torch's count of writes; tensors made in inference mode are not counted."""
    return 0 if array.is_inference() else array._version


_seen: Final[OrderedDict[tuple[object, ...], tuple[StorageWeakRef, KnownPattern]]] = OrderedDict()
_mutex: Final = forking.lock()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> CudaStructure:
    """These arrays with what is known of them: the same for the same memory while it lives and nobody writes to it.

    A sparse tensor hands out new objects for its index arrays at every look, so memory is what is recognised. Nothing
    here keeps it: what is known of a pattern goes when its row starts are given back.
    """
    key = (
        crow.data_ptr(), col.data_ptr(), crow.shape[0], col.shape[0], n_cols, col.dtype, col.device,
        version_of(crow), version_of(col),
    )  # fmt: skip
    return CudaStructure(crow, col, n_cols, known_of(key, crow))


def known_of(key: tuple[object, ...], array: torch.Tensor) -> KnownPattern:
    """What is known under `key` while the memory of `array` lives."""
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
