"""Contenders for one product on a GPU: autosparse, torch, and other installed libraries."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import torch
from autosparse._native.triton.launch import Launch

from autosparse.cuda import matrix, products, solvers
from autosparse.cuda.device import serving
from autosparse.cuda.structure import CudaStructure
from autosparse.gpu.target import target_of

Run = Callable[[], torch.Tensor]
KERNEL = "kernel"
"""Name of the kernel that autosparse's cost model ranks first; it is measured even if the planner chooses torch."""
DENSE_MAX = 2**28
"""Maximum number of elements (rows × columns) of a matrix that is also multiplied as a dense one."""


def has(module: str) -> bool:
    """Return whether a library is installed."""
    return importlib.util.find_spec(module) is not None


def of_product(A: matrix.CudaCsr, B: torch.Tensor, block: int | None) -> Iterator[tuple[str, Callable[[], Run]]]:
    """Yield (name, function that prepares the product A B); "dense" is a bound and not a competitor."""
    structure, values = A.structure, A.values
    stored = torch.sparse_csr_tensor(structure.crow, structure.col, values, A.shape, check_invariants=False)
    yield "torch", lambda: lambda: stored @ B
    yield "autosparse", lambda: lambda: A @ B
    yield KERNEL, lambda: _kernel(A, B)
    if block is not None and B.dim() == 2:
        yield "torch BSR", lambda: _times(stored.to_sparse_bsr((block, block)), B)
    if A.shape[0] * A.shape[1] <= DENSE_MAX:
        yield "dense", lambda: _times(stored.to_dense(), B)
    if has("cupy") and B.is_cuda and B.dtype is torch.float32:
        yield "CuPy", lambda: _cupy(A, B)
    if has("dgl") and B.dim() == 2:
        yield "DGL", lambda: _dgl(A, B)
    if has("torch_sparse") and B.dim() == 2:
        yield "PyG", lambda: _pyg(A, B)


def _favourite(structure: CudaStructure, operand: torch.Tensor) -> Launch:
    """Return the kernel that the model ranks first for the last kind of product of `structure`, chosen or not."""
    made = list(structure.choices.values())[-1]
    device = serving(operand)
    assert device is not None
    _, schedule = solvers.ranked(structure, made.kind, target_of(device.name(operand)))[0]
    return solvers.launch_of(structure, made.kind, schedule)


def _kernel(A: matrix.CudaCsr, B: torch.Tensor) -> Run:
    launch = _favourite(A.structure, B)
    product = launch.spmv if B.dim() == 1 else launch.matmul
    return lambda: product(A.values, B, B.new_empty((A.shape[0], *B.shape[1:])))


def _kernel_sample(A: matrix.CudaCsr, X: torch.Tensor, Y: torch.Tensor) -> Run:
    launch = _favourite(A.structure, X)

    def run() -> torch.Tensor:
        out = X.new_empty(A.nnz)
        return launch.sddmm(out, X, Y, out)

    return run


def _times(A: torch.Tensor, B: torch.Tensor) -> Run:
    return lambda: A @ B


def _cupy(A: matrix.CudaCsr, B: torch.Tensor) -> Run:
    import cupy
    from cupyx.scipy import sparse

    arrays = [cupy.from_dlpack(one) for one in (A.values, A.structure.col, A.structure.crow)]
    theirs, dense = sparse.csr_matrix(tuple(arrays), shape=A.shape), cupy.from_dlpack(B)
    return lambda: torch.from_dlpack(theirs @ dense)


def _dgl(A: matrix.CudaCsr, B: torch.Tensor) -> Run:
    import dgl.sparse

    theirs = dgl.sparse.from_csr(A.structure.crow.long(), A.structure.col.long(), A.values, A.shape)
    return lambda: dgl.sparse.spmm(theirs, B)


def _pyg(A: matrix.CudaCsr, B: torch.Tensor) -> Run:
    import torch_sparse

    arrays = A.structure.crow.long(), A.structure.col.long()
    theirs = torch_sparse.SparseTensor(rowptr=arrays[0], col=arrays[1], value=A.values, sparse_sizes=A.shape)
    return lambda: theirs @ B


def of_sample(A: matrix.CudaCsr, X: torch.Tensor, Y: torch.Tensor) -> Iterator[tuple[str, Callable[[], Run]]]:
    """Yield (name, function that prepares ⟨X[i], Y[j]⟩ at A's entries)."""
    yield "torch", lambda: _torch_sample(A, X, Y)
    if X.dtype in (torch.float32, torch.float64):
        yield "torch anew", lambda: _torch_anew(A, X, Y)
    yield "autosparse", lambda: lambda: products.sampled(A.structure, X, Y)
    yield KERNEL, lambda: _kernel_sample(A, X, Y)
    if X.shape[0] * Y.shape[0] <= DENSE_MAX:
        rows = torch.repeat_interleave(torch.arange(A.shape[0], device=X.device), A.structure.crow.long().diff())
        cols = A.structure.col.long()
        yield "dense", lambda: lambda: (X @ Y.T)[rows, cols]
    if has("dgl"):
        yield "DGL", lambda: _dgl_sample(A, X, Y)


def _torch_sample(A: matrix.CudaCsr, X: torch.Tensor, Y: torch.Tensor) -> Run:
    """Return torch's kernel in place: the output tensor and its zeros are made once, as a careful user would do."""
    if X.dtype not in (torch.float32, torch.float64):
        return lambda: products.torch_sampled(A.structure, X, Y)
    values, right = torch.zeros_like(A.values), Y.T
    S = torch.sparse_csr_tensor(A.structure.crow, A.structure.col, values, A.shape, check_invariants=False)
    return lambda: products.torch_sampled_into(S, X, right)


def _torch_anew(A: matrix.CudaCsr, X: torch.Tensor, Y: torch.Tensor) -> Run:
    """Return torch's kernel into a new tensor, as autosparse does: ``torch.sparse.sampled_addmm`` without ``out=``."""
    values, right = torch.zeros_like(A.values), Y.T
    S = torch.sparse_csr_tensor(A.structure.crow, A.structure.col, values, A.shape, check_invariants=False)
    return lambda: torch.sparse.sampled_addmm(S, X, right, beta=0.0).values()


def _dgl_sample(A: matrix.CudaCsr, X: torch.Tensor, Y: torch.Tensor) -> Run:
    import dgl.sparse

    ones: Any = torch.ones_like(A.values)  # Any: DGL has no types
    theirs, right = dgl.sparse.from_csr(A.structure.crow.long(), A.structure.col.long(), ones, A.shape), Y.T
    return lambda: dgl.sparse.sddmm(theirs, X, right).val
