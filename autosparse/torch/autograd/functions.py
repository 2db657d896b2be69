"""Autograd functions of the products on one structure, whose derivatives are products of the same kinds.

C = A X has dX = Aᴴ dC and dA = (dC Xᴴ sampled at A's entries). A sampled product v = ⟨X[i], Y[j]⟩ has dX = A(dv) Ȳ and
dY = A(dv)ᵀ X̄. So `TorchProduct` and `TorchSampledProduct` compute each other's backward pass, to any order. Gradients
of the values have one number per stored entry. Both are bilinear, which gives their tangents (forward mode).

Transforms of `torch.func` need Functions whose forward has no context. They take 15 µs longer to call, so that they
serve only while a transform is active.
"""

# mypy: allow-untyped-calls, allow-subclassing-any
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102, PLR0917  forward, backward, jvp and vmap are what torch prescribes; their class says what they do
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from autosparse.torch import native, products
from autosparse.torch.autograd import derivatives, operators
from autosparse.torch.autograd.derivatives import by_steps, has_tangent, is_batch, is_followed, row_of_entries
from autosparse.torch.sampled import dots
from autosparse.torch.structure import IndexArrays

MaybeDim = int | None
"""Dimension of an operand that holds the batch of ``torch.vmap``; None for an operand that all samples share."""
Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it
MaybeTensor = torch.Tensor | None
is_transformed: Final[Callable[[], bool]] = torch._C._are_functorch_transforms_active
"""Return whether a transform of torch.func (grad, jvp, vmap, ...) runs in this thread."""

is_wrapped: Final[Callable[[torch.Tensor], bool]] = torch._C._functorch.is_functorch_wrapped_tensor
"""Return whether a tensor belongs to a transform of torch.func."""


def wants_grad(*tensors: MaybeTensor) -> bool:
    """Return whether autograd must record this call; otherwise the product skips autograd, which saves 30 µs."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        return True
    return has_tangent(*tensors)


def _sum_over(
    pairs: Sequence[tuple[MaybeTensor, MaybeTensor]], of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> MaybeTensor:
    """Return the sum of ``of(a, b)`` over the pairs in which neither is None; None where no such pair exists."""
    terms = [of(a, b) for a, b in pairs if a is not None and b is not None]
    return sum(terms[1:], terms[0]) if terms else None


def product(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Compute A X or Aᵀ X, differentiable: values (nnz,), X (m, k); with heads values (nnz, H), X (m, H, F), real."""
    if is_transformed():
        found: torch.Tensor = TransformedProduct.apply(rows, values, X, transposed)
        return found
    if wants_grad(values, X):
        result: torch.Tensor = TorchProduct.apply(rows, values, X, transposed)
        return result
    return products.multiply(rows, values, X, transposed=transposed)


def inverse_lengths(rows: IndexArrays, dtype: torch.dtype) -> torch.Tensor:
    """Return 1 / (number of entries of row i), 1 for an empty row: (n_rows, 1)."""
    kept = rows.structure.inverse_lengths
    found = kept.get(dtype)
    if found is None:
        found = rows.crow.diff().clamp_(min=1).to(dtype).reciprocal_().unsqueeze(1)
        # A transform wraps the tensors that are made while it runs, and nobody may use them after it.
        if type(found) is torch.Tensor and not (is_wrapped(found) or found.is_inference()):
            kept[dtype] = found
    return found


def reduction(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, reduce: str) -> torch.Tensor:
    """Return the "mean", "max" or "min" of A[i, j] X[j, k] over the entries of each row i, differentiable: (n, k)."""
    if reduce == "mean":
        if is_transformed():
            return product(rows, values, X) * inverse_lengths(rows, X.dtype)
        mean: torch.Tensor = MeanAggregation.apply(rows, values, X)
        return mean
    if is_transformed():
        return derivatives.extreme(rows, values, X, least=reduce == "min")
    if wants_grad(values, X):
        found: torch.Tensor = Extreme.apply(rows, values, X, reduce == "min")
        return found
    return native.extreme(rows.structure, native.whole(values), X, least=reduce == "min", with_arg=False)[0]


def row_softmax(rows: IndexArrays, scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax of `scores` over the entries of each row, differentiable: (nnz,) or (nnz, H)."""
    if is_transformed():
        return derivatives.row_softmax(rows, scores)
    if wants_grad(scores):
        found: torch.Tensor = EdgeSoftmax.apply(rows, scores)
        return found
    return native.row_softmax(rows.structure, scores)


def sampled(rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Compute ⟨X[i], Y[j]⟩ for each entry (i, j), differentiable: X (n, K), Y (m, K) → (nnz,).

    With heads (n, H, K), (m, H, K) → (nnz, H). Vectors (n,) and (m,) count as K = 1.
    """
    if X.dim() == 1:
        X, Y = X.unsqueeze(1), Y.unsqueeze(1)
    if is_transformed():
        found: torch.Tensor = TransformedSampledProduct.apply(rows, X, Y)
        return found
    if wants_grad(X, Y):
        result: torch.Tensor = TorchSampledProduct.apply(rows, X, Y)
        return result
    return dots(rows, X, Y)


class _ByFunctions:
    """The differentiable products of this module, in the form of the module `operators`."""

    product = staticmethod(product)
    sampled = staticmethod(sampled)


def _for(grad: torch.Tensor) -> Any:
    """Return what computes products with `grad`: operators of PyTorch for a batch of gradients, else functions."""
    if not is_batch(grad):
        return _ByFunctions
    return operators


class TorchProduct(torch.autograd.Function):
    """Product C = A X, or Aᵀ X; with heads C[i, h] = Σ w[p, h] X[j, h] over entries p = (i, j), or over columns."""

    @staticmethod
    def forward(ctx: Ctx, rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, transposed: bool) -> torch.Tensor:
        ctx.rows, ctx.transposed = rows, transposed
        _, needs_values, needs_X, _ = ctx.needs_input_grad
        ctx.save_for_backward(values if needs_X else None, X if needs_values else None)
        ctx.save_for_forward(values, X)
        return products.multiply(rows, values, X, transposed=transposed)

    @staticmethod
    def jvp(ctx: Ctx, _: None, d_values: MaybeTensor, d_X: MaybeTensor, __: None) -> MaybeTensor:
        values, X = ctx.saved_tensors
        pairs = (d_values, X), (values, d_X)
        return _sum_over(pairs, lambda v, x: product(ctx.rows, v, x, transposed=ctx.transposed))

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor, None]:
        values, X = ctx.saved_tensors
        of, d_values, d_X = _for(grad), None, None
        if ctx.needs_input_grad[1]:
            sides = (X.conj(), grad) if ctx.transposed else (grad, X.conj())
            d_values = of.sampled(ctx.rows, *sides)
        if ctx.needs_input_grad[2]:  # a view of a sparse tensor's values has no lazy conjugate
            d_X = of.product(ctx.rows, values.conj_physical(), grad, transposed=not ctx.transposed)
        return None, d_values, d_X, None


class TorchSampledProduct(torch.autograd.Function):
    """Sampled product v[p] = ⟨X[i], Y[j]⟩ for entry p = (i, j), without conjugation, as X @ Y.T."""

    @staticmethod
    def forward(ctx: Ctx, rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        ctx.rows = rows
        ctx.save_for_backward(X, Y)
        ctx.save_for_forward(X, Y)
        return dots(rows, X, Y)

    @staticmethod
    def jvp(ctx: Ctx, _: None, d_X: MaybeTensor, d_Y: MaybeTensor) -> MaybeTensor:
        X, Y = ctx.saved_tensors
        return _sum_over(((d_X, Y), (X, d_Y)), lambda x, y: sampled(ctx.rows, x, y))

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor]:
        X, Y = ctx.saved_tensors
        of, d_X, d_Y = _for(grad), None, None
        if ctx.needs_input_grad[1]:
            d_X = of.product(ctx.rows, grad, Y.conj())
        if ctx.needs_input_grad[2]:
            d_Y = of.product(ctx.rows, grad, X.conj(), transposed=True)
        return None, d_X, d_Y


class TransformedProduct(torch.autograd.Function):
    """`TorchProduct` under transforms of `torch.func`: A X or Aᵀ X, with or without heads."""

    @staticmethod
    def forward(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, transposed: bool) -> torch.Tensor:
        return products.multiply(rows, values, X, transposed=transposed)

    @staticmethod
    def setup_context(ctx: Ctx, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.rows, values, X, ctx.transposed = inputs
        ctx.save_for_backward(values, X)
        ctx.save_for_forward(values, X)

    backward = staticmethod(TorchProduct.backward)
    jvp = staticmethod(TorchProduct.jvp)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, transposed: bool
    ) -> tuple[torch.Tensor, int]:
        of_values, of_X = dims[1], dims[2]
        if of_values is None:
            X = X.movedim(of_X, -1)
            flat = X.reshape(*X.shape[:-2], -1) if X.dim() > 2 else X
            found = product(rows, values, flat, transposed=transposed)
            return found.reshape(*found.shape[:-1], *X.shape[-2:]) if X.dim() > 2 else found, -1
        if X.is_complex() or values.dim() > 2:  # the kernel of heads is real, and a batch of heads has no kernel
            return _one_by_one(info, dims, lambda v, x: product(rows, v, x, transposed=transposed), values, X)
        v, x = _as_heads(values, of_values, info), _as_heads(X, of_X, info)
        is_vector = x.dim() == 2
        found = product(rows, v, x.unsqueeze(2) if is_vector else x, transposed=transposed)
        return found.squeeze(2) if is_vector else found, 1


class TransformedSampledProduct(torch.autograd.Function):
    """`TorchSampledProduct` under transforms: ⟨X[i], Y[j]⟩ for each entry (i, j), with or without heads."""

    @staticmethod
    def forward(rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        return dots(rows, X, Y)

    @staticmethod
    def setup_context(ctx: Ctx, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.rows, X, Y = inputs
        ctx.save_for_backward(X, Y)
        ctx.save_for_forward(X, Y)

    backward = staticmethod(TorchSampledProduct.backward)
    jvp = staticmethod(TorchSampledProduct.jvp)

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], rows: IndexArrays, X: torch.Tensor, Y: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        sides = [_as_heads(one, dim, info) for one, dim in ((X, dims[1]), (Y, dims[2]))]
        if sides[0].dim() > 3 or sides[0].is_complex():
            return _one_by_one(info, dims, lambda x, y: sampled(rows, x, y), X, Y)
        return sampled(rows, *sides), 1


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


class MeanAggregation(torch.autograd.Function):
    """Differentiable mean over the entries of each row: C[i] is (A X)[i] divided by the number of entries of row i."""

    @staticmethod
    def forward(ctx: Ctx, rows: IndexArrays, values: torch.Tensor, X: torch.Tensor) -> torch.Tensor:
        ctx.rows = rows
        ctx.save_for_backward(values, X)
        ctx.save_for_forward(values, X)
        return products.mm(rows, native.whole(values), X).mul_(inverse_lengths(rows, X.dtype))

    @staticmethod
    def jvp(ctx: Ctx, _: None, d_values: MaybeTensor, d_X: MaybeTensor) -> MaybeTensor:
        values, X = ctx.saved_tensors
        found = _sum_over(((d_values, X), (values, d_X)), lambda v, x: product(ctx.rows, v, x))
        return None if found is None else found * inverse_lengths(ctx.rows, found.dtype)

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor]:
        values, X = ctx.saved_tensors
        grad = grad * inverse_lengths(ctx.rows, grad.dtype)
        of, d_values, d_X = _for(grad), None, None
        if ctx.needs_input_grad[1]:
            d_values = of.sampled(ctx.rows, grad, X.conj())
        if ctx.needs_input_grad[2]:
            d_X = of.product(ctx.rows, values.conj_physical(), grad, transposed=True)
        return None, d_values, d_X


class Extreme(torch.autograd.Function):
    """Differentiable C[i, k] = max (min if `least`) of A[i, j] X[j, k] over the entries of row i.

    The gradient goes to the one entry that attains the extreme.
    """

    @staticmethod
    def forward(ctx: Ctx, rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, least: bool) -> torch.Tensor:
        out, arg = native.extreme(rows.structure, native.whole(values), X, least=least, with_arg=True)
        ctx.rows = rows
        ctx.save_for_backward(values, X, arg)
        return out

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, MaybeTensor, MaybeTensor, None]:
        values, X, arg = ctx.saved_tensors
        wanted = (ctx.needs_input_grad[1], ctx.needs_input_grad[2])
        rows = ctx.rows
        if is_followed(grad):
            d_values, d_X = by_steps(lambda v, x: _winners(rows, v, x, arg), (values, X), wanted, grad)
            return None, d_values, d_X, None
        values = native.whole(values)
        return None, *native.extreme_backward(rows.structure, values, X, grad, arg, wanted=wanted), None


def _winners(rows: IndexArrays, values: torch.Tensor, X: torch.Tensor, arg: torch.Tensor) -> torch.Tensor:
    """Return value · X[j, k] of the entry (i, j) that attains the extreme in row i, column k; 0 for empty rows."""
    nnz = values.shape[0]
    if not nnz:
        return X.new_zeros(arg.shape) + 0 * (values.sum() + X.sum())
    entry = arg.long().clamp(0, nnz - 1)
    has_won = (arg >= 0) & (arg < nnz)
    v, x = (torch.where(has_won, one, 0) for one in (values[entry], X.gather(0, rows.col.long()[entry])))
    return v * x


class EdgeSoftmax(torch.autograd.Function):
    """Softmax over the entries of each row; (nnz,) or (nnz, H)."""

    @staticmethod
    def forward(ctx: Ctx, rows: IndexArrays, scores: torch.Tensor) -> torch.Tensor:
        out = native.row_softmax(rows.structure, scores)
        ctx.rows = rows
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
        (out,) = ctx.saved_tensors
        rows = ctx.rows
        if not is_followed(grad):
            return None, native.row_softmax_backward(rows.structure, out, grad)
        terms = out * grad
        sums = _for(grad).product(rows, terms, terms.new_ones((rows.n_cols, *out.shape[1:], *(1,) * (out.dim() - 1))))
        return None, terms - out * sums.reshape(rows.n_rows, *out.shape[1:])[row_of_entries(rows.crow)]
