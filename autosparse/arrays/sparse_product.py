"""A @ B of two sparse operands by our multithreaded kernel, in SciPy's classes; what it does not take is SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse._sputils import upcast

from autosparse._native import runtime_api
from autosparse.config import get_options
from autosparse.operand import DATA, INDICES, INDPTR, Operand


def multiply(left: Any, right: Any) -> Any:  # Any: a csr or csc object of ours, and any sparse object of SciPy's
    """``left @ right`` in left's class, or None when SciPy should compute it (1-D, other dtypes, no runtime).

    Same entries, order and sums as SciPy's, to the last bit. Raises MemoryError without room for the product.
    """
    if not runtime_api.available or left.ndim != 2 or right.ndim != 2:
        return None
    dtype = np.dtype(upcast(left.dtype, right.dtype))
    if dtype.name not in runtime_api.DTYPE_CODES or not dtype.isnative:
        return None
    from autosparse.ops.spgemm import multiply as product

    # SciPy, too, converts the right operand to the format of the left one.
    other = right if type(right) is type(left) else left.__class__(right)
    first, second = (other, left) if left.format == "csc" else (left, other)  # (A B)ᵀ = Bᵀ Aᵀ, and csc is the transpose
    operands = _common_rows((first._cell, second._cell), dtype)
    if operands is None:
        return None
    shape = (left.shape[0], right.shape[1])
    rows = product(*operands, n_cols=second._cell.n_minor, threads=get_options().threads or 0)
    if not rows.indptr[-1]:
        return left.__class__(shape, dtype=dtype)
    return left.__class__((rows.data, rows.indices, rows.indptr), shape=shape)


def _common_rows(cells: tuple[Operand, Operand], dtype: np.dtype[Any]) -> Any:
    """Both operands as rows of one value and one index type; None when one of them is not for our kernels."""
    from autosparse.ops.spgemm import Rows

    if any((cell.rows or cell.validate()).dtype is None for cell in cells):
        return None
    index_dtype = np.result_type(*(cell.peek(INDICES) for cell in cells))
    return tuple(
        Rows(
            np.asarray(cell.peek(INDPTR), dtype=index_dtype),
            np.asarray(cell.peek(INDICES), dtype=index_dtype),
            np.asarray(cell.peek(DATA), dtype=dtype),
        )
        for cell in cells
    )
