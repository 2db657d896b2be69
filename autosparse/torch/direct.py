"""The common case in one function each: from PyTorch's tensors straight to the default kernels.

For a few thousand multiplications what Python does costs more than the kernel. Real values and the layouts CSR and CSC;
products that are large enough to tune, and whatever is not plain, answer None and go the long way (`aten`).
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import torch

from autosparse._native import runtime_api
from autosparse.torch import native
from autosparse.torch.cells import SMALL_PRODUCT
from autosparse.torch.structure import INDEX_CODES, VALUE_CODES, lib

Rows: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]  # crow, col, values, whether stored by columns

_CSR, _CSC, _STRIDED = torch.sparse_csr, torch.sparse_csc, torch.strided
_CODES: Final = {dtype: code for dtype, code in VALUE_CODES.items() if not dtype.is_complex}


def _rows_of(A: torch.Tensor) -> Rows | None:
    """The arrays of a plain real CSR or CSC matrix."""
    layout = A.layout
    if layout is _CSR:
        crow, col, by_columns = A.crow_indices(), A.col_indices(), False
    elif layout is _CSC:
        crow, col, by_columns = A.ccol_indices(), A.row_indices(), True
    else:
        return None
    values = A.values()
    if (
        values.dim() != 1
        or crow.dtype is not col.dtype
        or values.is_neg()
        or not (crow.is_contiguous() and col.is_contiguous() and values.is_contiguous() and values.is_cpu)
    ):
        return None
    return crow, col, values, by_columns


def _is_plain(X: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether X is dense memory of this real dtype."""
    return X.dtype is dtype and X.layout is _STRIDED and X.is_cpu and not X.is_neg()


def multiply(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor | None:
    """A B for B (k,) or (k, m); None: not small, or not plain."""
    dtype = B.dtype
    if A.dtype is not dtype or (code := _CODES.get(dtype)) is None or not _is_plain(B, dtype):
        return None
    shape, steps = B.shape, B.stride()
    if len(shape) == 2:
        m, has_rows = shape[1], steps[1] == 1 and steps[0] >= shape[1]
    else:
        m, has_rows = 1, len(shape) == 1 and steps[0] > 0
    if not has_rows or (rows := _rows_of(A)) is None:
        return None
    crow, col, values, by_columns = rows
    n, k = A.shape
    if shape[0] != k or col.shape[0] * m >= SMALL_PRODUCT:
        return None
    out = native.empty((n, m) if len(shape) == 2 else (n,), dtype)
    status = lib.asp_csr_mm_at(
        by_columns, code, INDEX_CODES[col.dtype], k if by_columns else n, n if by_columns else k, crow.data_ptr(),
        col.data_ptr(), values.data_ptr(), B.data_ptr(), steps[0], out.data_ptr(), m, native.threads(), native.flags(),
    )  # fmt: skip
    if status:
        runtime_api.raise_for(status)
    return out


def sample(S: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, beta: Any, alpha: Any) -> torch.Tensor | None:
    """Alpha · (X Y at S's entries) + beta · S with index arrays of its own, of any size; None: not plain."""
    dtype = S.dtype
    code, is_real = _CODES.get(dtype), type(alpha) is not complex and type(beta) is not complex
    if S.layout is not _CSR or X.dim() != 2 or Y.dim() != 2 or code is None or not is_real:
        return None
    if not (_is_plain(X, dtype) and _is_plain(Y, dtype)):
        return None
    (n, K), (K_too, m), (ldx, step) = X.shape, Y.shape, X.stride()
    if K_too != K or S.shape != (n, m) or step != 1 or ldx < K:
        return None
    rows = _rows_of(S)
    if rows is None:
        return None
    crow, col, base, _ = rows
    nnz = col.shape[0]
    new_col, values = native.empty((nnz,), col.dtype), native.empty((nnz,), dtype)
    row_step, column_step = Y.stride()
    status = lib.asp_sddmm_at(
        code, INDEX_CODES[col.dtype], n, m, crow.data_ptr(), col.data_ptr(), nnz, X.data_ptr(), ldx,
        Y.data_ptr(), row_step, column_step, K, alpha, beta, base.data_ptr(), values.data_ptr(), new_col.data_ptr(),
        native.threads(),
    )  # fmt: skip
    if status:
        runtime_api.raise_for(status)
    return torch.sparse_csr_tensor(crow.clone(), new_col, values, (n, m), check_invariants=False)
