"""`matmul(A, B, out=)`: the product into memory that the caller already has."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse.arrays import construct
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.config import decisive_options
from autosparse.dispatch import executor
from autosparse.errors import InputTypeError, LayoutError
from autosparse.operands.native_rows import NativeRows

AnyArray = NDArray[Any]  # Any: any dtype that SciPy takes

OUT_HINT: Final = "pass out=np.empty(shape, dtype=...)"
_PLAIN: Final = 0x505  # NPY_ARRAY_C_CONTIGUOUS | OWNDATA | ALIGNED | WRITEABLE, see numpy/ndarraytypes.h


def matmul(A: Any, B: Any, *, out: AnyArray | None = None) -> Any:
    """Compute C = A @ B, into `out` when given, and return C; see `light.into.matmul`."""
    if out is not None and isinstance(A, AutoSparseMatrix):
        cell = A._cell
        enter = cell.fast_path
        turned = A._transposed
        if enter is not None and (
            enter(cell, B, out, decisive_options(), turned) or executor.enters(cell, B, out, turned)
        ):
            return out
        rows = _rows_if_plain(A, B, out)
        if rows is not None:
            executor.matmul(cell, B, transposed=A._transposed, out=out, rows=rows)
            executor.open_fast_path(cell, B, transposed=A._transposed)
            return out
    if sps.issparse(A) and not isinstance(A, AutoSparseMatrix):
        A = construct.wrapped(A)
    if out is None:
        return A @ B
    if not isinstance(out, np.ndarray):
        raise InputTypeError.refused("return arrays must be of ArrayType", given=construct.describe(out), hint=OUT_HINT)
    direct = isinstance(A, AutoSparseMatrix) and _goes_direct(A, B)
    if direct:
        shape, dtype = (A._shape[0], *B.shape[1:]), B.dtype
        _check_out(out, shape, dtype)
        if not any(np.may_share_memory(out, part) for part in (B, *map(A._cell.peek, range(3)))):
            executor.matmul(A._cell, B, transposed=A._transposed, out=out)
            executor.open_fast_path(A._cell, B, transposed=A._transposed)
            return out
    C = A @ B
    if not isinstance(C, np.ndarray):
        raise InputTypeError.refused(
            "out= needs a dense product", given=construct.describe(B), hint="omit out=, or pass a dense B"
        )
    _check_out(out, C.shape, C.dtype)
    out[...] = C
    return out


def _rows_if_plain(A: AutoSparseMatrix, B: Any, out: Any) -> NativeRows | None:
    """Return the validated rows of A if A, B and `out` need no conversion or checks and `out` shares no memory.

    This takes about 1 us.
    """
    if type(out) is not np.ndarray or type(B) is not np.ndarray:
        return None
    cell = A._cell
    rows = cell.rows or cell.validate()
    flags = out.flags
    is_plain = (
        B.dtype is rows.dtype is out.dtype
        and B.ndim <= 2
        and B.shape[:1] == A._shape[-1:]
        and out.shape == A._shape[:1] + B.shape[1:]
        and flags.num & _PLAIN == _PLAIN
        and _apart(B, out)
        and _apart(cell.peek(0), out)
        and _apart(cell.peek(1), out)
        and _apart(cell.peek(2), out)
    )
    return rows if is_plain else None


def _apart(part: AnyArray, out: AnyArray) -> bool:
    """Return whether `part` certainly shares no memory with `out`, which owns its memory.

    True if `part` owns its memory too, or views an array that does and is not `out`.
    """
    base = part.base
    if base is None:
        return part is not out
    return type(base) is np.ndarray and base.base is None and base is not out


def _goes_direct(A: AutoSparseMatrix, B: Any) -> bool:
    """Return whether the executor multiplies A and B unchanged: B is an ndarray of A's dtype and of fitting shape."""
    rows = A._cell.rows or A._cell.validate()
    is_native = rows.dtype is not None and type(B) is np.ndarray and B.dtype == rows.dtype  # None == float64 is true
    return is_native and B.ndim in (1, 2) and B.shape[0] == A._shape[-1]


def _check_out(out: AnyArray, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    construct.check_out(out, shape, dtype, hint=OUT_HINT)
    itemsize = out.itemsize
    gapless = out.ndim == 1 or out.shape[1] <= 1 or out.strides[1] == itemsize
    if out.size and not (gapless and out.flags.aligned and all(step % itemsize == 0 for step in out.strides[:1])):
        raise LayoutError.out_strides(strides=out.strides, itemsize=itemsize)
