"""Rows: op(A) in compressed rows, as native packers take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autosparse._native import runtime_api
from numpy.typing import NDArray

Array = NDArray[Any]  # indices of any supported dtype


@dataclass(frozen=True)
class Rows:
    """op(A) by rows, as native code takes it; arrays are kept alive here."""

    n_rows: int
    n_cols: int
    indptr: Array
    indices: Array

    @property
    def itype(self) -> int:
        """Code of the index type."""
        return runtime_api.INDEX_CODES[self.indptr.dtype.name]

    @property
    def head(self) -> tuple[Any, ...]:  # the leading arguments of every packer: ints and C pointers
        """itype, n_rows, n_cols, indptr, indices."""
        return self.itype, self.n_rows, self.n_cols, runtime_api.pointer(self.indptr), runtime_api.pointer(self.indices)
