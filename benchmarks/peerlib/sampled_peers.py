"""Peers of SDDMM: NumPy, torch, numba, and plain OpenMP C (the loop that TACO generates)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from peerlib.c_peers import SCALAR, call_c
from peerlib.case import Case, Prepared
from peerlib.python_peers import torch_matrix


def numpy_gather(case: Case) -> Prepared:
    """Prepare SDDMM in NumPy: gather pairs of rows, multiply and sum."""
    A, (X, Y_rows) = case.A, case.B
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))

    def run() -> np.ndarray:
        return A.data * np.einsum("pk,pk->p", X[rows], Y_rows[A.indices])

    return Prepared(run)


def torch_sampled(case: Case) -> Prepared:
    """Prepare ``torch.sparse.sampled_addmm``, which samples by A's pattern only, and the product with A's values."""
    torch, A = torch_matrix(case)
    X, Y = torch.from_numpy(case.B[0]), torch.from_numpy(case.B[1]).T

    def run() -> Any:
        S = torch.sparse.sampled_addmm(A, X, Y, beta=0.0)
        return S.values().mul_(A.values()).numpy()

    return Prepared(run)


@functools.lru_cache(maxsize=1)
def _numba_kernel() -> Callable[..., None]:
    import numba

    @numba.njit(parallel=True, fastmath=True, nogil=True)
    def sddmm(A, X, Y, out):  # type: ignore[no-untyped-def]
        indptr, indices, data = A
        for i in numba.prange(len(indptr) - 1):
            for p in range(indptr[i], indptr[i + 1]):
                k, total = indices[p], out.dtype.type(0)
                for j in range(X.shape[1]):
                    total += X[i, j] * Y[k, j]
                out[p] = data[p] * total

    return sddmm


def numba_sampled(case: Case) -> Prepared:
    """Prepare a ``prange`` loop over rows with fastmath."""
    import numba

    numba.set_num_threads(case.threads)
    kernel, A, (X, Y_rows), out = _numba_kernel(), case.A, case.B, case.out

    def run() -> np.ndarray:
        kernel((A.indptr, A.indices, A.data), X, Y_rows, out)
        return out

    return Prepared(run)


def openmp_sampled(case: Case, *, extra: tuple[str, ...] = ()) -> Prepared:
    """Prepare a dynamic loop over rows with one dot product per entry, vectorised by the compiler."""
    A, (X, Y_rows) = case.A, case.B
    arrays = [A.indptr, A.indices, A.data, X, Y_rows, case.out]
    return call_c(case, "sddmm_openmp.c", "plain_sddmm", [A.shape[0], *arrays, X.shape[1]], extra=extra)


def openmp_scalar(case: Case) -> Prepared:
    """Prepare the same loop without vector instructions, which is faster for a few columns."""
    return openmp_sampled(case, extra=SCALAR)


def openmp_four(case: Case) -> Prepared:
    """Prepare the same loop for four entries of a row at a time, which read the row of X once."""
    A, (X, Y_rows) = case.A, case.B
    arrays = [A.indptr, A.indices, A.data, X, Y_rows, case.out]
    return call_c(case, "sddmm_openmp.c", "four_sddmm", [A.shape[0], *arrays, X.shape[1]])
