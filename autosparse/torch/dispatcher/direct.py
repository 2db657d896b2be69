"""Fast path of the common products: one function each, from PyTorch's tensors to the default kernel.

For a few thousand multiplications the Python code takes longer than the kernel. The functions accept real values and
layouts CSR and CSC. They return None for other tensors, and for products large enough to tune; `operators` computes
these.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import torch

from autosparse._native import runtime_api
from autosparse.scalar.tensors import wide_index
from autosparse.torch import native, sampled, thresholds
from autosparse.torch.structure import INDEX_CODES, VALUE_CODES, Structure, checked, lib

Rows: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]  # crow, col, values, whether stored by columns

_CSR, _CSC, _STRIDED = torch.sparse_csr, torch.sparse_csc, torch.strided
_CODES: Final = {dtype: code for dtype, code in VALUE_CODES.items() if not dtype.is_complex}
"""Runtime codes of real value dtypes."""


def _rows_of(A: torch.Tensor) -> Rows | None:
    """Return (starts, indices, values, whether by columns) of a contiguous real CSR or CSC matrix, else None."""
    layout = A.layout
    if layout is _CSR:
        crow, col, by_columns = A.crow_indices(), A.col_indices(), False
    elif layout is _CSC:
        crow, col, by_columns = A.ccol_indices(), A.row_indices(), True
    else:
        return None
    values = A.values()
    if (
        values.shape != col.shape  # PyTorch creates such tensors where check_invariants is off
        or col.dim() != 1
        or crow.shape[0] != A.shape[by_columns] + 1
        or crow.dtype is not col.dtype
        or values.dtype is not A.dtype  # `Module.double()` changes the dtype of a compressed parameter only
        or values.is_neg()
        or not (crow.is_contiguous() and col.is_contiguous() and values.is_contiguous() and values.is_cpu)
    ):
        return None
    return crow, col, values, by_columns


def _is_plain(X: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether X is a dense tensor on the CPU of this real dtype, not lazily negated."""
    return X.dtype is dtype and X.layout is _STRIDED and X.is_cpu and not X.is_neg()


def multiply(A: torch.Tensor, B: torch.Tensor, *, n_dims: int = 2) -> torch.Tensor | None:
    """Return A B for a CSR or CSC matrix A and B (k, m), or (k,) if `n_dims` is 1; or for A dense and B CSC.

    Returns None for large products and for tensors that this path does not support.
    """
    dtype, layout = B.dtype, A.layout
    if layout is not _CSR and layout is not _CSC:
        return _multiply_rows(A, B) if layout is _STRIDED and B.layout is _CSC else None
    if A.dtype is not dtype or (code := _CODES.get(dtype)) is None or not _is_plain(B, dtype):
        return None
    shape, steps = B.shape, B.stride()
    if len(shape) != n_dims:
        return None
    if n_dims == 2:
        m, has_rows = shape[1], steps[1] == 1 and steps[0] >= shape[1]
    else:
        m, has_rows = 1, steps[0] > 0
    if not has_rows or (rows := _rows_of(A)) is None:
        return None
    crow, col, values, by_columns = rows
    n, k = A.shape
    if shape[0] != k or col.shape[0] * m >= thresholds.DIRECT_PRODUCT:
        return None
    checked((crow, col), k if by_columns else n, n if by_columns else k, of=A)
    out = native.empty((n, m) if n_dims == 2 else (n,), dtype)
    status = lib.asp_csr_mm_at(
        by_columns, code, INDEX_CODES[col.dtype], k if by_columns else n, n if by_columns else k, crow.data_ptr(),
        col.data_ptr(), values.data_ptr(), B.data_ptr(), steps[0], out.data_ptr(), m, native.threads(), native.flags(),
    )  # fmt: skip
    if status:
        runtime_api.raise_for(status)
    return out


def _multiply_rows(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor | None:
    """Return A B for dense A (n, k) and a CSC matrix B, as in ``linear(x, weight)`` with a CSR weight; else None."""
    dtype, steps = A.dtype, A.stride()
    if B.dtype is not dtype or (code := _CODES.get(dtype)) is None or len(steps) != 2 or steps[1] != 1:
        return None
    if not _is_plain(A, dtype) or (rows := _rows_of(B)) is None:
        return None
    crow, col, values, _ = rows
    (n, k), (k_too, m) = A.shape, B.shape
    if k_too != k or steps[0] < k or n * col.shape[0] >= thresholds.ROW_BY_ROW_PRODUCT:
        return None
    checked((crow, col), m, k, of=B)
    out = native.empty((n, m), dtype)
    status = lib.asp_csr_rows_at(
        code, INDEX_CODES[col.dtype], m, k, crow.data_ptr(), col.data_ptr(), values.data_ptr(), A.data_ptr(), steps[0],
        n, out.data_ptr(), native.threads(), native.flags(),
    )  # fmt: skip
    if status:
        runtime_api.raise_for(status)
    return out


def scale_and_add(product: torch.Tensor, base: torch.Tensor, beta: Any, alpha: Any) -> bool:
    """Overwrite the contiguous `product` by alpha · product + beta · base; return False, unchanged, if not applicable.

    Two operators of PyTorch take 3 µs, part of it to make a tensor of a number.
    """
    code = _CODES.get(product.dtype)
    if alpha == 1 or code is None or type(alpha) is complex or type(beta) is complex:
        return False
    if product.numel() > thresholds.COPIED_ENTRIES:
        return False
    shape = product.shape
    if base.shape != shape or not _is_plain(base, product.dtype):
        return False
    steps = (*base.stride(), 1)
    n, m = shape if len(shape) == 2 else (shape[0], 1)
    address = base.data_ptr() if beta != 0 else 0
    status: int = lib.asp_scaled_sum_at(code, n, m, product.data_ptr(), alpha, address, steps[0], steps[1], beta)
    return status == 0


def sample(S: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, beta: Any, alpha: Any) -> torch.Tensor | None:
    """Return alpha · (X Y at the entries of the CSR matrix S) + beta · S as a new matrix; None for other tensors."""
    dtype = S.dtype
    code, is_real = _CODES.get(dtype), type(alpha) is not complex and type(beta) is not complex
    if S.layout is not _CSR or X.dim() != 2 or Y.dim() != 2 or code is None or not is_real:
        return None
    if not (_is_plain(X, dtype) and _is_plain(Y, dtype)):
        return None
    (n, K), (K_too, m), (ldx, step) = X.shape, Y.shape, X.stride()
    if K_too != K or K == 0 or S.shape != (n, m) or S.values().dtype is not dtype:
        return None
    if step != 1 or ldx < K:  # expanded, as the gradient of a sum, or transposed
        X = native.rows_of(X)
        ldx = X.stride(0)
    is_planned = S._nnz() * K >= thresholds.DIRECT_SAMPLE
    result = S.clone() if S._nnz() < thresholds.COPIED_ENTRIES and not is_planned else None
    rows = _rows_of(S if result is None else result)
    if rows is None:
        return None
    crow, col, base, _ = rows
    Structure(crow, col, n, m).check() if result is not None else checked((crow, col), n, m, of=S)
    nnz, values, new_col = col.shape[0], base, None
    if result is None:
        values = native.empty((nnz,), dtype)
        new_col = native.empty((nnz,), col.dtype) if col.dtype is wide_index else None
    given = (
        code, INDEX_CODES[col.dtype], n, m, crow.data_ptr(), col.data_ptr(), nnz, X.data_ptr(), ldx, Y.data_ptr(),
        *Y.stride(), K, alpha, beta, base.data_ptr(), values.data_ptr(), 0 if new_col is None else new_col.data_ptr(),
    )  # fmt: skip
    if is_planned:
        status = sampled.compute(sampled.SampledAddmm(given, (crow, col), X, Y, values, alpha, beta, base, new_col))
    else:
        status = lib.asp_sddmm_at(*given, native.threads())
    if status:
        runtime_api.raise_for(status)
    if result is None:
        new_col = col.to(wide_index) if new_col is None else new_col
        crow = crow.to(wide_index, copy=True)
        return torch.sparse_csr_tensor(crow, new_col, values, (n, m), check_invariants=False, device=values.device)
    return widened(result)


def widened(A: torch.Tensor) -> torch.Tensor:
    """Return a CSR matrix with int64 indices, as PyTorch's sampled products have them."""
    crow, col = A.crow_indices(), A.col_indices()
    if col.dtype is wide_index:
        return A
    crow, col = crow.to(wide_index), col.to(wide_index)
    return torch.sparse_csr_tensor(crow, col, A.values(), A.shape, check_invariants=False, device=A.device)
