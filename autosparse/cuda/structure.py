"""Structure: the index arrays of a sparse tensor on a GPU, and what is packed and chosen for its products."""

# mypy: allow-untyped-calls
from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from autosparse import forking
from autosparse.tuner.gpu.facts import DevicePattern, facts_of

MOST_KEPT: Final = 64
"""Structures that are remembered for tensors that torch hands over again and again; the oldest go first."""


@dataclass(slots=True, eq=False)
class Structure:
    """Compressed rows: crow (n + 1,), col (nnz,), of `n_cols` columns. Choices are kept by product."""

    crow: torch.Tensor
    col: torch.Tensor
    n_cols: int
    choices: dict[tuple[object, ...], Any] = field(default_factory=dict)  # Any: Choice, which is above this module
    _facts: dict[bool, DevicePattern] = field(default_factory=dict)
    _hash: str = ""

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.crow.shape[0] - 1

    @property
    def nnz(self) -> int:
        """Entries."""
        return self.col.shape[0]

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Rows and columns of the matrix or of its transpose."""
        return (self.n_cols, self.n_rows) if transposed else (self.n_rows, self.n_cols)

    def facts(self, transposed: bool) -> DevicePattern:
        """Counts of the pattern, taken once; the host waits for them."""
        if transposed not in self._facts:
            self._facts[transposed] = facts_of(*self.compressed(transposed), self.shape(transposed)[1])
        return self._facts[transposed]

    def compressed(self, transposed: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """(crow, col) of the matrix or of its transpose."""
        if not transposed:
            return self.crow, self.col
        rows = torch.repeat_interleave(torch.arange(self.n_rows, device=self.col.device), self.crow.long().diff())
        order = torch.sort(self.col, stable=True).indices
        ends = torch.cumsum(torch.bincount(self.col, minlength=self.n_cols), 0)
        return torch.cat([ends.new_zeros(1), ends]), rows[order]

    def stable_hash(self) -> str:
        """32 hex digits of shape and index arrays, which are copied to the host for it once."""
        if not self._hash:
            digest = hashlib.blake2b(f"{self.n_rows} {self.n_cols}".encode(), digest_size=16)
            for array in (self.crow, self.col):
                digest.update(array.cpu().long().numpy().tobytes())
            self._hash = digest.hexdigest()
        return self._hash


_known: Final[OrderedDict[tuple[object, ...], Structure]] = OrderedDict()
_mutex: Final = forking.lock()


def structure_of(crow: torch.Tensor, col: torch.Tensor, n_cols: int) -> Structure:
    """The structure of these arrays; the same object for the same memory while nobody has written to it."""
    key: tuple[object, ...] = (
        *(item for array in (crow, col) for item in (array.data_ptr(), array.shape[0], array._version)),
        n_cols, crow.device, col.dtype,
    )  # fmt: skip
    with _mutex:
        found = _known.get(key)
        if found is None:  # it holds the arrays: their addresses are not given to others while it is here
            found = _known[key] = Structure(crow, col, n_cols)
            while len(_known) > MOST_KEPT:
                _known.popitem(last=False)
        else:
            _known.move_to_end(key)
        return found
