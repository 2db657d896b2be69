"""Graph attention in one pass: scores, softmax over each row, weighted sum, without arrays of (edges × features).

``alpha[p, h] = softmax over row i of score(i, j, h)`` and ``out[i, h] = Σ alpha[p, h] V[j, h]``. Beside the operands,
only alpha, (nnz, H), is kept for the backward pass. Scores are ``scale ⟨Q[i, h], K[j, h]⟩`` (`Dot`) or
``leaky_relu(q[i, h] + k[j, h])`` (`Additive`, GAT).
"""

# mypy: allow-untyped-calls, allow-subclassing-any
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102, PLR0917  forward and backward are what torch prescribes; their class says what they compute
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import leaky_relu

from autosparse._native import runtime_api
from autosparse.torch import native
from autosparse.torch.autograd.derivatives import by_steps, is_followed, row_of_entries
from autosparse.torch.autograd.functions import Ctx, MaybeTensor, product, row_softmax, sampled
from autosparse.torch.structure import VALUE_CODES, IndexArrays, Structure, Transposed, ffi, lib, pointer


def _call(structure: Structure, q: torch.Tensor, V: torch.Tensor, backward: bool, **fields: object) -> None:
    """Run the forward or `backward` attention kernel, which writes its results into tensors given in `fields`.

    `fields` are tensors and numbers of the C struct asp_attention.
    """
    given = {name: pointer(value) if isinstance(value, torch.Tensor) else value for name, value in fields.items()}
    arguments = ffi.new(
        "asp_attention *",
        {
            "indptr": structure.crow, "indices": structure.col, "n_rows": structure.n_rows, "n_cols": structure.n_cols,
            "nnz": structure.nnz,
            "n_heads": V.shape[1], "F": V.shape[2], "q": pointer(q), "V": pointer(V), **given,
        },
    )  # fmt: skip
    run = lib.asp_attention_backward if backward else lib.asp_attention_forward
    runtime_api.raise_for(run(VALUE_CODES[V.dtype], structure.index_code, arguments, native.threads()))


def _forward(
    ctx: Ctx, rows: IndexArrays, q: torch.Tensor, k: torch.Tensor, V: torch.Tensor, **fields: float
) -> torch.Tensor:  # fmt: skip
    """Compute attention scores, softmax alpha and the weighted sum of V; save what `_backward` needs in `ctx`.

    `fields` are numbers of the scoring function, such as its scale.
    """
    structure = rows.structure
    alpha = V.new_empty((structure.nnz, V.shape[1]))
    out = native.empty((structure.n_rows, *V.shape[1:]), V.dtype)
    _call(structure, native.whole(q), native.whole(V), False, k=native.whole(k), alpha=alpha, out=out, **fields)
    ctx.rows, ctx.fields = rows, fields
    ctx.save_for_backward(q, k, V, alpha)
    return out


def weighted_sum(rows: IndexArrays, scores: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
    """Return out[i] = Σ_j softmax(scores)[i, j] V[j] by separate steps, which have derivatives of any kind."""
    return product(rows, row_softmax(rows, scores), V)


def _by_steps(
    ctx: Ctx, operands: Sequence[torch.Tensor], grad: torch.Tensor, score: Callable[..., torch.Tensor]
) -> tuple[MaybeTensor, ...]:
    """Compute differentiable gradients of q, k and V from separate steps: ``score(q, k)``, softmax, weighted sum."""

    def steps(q: torch.Tensor, k: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        return weighted_sum(ctx.rows, score(q, k), V)

    return by_steps(steps, operands, ctx.needs_input_grad[1:4], grad)


def _backward(
    ctx: Ctx, operands: Sequence[torch.Tensor], alpha: torch.Tensor, grad: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, MaybeTensor, Transposed]:
    """Return the gradients of the scores, of q and of V (None if not needed), and the transposed structure.

    `alpha` is the softmax that the forward pass saved.
    """
    q, k, V = map(native.whole, operands)
    grad = native.whole(grad)
    structure = ctx.rows.structure
    dscore, dq = torch.empty_like(alpha), torch.empty_like(q)
    _call(structure, q, V, True, k=k, alpha=alpha, dout=grad, dscore=dscore, dq=dq, **ctx.fields)
    turned = structure.transposed()
    return dscore, dq, native.heads_mm(turned, alpha, grad) if ctx.needs_input_grad[3] else None, turned


def additive_scores(rows: IndexArrays, q: torch.Tensor, k: torch.Tensor, slope: float) -> torch.Tensor:
    """Return leaky_relu(q[i] + k[j]) for each entry (i, j)."""
    return leaky_relu(q[row_of_entries(rows.crow)] + k[rows.col.long()], slope)


class DotAttention(torch.autograd.Function):
    """Dot-product attention: Q (n, H, D), K (m, H, D), V (m, H, F) → (n, H, F)."""

    @staticmethod
    def forward(
        ctx: Ctx, rows: IndexArrays, Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, scale: float
    ) -> torch.Tensor:
        return _forward(ctx, rows, Q, K, V, D=Q.shape[2], scale=scale)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[MaybeTensor, ...]:
        *operands, alpha = ctx.saved_tensors  # read once: a checkpoint recomputes them at each access
        scale = ctx.fields["scale"]
        if is_followed(grad):
            return None, *_by_steps(ctx, operands, grad, lambda q, k: scale * sampled(ctx.rows, q, k)), None
        dscore, dQ, dV, turned = _backward(ctx, operands, alpha, grad)
        dK = None
        if ctx.needs_input_grad[2]:
            dK = native.heads_mm(turned, dscore, native.whole(operands[0]), scale=scale)
        return None, dQ, dK, dV, None


class Additive(torch.autograd.Function):
    """Additive (GAT) attention: q (n, H), k (m, H), V (m, H, F) → (n, H, F)."""

    @staticmethod
    def forward(
        ctx: Ctx, rows: IndexArrays, q: torch.Tensor, k: torch.Tensor, V: torch.Tensor, slope: float
    ) -> torch.Tensor:
        return _forward(ctx, rows, q, k, V, slope=slope, additive=1)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[MaybeTensor, ...]:
        *operands, alpha = ctx.saved_tensors
        if is_followed(grad):
            slope = ctx.fields["slope"]
            return None, *_by_steps(ctx, operands, grad, lambda q, k: additive_scores(ctx.rows, q, k, slope)), None
        dscore, dq, dV, turned = _backward(ctx, operands, alpha, grad)
        dk = native.sums_of_entries(turned, dscore) if ctx.needs_input_grad[2] else None
        return None, dq, dk, dV, None
