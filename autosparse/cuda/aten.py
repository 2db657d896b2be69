"""Kernels for PyTorch's sparse operators on a GPU, which the override registers with PyTorch's dispatcher.

As on the CPU (`autosparse.torch.dispatcher.operators`), a kernel returns what PyTorch would, and autograd lies above
it. Operands that autosparse does not support, and products for which torch's path was chosen, go to PyTorch's own
kernel, which raises PyTorch's errors. PyTorch's kernels of `mm`, `addmm` and `mv` call their ``.out`` variant through
the dispatcher, where autosparse's kernels would run again. The functions here call that variant directly.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from autosparse.cuda import matrix, products
from autosparse.cuda.aten_fallback import aten_fallback, zero
from autosparse.cuda.device import serving
from autosparse.cuda.structure import CudaStructure, structure_of

Keys: TypeAlias = Any  # torch.DispatchKeySet
Scalar: TypeAlias = int | float | complex

SMALL_PRODUCT: Final = 1 << 22
"""Multiplications below which PyTorch computes a matrix or sampled product: an H200 needs less time than Python."""
SMALL_VECTOR_PRODUCT: Final = 1 << 24
"""Multiplications below which PyTorch computes a product with a vector: an H200 needs less time than Python."""


class CudaOperand(NamedTuple):
    """Compressed sparse matrix: its structure by rows, or that of its transpose, and its values."""

    structure: CudaStructure
    values: torch.Tensor
    transposed: bool


def entries_of(A: torch.Tensor) -> CudaOperand | None:
    """Return structure and values of a CSR or CSC tensor; None for other layouts, batches and unsupported devices."""
    if A.layout is torch.sparse_csr:
        crow, col, transposed = A.crow_indices(), A.col_indices(), False
    elif A.layout is torch.sparse_csc:
        crow, col, transposed = A.ccol_indices(), A.row_indices(), True
    else:
        return None
    values = A.values()
    if values.dim() != 1 or crow.dim() != 1 or crow.dtype is not col.dtype or serving(values) is None:
        return None
    if values.dtype is not A.dtype:  # `Module.double()` changes the dtype of a compressed parameter only
        return None
    n_cols = A.shape[0] if transposed else A.shape[1]
    return CudaOperand(structure_of(crow.contiguous(), col.contiguous(), n_cols), values, transposed)


def is_plain(X: torch.Tensor, like: torch.Tensor, n_dims: int) -> bool:
    """Return whether X is a dense, not lazily conjugated, tensor of rank `n_dims` with `like`'s dtype and device."""
    plain = X.layout is torch.strided and X.dim() == n_dims and not (X.is_conj() or X.is_neg())
    return plain and X.dtype is like.dtype and X.device == like.device


def _fits(base: torch.Tensor, shape: tuple[int, ...], like: torch.Tensor) -> bool:
    """Return whether `base` is dense and can be broadcast to `shape`."""
    if not is_plain(base, like, base.dim()) or base.dim() > len(shape):
        return False
    return all(b in (1, s) for b, s in zip(reversed(base.shape), reversed(shape), strict=False))


def _takes(out: torch.Tensor, shape: tuple[int, ...], operands: tuple[torch.Tensor, ...]) -> bool:
    """Return whether a kernel may write a result of `shape` to `out`: no gaps within rows, no memory of an operand."""
    if not is_plain(out, operands[0], len(shape)) or out.shape != shape or out.stride(-1) != 1:
        return False
    return all(out.untyped_storage().data_ptr() != one.untyped_storage().data_ptr() for one in operands)


def _served(a: torch.Tensor, B: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor | None:
    """Return ``a @ B`` by an autosparse kernel, in `out` if possible; None if PyTorch must compute it.

    None is returned for layouts other than CSR and CSC, small products, and operands that do not fit.
    """
    rank = B.dim()
    if a.dim() != 2 or rank not in (1, 2) or not is_plain(B, a, rank) or a.shape[1] != B.shape[0]:
        return None
    is_small = a._nnz() * B.shape[1] < SMALL_PRODUCT if rank == 2 else a._nnz() < SMALL_VECTOR_PRODUCT
    if a.is_sparse or is_small or (A := entries_of(a)) is None:
        return None
    shape = (a.shape[0], *B.shape[1:])
    if out is not None and not _takes(out, shape, (B, A.values, A.structure.col, A.structure.crow)):
        out = None
    return products.ours_of(A.structure, A.values, B, transposed=A.transposed, out=out)


def _product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor | None:
    """Return ``a @ b``, one of which is CSR or CSC, by an autosparse kernel; None if PyTorch must compute it."""
    if a.layout is not torch.strided:
        return _served(a, b, out) if b.dim() == 2 else None
    if not is_plain(a, b, 2) or b.dim() != 2:
        return None
    turned = _served(b.t(), a.t())  # X A = (Aᵀ Xᵀ)ᵀ
    return None if turned is None else turned.t().clone(memory_format=torch.contiguous_format)


def _theirs(operator: str, base: torch.Tensor, *given: torch.Tensor, out: torch.Tensor, **scales: Scalar) -> Any:
    kernel = aten_fallback(operator)
    assert kernel is not None
    keys = torch._C._dispatch_keys(given[0] if given[0].layout is not torch.strided else given[1])
    return kernel.call_boxed(keys, base, *given, **scales, out=out)


def mm(keys: Keys, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm: a b, with one or both of them sparse."""
    if (found := _product(a, b)) is not None:
        return found
    if a.layout in COMPRESSED and is_plain(b, a, 2):
        # a shape that does not fit makes PyTorch raise its own error
        out = b.new_empty((a.shape[0], b.shape[1]) if a.dim() == 2 and a.shape[1] == b.shape[0] else (0, 0))
        _theirs("addmm.out", zero(b), a, b, beta=0, alpha=1, out=out)
        return out
    result: torch.Tensor = by_torch("mm", keys, a, b)
    return result


COMPRESSED: Final = (torch.sparse_csr, torch.sparse_csc)
"""Layouts of compressed matrices."""


def by_torch(operator: str, keys: Keys, *given: Any, **more: Any) -> Any:  # Any: arguments of the dispatcher
    """Call PyTorch's own kernel; raises NotImplementedError where there is none."""
    kernel = aten_fallback(operator)
    if kernel is None:
        raise NotImplementedError(
            f"PyTorch has no kernel of aten::{operator} for sparse tensors on a GPU, and autosparse serves CSR "
            f"tensors of {', '.join(products.DTYPES.values())} with dense matrices of the same dtype"
        )
    return kernel.call_boxed(keys, *given, **more)


def mm_out(keys: Keys, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm.out: a b, written to `out`."""
    found = _product(a, b, out) if out.layout is torch.strided and not out.is_conj() else None
    if found is None or found.shape != out.shape or found.dtype is not out.dtype or found.device != out.device:
        by_torch("mm.out", keys, a, b, out=out)
        return out
    return out if found is out else out.copy_(found)


def _addmm(
    base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> torch.Tensor | None:
    """Return beta · base + alpha · a b by an autosparse kernel; None if PyTorch must compute it."""
    if b.dim() not in (1, 2) or a.dim() != 2 or isinstance(alpha, complex) or isinstance(beta, complex):
        return None
    if not _fits(base, (a.shape[0], *b.shape[1:]), b if b.layout is torch.strided else a):
        return None
    product = _served(a, b) if b.dim() == 1 else _product(a, b)
    if product is None:
        return None
    if beta == 1:  # one pass, as many bytes as cuSPARSE, which copies base before it adds to it
        return torch.add(base, product, alpha=alpha, out=product)
    if alpha != 1:
        product.mul_(alpha)
    return product if beta == 0 else product.add_(base, alpha=beta)


def addmm(keys: Keys, base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **scales: Scalar) -> torch.Tensor:
    """Compute aten::addmm: beta · base + alpha · a b."""
    if (found := _addmm(base, a, b, **scales)) is not None:
        return found
    if a.layout in COMPRESSED and is_plain(b, a, 2) and is_plain(base, a, base.dim()):
        out = b.new_empty((0, 0))
        _theirs("addmm.out", base, a, b, **scales, out=out)
        return out
    result: torch.Tensor = by_torch("addmm", keys, base, a, b, **scales)
    return result


def addmm_out(
    keys: Keys, base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor, **scales: Scalar
) -> torch.Tensor:
    """Compute aten::addmm.out: beta · base + alpha · a b, written to `out`."""
    return _written("addmm.out", keys, (base, a, b), out, **scales)


def addmv_out(
    keys: Keys, base: torch.Tensor, a: torch.Tensor, x: torch.Tensor, *, out: torch.Tensor, **scales: Scalar
) -> torch.Tensor:
    """Compute aten::addmv.out: beta · base + alpha · a x, written to `out`."""
    return _written("addmv.out", keys, (base, a, x), out, **scales)


def _written(
    operator: str, keys: Keys, given: tuple[torch.Tensor, torch.Tensor, torch.Tensor], out: torch.Tensor,
    **scales: Scalar,
) -> torch.Tensor:  # fmt: skip
    """Write beta · base + alpha · a b to `out` and return it; PyTorch computes it where autosparse's does not fit."""
    base, a, b = given
    is_fit = out.layout is torch.strided and (operator == "addmm.out" or b.dim() == 1)
    found = _addmm(base, a, b, **scales) if is_fit else None
    if found is None or not is_plain(out, found, found.dim()) or out.shape != found.shape:
        by_torch(operator, keys, *given, **scales, out=out)
        return out
    return out.copy_(found)


def mv(keys: Keys, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Compute aten::mv: a x."""
    found = _served(a, x) if x.dim() == 1 else None
    if found is not None:
        return found
    if a.dim() == 2 and a.layout in COMPRESSED and is_plain(x, a, 1) and a.shape[1] == x.shape[0]:
        out = x.new_empty(a.shape[0])
        _theirs("addmv.out", out, a, x, beta=0, alpha=1, out=out)
        return out
    result: torch.Tensor = by_torch("mv", keys, a, x)
    return result


def _sampled(
    S: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> tuple[CudaOperand, torch.Tensor] | None:
    """Return S's structure and the values alpha · (x @ y) + beta · S at its entries; None: left to PyTorch."""
    if S.layout is not torch.sparse_csr or S.dim() != 2 or isinstance(alpha, complex) or isinstance(beta, complex):
        return None
    if not (is_plain(x, S, 2) and is_plain(y, S, 2)) or x.shape[1] != y.shape[0]:
        return None
    if (x.shape[0], y.shape[1]) != tuple(S.shape) or S._nnz() * x.shape[1] < SMALL_PRODUCT:
        return None
    if (A := entries_of(S)) is None:
        return None
    request = products.sampled_request(A.structure, x, y.t(), base=A.values, scales=(float(alpha), float(beta)))
    values = None if request is None else products.serve(request)
    return None if values is None else (A, values)


def sampled_addmm(keys: Keys, S: torch.Tensor, x: torch.Tensor, y: torch.Tensor, **scales: Scalar) -> torch.Tensor:
    """Compute aten::sparse_sampled_addmm: alpha · (x y at S's entries) + beta · S, with new index arrays."""
    found = _sampled(S, x, y, **scales)
    if found is None:
        result: torch.Tensor = by_torch("sparse_sampled_addmm", keys, S, x, y, **scales)
        return result
    (structure, _, _), values = found
    return torch.sparse_csr_tensor(
        structure.crow.clone(), structure.col.clone(), values, S.shape, check_invariants=False, device=values.device
    )


def sampled_addmm_out(
    keys: Keys, S: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, out: torch.Tensor, **scales: Scalar
) -> torch.Tensor:
    """Compute aten::sparse_sampled_addmm.out; by autosparse only in place (out is S), otherwise by PyTorch."""
    found = _sampled(S, x, y, **scales) if out is S else None
    if found is None:
        by_torch("sparse_sampled_addmm.out", keys, S, x, y, **scales, out=out)
    else:
        out.values().copy_(found[1])
    return out


def gradient_mm(keys: Keys, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm under autograd; where `a` is CSR and requires a gradient, that gradient is CSR as well."""
    wanted = a.layout is torch.sparse_csr and a.requires_grad and torch.is_grad_enabled()
    if wanted and a.dim() == 2 and a.dense_dim() == 0 and is_plain(b, a, 2) and a.shape[1] == b.shape[0]:
        product: torch.Tensor = matrix.csr(a) @ b
        return product
    kernel = aten_fallback("autograd::mm")
    assert kernel is not None
    result: torch.Tensor = kernel.call_boxed(keys, a, b)
    return result


PRODUCTS: Final[dict[str, Callable[..., Any]]] = {
    "mm": mm,
    "mm.out": mm_out,
    "addmm": addmm,
    "addmm.out": addmm_out,
    "mv": mv,
    "addmv.out": addmv_out,
    "sparse_sampled_addmm": sampled_addmm,
    "sparse_sampled_addmm.out": sampled_addmm_out,
}
"""Kernels by operator, for the dispatch key SparseCsrCUDA."""
GRADIENTS: Final[dict[str, Callable[..., Any]]] = {"mm": gradient_mm}
"""Kernels by operator, for the dispatch key AutogradCUDA, registered for sparse gradients."""
