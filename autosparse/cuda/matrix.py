"""Sparse matrix `CudaCsr` on a GPU, whose differentiable products autosparse computes."""

# mypy: allow-untyped-calls, allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: D102  forward and backward are what torch prescribes
from __future__ import annotations

from typing import Any, Final

import torch

from autosparse import config
from autosparse.cuda import products
from autosparse.cuda.choice import told
from autosparse.cuda.device import serving
from autosparse.cuda.structure import CudaStructure, structure_of
from autosparse.errors import DtypeError, InputError, InputTypeError, ShapeError
from autosparse.gpu.schedule import MATMUL

Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it
MaybeTensor = torch.Tensor | None


class CudaCsr:
    """Sparse ``n × m`` matrix by compressed rows on a GPU; products read the values, which may require gradients."""

    __slots__ = ("_stored", "structure", "transposed", "values")
    __array_ufunc__ = None

    def __init__(self, structure: CudaStructure, values: torch.Tensor, *, transposed: bool = False) -> None:
        self.structure, self.values, self.transposed = structure, values, transposed
        self._stored: tuple[int, torch.Tensor] | None = None  # address of the values, and a torch tensor over them

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, m)."""
        return self.structure.shape(self.transposed)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.structure.nnz

    @property
    def T(self) -> CudaCsr:
        """Transposed matrix, a view that copies nothing."""
        return CudaCsr(self.structure, self.values, transposed=not self.transposed)

    def with_values(self, values: torch.Tensor) -> CudaCsr:
        """Return a matrix with this structure and other values, (nnz,), on the same device.

        Raises ShapeError, InputTypeError, DtypeError.
        """
        if not isinstance(values, torch.Tensor) or values.layout is not torch.strided:
            raise InputTypeError.refused(
                "the values of a CudaCsr are a dense torch tensor", given=f"an object of type {type(values).__name__}",
                hint="pass torch.as_tensor(..., device=A.values.device)",
            )  # fmt: skip
        if values.shape != self.structure.col.shape:
            wanted = f"values of shape ({self.nnz},), one for each stored entry"
            raise ShapeError.unfit("CudaCsr", wanted=wanted, A=self.shape, values=values.shape)
        if values.device != self.values.device:
            kinds = [f"{one.dtype} on {one.device}" for one in (self.values, values)]
            raise DtypeError.unserved("CudaCsr.with_values", dtypes=kinds, known=[f"on {self.values.device}"])
        return CudaCsr(self.structure, values, transposed=self.transposed)

    def __matmul__(self, B: Any) -> Any:
        """Compute A B for B (m,) or (m, N), a tensor or another library's array (by DLPack).

        For an array, the result is an array of the same library, if that accepts DLPack. Raises ShapeError, DtypeError.
        """
        if type(B) is torch.Tensor:
            found = products.again(self.structure, self.values, B, self.transposed, self._as_torchs)
            if found is not None:
                return found
        if not isinstance(B, torch.Tensor):
            return _as_given(self @ _tensor(B), B)
        if B.dim() not in (1, 2) or B.shape[0] != self.shape[1]:
            raise ShapeError.matmul(self.shape, tuple(B.shape))
        if B.dtype is not self.dtype or B.device != self.values.device:
            kinds = [f"{one.dtype} on {one.device}" for one in (self.values, B)]
            raise DtypeError.unserved(MATMUL, dtypes=kinds, known=[kinds[0]])
        if type(B) is torch.Tensor and not products.is_followed(self.values, B):
            return products.matmul(self.structure, self.values, B, transposed=self.transposed, stored=self._as_torchs)
        result: torch.Tensor = CudaProduct.apply(self.structure, self.values, B, self.transposed)
        return result

    def _as_torchs(self) -> torch.Tensor:
        """Return A as a torch tensor over the same arrays; it is reused while the values keep their address."""
        at = self.values.data_ptr()
        if self._stored is None or self._stored[0] != at or self._stored[1].dtype is not self.values.dtype:
            self._stored = at, products.torch_sparse(self.structure, self.values, transposed=self.transposed)
        return self._stored[1]

    def __rmatmul__(self, B: Any) -> Any:
        """Compute B A for B (n,) or (N, n)."""
        if not isinstance(B, torch.Tensor):
            return _as_given(_tensor(B) @ self, B)
        return (self.T @ B.T).T if B.dim() == 2 else self.T @ B

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:  # Any: torch's protocol
        if function in PRODUCTS:
            A, B = args
            return A.__matmul__(B) if isinstance(A, CudaCsr) else B.__rmatmul__(A)
        if function is torch.Tensor.__rmatmul__:
            return args[1].__matmul__(args[0])
        return NotImplemented

    def explain(self) -> str:
        """Explain which kernel computes each kind of product so far, and why."""
        return "\n".join(told(self.structure)) or "no product was computed yet"

    def __repr__(self) -> str:
        return f"autosparse.cuda.CudaCsr({self.shape[0]} x {self.shape[1]}, nnz={self.nnz}, {self.dtype})"


PRODUCTS: Final = (
    torch.matmul, torch.mm, torch.mv, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.sparse.mm
)  # fmt: skip
"""Functions of torch that accept a `CudaCsr` on one side."""


class CudaProduct(torch.autograd.Function):
    """Product C = A B or Aᵀ B with gradients dB = Aᵀ dC, dA = dC Bᵀ sampled at A's entries."""

    @staticmethod
    def forward(
        ctx: Ctx, structure: CudaStructure, values: torch.Tensor, B: torch.Tensor, transposed: bool
    ) -> torch.Tensor:
        ctx.structure, ctx.transposed, ctx.options = structure, transposed, config.get_options()
        ctx.save_for_backward(values, B)
        return products.matmul(structure, values.detach(), B.detach(), transposed=transposed)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor, None]:
        values, B = ctx.saved_tensors
        d_values = d_B = None
        with config.carried(ctx.options):
            if ctx.needs_input_grad[1]:
                d_values = CudaSampledProduct.apply(ctx.structure, *((B, grad) if ctx.transposed else (grad, B)))
            if ctx.needs_input_grad[2]:
                d_B = CudaProduct.apply(ctx.structure, values, grad, not ctx.transposed)
        return None, d_values, d_B, None


class CudaSampledProduct(torch.autograd.Function):
    """Sampled product v[p] = ⟨X[i], Y[j]⟩ with gradients dX = A(dv) Y, dY = A(dv)ᵀ X."""

    @staticmethod
    def forward(ctx: Ctx, structure: CudaStructure, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        ctx.structure, ctx.options = structure, config.get_options()
        ctx.save_for_backward(X, Y)
        left, right = (one.detach().unsqueeze(1) if one.dim() == 1 else one.detach() for one in (X, Y))
        return products.sampled(structure, left, right)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor]:
        X, Y = ctx.saved_tensors
        with config.carried(ctx.options):
            d_X = CudaProduct.apply(ctx.structure, grad, Y, False) if ctx.needs_input_grad[1] else None
            d_Y = CudaProduct.apply(ctx.structure, grad, X, True) if ctx.needs_input_grad[2] else None
        return None, d_X, d_Y


def csr(A: torch.Tensor) -> CudaCsr:
    """Return a `CudaCsr` of a torch tensor on a GPU: CSR and CSC share their arrays, other layouts are converted."""
    if serving(A) is None:
        raise InputError.refused(
            "autosparse does not support this device", given=f"a tensor on {A.device}", hint="pass A.cpu() or A.cuda()"
        )
    if A.layout is torch.sparse_csc:
        return CudaCsr(structure_of(A.ccol_indices(), A.row_indices(), A.shape[0]), A.values(), transposed=True)
    A = A if A.layout is torch.sparse_csr else A.to_sparse_csr()
    if A.dim() != 2 or A.values().dim() != 1:
        raise InputError.refused(
            "csr() takes one matrix with values that are numbers", given=f"a tensor of shape {tuple(A.shape)}",
            hint="pass one matrix of the batch at a time",
        )  # fmt: skip
    return CudaCsr(structure_of(A.crow_indices(), A.col_indices(), A.shape[1]), A.values())


def _tensor(array: Any) -> torch.Tensor:
    """Convert an array on the GPU to a tensor that shares its memory, by DLPack or `__cuda_array_interface__`."""
    if hasattr(array, "__dlpack__"):
        return torch.utils.dlpack.from_dlpack(array)
    if not hasattr(array, "__cuda_array_interface__"):
        raise InputTypeError.refused(
            "matmul: the other operand is a tensor on the GPU, or an array there", given=type(array).__name__,
            hint="pass torch.as_tensor(B, device=A.values.device), or an array with __dlpack__",
        )  # fmt: skip
    return torch.as_tensor(array, device="cuda")


def _as_given(result: torch.Tensor, like: Any) -> Any:
    """Convert `result` to an array of the library of `like`, where it accepts DLPack; otherwise return the tensor."""
    import importlib

    library = importlib.import_module(type(like).__module__.partition(".")[0])
    return library.from_dlpack(result) if hasattr(library, "from_dlpack") else result
