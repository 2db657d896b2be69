"""PyTorch's own kernels, for products outside the override and for operands that autosparse does not support.

PyTorch's kernels of `mm` and `addmm` call `addmm.out` through the dispatcher, where autosparse's kernels would run
again. The functions here call the computing kernel directly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse.errors import StructureError
from autosparse.torch import native, thresholds
from autosparse.torch.checks import check_ids
from autosparse.torch.dispatcher import extension
from autosparse.torch.structure import CPU, INDEX_CODES, VALUE_CODES, Structure, checked, index_arrays


class Kernels(dict[str, Any]):  # Any: torch.library's kernels, which have no type
    """PyTorch's own kernels by name; with the C++ module each one is looked up when it is first used."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, tuple[str, str]] = {}  # name → operator and dispatch key, where the module knows them

    def __missing__(self, name: str) -> Any:
        kernel = self[name] = extension.stock_kernel(*self.places[name])
        return kernel

    def find(self, name: str) -> Any | None:
        """Return a kernel, or None where PyTorch has none or the override has not replaced it."""
        try:
            return self[name]
        except (KeyError, RuntimeError):
            return None


aten_fallbacks: Final = Kernels()
"""PyTorch's kernels by operator (with a prefix for some dispatch keys), set by `registration`."""

_CSR, _STRIDED = torch.sparse_csr, torch.strided
_BLOCKS: Final = (torch.sparse_bsr, torch.sparse_bsc)
_BY_COLUMNS: Final = (torch.sparse_csc, torch.sparse_bsc)
_COMPRESSED: Final = (_CSR, torch.sparse_csc, *_BLOCKS)
_HAS_MKL: Final[bool] = torch._C.has_mkl
_ZEROS: Final = {dtype: torch.zeros((), dtype=dtype, device=CPU) for dtype in VALUE_CODES}
"""Zero of each dtype, as the unused base of `addmm` with beta 0."""


def mm_outside(keys: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Compute aten::mm by PyTorch outside every block of the override.

    PyTorch's kernel of `mm` calls `addmm` and `addmm.out` through the dispatcher, and so autosparse's kernels twice
    more.
    """
    if _is_ordinary(a, b) and b.dim() == 2 and not (b.is_conj() or b.is_neg()):
        zero = _ZEROS[a.dtype]
        result = zero.new_empty(a.shape[0], b.shape[1])
        aten_fallbacks["addmm.out"].call_boxed(keys, zero, a, b, beta=0, out=result)
    else:
        result = aten_fallbacks["mm"].call_boxed(keys, a, b)
    return result


def mv_outside(keys: Any, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Compute aten::mv by PyTorch outside every block of the override, directly by `addmv.out`."""
    if _is_ordinary(a, x) and x.dim() == 1 and not (x.is_conj() or x.is_neg()):
        result = _ZEROS[a.dtype].new_empty(a.shape[0])
        aten_fallbacks["addmv.out"].call_boxed(keys, result, a, x, beta=0, out=result)
    else:
        result = aten_fallbacks["mv"].call_boxed(keys, a, x)
    return result


def addmm_outside(
    keys: Any, base: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: complex = 1, alpha: complex = 1
) -> torch.Tensor:
    """Compute aten::addmm by PyTorch outside every block of the override, directly by `addmm.out`."""
    dense = base.layout is _STRIDED and base.dtype is a.dtype and base.is_cpu
    if dense and _is_ordinary(a, b) and b.dim() == 2 and base.shape == (a.shape[0], b.shape[1]) and not (
        base.is_conj() or base.is_neg() or b.is_conj() or b.is_neg()
    ):  # fmt: skip
        result = _ZEROS[a.dtype].new_empty(base.shape)
        aten_fallbacks["addmm.out"].call_boxed(keys, base, a, b, **scales(beta, alpha), out=result)
    else:
        result = aten_fallbacks["addmm"].call_boxed(keys, base, a, b, **scales(beta, alpha))
    return result


def _is_ordinary(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether PyTorch's MKL kernels compute a b: CSR matrix a, dense b, fitting shapes, one dtype."""
    dtype = a.dtype
    if a.layout is not _CSR or b.layout is not _STRIDED or b.dtype is not dtype or dtype not in _ZEROS:
        return False
    left, right = a.shape, b.shape
    return _HAS_MKL and len(left) == 2 and len(right) > 0 and left[1] == right[0] and a.is_cpu and b.is_cpu


OUTSIDE: Final[dict[str, Callable[..., Any]]] = {"mm": mm_outside, "mv": mv_outside, "addmm": addmm_outside}
"""Functions by name in `aten_fallbacks` that compute the same as the kernel, with fewer calls of the dispatcher."""


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor` in a form that PyTorch's kernels below the dispatcher read correctly.

    Lazy conjugation and negation are resolved, and indices of compressed tensors are checked. Raises StructureError.
    """
    if tensor.layout is not _STRIDED:
        if tensor.layout in _COMPRESSED and tensor.is_cpu:
            _check(tensor)
        return tensor
    return native.resolved(tensor) if tensor.is_conj() or tensor.is_neg() else tensor


def _check(A: torch.Tensor) -> None:
    """Check that a compressed matrix has indices inside its shape, or inside its grid of blocks.

    Skip batches, and matrices with dense dimensions.
    """
    arrays = crow, col = index_arrays(A)
    values, has_blocks = A.values().shape, A.layout in _BLOCKS
    if A.dim() != 2 or len(values) != (3 if has_blocks else 1) or crow.dim() != 1 or col.dim() != 1:
        return
    n, m = A.shape
    if has_blocks:
        n, m = n // max(values[1], 1), m // max(values[2], 1)
    if A.layout in _BY_COLUMNS:
        n, m = m, n
    if crow.dtype is not col.dtype or col.dtype not in INDEX_CODES:
        return
    if crow.shape[0] != n + 1 or values[0] != col.shape[0]:
        raise StructureError.unsound(
            f"there are {crow.shape[0]} starts and {values[0]} values", shape=(n, m), n_stored=col.shape[0]
        )
    if not (crow.is_contiguous() and col.is_contiguous()):
        arrays = crow.contiguous(), col.contiguous()
    if col.shape[0] < thresholds.ENTRIES_CHECKED:  # checking takes less time than a lookup of the kept structure
        Structure(*arrays, n, m).check()
    else:
        checked(arrays, n, m, of=A)


def check_coordinates(tensor: torch.Tensor) -> None:
    """Raise StructureError if the tensor is a COO tensor on the CPU with indices outside its shape."""
    if tensor.layout is torch.sparse_coo and tensor.is_cpu:
        check_ids(tensor._indices(), tensor.shape[: tensor.sparse_dim()])


def has_bits(out: torch.Tensor) -> bool:
    """Return whether `out` is a lazily conjugated or negated view, so that its memory differs from its values."""
    return out.is_conj() or out.is_neg()


def write_through(out: torch.Tensor, write: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Call `write` with a plain copy of `out`, copy the result to `out`, and return `out`.

    `out` is a lazily conjugated or negated view, so that its memory differs from its values.
    """
    plain = write(native.resolved(out))
    if plain.shape != out.shape:  # as PyTorch does, which has given a warning
        out.resize_(plain.shape)
    return out.copy_(plain)


def addmv(
    keys: Any, base: torch.Tensor, a: torch.Tensor, x: torch.Tensor, *, beta: complex, alpha: complex, out: torch.Tensor
) -> torch.Tensor:
    """Compute ``beta · base + alpha · a @ x`` by PyTorch, into `out`."""
    operands = resolved(base), resolved(a), resolved(x)
    aten_fallbacks["addmv.out"].call_boxed(keys, *operands, **scales(beta, alpha), out=out)
    return out


def scales(beta: complex, alpha: complex) -> dict[str, complex]:
    """Return beta and alpha as keyword arguments for a kernel of `aten_fallbacks`; omitting defaults saves 2 µs."""
    return {} if beta == 1 and alpha == 1 else {"beta": beta, "alpha": alpha}
