"""MTTKRP on a GPU: a sparse tensor's coordinates sorted into fibers of one mode, and its product with factors."""

# mypy: allow-untyped-calls
from __future__ import annotations

import hashlib
import numbers
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

from autosparse._native.triton.entries import DeviceEntries, entries_of_csf
from autosparse._native.triton.launch import Launch
from autosparse.cuda import products
from autosparse.cuda.solvers import ProductKind
from autosparse.cuda.structure import KnownPattern, known_of, version_of
from autosparse.errors import DtypeError, InputTypeError, ShapeError, StructureError
from autosparse.gpu.schedule import MTTKRP
from autosparse.scalar.tensors import COMPUTED
from autosparse.tuner.gpu.facts import DevicePattern, facts_of
from autosparse.tuner.gpu.space import vector_of

ORDER: Final = 3
"""Order of the tensors that autosparse's kernels accept; torch computes others."""
TERM_BYTES: Final = 1 << 26
"""Maximum bytes of products of factor rows that torch's path holds at a time."""


class FiberLevels(NamedTuple):
    """Compressed sparse fibers of a tensor (Smith and Karypis 2015), by root (a row of the result) and fiber."""

    root_ends: torch.Tensor
    fiber_cols: torch.Tensor
    fiber_ends: torch.Tensor
    leaf_cols: torch.Tensor


@dataclass(slots=True, eq=False)
class Fibers:
    """Pattern of a third-order tensor for MTTKRP: coordinates (3, nnz), extents, and the result's mode."""

    coords: torch.Tensor
    extents: tuple[int, ...]
    mode: int
    known: KnownPattern
    _levels: FiberLevels | None = field(default=None)

    @property
    def choices(self) -> OrderedDict[tuple[object, ...], Any]:
        """Choices by kind of product."""
        return self.known.choices

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return self.coords.shape[1]

    @property
    def n_bytes(self) -> int:
        """Bytes of the coordinates."""
        return self.coords.numel() * self.coords.element_size()

    @property
    def others(self) -> tuple[int, int]:
        """Pair of summed modes: of the fibers, and of the entries in a fiber."""
        k, leaf = (n for n in range(ORDER) if n != self.mode)
        return k, leaf

    @property
    def col(self) -> torch.Tensor:
        """Index of each entry in its fiber."""
        return self.coords[self.others[1]]

    def shape(self, transposed: bool) -> tuple[int, int]:
        """Return the extent of the result's mode and the larger extent of the two summed modes."""
        return self.extents[self.mode], max(self.extents[n] for n in self.others)

    def levels(self) -> FiberLevels:
        """Return the fibers; the first call sorts the entries and synchronises with the GPU. Raises StructureError."""
        if self._levels is not None:
            return self._levels
        extents = torch.tensor(self.extents, device=self.coords.device)[:, None]
        if bool(((self.coords < 0) | (self.coords >= extents)).any()):
            fault = f"it has coordinates outside of its shape {self.extents}"
            raise StructureError.unsound(fault, shape=self.shape(False), n_stored=self.nnz)
        modes = (self.mode, *self.others)
        order = torch.arange(self.nnz, device=self.coords.device)
        for n in reversed(modes):
            order = order[torch.sort(self.coords[n][order], stable=True).indices]
        root, fiber, leaf = (self.coords[n][order] for n in modes)
        begins = torch.ones_like(root, dtype=torch.bool)
        begins[1:] = (root[1:] != root[:-1]) | (fiber[1:] != fiber[:-1])
        starts = begins.nonzero().squeeze(1)
        per_root = torch.bincount(root[starts], minlength=self.extents[self.mode])
        is_sorted = bool((order[1:] > order[:-1]).all())
        self.known.order = slice(None) if is_sorted else order
        self._levels = FiberLevels(
            torch.cat([per_root.new_zeros(1), per_root.cumsum(0)]), fiber[starts],
            torch.cat([starts, starts.new_full((1,), self.nnz)]), leaf,
        )  # fmt: skip
        return self._levels

    def facts(self, transposed: bool) -> DevicePattern:
        """Return counts of the entries of each root (index of the result's row); the first call waits for the GPU."""
        if transposed not in self.known.facts:
            levels = self.levels()
            ends = levels.fiber_ends[levels.root_ends]
            self.known.facts[transposed] = facts_of(ends, levels.leaf_cols, self.extents[self.others[1]])
        return self.known.facts[transposed]

    def entries(self, transposed: bool) -> DeviceEntries:
        """Return the entries as compressed fibers, from which a kernel's layouts are packed."""
        return entries_of_csf(*self.levels())

    def stable_hash(self) -> str:
        """Return 32 hex digits of extents, mode and coordinates; the first call copies them to the host."""
        if not self.known.stable_hash:
            digest = hashlib.blake2b(f"{self.extents} {self.mode}".encode(), digest_size=16)
            digest.update(self.coords.cpu().numpy().tobytes())
            self.known.stable_hash = digest.hexdigest()
        return self.known.stable_hash


def fibers_of(coords: torch.Tensor, extents: tuple[int, ...], mode: int) -> Fibers:
    """Return the pattern for these arguments; it shares derived data with earlier ones of the same unwritten memory."""
    key = (MTTKRP, coords.data_ptr(), coords.shape, coords.stride(), extents, mode, coords.device, version_of(coords))
    return Fibers(coords, extents, mode, known_of(key, coords))


def mttkrp(T: Any, factors: Sequence[Any], mode: int, *, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return M with M[i, :] = Σ T[…, i, …] times the product of the rows of `factors` at the entry's other coordinates.

    The sum is over the stored entries with coordinate i in `mode`. T: a sparse COO tensor of order 2 or more.
    `factors`: a matrix (T.shape[n], R) of T's dtype on T's device for each mode; the one at `mode` is ignored. Values
    and factors may require gradients. An autosparse kernel may compute order 3 without gradients; torch computes the
    rest. Raises ShapeError, DtypeError, InputTypeError.
    """
    if not (isinstance(T, torch.Tensor) and T.layout is torch.sparse_coo and T.dense_dim() == 0):
        raise InputTypeError.refused(
            "mttkrp: factors on a GPU go with a sparse COO tensor on that GPU", given=type(T).__name__,
            hint="pass torch.sparse_coo_tensor(coords, values, shape, device=...)",
        )  # fmt: skip
    mode = _mode(T, mode)
    dense = _factors(T, factors, mode)
    is_recorded = torch.is_grad_enabled() and any(one.requires_grad for one in (T, *dense.values()))
    T = T.coalesce() if is_recorded and T.requires_grad else T
    values, coords = (T.values(), T.indices()) if T.is_coalesced() else (T._values(), T._indices())
    shape = T.shape[mode], next(iter(dense.values())).shape[1]
    if out is not None:
        _check_out(out, shape, values)
    M = None
    if not is_recorded:
        M = _served(coords, values, tuple(T.shape), mode, list(dense.values()))
    if M is None:
        M = torch_mttkrp(coords, values, dense, mode, shape[0])
    return M if out is None else out.copy_(M)


def _served(
    coords: torch.Tensor, values: torch.Tensor, extents: tuple[int, ...], mode: int, dense: list[torch.Tensor]
) -> torch.Tensor | None:  # fmt: skip
    """Return the MTTKRP by the chosen kernel, None if torch must compute it; `dense` are the two factors."""
    if len(extents) != ORDER or values.dtype not in products.DTYPES:
        return None
    if not values.is_contiguous() or values.is_neg() or any(not one.numel() for one in (values, *dense)):
        return None
    B, D = (one if one.stride(1) == 1 else one.contiguous() for one in dense)
    fibers, (n, n_vecs) = fibers_of(coords, extents, mode), (extents[mode], B.shape[1])
    name = products.DTYPES[values.dtype]
    is_aligned = not any(one.data_ptr() % products.ALIGNED for one in (B, D))
    vector = vector_of(name, n_vecs, B.stride(0), D.stride(0)) if is_aligned else 1
    first, second = fibers.others

    def ours(launch: Launch, left: torch.Tensor) -> torch.Tensor:
        return launch.mttkrp(values[fibers.known.order], left, D, left.new_empty((n, n_vecs)))

    def vendor(left: torch.Tensor) -> torch.Tensor:
        return torch_mttkrp(coords, values, {first: left, second: D}, mode, n)

    kind = ProductKind(operation=MTTKRP, transposed=False, n_dense_cols=n_vecs, dtype=name, vector=vector)
    return products.serve(products.ProductRequest(fibers, kind, B, (values, D), ours, vendor))


def torch_mttkrp(
    coords: torch.Tensor, values: torch.Tensor, factors: dict[int, torch.Tensor], mode: int, n_rows: int
) -> torch.Tensor:  # fmt: skip
    """Compute M by torch operations, a block of entries at a time; half precision is summed in float32."""
    sums = COMPUTED.get(values.dtype, values.dtype)
    n_vecs = next(iter(factors.values())).shape[1]
    M = torch.zeros((n_rows, n_vecs), dtype=sums, device=values.device)
    step = max(1, TERM_BYTES // max(1, n_vecs * M.element_size()))
    for at in range(0, values.shape[0], step):
        part = slice(at, at + step)
        terms = values[part, None].to(sums)
        for n, factor in factors.items():
            terms = terms * factor[coords[n, part]]
        M.index_add_(0, coords[mode, part], terms)
    return M.to(values.dtype)


def _mode(T: torch.Tensor, mode: Any) -> int:
    """Return `mode` as an integer ≥ 0. Raises ShapeError."""
    shape = tuple(T.shape)
    if T.dim() < 2:
        raise ShapeError.unfit(MTTKRP, wanted="a tensor of order 2 or more", T=shape)
    is_integer = isinstance(mode, numbers.Integral) and not isinstance(mode, bool)
    if not is_integer or not -T.dim() <= int(mode) < T.dim():
        raise ShapeError.unfit(f"{MTTKRP} with mode={mode!r}", wanted=f"a mode from 0 to {T.dim() - 1}", T=shape)
    return int(mode) % T.dim()


def _factors(T: torch.Tensor, factors: Sequence[Any], mode: int) -> dict[int, torch.Tensor]:
    """Return {mode: factor} for all modes except `mode`, after checking shapes, dtypes and devices against T."""
    given, shape = list(factors), tuple(T.shape)
    if len(given) != T.dim():
        wanted = f"one factor for each of the {T.dim()} modes (None at mode {mode}), not {len(given)}"
        raise ShapeError.unfit(MTTKRP, wanted=wanted, T=shape)
    dense = {n: one for n, one in enumerate(given) if n != mode}
    for n, one in dense.items():
        if not isinstance(one, torch.Tensor) or one.layout is not torch.strided:
            raise InputTypeError.refused(
                f"mttkrp: factor {n} must be a dense tensor", given=type(one).__name__,
                hint=f"pass a tensor of shape ({shape[n]}, R) on {T.device}",
            )  # fmt: skip
        if one.dim() != 2 or one.shape[0] != shape[n]:
            wanted = f"factor {n} with {shape[n]} rows, the extent of mode {n}"
            raise ShapeError.unfit(MTTKRP, wanted=wanted, T=shape, factor=one.shape)
        if one.dtype is not T.dtype or one.device != T.device:
            kinds = [f"{each.dtype} on {each.device}" for each in (T, one)]
            raise DtypeError.unserved(MTTKRP, dtypes=kinds, known=[kinds[0]])
    first, *rest = dense
    for n in rest:
        if dense[n].shape[1] != dense[first].shape[1]:
            named = {f"factor_{one}": dense[one].shape for one in (first, n)}
            raise ShapeError.unfit(MTTKRP, wanted="factors of one number of columns", **named)
    return {n: one.resolve_conj().resolve_neg() for n, one in dense.items()}


def _check_out(out: Any, shape: tuple[int, int], values: torch.Tensor) -> None:
    if not isinstance(out, torch.Tensor) or out.layout is not torch.strided:
        hint = f"pass out=torch.empty({shape}, device={str(values.device)!r})"
        raise InputTypeError.refused("mttkrp: out must be a dense tensor", given=type(out).__name__, hint=hint)
    if tuple(out.shape) != shape:
        raise ShapeError.out(wanted=shape, got=out.shape)
    if out.dtype is not values.dtype or out.device != values.device:
        kinds = [f"{each.dtype} on {each.device}" for each in (values, out)]
        raise DtypeError.unserved(MTTKRP, dtypes=kinds, known=[kinds[0]])
