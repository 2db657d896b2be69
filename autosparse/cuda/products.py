"""Products of sparse structures on a GPU: A B, A x, their transposes, and sampled products."""

# mypy: allow-untyped-calls
from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad

from autosparse._native.triton.launch import Launch
from autosparse.containment import contained
from autosparse.cuda import choice as choices
from autosparse.cuda.aten_fallback import aten_fallback, zero
from autosparse.cuda.choice import PlannedProduct
from autosparse.cuda.device import ROTATED_BYTES, Device, serving
from autosparse.cuda.solvers import ProductKind
from autosparse.cuda.structure import CudaPattern, CudaStructure
from autosparse.gpu.schedule import MATMUL, SDDMM, SPMV
from autosparse.gpu.target import target_of
from autosparse.scalar import SCALARS, TRITON
from autosparse.scalar.tensors import COMPUTED, REAL_TYPES
from autosparse.tuner.gpu.space import vector_of

DTYPES: Final = {SCALARS[name].torch: name for name in TRITON}
"""Dtypes that autosparse's kernels support; torch computes the others."""
HALF: Final = tuple(COMPUTED)
"""Half-precision dtypes, which are summed in float32."""
MAX_COPIES: Final = 1 << 12
"""Maximum number of operand copies in a measurement."""
ALIGNED: Final = 16
"""Address alignment in bytes for which Triton compiles separate kernels."""

Ours = Callable[[Launch, torch.Tensor], torch.Tensor]
VendorCall = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class ProductRequest:
    """Request for one product; `ours(launch, operand)` computes it by our kernel, `vendor(operand)` by torch."""

    structure: CudaPattern
    kind: ProductKind
    operand: torch.Tensor
    others: tuple[torch.Tensor, ...]  # further tensors that a kernel reads
    ours: Ours
    vendor: VendorCall

    @property
    def key(self) -> tuple[object, ...]:
        """Key of the choice for this kind of product in the structure."""
        kind = self.kind
        return kind.operation, kind.transposed, kind.n_dense_cols, kind.dtype, kind.vector


Signature = tuple[object, ...]
"""Type of a signature: dtypes, shapes, strides and devices of the operands of a product."""


def again(
    structure: CudaPattern, values: torch.Tensor, B: torch.Tensor, transposed: bool, stored: Callable[[], torch.Tensor]
) -> torch.Tensor | None:
    """Compute A B or Aᵀ B as in an earlier call with the same signature, by kernel or torch; None: use `matmul`.

    This path is kept short: products of some 10,000 entries are limited by the Python code, not by the GPU. `stored`
    returns A or Aᵀ as a torch tensor.
    """
    made: PlannedProduct | None = structure.known.ready.get(_signature(values, B, transposed, None))
    if made is None:
        return None
    if made.launch is None:
        return None if is_followed(values, B) else torch_times(stored(), B)
    return _by(made, structure, values, B, transposed=transposed, out=None)


def _by(
    made: PlannedProduct,
    structure: CudaPattern,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool,
    out: torch.Tensor | None,
) -> torch.Tensor | None:
    """Return the product by the kernel `made.launch`; None if there is none or it does not take these operands."""
    if (launch := made.launch) is None or is_followed(values, B):
        return None
    if not (_lies_well(values) and _lies_well(B) and values.is_contiguous() and (out is None or _lies_well(out))):
        return None
    if B.is_cuda and B.get_device() != torch._C._cuda_getDevice():
        return None
    is_vector = B.dim() == 1
    if out is None:
        n = structure.shape(transposed)[0]
        out = B.new_empty(n if is_vector else (n, B.shape[1]))
    try:
        return launch.spmv(values, B, out) if is_vector else launch.matmul(values, B, out)
    except contained() as err:
        made.give_up(err)
        return None


def _signature(values: torch.Tensor, B: torch.Tensor, transposed: bool, out: torch.Tensor | None) -> Signature:
    return (
        transposed, values.dtype, values.get_device(), B.dtype, B.shape, B.stride(), B.get_device(),
        None if out is None else out.stride(),
    )  # fmt: skip


def _lies_well(one: torch.Tensor) -> bool:
    """Return whether a tensor's address is aligned as compiled kernels require, and it is not lazily negated."""
    return one.data_ptr() % ALIGNED == 0 and not one.is_neg()


def is_followed(values: torch.Tensor, B: torch.Tensor) -> bool:
    """Return whether a product of these tensors must be recorded: gradients, forward mode or functorch are active."""
    if torch.is_grad_enabled() and (values.requires_grad or B.requires_grad):
        return True
    return forward_ad._current_level >= 0 or is_functorch_wrapped_tensor(B)


def _note(
    request: ProductRequest, signature: Signature, dense: tuple[torch.Tensor, ...], found: torch.Tensor | None
) -> None:  # fmt: skip
    """Record the choice for this operand signature, so that the next such product skips the lookup.

    Nothing is recorded where torch computed the product (`found` is None) although a kernel was chosen, for example in
    a graph capture.
    """
    made = request.structure.choices.get(request.key)
    if made is None or not made.is_finished or (made.launch is None) is not (found is None):
        return
    if not any(one.data_ptr() % ALIGNED for one in dense):
        request.structure.known.note(signature, made)


def serve(request: ProductRequest, runs: int | None = None) -> torch.Tensor | None:
    """Compute the product by the chosen kernel; None: torch's path must compute it.

    The call searches for a kernel once earlier calls have paid for that. Only this one call synchronises with the GPU,
    and never while a graph is captured.
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
        except contained() as err:
            made.give_up(err)
            return None
        made.compiled.add(alignment)
        return found


def _decided(request: ProductRequest, device: Device, runs: int | None) -> PlannedProduct:
    structure, kind, key = request.structure, request.kind, request.key
    made: PlannedProduct | None = structure.choices.get(key)
    if made is None:
        made = structure.known.choose(key, PlannedProduct(kind))
    made.n_calls += 1
    if choices.may_plan(made, structure, device, runs):
        copies = Rotation(request.operand, target_of(device.name(request.operand)).l2_bytes)
        choices.plan(
            made, structure, device,
            run=lambda launch, number: request.ours(launch, copies.next(number)),
            vendor=lambda number: request.vendor(copies.next(number)),
        )  # fmt: skip
    return made


class Rotation:
    """Copies of an operand, together twice as large as the L2 cache, which are returned in turn.

    A copy is returned again only after all others were read, so that it has left the cache; small operands are limited
    to `MAX_COPIES` copies. The other arrays of a product are the same in every run and may stay in the cache, as in a
    sequence of products.
    """

    def __init__(self, operand: torch.Tensor, l2_bytes: int) -> None:
        self.operand = operand
        self.n = min(MAX_COPIES, 1 + int(ROTATED_BYTES * l2_bytes / max(1, operand.numel() * operand.element_size())))
        self._copies: list[torch.Tensor] = []
        self._last = 0

    def next(self, number: int) -> torch.Tensor:
        """Return the operand itself for call number 0, whose result is compared, else the next copy."""
        if number == 0:
            return self.operand
        if not self._copies:  # made before the timing, and only where something is timed
            self._copies = [self.operand.clone() for _ in range(self.n)]
        self._last = (self._last + 1) % self.n
        return self._copies[self._last]


def product_request(
    structure: CudaStructure,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool = False,
    out: torch.Tensor | None = None,
) -> ProductRequest | None:
    """Return the request for A B or Aᵀ B, None where torch must compute it; the result goes to `out` if given.

    `out` must not overlap an operand.
    """
    is_vector = B.dim() == 1
    if B.dtype not in DTYPES or not values.is_contiguous() or not B.numel() or (is_vector and B.stride(0) != 1):
        return None
    if B.is_neg() or values.is_neg():
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

    kind = ProductKind(
        operation=SPMV if is_vector else MATMUL, transposed=transposed, n_dense_cols=columns, dtype=name, vector=vector
    )
    others = (values,) if out is None else (values, out)
    stored = functools.cache(lambda: torch_sparse(structure, values, transposed=transposed))
    return ProductRequest(structure, kind, B, others, ours, lambda dense: torch_times(stored(), dense))


def matmul(
    structure: CudaStructure,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool = False,
    runs: int | None = None,
    stored: Callable[[], torch.Tensor] | None = None,
) -> torch.Tensor:
    """Compute A B or Aᵀ B; values (nnz,), B (m,) or (m, N) of one dtype on one device → (n,) or (n, N).

    `stored` returns A or Aᵀ as a torch tensor, for callers that keep one.
    """
    found = ours_of(structure, values, B, transposed=transposed, runs=runs)
    if found is not None:
        return found
    return torch_matmul(structure, values, B, transposed=transposed) if stored is None else torch_times(stored(), B)


def ours_of(
    structure: CudaStructure,
    values: torch.Tensor,
    B: torch.Tensor,
    *,
    transposed: bool,
    out: torch.Tensor | None = None,
    runs: int | None = None,
) -> torch.Tensor | None:
    """Return the product A B or Aᵀ B by an autosparse kernel, in `out` if given; None if torch must compute it."""
    signature = _signature(values, B, transposed, out)
    made = structure.known.ready.get(signature)
    if made is not None and made.launch is None:
        return None
    if made is not None and (found := _by(made, structure, values, B, transposed=transposed, out=out)) is not None:
        return found
    request = product_request(structure, values, B, transposed=transposed, out=out)
    found = None if request is None else serve(request, runs)
    if request is not None and request.operand is B:
        _note(request, signature, (B, values) if out is None else (B, values, out), found)
    return found


def torch_sparse(structure: CudaStructure, values: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """Return A or Aᵀ as a torch tensor over the same arrays."""
    layout = torch.sparse_csc if transposed else torch.sparse_csr
    return torch.sparse_compressed_tensor(
        structure.crow, structure.col, values, structure.shape(transposed), layout=layout, check_invariants=False,
        device=values.device,
    )  # fmt: skip


def torch_matmul(structure: CudaStructure, values: torch.Tensor, B: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """Compute the product by torch's own path (cuSPARSE on a GPU)."""
    return torch_times(torch_sparse(structure, values, transposed=transposed), B)


def torch_times(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Compute ``A @ B`` by torch, bypassing the override; half precision on the CPU is computed in float32."""
    if A.dtype in HALF and B.is_cpu:
        return torch_times(A.to(COMPUTED[A.dtype]), B.to(COMPUTED[A.dtype])).to(A.dtype)
    B = B.resolve_neg()  # a kernel called directly does not resolve lazy negation
    name = "addmv.out" if B.dim() == 1 else "addmm.out"
    kernel = aten_fallback(name)
    if kernel is None:
        product: torch.Tensor = A @ B
        return product
    C = B.new_empty((A.shape[0], *B.shape[1:]))
    kernel.call_boxed(torch._C._dispatch_keys(A), zero(B), A, B, beta=0, alpha=1, out=C)
    return C


def sampled_request(
    structure: CudaStructure, X: torch.Tensor, Y: torch.Tensor,
    *, base: torch.Tensor | None = None, scales: tuple[float, float] = (1.0, 0.0),
) -> ProductRequest | None:  # fmt: skip
    """Return the request for alpha ⟨X[i], Y[j]⟩ + beta base[p] for each entry p = (i, j); scales: (alpha, beta).

    Returns None where torch must compute it.
    """
    if X.dtype not in DTYPES or not X.numel() or not Y.numel() or X.is_neg() or Y.is_neg():
        return None
    X, Y = (one if one.stride(1) == 1 else one.contiguous() for one in (X, Y))
    name, k = DTYPES[X.dtype], X.shape[1]
    aligned = not (X.data_ptr() % ALIGNED or Y.data_ptr() % ALIGNED)
    vector = vector_of(name, k, X.stride(0), Y.stride(0)) if aligned else 1

    def ours(launch: Launch, left: torch.Tensor) -> torch.Tensor:
        out = left.new_empty(structure.nnz)
        return launch.sddmm(out if base is None else base, left, Y, out, alpha=scales[0], beta=scales[1])

    def vendor(left: torch.Tensor) -> torch.Tensor:
        dots = torch_sampled(structure, left, Y)
        if scales[0] != 1:
            dots.mul_(scales[0])
        return dots if base is None or not scales[1] else dots.add_(base, alpha=scales[1])

    kind = ProductKind(operation=SDDMM, transposed=False, n_dense_cols=k, dtype=name, vector=vector)
    others = (Y,) if base is None else (Y, base)
    return ProductRequest(structure, kind, X, others, ours, vendor)


def sampled(structure: CudaStructure, X: torch.Tensor, Y: torch.Tensor, *, runs: int | None = None) -> torch.Tensor:
    """Compute ⟨X[i], Y[j]⟩ for each entry (i, j); X (n, K), Y (m, K) of one dtype → (nnz,)."""
    signature = (X.dtype, X.shape, X.stride(), X.get_device(), Y.dtype, Y.shape, Y.stride(), Y.get_device())
    made: PlannedProduct | None = structure.known.ready.get(signature)
    if made is not None and (launch := made.launch) is None:
        return torch_sampled(structure, X, Y)
    is_here = not X.is_cuda or X.get_device() == torch._C._cuda_getDevice()
    if made is not None and launch is not None and is_here and _lies_well(X) and _lies_well(Y):
        out = X.new_empty(structure.nnz)
        try:
            return launch.sddmm(out, X, Y, out)
        except contained() as err:
            made.give_up(err)
    request = sampled_request(structure, X, Y)
    found = None if request is None else serve(request, runs)
    if request is not None and request.operand is X and request.others[0] is Y:
        _note(request, signature, (X, Y), found)
    return torch_sampled(structure, X, Y) if found is None else found


def torch_sampled(structure: CudaStructure, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Compute the sampled product by torch: by its kernel for float32 and float64, else from gathered rows."""
    if X.dtype in REAL_TYPES:
        zeros = torch.zeros(structure.nnz, dtype=X.dtype, device=X.device)
        shape = structure.shape(False)
        S = torch.sparse_csr_tensor(
            structure.crow, structure.col, zeros, shape, check_invariants=False, device=X.device
        )
        return torch_sampled_into(S, X, Y.T)
    rows = structure.rows()
    return (X[rows].float() * Y[structure.col.long()].float()).sum(1).to(X.dtype)


def torch_sampled_into(S: torch.Tensor, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """Compute ``X @ Y`` at the entries of S by torch, bypassing the override; overwrites the values of S."""
    kernel = aten_fallback("sparse_sampled_addmm.out")
    if kernel is None:
        torch.sparse.sampled_addmm(S, X, Y, beta=0.0, out=S)
    else:
        kernel.call_boxed(torch._C._dispatch_keys(S), S, X, Y, beta=0.0, alpha=1.0, out=S)
    values: torch.Tensor = S.values()
    return values
