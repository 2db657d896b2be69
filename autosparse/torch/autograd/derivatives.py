"""Higher derivatives for kernels that compute several steps at once, from the separate steps.

A backward pass by a kernel gives constants for autograd. Where the gradients are differentiated themselves
(`is_followed`), they are computed by functions that have gradients of any order, and tangents. Reductions over the
entries of each row by PyTorch's own functions take memory for each entry, and serve inside transforms of `torch.func`.
"""

# mypy: allow-untyped-calls, allow-subclassing-any
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102  forward and backward are what torch prescribes; their class says what they compute
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.autograd import forward_ad

# (torch's functions are not all typed)
from autosparse.torch.structure import IndexArrays

MaybeTensor = torch.Tensor | None


def has_tangent(*tensors: MaybeTensor) -> bool:
    """Return whether any of `tensors` has a tangent of forward-mode differentiation."""
    if forward_ad._current_level < 0:
        return False
    return any(one is not None and forward_ad.unpack_dual(one).tangent is not None for one in tensors)


is_batch: Final[Callable[[torch.Tensor], bool]] = torch._C._functorch.is_legacy_batchedtensor
"""Return whether the tensor is a batch of gradients (``is_grads_batched`` of torch.autograd.grad)."""


def is_followed(grad: torch.Tensor) -> bool:
    """Return whether the gradients computed from `grad` are differentiated themselves, or `grad` is a batch."""
    return torch.is_grad_enabled() or is_batch(grad) or has_tangent(grad)


def by_steps(
    steps: Callable[..., torch.Tensor], operands: Sequence[torch.Tensor], wanted: Sequence[bool], grad: torch.Tensor
) -> tuple[MaybeTensor, ...]:  # fmt: skip
    """Compute the `wanted` gradients of ``steps(*operands)`` for `grad`, differentiably.

    Each operand is replaced by a view, so that an operand computed from another one adds no path between them.
    """
    has_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        own = [one.view_as(one) for one in operands]
        asked = [one for one, is_wanted in zip(own, wanted, strict=True) if is_wanted]
        found = iter(torch.autograd.grad(steps(*own), asked, grad, create_graph=has_graph, materialize_grads=True))
    return tuple(next(found) if is_wanted else None for is_wanted in wanted)


def row_of_entries(crow: torch.Tensor) -> torch.Tensor:
    """Return the row of each entry, (nnz,)."""
    return torch.repeat_interleave(torch.arange(crow.shape[0] - 1, device=crow.device), crow.diff())


class Last(torch.autograd.Function):
    """Gradients that have no derivative themselves: differentiating them raises an error instead of giving zeros.

    ``Last.apply(what, n, *tensors)``: the first n tensors are the gradients, the others the tensors they depend on.
    """

    @staticmethod
    def forward(ctx: Any, what: str, n: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.what = what
        return tuple(one.clone() for one in tensors[:n])

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise RuntimeError(
            f"{ctx.what} has first derivatives only, and a derivative of its gradient was requested.\n"
            f"  Hint: use torch.einsum with dense tensors for higher derivatives"
        )


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
