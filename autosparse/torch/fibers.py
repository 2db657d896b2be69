"""MTTKRP of torch's sparse COO tensors in this computer's memory: the kernels of `autosparse.mttkrp`, or the einsum."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed)
from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from autosparse.arrays import sparse_tensor, tensors
from autosparse.errors import InputTypeError, ShapeError
from autosparse.ops import MTTKRP
from autosparse.torch.structure import version


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """The library's tensor over a torch tensor's values, and what the coordinates were when it was made."""

    made: sparse_tensor.AutoSparseTensor
    coords: tuple[int, int, int]

    @staticmethod
    def state_of(T: torch.Tensor) -> tuple[int, int, int]:
        indices = T._indices()
        return indices.data_ptr(), version(indices), T._values().data_ptr()


_kept: Final = WeakTensorKeyDictionary()


def mttkrp(T: torch.Tensor, factors: Sequence[Any], mode: int, *, out: Any = None) -> torch.Tensor:
    """M[i, :] = sum over entries (.., i at `mode`, ..) of T's value times the factors' rows at the other coordinates.

    T: a sparse COO tensor; `factors`: tensors or arrays, see `autosparse.mttkrp`. Where values or factors require
    gradients the einsum computes, which has them. Raises ShapeError, DtypeError, InputTypeError.
    """
    if T.layout is not torch.sparse_coo or T.dense_dim():
        raise InputTypeError.refused(
            "mttkrp takes torch's sparse COO tensors with numbers as entries", given=tensors.describe(T),
            cure="T.to_sparse_coo()",
        )  # fmt: skip
    mode = sparse_tensor.mode_of(T, mode)
    others = [one for n, one in enumerate(factors) if n != mode]
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in (T, *others)):
        M = _recorded(T, factors, mode)
    else:
        arrays = [tensors.as_array(one) if isinstance(one, torch.Tensor) else one for one in factors]
        M = torch.from_numpy(sparse_tensor.mttkrp(_tensor_of(T), arrays, mode))
    if out is None:
        return M
    if not isinstance(out, torch.Tensor) or out.shape != M.shape or out.dtype is not M.dtype:
        raise ShapeError.unfit(f"{MTTKRP.name} with out=", wanted=f"a tensor of {M.shape} and {M.dtype}", out=out.shape)
    return out.copy_(M)


def _tensor_of(T: torch.Tensor) -> sparse_tensor.AutoSparseTensor:
    """The library's tensor of these coordinates, whose plans are kept as long as T lives; it reads T's values."""
    state = _Kept.state_of(T)
    kept = _kept.get(T)
    if kept is None or kept.coords != state:
        made = sparse_tensor.tensor(tensors.as_array(T._indices()), tensors.as_array(T._values()), tuple(T.shape), copy=False)
        kept = _kept[T] = _Kept(made, state)
    found: sparse_tensor.AutoSparseTensor = kept.made
    return found


def _recorded(T: torch.Tensor, factors: Sequence[Any], mode: int) -> torch.Tensor:
    """M by the einsum, which PyTorch's autograd follows."""
    from autosparse.asymptotic.surface import einsum

    names, column = string.ascii_letters[: T.dim()], string.ascii_letters[T.dim()]
    others = [n for n in range(T.dim()) if n != mode]
    if len(factors) != T.dim() or any(factors[n] is None or factors[n].ndim != 2 for n in others):
        shapes = {f"factor_{n}": tuple(factors[n].shape) for n in others if n < len(factors) and factors[n] is not None}
        raise ShapeError.unfit(MTTKRP.name, wanted="a matrix (T.shape[n], R) for each other mode", T=T.shape, **shapes)
    inputs = ",".join((names, *(f"{names[n]}{column}" for n in others)))
    recorded: torch.Tensor = einsum(f"{inputs}->{names[mode]}{column}", T, *(factors[n] for n in others))
    return recorded
