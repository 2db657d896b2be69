"""Reductions over the entries of each row on a GPU, ``torch.sparse.mm(A, B, reduce)``, which torch has for CPUs only.

Sums and means use products. Maxima and minima gather terms and use torch's reductions by index, a panel of columns at
a time, which bounds the memory. They are not tuned.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from autosparse.cuda import products
from autosparse.cuda.aten import CudaOperand, Keys, by_torch, entries_of, is_plain
from autosparse.cuda.structure import CudaStructure

EXTREMES: Final = {"amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}
"""Names of the reduction in `torch.Tensor.index_reduce`, by names that callers use."""
PANEL_BYTES: Final = 1 << 26
"""Maximum bytes of gathered terms at a time."""


def inverse_lengths(structure: CudaStructure, dtype: torch.dtype) -> torch.Tensor:
    """Return 1 / (number of entries of row i), 1 for an empty row: (n, 1)."""
    return structure.crow.diff().clamp_(min=1).to(dtype).reciprocal_().unsqueeze(1)


def _panels(structure: CudaStructure, B: torch.Tensor) -> Iterator[slice]:
    width = max(1, PANEL_BYTES // max(1, structure.nnz * B.element_size()))
    return (slice(start, start + width) for start in range(0, B.shape[1], width))


def extreme(
    structure: CudaStructure, values: torch.Tensor, B: torch.Tensor, reduce: str, *, with_arg: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the max (or min) of value · B[j] over each row's entries, B (m, k) → (n, k), and the entry attaining it.

    Empty rows give 0 and the entry nnz. Of equal entries the first counts. A NaN counts as the extreme.
    """
    rows, col, nnz = structure.rows(), structure.col.long(), structure.nnz
    out = B.new_zeros((structure.n_rows, B.shape[1]))
    arg = col.new_full(out.shape, nnz) if with_arg else None
    ids = torch.arange(nnz, device=col.device)
    for panel in _panels(structure, B):
        terms = values[:, None] * B[:, panel][col]
        best = out[:, panel].index_reduce(0, rows, terms, EXTREMES[reduce], include_self=False)
        out[:, panel] = best
        if arg is not None:
            won = (terms == best[rows]) | (terms.isnan() & best[rows].isnan())
            places = torch.where(won, ids[:, None], nnz)
            arg[:, panel] = arg[:, panel].index_reduce(0, rows, places, "amin")
    return out, arg


def extreme_backward(
    structure: CudaStructure, values: torch.Tensor, B: torch.Tensor, grad: torch.Tensor, arg: torch.Tensor,
    *, wanted: tuple[bool, bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Compute the gradients of `extreme` for values (nnz,) and B (m, k), each where wanted, at the extreme entries."""
    grad = torch.where(arg < structure.nnz, grad, 0)
    d_values = values.new_zeros(structure.nnz) if wanted[0] else None
    d_B = torch.zeros_like(B) if wanted[1] else None
    if not structure.nnz:
        return d_values, d_B
    entry = arg.clamp(max=structure.nnz - 1)
    col = structure.col.long()[entry]
    if d_values is not None:
        d_values.index_add_(0, entry.reshape(-1), (grad * B.gather(0, col)).reshape(-1))
    if d_B is not None:
        d_B.scatter_add_(0, col, grad * values[entry])
    return d_values, d_B


def _entries(a: torch.Tensor, b: torch.Tensor, reduce: str) -> CudaOperand | None:
    """Return the entries of `a` where autosparse supports the reduction, otherwise None."""
    if reduce not in (*EXTREMES, "sum", "mean") or b.dtype not in products.DTYPES:
        return None
    if a.dim() != 2 or a.layout is not torch.sparse_csr or not is_plain(b, a, 2) or a.shape[1] != b.shape[0]:
        return None
    return entries_of(a)


def mm_reduce(keys: Keys, a: torch.Tensor, b: torch.Tensor, reduce: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute aten::_sparse_mm_reduce_impl: the result, and the max or min entries where a gradient needs them."""
    A = _entries(a, b, reduce)
    if A is None:
        result: tuple[torch.Tensor, torch.Tensor] = by_torch("_sparse_mm_reduce_impl", keys, a, b, reduce)
        return result
    none = A.structure.col.new_empty(0)
    if reduce in EXTREMES:
        with_arg = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
        out, arg = extreme(A.structure, A.values, b, reduce, with_arg=with_arg)
        return out, none if arg is None else arg
    out = products.matmul(A.structure, A.values, b)
    return out.mul_(inverse_lengths(A.structure, out.dtype)) if reduce == "mean" else out, none


def mm_reduce_backward(  # noqa: PLR0917  the dispatcher's arguments
    keys: Keys,
    a: torch.Tensor,
    grad: torch.Tensor,
    b: torch.Tensor,
    reduce: str,
    arg: torch.Tensor,
    wanted: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Compute aten::_sparse_mm_reduce_impl_backward: gradients of a (sparse, with a's structure) and of b."""
    A = _entries(a, b, reduce) if is_plain(grad, b, 2) else None
    if A is None:
        result: tuple[torch.Tensor | None, torch.Tensor | None]
        result = by_torch("_sparse_mm_reduce_impl_backward", keys, a, grad, b, reduce, arg, wanted)
        return result
    structure, values, _ = A
    if reduce in EXTREMES:
        d_values, d_b = extreme_backward(structure, values, b, grad, arg, wanted=(wanted[0], wanted[1]))
    else:
        grad = grad * inverse_lengths(structure, grad.dtype) if reduce == "mean" else grad
        d_values = products.sampled(structure, grad, b) if wanted[0] else None
        d_b = products.matmul(structure, values, grad, transposed=True) if wanted[1] else None
    if d_values is None:
        return None, d_b
    crow, col = structure.crow.clone(), structure.col.clone()
    return torch.sparse_csr_tensor(crow, col, d_values, a.shape, check_invariants=False, device=col.device), d_b


TABLE: Final[dict[str, Callable[..., Any]]] = {
    "_sparse_mm_reduce_impl": mm_reduce,
    "_sparse_mm_reduce_impl_backward": mm_reduce_backward,
}
"""Kernels by operator, for the dispatch key SparseCsrCUDA."""
