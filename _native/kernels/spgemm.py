"""Sparse times sparse product C[i,j] = sum_k A[i,k] * B[k,j], row by row on several threads.

Three solvers accumulate a row: an accumulator per column (Gustavson), a hash table of the row's columns, and a copy of
a multiple of one row of B. The runtime chooses for each row by estimated costs. Entries, their order within rows and
their sums equal those of SciPy's ``csr_matmat`` to the last bit. The column
touched last comes first, zero sums are not stored, and duplicates of the operands are multiplied and summed.
"""

# No `from __future__ import annotations`: a NamedTuple compiles each string annotation while the module is loaded.

from typing import Any, Final, NamedTuple

import numpy as np
from autosparse._native import memory, runtime_api
from numpy.typing import NDArray

from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.scalar import PRODUCT_CODES, WIDE_INDEX

_DTYPE_CODES: Final = {np.dtype(name): code for name, code in PRODUCT_CODES.items()}
_INDEX_CODES: Final = {np.dtype(name): code for name, code in runtime_api.INDEX_CODES.items()}


class CompressedRows(NamedTuple):
    """Compressed rows (indptr, indices, data): contiguous arrays, one index type, data of a native dtype."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def astype(self, dtype: np.dtype[Any], index_dtype: np.dtype[Any]) -> "CompressedRows":
        """Return the same rows with values of `dtype` and indices of `index_dtype`."""
        indptr, indices, data = self
        return CompressedRows(
            indptr.astype(index_dtype, copy=False),
            indices.astype(index_dtype, copy=False),
            data.astype(dtype, copy=False),
        )


BY_CLASS: Final = "by class"
"""Name of the solver that takes the cheapest of the others for each row."""
SOLVERS: Final = (BY_CLASS, "dense", "hash", "copy")
"""Solvers in the order of their codes in the runtime."""
MAX_EMPTY_COLS: Final = 8
"""Maximum columns per entry of B for accumulators per column; beyond, only nonempty columns get an accumulator."""
FEW_COLS: Final = 1 << 22
"""Number of columns up to which every column has an accumulator."""


def multiply(
    A: CompressedRows, B: CompressedRows, *, n_cols: int, threads: int = 0, solver: str = BY_CLASS
) -> CompressedRows:
    """Return the rows of A @ B, which has `n_cols` columns; both operands have the same dtype and index type.

    Memory grows with the number of entries, not with `n_cols`. Raises MemoryError if it is insufficient.
    """
    if n_cols <= FEW_COLS + MAX_EMPTY_COLS * B.indices.size:
        return _multiply(A, B, n_cols=n_cols, threads=threads, solver=solver)
    used, numbers = np.unique(B.indices[: B.indptr[-1]], return_inverse=True)
    narrow = B._replace(indices=np.ascontiguousarray(numbers.reshape(-1), dtype=B.indices.dtype))
    made = _multiply(A, narrow, n_cols=max(1, used.size), threads=threads, solver=solver)
    return made._replace(indices=used.astype(made.indices.dtype, copy=False)[made.indices])


def codes_of(A: CompressedRows) -> tuple[int, int]:
    """Return the runtime's codes of the dtypes of values and indices."""
    return _DTYPE_CODES[A.data.dtype], _INDEX_CODES[A.indptr.dtype]


def _multiply(A: CompressedRows, B: CompressedRows, *, n_cols: int, threads: int, solver: str) -> CompressedRows:
    """Return the rows of A @ B, computed by the runtime.

    The index type of the result is that of the operands, or int64 if the number of entries exceeds int32.
    """
    lib, ffi, pointer = runtime_api.lib, runtime_api.ffi, runtime_api.pointer
    value_code, index_code = codes_of(A)
    n_entries = ffi.new(WIDE_INDEX.pointer)
    job = lib.asp_spgemm_begin(
        value_code, index_code, (A.n_rows, B.n_rows, n_cols),
        *map(pointer, A), *map(pointer, B), threads, SOLVERS.index(solver), n_entries,
    )  # fmt: skip
    if job == ffi.NULL:
        raise MemoryError(f"no memory for the product of {A.n_rows} rows with a matrix of {n_cols} columns")
    try:
        wide = index_code == 1 or n_entries[0] > np.iinfo(NarrowIndex).max
        index_dtype = np.dtype(WideIndex if wide else NarrowIndex)
        indptr = memory.empty_output((A.n_rows + 1,), index_dtype)
        parts = []
        for part, dtype in enumerate((index_dtype, A.data.dtype)):
            if dtype != (A.indices, A.data)[part].dtype or not memory.is_recycled(n_entries[0] * dtype.itemsize):
                parts.append(np.empty(n_entries[0], dtype))
                continue
            lib.asp_spgemm_hand_over(job, part)
            parts.append(memory.empty_output((n_entries[0],), dtype))
    except BaseException:
        lib.asp_spgemm_drop(job)
        raise
    result = CompressedRows(indptr, *parts)
    runtime_api.raise_for(lib.asp_spgemm_finish(job, int(wide), *map(pointer, result)))
    return result
