"""Reductions over the entries of each row, ``torch.sparse.mm(A, B, reduce)``, by the C runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse.scalar.tensors import wide_index
from autosparse.torch import native, products
from autosparse.torch.checks import HALF
from autosparse.torch.dispatcher import extension
from autosparse.torch.dispatcher.fallback import aten_fallbacks, resolved
from autosparse.torch.dispatcher.operators import Keys, entries_of, is_plain
from autosparse.torch.sampled import dots
from autosparse.torch.structure import VALUE_CODES


def mm_reduce(keys: Keys, a: torch.Tensor, b: torch.Tensor, reduce: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute aten::_sparse_mm_reduce_impl: the result, and the max or min entries where a gradient needs them."""
    if (record := extension.known(a)) is not None:  # only for sums of CSR matrices
        return record.multiply(a, b), torch.empty(0, dtype=wide_index, device=a.device)
    A = entries_of(a) if _reduces(a, b, reduce) else None
    if A is None or A.transposed:
        result: tuple[torch.Tensor, torch.Tensor] = aten_fallbacks["_sparse_mm_reduce_impl"].call_boxed(
            keys, resolved(a), b, reduce
        )
        return result
    dtype = b.dtype
    values, dense = (A.values.float(), b.float()) if dtype in HALF else (A.values, b)
    with_arg = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    arg = None
    if reduce in EXTREMES:
        out, arg = native.extreme(A, values, dense, least=EXTREMES[reduce], with_arg=with_arg)
    else:
        out = products.mm(A, values, dense)
        if reduce == "mean":
            out /= A.arrays[0].diff().clamp_(min=1).unsqueeze(1)
    return out.to(dtype), A.arrays[1].new_empty(0) if arg is None else arg


EXTREMES: Final = {"amax": False, "amin": True}
"""Reductions to an extreme, and whether it is the least."""


def _reduces(a: torch.Tensor, b: torch.Tensor, reduce: str) -> bool:
    served = (a.dtype in VALUE_CODES and not a.dtype.is_complex) or a.dtype in HALF
    known = reduce in EXTREMES or reduce in ("sum", "mean")
    return known and served and a.dim() == 2 and is_plain(b, a.dtype, 2) and a.shape[1] == b.shape[0]


def mm_reduce_backward(  # noqa: PLR0917  the dispatcher's arguments
    keys: Keys,
    a: torch.Tensor,
    grad: torch.Tensor,
    b: torch.Tensor,
    reduce: str,
    arg: torch.Tensor,
    wanted: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Compute aten::_sparse_mm_reduce_impl_backward: gradients of a (sparse, with a's structure) and of b."""
    ours = _reduces(a, b, reduce) and a.dtype in VALUE_CODES and is_plain(grad, a.dtype, 2)
    A = entries_of(a) if ours else None
    if A is None or A.transposed:
        result: tuple[torch.Tensor | None, torch.Tensor | None]
        result = aten_fallbacks["_sparse_mm_reduce_impl_backward"].call_boxed(
            keys, resolved(a), grad, b, reduce, arg, wanted
        )
        return result
    if reduce in EXTREMES:
        d_values, d_b = native.extreme_backward(A, A.values, b, grad, arg, wanted=(wanted[0], wanted[1]))
    else:
        if reduce == "mean":
            grad = grad / A.arrays[0].diff().clamp_(min=1).unsqueeze(1)
        d_values = dots(A, grad, b) if wanted[0] else None
        d_b = products.mm(A, A.values, grad, transposed=True) if wanted[1] else None
    if d_values is None:
        return None, d_b
    d_a = A.with_values(d_values, a.shape)
    return d_a, d_b


TABLE: Final[dict[str, Callable[..., Any]]] = {
    "_sparse_mm_reduce_impl": mm_reduce,
    "_sparse_mm_reduce_impl_backward": mm_reduce_backward,
}
"""Kernels by operator, for the dispatch key SparseCsrCPU."""
