"""The products as operators of PyTorch, `torch.ops.autosparse.csr_product` and `csr_sampled_product`.

Graphs of torch.compile and torch.export call them, and so do batches that autograd makes of gradients
(``is_grads_batched``). They take the index arrays apart from the values, have gradients of any order, and compute what
`functions.product` and `functions.sampled` do.
"""

# mypy: allow-untyped-calls, allow-untyped-decorators
# (torch's functions are not all typed)
# ruff: noqa: PLR0917  operators take tensors and numbers by position
from __future__ import annotations

from typing import Any

import torch

from autosparse.torch.autograd import functions
from autosparse.torch.sampled import dots
from autosparse.torch.structure import IndexArrays

Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it


@torch.library.custom_op("autosparse::csr_product", mutates_args=())
def csr_product(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, X: torch.Tensor, n_rows: int, n_cols: int,
    transposed: bool,
) -> torch.Tensor:  # fmt: skip
    """Return A X, or Aᵀ X if `transposed`, of the n_rows x n_cols matrix A with compressed rows."""
    return functions.multiply(IndexArrays(crow, col, n_rows, n_cols), values, X, transposed).contiguous()


@torch.library.custom_op("autosparse::csr_sampled_product", mutates_args=())
def csr_sampled_product(
    crow: torch.Tensor, col: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, n_rows: int, n_cols: int
) -> torch.Tensor:
    """Return ⟨X[i], Y[j]⟩ for each entry (i, j) of an n_rows x n_cols matrix with compressed rows."""
    return dots(IndexArrays(crow, col, n_rows, n_cols), X, Y).contiguous()


@csr_product.register_fake
def _(
    crow: torch.Tensor, col: torch.Tensor, values: torch.Tensor, X: torch.Tensor, n_rows: int, n_cols: int,
    transposed: bool,
) -> torch.Tensor:  # fmt: skip
    return X.new_empty((n_cols if transposed else n_rows, *X.shape[1:]))


@csr_sampled_product.register_fake
def _(
    crow: torch.Tensor, col: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, n_rows: int, n_cols: int
) -> torch.Tensor:
    return X.new_empty((col.shape[0], *X.shape[1:-1]))


def _keep(ctx: Ctx, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:4])
    ctx.numbers = inputs[4:]


def _product_backward(ctx: Ctx, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    crow, col, values, X = ctx.saved_tensors
    n_rows, n_cols, transposed = ctx.numbers
    d_values = d_X = None
    if ctx.needs_input_grad[2]:
        sides = [one.unsqueeze(1) if one.dim() == 1 else one for one in (grad, X.conj())]
        d_values = csr_sampled_product(crow, col, *(reversed(sides) if transposed else sides), n_rows, n_cols)
    if ctx.needs_input_grad[3]:
        d_X = csr_product(crow, col, values.conj_physical(), grad, n_rows, n_cols, not transposed)
    return None, None, d_values, d_X, None, None, None


def _sampled_backward(ctx: Ctx, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    crow, col, X, Y = ctx.saved_tensors
    d_X = csr_product(crow, col, grad, Y.conj(), *ctx.numbers, False) if ctx.needs_input_grad[2] else None
    d_Y = csr_product(crow, col, grad, X.conj(), *ctx.numbers, True) if ctx.needs_input_grad[3] else None
    return None, None, d_X, d_Y, None, None


csr_product.register_autograd(_product_backward, setup_context=_keep)
csr_sampled_product.register_autograd(_sampled_backward, setup_context=_keep)


def product(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Compute `functions.product` by the operator."""
    found: torch.Tensor = csr_product(rows.crow, rows.col, values, X, rows.n_rows, rows.n_cols, transposed)
    return found


def sampled(rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Compute `functions.sampled` by the operator."""
    sides = (X.unsqueeze(1), Y.unsqueeze(1)) if X.dim() == 1 else (X, Y)
    found: torch.Tensor = csr_sampled_product(rows.crow, rows.col, *sides, rows.n_rows, rows.n_cols)
    return found
