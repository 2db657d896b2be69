"""Sums, differences and elementwise products of two matrices of one class, on all threads.

The entries, their order and bits, and the dtypes are those of SciPy's loops. Those run on one thread: the helper of the
next product reads half of the result from another core, and the next result is written to lines that its core holds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sps

from autosparse import scalar
from autosparse._native import memory, runtime_api
from autosparse.config import get_options
from autosparse.light import INT32, INT32_MAX
from autosparse.operands.csr import DATA, INDICES, INDPTR

MAX_BYTES: Final = 16 << 20
"""Maximum size of the work space, which holds the entries of both matrices.

With 24 MB, more than half of a last-level cache, a sum takes 3.1 ms, and SciPy's loop 1.9 to 4.0 ms.
"""
_OPERATIONS: Final = {"_plus_": 0, "_minus_": 1, "_elmul_": 2}
"""Codes of `asp_merge_rows` by the names of SciPy's loops."""
_PRODUCT: Final = 2
_REAL: Final = 2  # codes of dtypes below are real: C multiplies complex infinities differently


def merged(A: Any, B: Any, name: str) -> Any:
    """Return A + B, A - B or A * B (by elements), as SciPy's loop `name` does; None where SciPy should compute it."""
    operation, kind = _OPERATIONS.get(name), type(A)
    if type(B) is kind._plain_class and kind._twin._twin is kind:
        B = kind(B)  # over the same arrays
    if operation is None or type(B) is not kind or kind._twin._twin is not kind or A._shape != B._shape:
        return None
    n_both = A.nnz + B.nnz
    if len(A._shape) != 2:
        return None
    (rows, left), (others, right) = A._cell.checked_arrays(), B._cell.checked_arrays()
    code, index = rows.dtype_code, rows.index_code
    is_plain = 0 <= code < len(scalar.VALUE_CODES) and (code, index) == (others.dtype_code, others.index_code)
    if not is_plain or (operation == _PRODUCT and code >= _REAL):
        return None
    dtype = left[INDICES].dtype
    if n_both * (dtype.itemsize + left[DATA].itemsize) > MAX_BYTES:
        return None
    if n_both > INT32_MAX if dtype == INT32 else not isinstance(A, sps.sparray):  # SciPy chooses the index type
        return None
    at, threads = runtime_api.address_of, get_options().threads or 0
    n_both = int(left[INDPTR][-1]) + int(right[INDPTR][-1])
    indptr = np.empty(rows.n_major + 1, dtype)
    loose = memory.empty_output((n_both,), dtype), memory.empty_output((n_both,), left[DATA].dtype)
    to = runtime_api.pointer(indptr)
    pair = list(map(at, left)), list(map(at, right))
    work = tuple(map(runtime_api.pointer, loose))
    nnz = runtime_api.lib.asp_merge_rows(code, index, operation, rows.n_major, *pair, to, *work, threads)
    if nnz < 0:  # not canonical
        return None
    own = memory.empty_output((nnz,), dtype), memory.empty_output((nnz,), left[DATA].dtype)
    starts = runtime_api.pointer(left[INDPTR]), runtime_api.pointer(right[INDPTR])
    itemsize = left[DATA].itemsize
    runtime_api.lib.asp_pack_merged(
        itemsize, index, rows.n_major, *starts, *work, to, *map(runtime_api.pointer, own), threads
    )
    return kind._of_rows(A._shape, (indptr, *own))
