"""Python packages as peers: SciPy, torch.sparse CSR, numba, pydata/sparse."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from peerlib.case import Case, Prepared


def scipy_csr(case: Case) -> Prepared:
    """Prepare ``A @ B`` of scipy.sparse.csr_array: one thread, a new result."""
    A, B = case.A, case.B
    return Prepared(lambda: A @ B)


def torch_matrix(case: Case) -> tuple[Any, Any]:
    """Return torch, and A as a CSR tensor over the same memory."""
    import torch

    torch.set_num_threads(case.threads)
    A = case.A
    if "torch" not in case.shared:
        indptr, indices, data = (torch.from_numpy(part) for part in (A.indptr, A.indices, A.data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that CSR is in beta
            case.shared["torch"] = torch.sparse_csr_tensor(indptr, indices, data, size=A.shape, check_invariants=False)
    return torch, case.shared["torch"]


def _torch_operands(case: Case) -> tuple[Any, Any, Any]:
    torch, A = torch_matrix(case)
    return torch, A, torch.from_numpy(case.B)


def torch_csr(case: Case) -> Prepared:
    """Prepare ``A @ B`` of a torch CSR tensor (which uses its own MKL), with a new result."""
    _, A, B = _torch_operands(case)
    return Prepared(lambda: A @ B)


def torch_csr_out(case: Case) -> Prepared:
    """Prepare ``torch.mv`` / ``torch.mm`` of a CSR tensor with ``out=``."""
    torch, A, B = _torch_operands(case)
    out = torch.from_numpy(case.out)
    product = torch.mv if case.operation.is_vector else torch.mm

    def run() -> np.ndarray:
        product(A, B, out=out)
        return case.out

    return Prepared(run)


@functools.lru_cache(maxsize=1)
def _numba_kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    import numba

    @numba.njit(parallel=True, fastmath=True, nogil=True)
    def spmv(indptr, indices, data, x, y):  # type: ignore[no-untyped-def]
        for i in numba.prange(len(indptr) - 1):
            total = y.dtype.type(0)
            for p in range(indptr[i], indptr[i + 1]):
                total += data[p] * x[indices[p]]
            y[i] = total

    @numba.njit(parallel=True, fastmath=True, nogil=True)
    def spmm(indptr, indices, data, B, C):  # type: ignore[no-untyped-def]
        for i in numba.prange(len(indptr) - 1):
            C[i, :] = 0
            for p in range(indptr[i], indptr[i + 1]):
                a, k = data[p], indices[p]
                for j in range(B.shape[1]):
                    C[i, j] += a * B[k, j]

    return spmv, spmm


def numba_prange(case: Case) -> Prepared:
    """Prepare a ``prange`` loop over rows with fastmath, into an existing array."""
    import numba

    numba.set_num_threads(case.threads)
    kernel = _numba_kernels()[0 if case.operation.is_vector else 1]
    A, B, C = case.A, case.B, case.out

    def run() -> np.ndarray:
        kernel(A.indptr, A.indices, A.data, B, C)
        return C

    return Prepared(run)


def pydata_matrix(case: Case) -> Any:
    """Return A as sparse.GCXS compressed by rows, over the same memory."""
    import sparse

    A = case.A
    return sparse.GCXS((A.data, A.indices, A.indptr), shape=A.shape, compressed_axes=(0,))


def pydata(case: Case) -> Prepared:
    """Prepare ``A @ B`` of pydata/sparse on one thread: COO for a vector, otherwise GCXS (CSR), its faster classes."""
    import sparse

    A = sparse.COO.from_scipy_sparse(case.A) if case.operation.is_vector else pydata_matrix(case)
    B = case.B
    return Prepared(lambda: A @ B)
