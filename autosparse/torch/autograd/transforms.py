"""Products inside the transforms of `torch.func` (grad, jvp, vmap, jacrev, ...), and batched gradients of autograd.

Transforms need Functions whose forward has no context, which take 15 µs longer to call, so that these serve only while
a transform is active. A batch of dense operands becomes columns of one product, and a batch of values becomes its
heads. Aggregations by several steps of a kernel are computed by separate steps here.
"""

# mypy: allow-untyped-calls, allow-subclassing-any
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102, PLR0917  forward, backward, jvp and vmap are what torch prescribes; their class says what they do
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autosparse.torch.autograd import functions
from autosparse.torch.autograd.derivatives import row_of_entries
from autosparse.torch.sampled import dots
from autosparse.torch.structure import IndexArrays

Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it
MaybeDim = int | None
"""Dimension of an operand that holds the batch; None for an operand that all samples share."""


class Product(torch.autograd.Function):
    """`functions.TorchProduct` under transforms: A X or Aᵀ X, with or without heads."""

    @staticmethod
    def forward(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, transposed: bool) -> torch.Tensor:
        return functions.multiply(rows, values, X, transposed)

    @staticmethod
    def setup_context(ctx: Ctx, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.rows, values, X, ctx.transposed = inputs
        ctx.save_for_backward(values, X)
        ctx.save_for_forward(values, X)

    backward = staticmethod(functions.TorchProduct.backward)
    jvp = staticmethod(functions.TorchProduct.jvp)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, transposed: bool
    ) -> tuple[torch.Tensor, int]:
        of_values, of_X = dims[1], dims[2]
        if of_values is None:
            X = X.movedim(of_X, -1)
            flat = X.reshape(*X.shape[:-2], -1) if X.dim() > 2 else X
            found = functions.product(rows, values, flat, transposed=transposed)
            return found.reshape(*found.shape[:-1], *X.shape[-2:]) if X.dim() > 2 else found, -1
        if X.is_complex() or values.dim() > 2:  # the kernel of heads is real, and a batch of heads has no kernel
            return _one_by_one(info, dims, lambda v, x: functions.product(rows, v, x, transposed=transposed), values, X)
        v, x = _as_heads(values, of_values, info), _as_heads(X, of_X, info)
        is_vector = x.dim() == 2
        found = functions.product(rows, v, x.unsqueeze(2) if is_vector else x, transposed=transposed)
        return found.squeeze(2) if is_vector else found, 1


class SampledProduct(torch.autograd.Function):
    """`functions.TorchSampledProduct` under transforms: ⟨X[i], Y[j]⟩ for each entry (i, j), with or without heads."""

    @staticmethod
    def forward(rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        return dots(rows, X, Y)

    @staticmethod
    def setup_context(ctx: Ctx, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.rows, X, Y = inputs
        ctx.save_for_backward(X, Y)
        ctx.save_for_forward(X, Y)

    backward = staticmethod(functions.TorchSampledProduct.backward)
    jvp = staticmethod(functions.TorchSampledProduct.jvp)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        sides = [_as_heads(one, dim, info) for one, dim in ((X, dims[1]), (Y, dims[2]))]
        if sides[0].dim() > 3 or sides[0].is_complex():
            return _one_by_one(info, dims, lambda x, y: functions.sampled(rows, x, y), X, Y)
        return functions.sampled(rows, *sides), 1


def _as_heads(one: torch.Tensor, dim: MaybeDim, info: Any) -> torch.Tensor:
    """Return the operand with its batch as dimension 1; an operand that all samples share is expanded."""
    if dim is not None:
        return one.movedim(dim, 1)
    return one.unsqueeze(1).expand(one.shape[0], info.batch_size, *one.shape[1:])


def _one_by_one(
    info: Any, dims: tuple[Any, ...], of: Callable[..., torch.Tensor], *operands: torch.Tensor
) -> tuple[torch.Tensor, int]:
    """Compute each sample by itself and stack the results."""
    sides = [
        one.unbind(dim) if dim is not None else (one,) * info.batch_size
        for one, dim in zip(operands, dims[1:3], strict=True)
    ]
    return torch.stack([of(*pair) for pair in zip(*sides, strict=True)]), 0


def extreme(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, *, least: bool) -> torch.Tensor:
    """Return the maximum (minimum if `least`) of A[i, j] X[j, k] over the entries of each row i; 0 for empty rows."""
    terms = values.unsqueeze(1) * X[rows.col.long()]
    row = row_of_entries(rows.crow).long().unsqueeze(1).expand_as(terms)
    start = terms.new_zeros((rows.n_rows, terms.shape[1]))
    return start.scatter_reduce(0, row, terms, "amin" if least else "amax", include_self=False)


def row_softmax(rows: IndexArrays, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of `scores` (nnz,) or (nnz, H) over the entries of each row."""
    row = row_of_entries(rows.crow).long()
    flat = scores.unsqueeze(1) if scores.dim() == 1 else scores
    index = row.unsqueeze(1).expand_as(flat)
    top = flat.new_zeros((rows.n_rows, flat.shape[1])).scatter_reduce(
        0, index, flat.detach(), "amax", include_self=False
    )
    powers = (flat - top[row]).exp()
    sums = flat.new_zeros((rows.n_rows, flat.shape[1])).scatter_add(0, index, powers)
    found = powers / sums[row]
    return found.squeeze(1) if scores.dim() == 1 else found
