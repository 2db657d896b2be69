"""Kernels for PyTorch's sparse operators, computed by the C runtime; `registration` registers them.

A kernel receives the dispatcher's arguments and returns the same shapes, dtypes and memory as PyTorch (results share
nothing with operands). Other layouts, dtypes, batches, hybrid tensors and shapes that do not fit go to PyTorch's own
kernel, which raises PyTorch's errors. Autograd lies above these kernels.
"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch

from autosparse.errors import StructureError
from autosparse.torch import coordinates, native, products, thresholds
from autosparse.torch.checks import HALF
from autosparse.torch.dispatcher import direct, extension, fallback
from autosparse.torch.dispatcher.fallback import aten_fallbacks, has_bits, resolved, write_through
from autosparse.torch.structure import INDEX_CODES, VALUE_CODES, Placed, Structure, checked, structure_of

Keys: TypeAlias = Any  # torch.DispatchKeySet
Scalar: TypeAlias = int | float | complex

SERVED: Final = frozenset((*VALUE_CODES, *HALF))
"""Value dtypes that autosparse supports; PyTorch computes others."""


class CompressedTensor(Placed):
    """Sparse matrix as arrays of compressed rows: its own rows, or those of its transpose (`transposed`).

    The `structure` with its plans and transpose is looked up on demand.
    """

    __slots__ = ("arrays", "transposed", "values")

    def __init__(
        self, arrays: tuple[torch.Tensor, torch.Tensor], values: torch.Tensor, shape: Sequence[int], *, transposed: bool
    ) -> None:
        crow, col = self.arrays = arrays  # references keep the memory alive
        self.values = values
        self.n_rows, self.n_cols = shape
        self.nnz = col.shape[0]
        self.index_code = INDEX_CODES[col.dtype]
        self.crow, self.col = native.cast("void *", crow.data_ptr()), native.cast("void *", col.data_ptr())
        self.transposed = transposed

    def with_values(self, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Return a CSR tensor of `shape` with these values and copies of this matrix's index arrays."""
        crow, col = self.arrays
        return torch.sparse_csr_tensor(
            crow.clone(), col.clone(), values, shape, check_invariants=False, device=values.device
        )

    @property
    def structure(self) -> Structure:
        """Structure of these arrays, with all derived data."""
        return structure_of(*self.arrays, self.n_rows, self.n_cols)


def entries_of(A: torch.Tensor) -> CompressedTensor | None:
    """Return the entries of a sparse matrix without dense dimensions on the CPU; None for any other tensor.

    Indices are checked. Raises StructureError.
    """
    layout = A.layout
    if layout is torch.sparse_coo:
        return _entries_of_coo(A)
    if layout is torch.sparse_csr:
        crow, col, by_columns = A.crow_indices(), A.col_indices(), False
    elif layout is torch.sparse_csc:
        crow, col, by_columns = A.ccol_indices(), A.row_indices(), True
    else:
        return None
    values = A.values()
    if values.dim() != 1 or crow.dim() != 1 or crow.dtype is not col.dtype or not A.is_cpu:
        return None
    if values.dtype is not A.dtype:  # `Module.double()` changes the dtype of a compressed parameter only
        return None
    if not (crow.is_contiguous() and col.is_contiguous()):
        crow, col = crow.contiguous(), col.contiguous()
    shape = A.shape[::-1] if by_columns else A.shape
    if values.shape != col.shape or crow.shape[0] != shape[0] + 1:  # PyTorch did not check it, and would read on
        raise StructureError.unsound(
            f"there are {crow.shape[0]} starts and {values.shape[0]} values",
            shape=(shape[0], shape[1]),
            n_stored=col.shape[0],
        )
    checked((crow, col), shape[0], shape[1], of=A)
    return CompressedTensor((crow, col), native.whole(values), shape, transposed=by_columns)


def _entries_of_coo(A: torch.Tensor) -> CompressedTensor | None:
    values = A._values()
    if values.dim() != 1 or A.sparse_dim() != 2 or not A.is_cpu:
        return None
    found = coordinates.rows_of(A)
    rows = found.rows
    if rows is None:
        return None
    ordered = rows.ordered(native.whole(values))
    return CompressedTensor((rows.crow, rows.col), ordered, rows.shape, transposed=found.transposed)


def is_plain(X: torch.Tensor, dtype: torch.dtype, n_dims: int) -> bool:
    """Return whether X is a dense tensor on the CPU of this dtype and number of dimensions."""
    return X.layout is torch.strided and X.dim() == n_dims and X.dtype is dtype and X.is_cpu


def times(A: CompressedTensor, X: torch.Tensor, *, flipped: bool = False) -> torch.Tensor:
    """Return A X, or Aᵀ X when `flipped`, for dense X; half precision is computed in float32 and rounded once."""
    dtype = X.dtype
    if dtype in HALF:
        values, X = A.values.float(), X.float()
    else:
        values = A.values
    transposed = A.transposed is not flipped
    if A.nnz * (X.shape[1] if X.dim() == 2 else 1) < thresholds.DIRECT_PRODUCT:
        result = native.mm(A, values, X, transposed=transposed)
    else:
        result = products.mm(A, values, X, transposed=transposed)
    return result if result.dtype is dtype else result.to(dtype)


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
    """Return ``a @ b`` of two matrices, one sparse and one dense; None for unsupported dtypes or layouts."""
    dtype, left, right = a.dtype, a.shape, b.shape
    if dtype not in SERVED or b.dtype is not dtype or len(left) != 2 or len(right) != 2 or left[1] != right[0]:
        return None
    if b.layout is torch.strided:
        A = entries_of(a) if b.is_cpu else None
        return None if A is None else times(A, b)
    A = entries_of(b) if a.layout is torch.strided and a.is_cpu else None
    if A is None:
        return None
    result = times(A, a.t(), flipped=True).t()  # X A = (Aᵀ Xᵀ)ᵀ
    if b.layout is torch.sparse_coo:
        return result
    return result.clone(memory_format=torch.contiguous_format)  # the strides of a new tensor, also of extents 0 and 1


def _scaled_sum(product: torch.Tensor, base: torch.Tensor, beta: Scalar, alpha: Scalar) -> torch.Tensor:
    """Overwrite `product` by ``alpha · product + beta · base``; base is not read when beta is 0."""
    if alpha != 1:
        product.mul_(alpha)
    return product if beta == 0 else product.add_(base, alpha=1 if beta is True else beta)  # add_ refuses True


def _leaves_zeros(A: torch.Tensor) -> bool:
    """Return whether PyTorch does not multiply all zeros of a product with this sparse matrix by alpha.

    It multiplies each entry of a COO matrix, so that 0 · inf appears only in rows with entries, and no other zeros of a
    matrix without entries.
    """
    return A.layout is torch.sparse_coo or (A.layout is not torch.strided and not A._nnz())


def _fits(base: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> bool:
    """Return whether `base` is dense on the CPU, has this dtype and can be broadcast to `shape`."""
    if base.layout is not torch.strided or base.dtype is not dtype or not base.is_cpu or base.dim() > len(shape):
        return False
    ours = base.shape
    return ours == tuple(shape) or all(b in (1, s) for b, s in zip(reversed(ours), reversed(shape), strict=False))


def _holds(dtype: torch.dtype, alpha: Scalar, beta: Scalar) -> bool:
    """Return whether alpha and beta fit this dtype: complex numbers fit only complex dtypes."""
    return dtype.is_complex or not (type(alpha) is complex or type(beta) is complex)


def _takes(out: torch.Tensor, result: torch.Tensor) -> bool:
    """Return whether `out` is a dense CPU tensor of the shape and dtype of `result`, so that it can be copied there."""
    return (
        out.layout is torch.strided and out.shape == result.shape and out.dtype is result.dtype and out.is_cpu
    )  # fmt: skip


def _home(keys: Keys) -> str:
    """Return the prefix of the names of PyTorch's kernels in `aten_fallbacks` for a call's dispatch keys."""
    return "" if keys.has(_COMPRESSED_KEY) else "coo::"


_COMPRESSED_KEY: Final = torch._C.DispatchKey.SparseCsrCPU
"""Dispatch key of calls with a compressed tensor. It precedes that of COO tensors."""


def mm(keys: Keys, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm: a b, with one or both of them sparse."""
    if (record := extension.known(a)) is not None:
        return record.multiply(a, b)
    result = direct.multiply(a, b)
    if result is None:
        result = multiply(a, b)
    if result is None:
        result = aten_fallbacks[_home(keys) + "mm"].call_boxed(keys, resolved(a), resolved(b))
    return result


def mm_out(keys: Keys, a: torch.Tensor, b: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm.out: a b, written to `out`."""
    if has_bits(out):
        return write_through(out, lambda new: mm_out(keys, a, b, out=new))
    result = None
    if out.layout is torch.strided and b.layout is not torch.sparse_coo:  # PyTorch refuses COO matrices on the right
        result = direct.multiply(a, b)
        if result is None:
            result = multiply(a, b)
    if result is None or not _takes(out, result):
        aten_fallbacks[_home(keys) + "mm.out"].call_boxed(keys, resolved(a), resolved(b), out=out)
        return out
    return out.copy_(result)


def _addmm(base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: Scalar, alpha: Scalar) -> torch.Tensor | None:
    if a.dim() != 2 or b.dim() != 2 or b.layout is torch.sparse_coo:
        return None  # PyTorch refuses sums with a COO matrix on the right, and so do we
    if not cmath.isfinite(alpha) and _leaves_zeros(b if a.layout is torch.strided else a):
        return None
    product = direct.multiply(a, b)  # cheap checks; the product is lost only where base does not fit
    if product is not None and direct.scale_and_add(product, base, beta, alpha):
        return product
    shape = torch.Size((a.shape[0], b.shape[1])) if product is None else product.shape
    if not _holds(a.dtype, alpha, beta) or not _fits(base, shape, a.dtype):
        return None
    if product is None and (product := multiply(a, b)) is None:
        return None
    return _scaled_sum(product, base, beta, alpha)


def addmm(
    keys: Keys, base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> torch.Tensor:
    """Compute aten::addmm: beta · base + alpha · a b."""
    result = _addmm(base, a, b, beta, alpha)
    if result is None:
        operands = resolved(base), resolved(a), resolved(b)
        result = aten_fallbacks[_home(keys) + "addmm"].call_boxed(keys, *operands, beta=beta, alpha=alpha)
    return result


def addmm_out(
    keys: Keys,
    base: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: torch.Tensor,
) -> torch.Tensor:
    """Compute aten::addmm.out: beta · base + alpha · a b, written to `out`."""
    if has_bits(out):
        return write_through(out, lambda new: addmm_out(keys, base, a, b, beta=beta, alpha=alpha, out=new))
    result = _addmm(base, a, b, beta, alpha) if out.layout is torch.strided else None
    if result is None or not _takes(out, result):
        operands = resolved(base), resolved(a), resolved(b)
        aten_fallbacks[_home(keys) + "addmm.out"].call_boxed(keys, *operands, **fallback.scales(beta, alpha), out=out)
        return out
    return out.copy_(result)


def addmm_inplace(
    keys: Keys, base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> torch.Tensor:
    """Compute aten::addmm_ of COO tensors: beta · base + alpha · a b, written to base."""
    dense = base.layout is torch.strided and b.layout is torch.strided and a.dim() == 2 and b.dim() == 2
    if dense and base.shape == (a.shape[0], b.shape[1]):
        return addmm_out(keys, base, a, b, beta=beta, alpha=alpha, out=base)
    aten_fallbacks["coo::addmm_"].call_boxed(keys, resolved(base), resolved(a), resolved(b), beta=beta, alpha=alpha)
    return base


def _times_vector(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor | None:
    """Compute ``a @ x`` for a vector x; None where not supported."""
    if x.dim() != 1 or a.dim() != 2:
        return None
    if (result := direct.multiply(a, x, n_dims=1)) is not None:
        return result
    if a.dtype not in SERVED or not is_plain(x, a.dtype, 1) or a.shape[1] != x.shape[0]:
        return None
    A = entries_of(a)
    return None if A is None else times(A, x)


def mv(keys: Keys, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Compute aten::mv: a x; PyTorch's own kernel is an addmv.out with beta 0."""
    if (record := extension.known(a)) is not None:
        return record.multiply(a, x)
    result = _times_vector(a, x)
    if result is None:
        result = aten_fallbacks["mv"].call_boxed(keys, resolved(a), resolved(x))
    return result


def addmv_out(
    keys: Keys,
    base: torch.Tensor,
    a: torch.Tensor,
    x: torch.Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: torch.Tensor,
) -> torch.Tensor:
    """Compute aten::addmv.out: beta · base + alpha · a x, written to `out`."""
    if has_bits(out):
        return write_through(out, lambda new: addmv_out(keys, base, a, x, beta=beta, alpha=alpha, out=new))
    result = None
    are_all_scaled = cmath.isfinite(alpha) or not _leaves_zeros(a)
    if are_all_scaled and a.dim() == 2 and _holds(a.dtype, alpha, beta) and _fits(base, a.shape[:1], a.dtype):
        product = _times_vector(a, x)
        result = None if product is None else _scaled_sum(product, base, beta, alpha)
    if result is None or not _takes(out, result):
        return fallback.addmv(keys, base, a, x, beta=beta, alpha=alpha, out=out)
    return out.copy_(result)


def _sampled_values(
    S: torch.Tensor, x: torch.Tensor, y: torch.Tensor, beta: Scalar, alpha: Scalar
) -> tuple[CompressedTensor, torch.Tensor] | None:
    """Compute the values of alpha · (x @ y at S's entries) + beta · S; None where not supported."""
    dtype = S.dtype
    if S.layout is not torch.sparse_csr or dtype not in SERVED or S.dim() != 2 or not _holds(dtype, alpha, beta):
        return None
    if not (is_plain(x, dtype, 2) and is_plain(y, dtype, 2)) or x.shape[1] != y.shape[0]:
        return None
    if (x.shape[0], y.shape[1]) != tuple(S.shape) or (A := entries_of(S)) is None:
        return None
    if not y.shape[0]:
        alpha = 1  # PyTorch does not scale sums of no products
    if dtype in HALF:  # PyTorch's kernel does not support half precision
        return A, native.sddmm(A, x.float(), y.t().float(), scale=(alpha, beta), base=A.values.float()).to(dtype)
    return A, native.sddmm(A, x, y.t(), scale=(alpha, beta), base=A.values)


def sampled_addmm(
    keys: Keys, S: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, beta: Scalar = 1, alpha: Scalar = 1
) -> torch.Tensor:
    """Compute aten::sparse_sampled_addmm: alpha · (x y at S's entries) + beta · S, with new index arrays."""
    if (sample := direct.sample(S, x, y, beta, alpha)) is not None:
        return sample
    found = _sampled_values(S, x, y, beta, alpha)
    if found is None:
        result: torch.Tensor = aten_fallbacks["sparse_sampled_addmm"].call_boxed(
            keys, resolved(S), x, y, beta=beta, alpha=alpha
        )
        return result
    A, values = found
    return direct.widened(A.with_values(values, S.shape))


def sampled_addmm_out(
    keys: Keys,
    S: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
    out: torch.Tensor,
) -> torch.Tensor:
    """Compute aten::sparse_sampled_addmm.out; by autosparse only in place (out is S), otherwise by PyTorch."""
    found = _sampled_values(S, x, y, beta, alpha) if out is S else None
    if found is None:
        aten_fallbacks["sparse_sampled_addmm.out"].call_boxed(keys, resolved(S), x, y, beta=beta, alpha=alpha, out=out)
    else:
        out.values().copy_(found[1])
    return out


COMPRESSED: Final[dict[str, Callable[..., Any]]] = {
    "mm": mm,
    "mm.out": mm_out,
    "addmm": addmm,
    "addmm.out": addmm_out,
    "mv": mv,
    "addmv.out": addmv_out,
    "sparse_sampled_addmm": sampled_addmm,
    "sparse_sampled_addmm.out": sampled_addmm_out,
}
"""Kernels by operator, for the dispatch key SparseCsrCPU."""

COORDINATES: Final[dict[str, Callable[..., Any]]] = {
    "mm": mm, "mm.out": mm_out, "addmm": addmm, "addmm.out": addmm_out, "addmm_": addmm_inplace,
}  # fmt: skip
"""Kernels by operator, for the dispatch key SparseCPU (COO tensors)."""
