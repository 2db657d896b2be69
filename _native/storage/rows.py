"""Compressed rows of op(A), the input of the packing functions."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from autosparse._native import runtime_api
from numpy.typing import NDArray

from autosparse.config import get_options
from autosparse.core.values import dataclass, field

Array = NDArray[Any]  # indices of any supported dtype


@dataclass(frozen=True)
class KernelRows:
    """op(A) by rows as C code reads it; the object keeps the arrays alive."""

    n_rows: int
    n_cols: int
    indptr: Array
    indices: Array
    # statistics computed on the way to packing, stored by `keep`
    known: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    is_new: bool = False  # these arrays and the values were made for packing: a packed copy may keep them

    def keep(self, key: Hashable, found: Any) -> None:
        """Cache a result that packing in some format will need; only the latest one is kept."""
        self.known.pop(self.known.get("kept"), None)
        self.known["kept"] = key
        self.known[key] = found

    @property
    def itype(self) -> int:
        """Code of the index type."""
        return runtime_api.INDEX_CODES[self.indptr.dtype.name]

    @property
    def head(self) -> tuple[Any, ...]:  # the leading arguments of every packer: ints and C pointers
        """Leading arguments of every packing function: itype, n_rows, n_cols, indptr, indices."""
        return self.itype, self.n_rows, self.n_cols, runtime_api.pointer(self.indptr), runtime_api.pointer(self.indices)


def packing_threads() -> int:
    """Return the number of threads that packing may use, as many as products."""
    return get_options().threads or runtime_api.max_threads()


def check(code: int) -> None:
    """Raise MemoryError if a packing function returned a negative code."""
    if code < 0:
        raise MemoryError("no memory to pack a sparse operand")
