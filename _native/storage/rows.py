"""Rows: op(A) in compressed rows, as native packers take it."""

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
    """op(A) by rows, as native code takes it; arrays are kept alive here."""

    n_rows: int
    n_cols: int
    indptr: Array
    indices: Array
    known: dict[Hashable, Any] = field(default_factory=dict, repr=False)  # found out on the way to packing, by `keep`

    def keep(self, key: Hashable, found: Any) -> None:
        """Keep what packing in some format will ask for; of several formats the last one's."""
        self.known.pop(self.known.get("kept"), None)
        self.known["kept"] = key
        self.known[key] = found

    @property
    def itype(self) -> int:
        """Code of the index type."""
        return runtime_api.INDEX_CODES[self.indptr.dtype.name]

    @property
    def head(self) -> tuple[Any, ...]:  # the leading arguments of every packer: ints and C pointers
        """itype, n_rows, n_cols, indptr, indices."""
        return self.itype, self.n_rows, self.n_cols, runtime_api.pointer(self.indptr), runtime_api.pointer(self.indices)


def packing_threads() -> int:
    """Threads that packing may use: as many as products."""
    return get_options().threads or runtime_api.max_threads()


def check(code: int) -> None:
    """MemoryError for what a native packer returned where it had no room."""
    if code < 0:
        raise MemoryError("no memory to pack a sparse operand")
