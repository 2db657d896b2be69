"""Products of sparse structures on a GPU: A B, A x and their transposes, and sampled products."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from autosparse._native.triton.launch import Launch
from autosparse.cuda import choice as choices
from autosparse.cuda.choice import Choice, Kind
from autosparse.cuda.device import ROTATED_BYTES, Device, serving
from autosparse.cuda.originals import original
from autosparse.cuda.structure import Pattern, Structure
from autosparse.errors import TUNING_FAILURES
from autosparse.gpu.schedule import MATMUL, SDDMM, SPMV
from autosparse.gpu.target import target_of
from autosparse.tuner.gpu.space import vector_of

DTYPES: Final = {
    torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"
}  # fmt: skip
"""Dtypes that kernels of ours compute in; others are torch's."""
HALF: Final = (torch.float16, torch.bfloat16)
MOST_COPIES: Final = 1 << 12
"""Of an operand, in a measurement."""
ALIGNED: Final = 16
"""Bytes that Triton compiles kernels apart for: addresses that are multiples of them, and others."""

Ours = Callable[[Launch, torch.Tensor], torch.Tensor]
Theirs = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Request:
    """One product at hand: `ours` and `theirs` compute it with `operand`, or with a copy of it, into a new tensor."""

    structure: Pattern
    kind: Kind
    operand: torch.Tensor
    others: tuple[torch.Tensor, ...]  # further tensors that a kernel reads
    ours: Ours
    theirs: Theirs


def serve(request: Request, runs: int | None = None) -> torch.Tensor | None:
    """The product by the kernel that was chosen, after looking for one where calls have paid for it.

    None: torch's path is to serve. The host waits for nothing but in the one call that looks, which is never made while
    a graph is captured.
    """
    device = serving(request.operand)
    if device is None:
        return None
    with device.at(request.operand):
        made = _decided(request, device, runs)
        if made.launch is None:
            return None
        alignment = tuple(one.data_ptr() % ALIGNED == 0 for one in (request.operand, *request.others))
        if alignment not in made.compiled and device.is_capturing():
            return None  # nothing is compiled while a graph is captured
        try:
            found = request.ours(made.launch, request.operand)
        except TUNING_FAILURES as err:
            made.give_up(err)
            return None
        made.compiled.add(alignment)
        return found


def _decided(request: Request, device: Device, runs: int | None) -> Choice:
    structure, kind = request.structure, request.kind
    key = (kind.operation, kind.transposed, kind.n_dense_cols, kind.dtype, kind.vector)
    made: Choice | None = structure.choices.get(key)
    if made is None:
        made = structure.known.choose(key, Choice(kind))
    made.n_calls += 1
    if choices.may_plan(made, structure, device, runs):
        copies = Rotation(request.operand, target_of(device.name(request.operand)).l2_bytes)
        choices.plan(
            made, structure, device,
            run=lambda launch, number: request.ours(launch, copies.next(number)),
            vendor=lambda number: request.theirs(copies.next(number)),
        )  # fmt: skip
    return made


class Rotation:
    """Copies of an operand, together twice as large as the second cache, and handed out in turn.

    A copy comes again when all others were read since, so that it has left the cache; of operands so small that
    `MOST_COPIES` of them fit there, when so many measurements were made. The other arrays of a product are the same in
    every run, and may stay in the cache: that is how products in a row find them.
    """

    def __init__(self, operand: torch.Tensor, l2_bytes: int) -> None:
        self.operand = operand
        self.n = min(MOST_COPIES, 1 + int(ROTATED_BYTES * l2_bytes / max(1, operand.numel() * operand.element_size())))
        self._copies: list[torch.Tensor] = []
        self._last = 0

    def next(self, number: int) -> torch.Tensor:
        """The next copy; for number 0 the operand itself, whose result is compared."""
        if number == 0:
            return self.operand
        if not self._copies:  # only where something is timed
            self._copies = [self.operand.clone() for _ in range(self.n)]
        self._last = (self._last + 1) % self.n
        return self._copies[self._last]


def product_request(
    structure: Structure,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool = False,
    out: torch.Tensor | None = None,
) -> Request | None:
    """A B or Aᵀ B as a request; None where it is torch's. `out`, where given, takes it; no operand lies there."""
    is_vector = B.dim() == 1
    if B.dtype not in DTYPES or not values.is_contiguous() or not B.numel() or (is_vector and B.stride(0) != 1):
        return None
    if not is_vector and B.stride(1) != 1:
        B = B.contiguous()
    n, _ = structure.shape(transposed)
    columns = 1 if is_vector else B.shape[1]
    name = DTYPES[B.dtype]
    vector = 1 if is_vector or B.data_ptr() % ALIGNED else vector_of(name, columns, B.stride(0))
    operand = B

    def ours(launch: Launch, dense: torch.Tensor) -> torch.Tensor:
        fits = out is not None and dense is operand
        C = out if fits and out is not None else dense.new_empty((n, *dense.shape[1:]))
        return (launch.spmv if is_vector else launch.matmul)(values, dense, C)

    kind = Kind(
        operation=SPMV if is_vector else MATMUL, transposed=transposed, n_dense_cols=columns, dtype=name, vector=vector
    )
    others = (values,) if out is None else (values, out)
    return Request(
        structure, kind, B, others, ours, lambda dense: torch_matmul(structure, values, dense, transposed=transposed)
    )


def matmul(
    structure: Structure, values: torch.Tensor, B: torch.Tensor, *, transposed: bool = False, runs: int | None = None
) -> torch.Tensor:
    """A B or Aᵀ B; values (nnz,), B (m,) or (m, N) of one dtype on one device → (n,) or (n, N)."""
    request = product_request(structure, values, B, transposed=transposed)
    found = None if request is None else serve(request, runs)
    return torch_matmul(structure, values, B, transposed=transposed) if found is None else found


def torch_matmul(structure: Structure, values: torch.Tensor, B: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """The product by torch's own path (cuSPARSE on a GPU)."""
    layout = torch.sparse_csc if transposed else torch.sparse_csr
    A = torch.sparse_compressed_tensor(
        structure.crow, structure.col, values, structure.shape(transposed), layout=layout, check_invariants=False,
        device=values.device,
    )  # fmt: skip
    return torch_times(A, B)


def torch_times(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """``A @ B`` by torch, past an override of it; on the host, where it has none of half precision, in float32."""
    if A.dtype in HALF and B.is_cpu:
        return torch_times(A.to(torch.float32), B.float()).to(A.dtype)
    name = "addmv.out" if B.dim() == 1 else "addmm.out"
    kernel = original(name)
    if kernel is None:
        product: torch.Tensor = A @ B
        return product
    C = B.new_empty((A.shape[0], *B.shape[1:]))
    kernel.call_boxed(torch._C._dispatch_keys(A), C.new_zeros(()), A, B, beta=0, alpha=1, out=C)
    return C


def sampled_request(
    structure: Structure, X: torch.Tensor, Y: torch.Tensor,
    *, base: torch.Tensor | None = None, scales: tuple[float, float] = (1.0, 0.0),
) -> Request | None:  # fmt: skip
    """Values alpha ⟨X[i], Y[j]⟩ + beta base[p] for each entry p = (i, j) as a request; scales: (alpha, beta).

    None where it is torch's.
    """
    if X.dtype not in DTYPES or not X.numel() or not Y.numel():
        return None
    X, Y = (one if one.stride(1) == 1 else one.contiguous() for one in (X, Y))
    name, k = DTYPES[X.dtype], X.shape[1]
    aligned = not (X.data_ptr() % ALIGNED or Y.data_ptr() % ALIGNED)
    vector = vector_of(name, k, X.stride(0), Y.stride(0)) if aligned else 1

    def ours(launch: Launch, left: torch.Tensor) -> torch.Tensor:
        out = left.new_empty(structure.nnz)
        return launch.sddmm(out if base is None else base, left, Y, out, alpha=scales[0], beta=scales[1])

    def theirs(left: torch.Tensor) -> torch.Tensor:
        dots = torch_sampled(structure, left, Y)
        if scales[0] != 1:
            dots.mul_(scales[0])
        return dots if base is None or not scales[1] else dots.add_(base, alpha=scales[1])

    kind = Kind(operation=SDDMM, transposed=False, n_dense_cols=k, dtype=name, vector=vector)
    others = (Y,) if base is None else (Y, base)
    return Request(structure, kind, X, others, ours, theirs)


def sampled(structure: Structure, X: torch.Tensor, Y: torch.Tensor, *, runs: int | None = None) -> torch.Tensor:
    """⟨X[i], Y[j]⟩ for each entry (i, j); X (n, K), Y (m, K) of one dtype → (nnz,)."""
    request = sampled_request(structure, X, Y)
    found = None if request is None else serve(request, runs)
    return torch_sampled(structure, X, Y) if found is None else found


def torch_sampled(structure: Structure, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """The sampled product by torch: its own kernel for the dtypes that it takes, else gathered rows."""
    if X.dtype in (torch.float32, torch.float64):
        zeros = torch.zeros(structure.nnz, dtype=X.dtype, device=X.device)
        shape = structure.shape(False)
        S = torch.sparse_csr_tensor(structure.crow, structure.col, zeros, shape, check_invariants=False, device=X.device)
        return torch_sampled_into(S, X, Y.T)
    rows = structure.rows()
    return (X[rows].float() * Y[structure.col.long()].float()).sum(1).to(X.dtype)


def torch_sampled_into(S: torch.Tensor, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Values of ``X @ Y`` at the entries of S by torch, past an override of it; what S holds is not used."""
    kernel = original("sparse_sampled_addmm.out")
    if kernel is None:
        torch.sparse.sampled_addmm(S, X, Y, beta=0.0, out=S)
    else:
        kernel.call_boxed(torch._C._dispatch_keys(S), S, X, Y, beta=0.0, alpha=1.0, out=S)
    values: torch.Tensor = S.values()
    return values
