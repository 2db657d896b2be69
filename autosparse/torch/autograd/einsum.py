"""Differentiable `asp.einsum` of torch tensors: gradients for dense tensors and for the values of sparse ones.

For ``R = Σ Π X_n`` the gradient of X_n is an einsum in which the gradient of R replaces X_n. For a sparse X_n, the
sparsity pattern is one more factor, so that only its entries are computed. These gradients have no derivatives.
"""

# mypy: allow-untyped-calls, allow-subclassing-any
# (torch's functions are not all typed, its autograd classes not at all)
# ruff: noqa: D102  forward and backward are what torch prescribes; their class says what they compute
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autosparse.arrays.sparse_tensor import tensor
from autosparse.contraction.execution import compute
from autosparse.contraction.expressions.request import EinsumRequest
from autosparse.contraction.expressions.sums import einsum_of_sum
from autosparse.contraction.expressions.terms import is_sum
from autosparse.contraction.kinds import AnyArray, as_array, check_coordinates, is_of_dask, sound
from autosparse.contraction.lower.ordered_entries import keys
from autosparse.contraction.operands import Sparse, distinct
from autosparse.contraction.results import dense
from autosparse.contraction.subscripts import Subscripts
from autosparse.core.dtypes import WideIndex
from autosparse.errors import EinsumError, InputTypeError
from autosparse.operands.native_rows import check_bounds
from autosparse.ops import EINSUM
from autosparse.scalar.tensors import WITH_NUMPY
from autosparse.torch.autograd.derivatives import Last, is_followed

Ctx = Any  # torch.autograd.function.FunctionCtx takes whatever a Function stores on it


@dataclass(frozen=True, eq=False, slots=True)
class EntryCoordinates:
    """Shape of a sparse operand and coordinates of its values, (modes, entries), without duplicates."""

    coords: AnyArray
    shape: tuple[int, ...]

    def filled(self, values: AnyArray) -> Any:
        """Return a tensor of the library with these values at the coordinates."""
        return tensor(self.coords, values, self.shape, copy=False)


def einsum(subscripts: Subscripts, operands: Sequence[Any]) -> torch.Tensor:
    """Compute the dense result for torch tensors (dense, COO, CSR; on the CPU) and arrays, which are constants.

    The diagonal of an operand with a repeated index is taken first, by differentiable functions of torch.
    """
    found = [_diagonal(letters, *_split(one)) for letters, one in zip(subscripts.inputs, operands, strict=True)]
    subscripts = subscripts._replace(inputs=tuple(letters for letters, _, _ in found))
    pairs = [(places, held) for _, places, held in found]
    result: torch.Tensor = Einsum.apply(subscripts, tuple(places for places, _ in pairs), *(held for _, held in pairs))
    return result


def in_semiring(text: str, operands: Sequence[Any], semiring: str) -> torch.Tensor:
    """Compute the dense result of an einsum, or of a sum of terms, in another semiring, without gradients.

    Raises EinsumError if gradients of an operand would be recorded.
    """
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in operands):
        raise EinsumError.refused(
            f"einsum in the semiring {semiring!r} has no gradients",
            "An operand has requires_grad=True.",
            hint="pass operand.detach(), or use torch.no_grad()",
        )
    split = [_split(one) for one in operands]
    arrays = _arrays([places for places, _ in split], [held for _, held in split])
    if is_sum(text):
        result = einsum_of_sum(text, arrays, "dense", semiring)
    else:
        result = EinsumRequest(text, arrays, "dense", semiring).result()
    return torch.from_numpy(np.array(result))


def _split(operand: Any) -> tuple[EntryCoordinates | None, torch.Tensor]:
    """Return the `EntryCoordinates` of a sparse operand (None for a dense one) and the tensor of its values for
    autograd.
    """
    if not isinstance(operand, torch.Tensor):
        operand = as_array(operand) if is_of_dask(operand) else operand
        if hasattr(operand, "tocoo"):
            coo = sound(operand).tocoo()
            coo.sum_duplicates()
            coords = np.stack([np.asarray(row, dtype=WideIndex) for row in coo.coords])
            return EntryCoordinates(coords, tuple(coo.shape)), torch.from_numpy(np.ascontiguousarray(coo.data))
        if hasattr(operand, "coords"):
            coords = np.asarray(operand.coords, WideIndex)
            return EntryCoordinates(coords, tuple(operand.shape)), torch.from_numpy(
                np.ascontiguousarray(operand.values)
            )
        return None, torch.as_tensor(operand, device="cpu")
    if operand.dtype not in WITH_NUMPY:
        known = f"convert operands to one of {', '.join(str(one).removeprefix('torch.') for one in WITH_NUMPY)}"
        raise InputTypeError.refused(
            "einsum: an operand holds numbers that NumPy has no type for", given=f"dtype {operand.dtype}", hint=known
        )
    if operand.layout == torch.strided:
        return None, operand
    _check(operand.detach())
    coo = operand.to_sparse_coo().coalesce()
    return EntryCoordinates(coo.indices().detach().numpy(), tuple(coo.shape)), coo.values()


def _check(operand: torch.Tensor) -> None:
    """Raise StructureError unless every stored coordinate is within the shape; torch's conversions do not check."""
    shape = tuple(operand.shape)
    if operand.layout == torch.sparse_coo:
        indices, values = operand._indices(), operand._values()
        stored = np.empty(values.shape[0]) if values.dim() else values.numpy()
        check_coordinates(tuple(indices.numpy()), stored, shape[: operand.sparse_dim()])
        return
    is_by_rows = operand.layout in (torch.sparse_csr, torch.sparse_bsr)
    starts, minor = (
        (operand.crow_indices(), operand.col_indices())
        if is_by_rows
        else (operand.ccol_indices(), operand.row_indices())
    )
    values = operand.values()
    if starts.dim() != 1 or len(shape) != 2:
        raise InputTypeError.refused(
            "einsum: a compressed tensor must be one matrix", given=f"shape {shape}", hint="pass it as to_sparse_coo()"
        )
    is_of_blocks = operand.layout in (torch.sparse_bsr, torch.sparse_bsc)
    r, c = tuple(values.shape[1:3]) if is_of_blocks else (1, 1)
    n_rows, n_cols = shape[0] // r, shape[1] // c
    extents = (n_rows, n_cols) if is_by_rows else (n_cols, n_rows)
    check_bounds(starts.numpy(), minor.numpy(), np.empty(values.shape[0], bool), extents, checked=False)


def _diagonal(
    letters: str, places: EntryCoordinates | None, held: torch.Tensor
) -> tuple[str, EntryCoordinates | None, torch.Tensor]:  # fmt: skip
    """Return the operand with each index letter once: the entries whose repeated indices agree, i.e. its diagonal.

    `held` are the values at `places` (None: a dense tensor). A mode of extent 1 is broadcast.
    """
    once = "".join(dict.fromkeys(letters))
    if once == letters:
        return letters, places, held
    shape = tuple(held.shape) if places is None else places.shape
    widest = {index: max((shape[m], m) for m, one in enumerate(letters) if one == index) for index in once}
    if places is None:
        names = {index: chr(ord("a") + n) for n, index in enumerate(once)}
        text = "".join(names[index] for index in letters) + "->" + "".join(names.values())
        return once, None, torch.einsum(text, held.expand([widest[index][0] for index in letters]))
    keep = np.ones(places.coords.shape[1], dtype=bool)
    for mode, index in enumerate(letters):
        if shape[mode] != 1:
            keep &= places.coords[mode] == places.coords[widest[index][1]]
    coords = places.coords[[mode for _, mode in widest.values()]][:, keep]
    return once, EntryCoordinates(coords, tuple(extent for extent, _ in widest.values())), held[torch.from_numpy(keep)]


class Einsum(torch.autograd.Function):
    """Differentiable einsum of dense tensors and of the values of sparse ones."""

    @staticmethod
    def forward(
        ctx: Ctx, subscripts: Subscripts, places: tuple[EntryCoordinates | None, ...], *held: torch.Tensor
    ) -> torch.Tensor:  # fmt: skip
        ctx.subscripts, ctx.places = subscripts, places
        ctx.save_for_backward(*held)
        return _result(subscripts, _arrays(places, held))

    @staticmethod
    def backward(ctx: Ctx, grad: torch.Tensor) -> tuple[Any, ...]:
        held = ctx.saved_tensors  # read once: a checkpoint recomputes them at each access
        arrays = _arrays(ctx.places, [one.detach().conj().resolve_conj() for one in held])
        wanted = ctx.needs_input_grad[2:]
        found = [
            _gradient(ctx, n, arrays, grad.detach().resolve_conj().numpy()) if wanted[n] else None
            for n in range(len(arrays))
        ]
        found = [
            one.real if one is not None and one.is_complex() and not own.is_complex() else one
            for one, own in zip(found, held, strict=True)
        ]
        if is_followed(grad):
            made = [one for one in found if one is not None]
            told = iter(Last.apply(EINSUM.name, len(made), *made, grad, *held))
            found = [None if one is None else next(told) for one in found]
        return (None, None, *found)


def _arrays(places: Sequence[EntryCoordinates | None], held: Sequence[torch.Tensor]) -> list[Any]:
    arrays = [np.asarray(one.detach().numpy(), order="C") for one in held]  # order="C" keeps zero-dimensional arrays
    return [array if at is None else at.filled(array) for at, array in zip(places, arrays, strict=True)]


def _result(subscripts: Subscripts, operands: Sequence[Any]) -> torch.Tensor:
    dtype = np.result_type(*(operand.dtype for operand in operands))
    if all(isinstance(operand, np.ndarray) for operand in operands):
        return torch.from_numpy(np.array(np.einsum(str(subscripts), *operands)))
    result = compute(operands, subscripts, dtype, is_dense=True)
    return torch.from_numpy(np.array(dense(result) if isinstance(result, Sparse) else result))


def _gradient(ctx: Ctx, n: int, operands: Sequence[Any], grad: AnyArray) -> torch.Tensor:
    """Return the gradient of the loss by operand n: a dense array, or one number per value if the operand is sparse."""
    subscripts: Subscripts = ctx.subscripts
    letters, places = subscripts.inputs[n], ctx.places[n]
    others = [one for m, one in enumerate(operands) if m != n]
    inputs = [one for m, one in enumerate(subscripts.inputs) if m != n]
    shape = tuple(operands[n].shape)
    reached = set("".join(inputs) + subscripts.output) | (set() if places is None else set(letters))
    kept = "".join(index for index in letters if index in reached)
    made, own = [*others, grad], [subscripts.output]
    if places is not None:
        made.append(places.filled(np.ones(places.coords.shape[1], grad.dtype)))
        own.append(letters)
    inner = Subscripts((*inputs, *own), kept, subscripts.extents)
    if places is not None:
        result = compute(made, inner, np.result_type(*(one.dtype for one in made)), is_dense=False)
        return torch.from_numpy(_at(places, result))
    whole = _result(inner, made).numpy()
    spread = whole.reshape([extent if index in kept else 1 for index, extent in zip(letters, shape, strict=True)])
    return torch.from_numpy(np.array(np.broadcast_to(spread, shape)))


def _at(places: EntryCoordinates, result: Any) -> AnyArray:
    """Return the values of `result` (dense or sparse) at the coordinates `places`; zero where it stores no entry."""
    if not isinstance(result, Sparse):
        return np.ascontiguousarray(np.asarray(result)[tuple(places.coords)])
    entries = distinct(result.indices, result.coords, result.values, places.shape)
    known, wanted = keys(entries.coords, places.shape), keys(places.coords, places.shape)
    found = np.zeros(wanted.size, result.values.dtype)
    at = np.minimum(np.searchsorted(known, wanted), max(known.size - 1, 0))
    if known.size:
        hit = known[at] == wanted
        found[hit] = entries.values[at[hit]]
    return found
