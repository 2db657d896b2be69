"""Gradients: the products on one structure are closed under differentiation.

C = A X has dX = Aᴴ dC and dA = (dC Xᴴ sampled at A's entries); a sampled product v = ⟨X[i], Y[j]⟩ has
dX = A(dv) Ȳ and dY = A(dv)ᵀ X̄. So `Product` and `Sampled` serve each other's backward, to any order; gradients of
the values are as many numbers as the matrix stores.
"""

# mypy: allow-untyped-calls, allow-subclassing-any, allow-untyped-decorators
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102  forward and backward are what torch prescribes; their class says what they compute
from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from autosparse.torch import native, products
from autosparse.torch.sampled import dots
from autosparse.torch.structure import Rows

Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it
MaybeTensor = torch.Tensor | None


def wants_grad(*tensors: MaybeTensor) -> bool:
    """Whether autograd must see this call; without it a product costs 30 µs less."""
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def product(rows: Rows, values: torch.Tensor, X: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """A X or Aᵀ X with values (nnz,) and X (m, k), differentiable; with heads values (nnz, H) and X (m, H, F), real."""
    if wants_grad(values, X):
        result: torch.Tensor = Product.apply(rows, values, X, transposed)
        return result
    return _multiply(rows, values, X, transposed)


def _multiply(rows: Rows, values: torch.Tensor, X: torch.Tensor, transposed: bool) -> torch.Tensor:
    if X.dim() < 3:
        return products.mm(rows, native.whole(values), X, transposed=transposed)
    structure = rows.structure
    return native.heads_mm(structure.transposed() if transposed else structure, native.whole(values), X)


def sampled(rows: Rows, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """⟨X[i], Y[j]⟩ for each entry (i, j): X (n, K), Y (m, K) → (nnz,); with heads (n, H, K), (m, H, K) → (nnz, H).

    Vectors (n,) and (m,) count as K = 1.
    """
    if X.dim() == 1:
        X, Y = X.unsqueeze(1), Y.unsqueeze(1)
    if wants_grad(X, Y):
        result: torch.Tensor = Sampled.apply(rows, X, Y)
        return result
    return dots(rows, X, Y)


class Product(torch.autograd.Function):
    """C = A X, or Aᵀ X; with heads C[i, h] = Σ w[p, h] X[j, h] over entries p = (i, j), or over columns."""

    @staticmethod
    def forward(ctx: Ctx, rows: Rows, values: torch.Tensor, X: torch.Tensor, transposed: bool) -> torch.Tensor:
        ctx.rows, ctx.transposed = rows, transposed
        ctx.save_for_backward(values, X)
        return _multiply(rows, values, X, transposed)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor, None]:
        values, X = ctx.saved_tensors
        d_values = d_X = None
        if ctx.needs_input_grad[1]:
            sides = (X.conj(), grad) if ctx.transposed else (grad, X.conj())
            d_values = sampled(ctx.rows, *sides)
        if ctx.needs_input_grad[2]:  # a view of a sparse tensor's values has no lazy conjugate
            d_X = product(ctx.rows, values.conj_physical(), grad, transposed=not ctx.transposed)
        return None, d_values, d_X, None


class Sampled(torch.autograd.Function):
    """v[p] = ⟨X[i], Y[j]⟩ for entry p = (i, j); without conjugation, as X @ Y.T."""

    @staticmethod
    def forward(ctx: Ctx, rows: Rows, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        ctx.rows = rows
        ctx.save_for_backward(X, Y)
        return dots(rows, X, Y)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor]:
        X, Y = ctx.saved_tensors
        d_X = d_Y = None
        if ctx.needs_input_grad[1]:
            d_X = product(ctx.rows, grad, Y.conj())
        if ctx.needs_input_grad[2]:
            d_Y = product(ctx.rows, grad, X.conj(), transposed=True)
        return None, d_X, d_Y


class Mean(torch.autograd.Function):
    """C = D⁻¹ A X with D the numbers of entries of the rows: scaled in place, without a second array."""

    @staticmethod
    def forward(ctx: Ctx, rows: Rows, values: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        ctx.rows = rows
        ctx.save_for_backward(values, X)
        return products.mm(rows, native.whole(values), X).mul_(rows.inverse_lengths(X.dtype))

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor]:
        values, X = ctx.saved_tensors
        grad = grad * ctx.rows.inverse_lengths(grad.dtype)
        d_values = sampled(ctx.rows, grad, X.conj()) if ctx.needs_input_grad[1] else None
        d_X = product(ctx.rows, values.conj_physical(), grad, transposed=True) if ctx.needs_input_grad[2] else None
        return None, d_values, d_X


class Extreme(torch.autograd.Function):
    """C[i, k] = max (or min) of value · X[j, k] over row i; the gradient goes to the entry that won."""

    @staticmethod
    def forward(ctx: Ctx, rows: Rows, values: torch.Tensor, X: torch.Tensor, least: bool) -> torch.Tensor:
        values = native.whole(values)
        out, arg = native.extreme(rows.structure, values, X, least=least, with_arg=True)
        ctx.rows = rows
        ctx.save_for_backward(values, X, arg)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor, None]:
        values, X, arg = ctx.saved_tensors
        wanted = (ctx.needs_input_grad[1], ctx.needs_input_grad[2])
        return None, *native.extreme_backward(ctx.rows.structure, values, X, grad, arg, wanted=wanted), None


class EdgeSoftmax(torch.autograd.Function):
    """Softmax over the entries of each row; (nnz,) or (nnz, H)."""

    @staticmethod
    def forward(ctx: Ctx, rows: Rows, scores: torch.Tensor) -> torch.Tensor:
        out = native.row_softmax(rows.structure, scores)
        ctx.rows = rows
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
        (out,) = ctx.saved_tensors
        return None, native.row_softmax_backward(ctx.rows.structure, out, grad)
