"""Peers of MTTKRP: SciPy, pydata/sparse, torch, numba over CSF, and plain OpenMP C over CSF."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from peerlib.c_peers import call_c
from peerlib.case import Prepared, TensorCase

MAX_BY_EINSUM = 1 << 22
"""Maximum of entries times columns for pydata/sparse, which takes minutes beyond it."""


def numpy_scipy(case: TensorCase) -> Prepared:
    """Prepare products of gathered factor rows in NumPy, summed by SciPy's product with the incidence of the mode."""
    import scipy.sparse

    mode, (T, factors) = case.operation.mode, (case.A, case.B)
    shape = (T.shape[mode], T.nnz)
    incidence = scipy.sparse.csr_array((T.data, (T.coords[mode], np.arange(T.nnz))), shape)
    others = [n for n in range(len(T.shape)) if n != mode]

    def run() -> np.ndarray:
        products = factors[others[0]][T.coords[others[0]]]
        for n in others[1:]:
            products *= factors[n][T.coords[n]]
        return incidence @ products

    return Prepared(run)


def pydata(case: TensorCase) -> Prepared:
    """Prepare ``sparse.einsum`` of a COO tensor with the factors."""
    import sparse

    T, mode = case.A, case.operation.mode
    if T.nnz * case.operation.n_dense_cols > MAX_BY_EINSUM:
        raise RuntimeError("pydata/sparse would take minutes")
    letters = "abcdefg"[: len(T.shape)]
    others = [n for n in range(len(T.shape)) if n != mode]
    text = f"{letters},{','.join(letters[n] + 'z' for n in others)}->{letters[mode]}z"
    S, factors = sparse.COO(T.coords, T.data, T.shape), [case.B[n] for n in others]

    def run() -> np.ndarray:
        M = sparse.einsum(text, S, *factors)
        return M.todense() if hasattr(M, "todense") else M

    return Prepared(run)


def torch_index_add(case: TensorCase) -> Prepared:
    """Prepare products of gathered rows, summed by ``index_add_``."""
    import torch

    torch.set_num_threads(case.threads)
    T, mode = case.A, case.operation.mode
    coords = [torch.from_numpy(row.astype(np.int64)) for row in T.coords]
    values = torch.from_numpy(T.data)[:, None]
    factors = [torch.from_numpy(factor) for factor in case.B]
    out = torch.from_numpy(case.out)

    def run() -> np.ndarray:
        products = values
        for n, factor in enumerate(factors):
            if n != mode:
                products = products * factor[coords[n]]
        out.zero_().index_add_(0, coords[mode], products)
        return case.out

    return Prepared(run)


def csf_levels(case: TensorCase) -> Any:
    """Return (order, ids, ptr, values) of CSF in int32: the mode outermost, then by growing extent (SPLATT's order)."""
    if "csf" not in case.shared:
        T, mode = case.A, case.operation.mode
        others = sorted((n for n in range(len(T.shape)) if n != mode), key=lambda n: T.shape[n])
        order = [mode, *others]
        coords = T.coords[order]
        perm = np.lexsort(coords[::-1])
        coords = coords[:, perm]
        opens = np.zeros(T.nnz, dtype=bool)
        ids, starts = [], []
        for depth, row in enumerate(coords):
            opens[1:] |= row[1:] != row[:-1]
            opens[:1] = True
            at = np.flatnonzero(opens) if depth < len(order) - 1 else np.arange(T.nnz)
            ids.append(np.ascontiguousarray(row[at], dtype=np.int32))
            starts.append(np.append(at, T.nnz))
        ptr = [np.searchsorted(below, above).astype(np.int32) for above, below in itertools.pairwise(starts)]
        case.shared["csf"] = order, ids, ptr, np.ascontiguousarray(T.data[perm])
    return case.shared["csf"]


@functools.lru_cache(maxsize=1)
def _numba_kernel() -> Callable[..., None]:
    import numba

    @numba.njit(parallel=True, fastmath=True, nogil=True)
    def mttkrp(ids, ptr, values, factors, M):  # type: ignore[no-untyped-def]
        (rows, ks, ls), (fibers, leaves), (B, C) = ids, ptr, factors
        for i in numba.prange(M.shape[0]):
            M[i, :] = 0
        for r in numba.prange(len(rows)):
            for f in range(fibers[r], fibers[r + 1]):
                total = np.zeros(M.shape[1], M.dtype)
                for p in range(leaves[f], leaves[f + 1]):
                    for j in range(M.shape[1]):
                        total[j] += values[p] * C[ls[p], j]
                for j in range(M.shape[1]):
                    M[rows[r], j] += total[j] * B[ks[f], j]

    return mttkrp


def numba_csf(case: TensorCase) -> Prepared:
    """Prepare a ``prange`` loop over the rows of CSF, for order 3."""
    import numba

    if len(case.A.shape) != 3:
        raise RuntimeError("written for order 3")
    numba.set_num_threads(case.threads)
    kernel, out = _numba_kernel(), case.out
    order, ids, ptr, values = csf_levels(case)
    B, C = case.B[order[1]], case.B[order[2]]

    def run() -> np.ndarray:
        kernel(tuple(ids), tuple(ptr), values, (B, C), out)
        return out

    return Prepared(run)


def openmp_csf(case: TensorCase) -> Prepared:
    """Prepare a dynamic loop over the rows of CSF with the sums below a node in a small array, as TACO generates it."""
    order, ids, ptr, values = csf_levels(case)
    n = len(order)
    if n > 5:
        raise RuntimeError("written for orders 3 to 5")
    factors = [case.B[mode] for mode in order[1:]]
    arrays = [len(ids[0]), case.out.shape[0], *ids, *ptr, values, *factors, case.out, case.operation.n_dense_cols]
    return call_c(case, "mttkrp_openmp.c", f"plain_mttkrp{n}", arrays)
