"""Products of two dtypes, of integers and of booleans, by kernels that convert the stored values while they read them.

Results have the dtype that SciPy gives them. The dense operand, which is small, is converted to that dtype; values of
the sparse one are converted block by block in a core's cache (`_native/runtime/pairs`). Such products are not tuned.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import _sparsetools
from scipy.sparse._sputils import upcast_char

from autosparse._native import memory, runtime_api
from autosparse.config import get_options
from autosparse.operands.csr import DATA, INDICES, INDPTR, Operand
from autosparse.operands.dense import by_rows, row_step
from autosparse.operands.native_rows import NativeRows, product_code, stored_code

AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes

MIN_WORK: Final = 1 << 14
"""Minimum multiplications (entries x columns) for our kernels; SciPy's loops take less time for smaller products.

`benchmarks/dtype_pairs.py --small` compares the two.
"""

LARGE: Final = 1 << 14
"""Minimum entries of a dense operand for which several threads convert it to the dtype of a product."""
MAX_COPIES: Final = 4
"""Maximum number of threads each of which converts a vector for itself; more of them share one converted vector."""
LINE_BYTES: Final = 64
_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED

_ffi, _lib = runtime_api.ffi, runtime_api.lib
_from_buffer: Any = _ffi.from_buffer if runtime_api.available else None  # unused without the runtime


@functools.lru_cache(maxsize=512)
def _result_of(dtype: np.dtype[Any], other: np.dtype[Any]) -> tuple[np.dtype[Any], int] | None:
    """Return SciPy's dtype of products of the two and its code; None where one of the three has no kernels."""
    if stored_code(dtype) < 0 or stored_code(other.newbyteorder("=")) < 0:
        return None
    result = np.dtype(upcast_char(dtype.char, other.char))
    code = product_code(result)
    return None if code is None else (result, code)


def multiply(operand: Operand, B: AnyArray, *, transposed: bool) -> AnyArray | None:
    """Compute C = M @ B, or Mᵀ @ B when `transposed`, in SciPy's dtype; None where no kernel reads one of the dtypes.

    B is (k,) or (k, n) with any strides. SciPy's compiled loops compute small products.
    """
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    values = operand.peek(DATA)
    if type(values) is not np.ndarray:
        return None
    found, work = _result_of(values.dtype, B.dtype), values.size * n_vecs
    del values  # a further reference would count as an exported array
    if found is None:
        return None
    dtype, code = found
    if work < MIN_WORK:
        return _by_scipy(operand, B, dtype, transposed=transposed)
    operand.begin_reading()  # the kernel reads the arrays by their addresses: another thread may replace them
    try:
        return _by_kernel(operand, operand.rows or operand.validate(), B, (dtype, code), transposed=transposed)
    finally:
        operand.end_reading()


def _by_kernel(
    operand: Operand, rows: NativeRows, B: AnyArray, result: tuple[np.dtype[Any], int], *, transposed: bool
) -> AnyArray | None:
    """Compute the product by a kernel that widens stored values; `result`: dtype and its code. None: it cannot."""
    dtype, code = result
    if rows.dtype_code < 0:
        return None
    options = get_options()
    runtime_api.hold(options.isa, options.wait)
    threads = options.threads or _lib.asp_max_threads()
    if not transposed and (found := _by_own_copies(operand, rows, B, result, threads)) is not None:
        return found
    B = widened(B, dtype, threads=threads)
    shape = rows.n_minor if transposed else rows.n_major, *B.shape[1:]
    out, n_vecs = memory.empty_result(shape, dtype), 1 if B.ndim == 1 else B.shape[1]
    kernel = _lib.asp_csr_t_mm_widened if transposed else _lib.asp_csr_mm_widened
    flags = runtime_api.FLAG_DETERMINISTIC if options.deterministic else 0

    def compute(code: int, words: int) -> None:
        """Compute the product with values of type `code`, of which an element of B has `words`."""
        status = kernel(
            rows.dtype_code, code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0],
            rows.data[0], runtime_api.pointer(B), words * (1 if B.ndim == 1 else row_step(B)), _from_buffer(out),
            words * n_vecs, words * n_vecs, threads, flags,
        )  # fmt: skip
        if status:
            runtime_api.raise_for(status)

    if (part := _part_of(operand.dtype, dtype)) is not None:
        compute(part, 2)
        if _is_finite(out):
            return out
    compute(code, 1)
    return out


def _by_own_copies(
    operand: Operand, rows: NativeRows, B: AnyArray, result: tuple[np.dtype[Any], int], threads: int
) -> AnyArray | None:
    """Compute M @ B for one column that each thread converts for itself; None where one converted column is better."""
    (dtype, code), n = result, rows.n_minor
    item = dtype.itemsize
    is_one = B.size == n <= operand.nnz and B.dtype != dtype and _part_of(operand.dtype, dtype) is None
    if not is_one or not 1 < threads <= MAX_COPIES or B.flags.num & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED:
        return None
    stride = (n * item // LINE_BYTES + 2) * LINE_BYTES
    copies = memory.empty_output((threads, stride // item), dtype)
    out = memory.empty_result((rows.n_major, *B.shape[1:]), dtype)
    status = _lib.asp_csr_mv_widened(
        rows.dtype_code, code, rows.index_code, rows.n_major, n, rows.indptr[0], rows.indices[0], rows.data[0],
        stored_code(B.dtype), _from_buffer(B), _from_buffer(copies), stride, _from_buffer(out), threads,
    )  # fmt: skip
    return None if status else out


@functools.lru_cache(maxsize=512)
def _part_of(dtype: np.dtype[Any], result: np.dtype[Any]) -> int | None:
    """Return the code of real parts where M is real and the product complex; else None.

    The parts of a complex column are then computed as two real columns, which takes half the multiplications.
    """
    is_mixed = result.kind == "c" and dtype.kind != "c"
    return product_code(np.empty(0, result).real.dtype) if is_mixed else None


def _is_finite(C: AnyArray) -> bool:
    """Return whether the parts of a complex array have a finite sum, which they have not if one is infinite or NaN.

    SciPy converts values of M to complex ones, and 0 times an infinite value is NaN.
    """
    with np.errstate(all="ignore"):
        return bool(np.isfinite(C.sum()))


def _by_scipy(operand: Operand, B: AnyArray, dtype: np.dtype[Any], *, transposed: bool) -> AnyArray | None:
    """Compute C = M @ B, or Mᵀ @ B when `transposed`, by SciPy's compiled loops, without the checks of its ``@``."""
    if operand._flat:
        return None
    n_rows, n_columns = operand.n_major, operand.n_minor
    matvec, matvecs = _sparsetools.csr_matvec, _sparsetools.csr_matvecs
    if transposed:
        n_rows, n_columns = n_columns, n_rows
        matvec, matvecs = _sparsetools.csc_matvec, _sparsetools.csc_matvecs
    indptr, indices, values = operand.peek(INDPTR), operand.peek(INDICES), operand.peek(DATA)
    if B.ndim == 1:
        out = np.zeros(n_rows, dtype)
        matvec(n_rows, n_columns, indptr, indices, values, B, out)
        return out
    out = np.zeros((n_rows, B.shape[1]), dtype)
    if B.shape[1] == 1:
        matvec(n_rows, n_columns, indptr, indices, values, B.ravel(), out.ravel())
    else:
        matvecs(n_rows, n_columns, B.shape[1], indptr, indices, values, B.ravel(), out.ravel())
    return out


def widened(B: AnyArray, dtype: np.dtype[Any], *, threads: int = 0) -> AnyArray:
    """Return the dense operand B in this dtype, which SciPy gives products with B, with rows of adjacent entries."""
    if B.dtype == dtype:
        if B.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED:
            return B
        return by_rows(B, threads=threads) if B.ndim == 2 else np.array(B, order="C")
    if B.size < LARGE or B.flags.num & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED or not runtime_api.available:
        return B.astype(dtype, order="C")
    stored, code = stored_code(B.dtype), product_code(dtype)
    if stored is not None and code is not None:
        wide = memory.empty_output(B.shape, dtype)
        at = _from_buffer(B), _from_buffer(wide), threads or _lib.asp_max_threads()
        if not _lib.asp_widen_values(stored, code, B.size, *at):
            return wide
    return B.astype(dtype, order="C")
