"""MTTKRP of torch's sparse COO tensors on the CPU: by kernels of `autosparse.mttkrp`, or by torch with gradients."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed)
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autosparse.arrays import tensors
from autosparse.errors import InputTypeError, ShapeError
from autosparse.ops import MTTKRP
from autosparse.torch.structure import version


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Tensor of this library that shares the arrays of a torch tensor, and the state of the arrays when it was made."""

    made: Any
    state: tuple[int, int, int]

    @staticmethod
    def state_of(T: torch.Tensor) -> tuple[int, int, int]:
        """Return (address of the coordinates, their version counter, address of the values) of a COO tensor."""
        indices = T._indices()
        return indices.data_ptr(), version(indices), T._values().data_ptr()


_kept: Final = WeakTensorKeyDictionary()


def mttkrp(
    T: torch.Tensor,
    factors: Sequence[Any],
    mode: int,
    *,
    make: Callable[..., Any],
    multiply: Callable[..., Any],
    out: Any = None,
) -> torch.Tensor:
    """Return M with M[i, :] = Σ T[…, i, …] times the product of the rows of `factors` at the entry's other coordinates.

    The sum is over the stored entries with coordinate i in `mode`. T is a sparse COO tensor; `factors` are tensors or
    arrays. `make` and `multiply` are `autosparse.tensor` and `autosparse.mttkrp`. Where T or a factor requires
    gradients, torch computes the product with one intermediate row per entry. Raises ShapeError, DtypeError,
    InputTypeError.
    """
    if T.layout is not torch.sparse_coo or T.dense_dim():
        raise InputTypeError.refused(
            "mttkrp takes torch's sparse COO tensors with numbers as entries", given=tensors.describe(T),
            hint="pass T.to_sparse_coo()",
        )  # fmt: skip
    others = [one for n, one in enumerate(factors) if n != mode]
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in (T, *others)):
        M = _recorded(T, factors, mode)
    else:
        arrays = [tensors.as_array(one) if isinstance(one, torch.Tensor) else one for one in factors]
        M = torch.from_numpy(multiply(_tensor_of(T, make), arrays, mode))
    if out is None:
        return M
    if not isinstance(out, torch.Tensor) or out.shape != M.shape or out.dtype is not M.dtype:
        raise ShapeError.unfit(f"{MTTKRP.name} with out=", wanted=f"a tensor of {M.shape} and {M.dtype}", out=out.shape)
    return out.copy_(M)


def _tensor_of(T: torch.Tensor, make: Callable[..., Any]) -> Any:
    """Return this library's tensor over T's arrays, made by `make`; kept with its plans while T's arrays stay."""
    state = _Kept.state_of(T)
    kept = _kept.get(T)
    if kept is None or kept.state != state:
        made = make(tensors.as_array(T._indices()), tensors.as_array(T._values()), tuple(T.shape), copy=False)
        kept = _kept[T] = _Kept(made, state)
    return kept.made


def _recorded(T: torch.Tensor, factors: Sequence[Any], mode: int) -> torch.Tensor:
    """Compute the MTTKRP `M` of `mttkrp` by torch functions that autograd records."""
    others = {n: torch.as_tensor(one) for n, one in enumerate(factors) if n != mode and one is not None}
    widths = {one.shape[1:] for one in others.values()}
    fits = all(one.dim() == 2 and one.shape[0] == T.shape[n] for n, one in others.items() if n < T.dim())
    if len(factors) != T.dim() or len(others) != T.dim() - 1 or len(widths) != 1 or not fits:
        shapes = {f"factor_{n}": tuple(one.shape) for n, one in others.items()}
        raise ShapeError.unfit(MTTKRP.name, wanted="a matrix (T.shape[n], R) for each other mode", T=T.shape, **shapes)
    T = T.coalesce()
    coords, terms = T.indices(), T.values().unsqueeze(1)
    for n, factor in others.items():
        terms = terms * factor[coords[n]]
    M = torch.zeros(T.shape[mode], terms.shape[1], dtype=terms.dtype, device=terms.device)
    return M.index_add(0, coords[mode], terms)
