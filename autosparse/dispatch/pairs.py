"""Products of two dtypes, of integers and of booleans, by kernels that convert the stored values while they read them.

Results have the dtype that SciPy gives them. The dense operand, which is small, is converted to that dtype; values of
the sparse one are converted block by block in a core's cache (`_native/runtime/pairs`). Such products are not tuned.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse._sputils import upcast_char

from autosparse._native import memory, runtime_api
from autosparse.config import get_options
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand
from autosparse.operands.dense import by_rows, row_step
from autosparse.operands.native_rows import NativeRows, product_code, stored_code

AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes

MIN_WORK: Final = 1 << 12
"""Minimum multiplications (entries x columns) for our kernels; below, SciPy takes no longer than our checks."""

_ffi, _lib = runtime_api.ffi, runtime_api.lib
_from_buffer: Any = _ffi.from_buffer if runtime_api.available else None  # unused without the runtime


@functools.lru_cache(maxsize=512)
def _result_of(dtype: np.dtype[Any], other: np.dtype[Any]) -> tuple[np.dtype[Any], int] | None:
    """Return SciPy's dtype of products of the two and its code; None where one of the three has no kernels."""
    if stored_code(dtype) is None or stored_code(other.newbyteorder("=")) is None:
        return None
    result = np.dtype(upcast_char(dtype.char, other.char))
    code = product_code(result)
    return None if code is None else (result, code)


def multiply(operand: Operand, rows: NativeRows | None, B: AnyArray, *, transposed: bool) -> AnyArray | None:
    """Compute C = M @ B, or Mᵀ @ B when `transposed`, in SciPy's dtype; None where SciPy computes it.

    B is (k,) or (k, n) with any strides; `rows` are the operand's if its dtype has kernels of its own.
    """
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    values = operand.peek(DATA)
    if type(values) is not np.ndarray or values.size * n_vecs < MIN_WORK:
        return None
    found = _result_of(values.dtype, B.dtype)
    del values  # a further reference would count as an exported array
    if found is None:
        return None
    is_native = rows is not None and rows.dtype is not None
    codes = (rows.dtype_code, rows.index_code) if is_native and rows is not None else operand.validate_stored()
    if codes is None:
        return None
    (dtype, code), options = found, get_options()
    runtime_api.hold(options.isa, options.wait)
    threads = options.threads or _lib.asp_max_threads()
    B = widened(B, dtype, threads=threads)
    out = memory.empty_result(((operand.n_minor if transposed else operand.n_major), *B.shape[1:]), dtype)
    ldb = 1 if B.ndim == 1 else row_step(B)
    status = (_lib.asp_csr_t_mm_widened if transposed else _lib.asp_csr_mm_widened)(
        codes[0], code, codes[1], operand.n_major, operand.n_minor, _from_buffer(operand.peek(INDPTR)),
        _from_buffer(operand.peek(INDICES)), _from_buffer(operand.peek(DATA)), runtime_api.pointer(B), ldb,
        _from_buffer(out), n_vecs, n_vecs, threads, runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0,
    )  # fmt: skip
    runtime_api.raise_for(status)
    return out


def widened(B: AnyArray, dtype: np.dtype[Any], *, threads: int = 0) -> AnyArray:
    """Return the dense operand B in this dtype, which SciPy gives products with B, with rows of adjacent entries."""
    if B.dtype == dtype:
        return by_rows(B, threads=threads) if B.ndim == 2 else np.ascontiguousarray(B)
    if not B.flags.c_contiguous or not B.flags.aligned or not runtime_api.available:
        return B.astype(dtype, order="C")
    stored, code = stored_code(B.dtype), product_code(dtype)
    if stored is not None and code is not None:
        wide = memory.empty_output(B.shape, dtype)
        at = _from_buffer(B), _from_buffer(wide), threads or _lib.asp_max_threads()
        if not _lib.asp_widen_values(stored, code, B.size, *at):
            return wide
    return B.astype(dtype, order="C")
