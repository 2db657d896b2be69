"""The product by the kernels that were compiled at install: no plan, no copy of A, every value read where it lies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import memory, runtime_api
from autosparse.operand import NativeRows, Operand

AnyArray = NDArray[Any]  # one of the native dtypes

LARGE_OUTPUT_BYTES: Final = 1 << 20  # results from here on take recycled pages: fresh ones cost as much as the product

_CONTIGUOUS_ALIGNED: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED


def default_product(
    operand: Operand,
    B: AnyArray,
    *,
    transposed: bool,
    out: AnyArray | None = None,
    threads: int | None = None,
    flags: int = 0,
) -> AnyArray:
    """C = M @ B, or Mᵀ @ B when `transposed`, for B (k,) or (k, n) of the operand's dtype, any strides.

    `out`, when given, has the right shape and dtype and rows without gaps between their entries; it is not looked at
    before it is overwritten (added to, with FLAG_ACCUMULATE). `threads`: most threads used.
    """
    rows = operand.rows or operand.validate()
    if B.flags.num & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED:
        ldb = 1 if B.ndim == 1 else B.shape[1]
        source = runtime_api.ffi.from_buffer(B)
    else:
        B, ldb, source = _strided(B)
    n_out = rows.n_minor if transposed else rows.n_major
    n_vecs = 1 if B.ndim == 1 else B.shape[1]
    if out is None:
        out = _empty((n_out,) if B.ndim == 1 else (n_out, n_vecs), rows)
        ldc, target = n_vecs, runtime_api.ffi.from_buffer(out)
    else:
        ldc = out.strides[0] // out.itemsize
        target = runtime_api.ffi.cast("void *", out.__array_interface__["data"][0])
    kernel = runtime_api.lib.asp_csr_t_mm if transposed else runtime_api.lib.asp_csr_mm
    kernel(
        rows.dtype_code, rows.index_code, rows.n_major, rows.n_minor, rows.indptr[0], rows.indices[0], rows.data[0],
        source, ldb, target, ldc, n_vecs, threads or runtime_api.max_threads(), flags,
    )  # fmt: skip
    return out


def _empty(shape: tuple[int, ...], rows: NativeRows) -> AnyArray:
    assert rows.dtype is not None
    n_bytes = shape[0] * (shape[1] if len(shape) == 2 else 1) * rows.dtype.itemsize
    return np.empty(shape, rows.dtype) if n_bytes < LARGE_OUTPUT_BYTES else memory.empty_output(shape, rows.dtype)


def _strided(B: AnyArray) -> tuple[AnyArray, int, Any]:
    """(B or a copy of it, entries from one row to the next, pointer) for a B that is not simply contiguous."""
    itemsize = B.itemsize
    steps_evenly = B.flags.aligned and B.size > 0 and B.strides[0] % itemsize == 0
    if steps_evenly and (B.ndim == 1 or B.shape[1] == 1 or B.strides[1] == itemsize):
        return B, B.strides[0] // itemsize, runtime_api.ffi.cast("void *", B.__array_interface__["data"][0])
    B = np.array(B, order="C", ndmin=1)
    return B, 1 if B.ndim == 1 else B.shape[1], runtime_api.ffi.from_buffer(B)
