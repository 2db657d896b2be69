"""Products of sparse structures on a GPU: A B, A x and their transposes, and sampled products."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from autosparse._native.triton.launch import Launch
from autosparse.cuda import choice as choices
from autosparse.cuda.choice import Choice, Kind
from autosparse.cuda.device import ROTATED_BYTES, serving
from autosparse.cuda.structure import Structure
from autosparse.gpu.schedule import MATMUL, SDDMM, SPMV
from autosparse.gpu.target import target_of
from autosparse.tuner.gpu.space import vector_of

DTYPES: Final = {
    torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float32: "float32", torch.float64: "float64"
}  # fmt: skip
"""Dtypes that kernels of ours compute in; others are torch's."""
MOST_BUFFERS: Final = 8


def matmul(
    structure: Structure, values: torch.Tensor, B: torch.Tensor, *, transposed: bool = False, runs: int | None = None
) -> torch.Tensor:
    """A B or Aᵀ B; values (nnz,), B (m,) or (m, N) of one dtype on one device → (n,) or (n, N).

    The host waits for nothing, but for the one call that looks for a faster kernel (never while a graph is captured).
    """
    n, _ = structure.shape(transposed)
    is_vector = B.dim() == 1
    if not is_vector and B.stride(1) != 1:
        B = B.contiguous()

    def vendor(dense: torch.Tensor) -> torch.Tensor:
        return torch_matmul(structure, values, dense, transposed=transposed)

    def launched(launch: Launch, dense: torch.Tensor) -> torch.Tensor:
        out = torch.empty((n, *dense.shape[1:]), dtype=dense.dtype, device=dense.device)
        return (launch.spmv if is_vector else launch.matmul)(values, dense, out)

    if B.dtype not in DTYPES or not values.is_contiguous() or not B.numel() or (is_vector and B.stride(0) != 1):
        return vendor(B)
    columns = 1 if is_vector else B.shape[1]
    name = DTYPES[B.dtype]
    vector = 1 if is_vector or B.data_ptr() % 16 else vector_of(name, columns, B.stride(0))
    operation = SPMV if is_vector else MATMUL
    kind = Kind(operation=operation, transposed=transposed, n_dense_cols=columns, dtype=name, vector=vector)
    made = _decided(structure, kind, B, (launched, vendor), runs)
    return vendor(B) if made.launch is None else launched(made.launch, B)


def _decided(
    structure: Structure,
    kind: Kind,
    B: torch.Tensor,
    how: tuple[Callable[[Launch, torch.Tensor], torch.Tensor], Callable[[torch.Tensor], torch.Tensor]],
    runs: int | None,
) -> Choice:
    """What is chosen for this kind of product, after looking for a faster kernel where calls have paid for it."""
    key = (kind.operation, kind.transposed, kind.n_dense_cols, kind.dtype, kind.vector)
    made = structure.choices.get(key)
    if made is None:
        made = structure.choices[key] = Choice(kind)
    made.n_calls += 1
    device = serving(B)
    if device is not None and choices.may_plan(made, structure, device, runs):
        launched, vendor = how
        buffers = _rotated(B, target_of(device.name(B)).l2_bytes)
        choices.plan(
            made, structure, device,
            run=lambda launch, number: launched(launch, buffers[number % len(buffers)]),
            vendor=lambda number: vendor(buffers[number % len(buffers)]),
        )  # fmt: skip
    return made


def _rotated(B: torch.Tensor, l2_bytes: int) -> list[torch.Tensor]:
    """B and copies of it, together larger than the second cache."""
    n_bytes = max(1, B.numel() * B.element_size())
    n = min(MOST_BUFFERS, 1 + int(ROTATED_BYTES * l2_bytes / n_bytes))
    return [B, *(B.clone() for _ in range(n - 1))]


def torch_matmul(structure: Structure, values: torch.Tensor, B: torch.Tensor, *, transposed: bool) -> torch.Tensor:
    """The product by torch's own path (cuSPARSE on a GPU)."""
    layout = torch.sparse_csc if transposed else torch.sparse_csr
    A = torch.sparse_compressed_tensor(
        structure.crow, structure.col, values, structure.shape(transposed), layout=layout, check_invariants=False
    )
    product: torch.Tensor = A @ B
    return product


def sampled(structure: Structure, X: torch.Tensor, Y: torch.Tensor, *, runs: int | None = None) -> torch.Tensor:
    """⟨X[i], Y[j]⟩ for each entry (i, j); X (n, K), Y (m, K) of one dtype → (nnz,)."""
    X, Y = (one if one.stride(1) == 1 else one.contiguous() for one in (X, Y))

    def vendor(left: torch.Tensor) -> torch.Tensor:
        return torch_sampled(structure, left, Y)

    def launched(launch: Launch, left: torch.Tensor) -> torch.Tensor:
        out = torch.empty(structure.nnz, dtype=left.dtype, device=left.device)
        return launch.sddmm(out, left, Y, out)

    if X.dtype not in DTYPES or not X.numel() or not Y.numel():
        return vendor(X)
    name, k = DTYPES[X.dtype], X.shape[1]
    aligned = not (X.data_ptr() % 16 or Y.data_ptr() % 16)
    vector = vector_of(name, k, X.stride(0), Y.stride(0)) if aligned else 1
    kind = Kind(operation=SDDMM, transposed=False, n_dense_cols=k, dtype=name, vector=vector)
    made = _decided(structure, kind, X, (launched, vendor), runs)
    return vendor(X) if made.launch is None else launched(made.launch, X)


def torch_sampled(structure: Structure, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    """The sampled product by torch: its own kernel for the dtypes that it takes, else gathered rows."""
    if X.dtype in (torch.float32, torch.float64):
        zeros = torch.zeros(structure.nnz, dtype=X.dtype, device=X.device)
        shape = structure.shape(False)
        S = torch.sparse_csr_tensor(structure.crow, structure.col, zeros, shape, check_invariants=False)
        product: torch.Tensor = torch.sparse.sampled_addmm(S, X, Y.T, beta=0.0).values()
        return product
    rows = torch.repeat_interleave(torch.arange(structure.n_rows, device=X.device), structure.crow.long().diff())
    return (X[rows].float() * Y[structure.col.long()].float()).sum(1).to(X.dtype)
