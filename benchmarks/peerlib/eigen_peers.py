"""Eigen's row-major SparseMatrix as a peer (eigen_products.cpp, compiled here with g++): SpMV, SpMM, SpGEMM."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse

from peerlib.c_peers import address, call_c, own_library
from peerlib.case import Case, Prepared, UnavailableError
from peerlib.sparse_peers import Foreign

SOURCE: Final = "eigen_products.cpp"
FOLDERS: Final = tuple(Path(prefix) / "include" / "eigen3" for prefix in (sys.prefix, "/usr/local", "/usr"))
"""Folders searched for Eigen's headers."""


def _options() -> tuple[str, ...]:
    """Return the compiler options for Eigen's headers."""
    for folder in FOLDERS:
        if (folder / "Eigen" / "SparseCore").is_file():
            return (f"-isystem{folder}",)
    raise UnavailableError(f"no headers of Eigen in {', '.join(map(str, FOLDERS))}")


def eigen_dense(case: Case) -> Prepared:
    """Prepare ``C.noalias() = A * B`` into an existing array, in parallel over rows."""
    A = case.A
    given = [*A.shape, A.indptr, A.indices, A.data, case.B, case.out]
    if case.operation.is_vector:
        return call_c(case, SOURCE, "eigen_spmv", given, extra=_options())
    return call_c(case, SOURCE, "eigen_spmm", [*given, case.operation.n_dense_cols], extra=_options())


def eigen_sparse(case: Case) -> Prepared:
    """Prepare ``C = A * A`` on one thread: Eigen has no parallel version.

    C stays in Eigen's memory until the next product.
    """
    A = case.A
    if A.indptr.dtype != np.int32:
        raise RuntimeError("written for int32 indices")
    eigen = own_library(SOURCE, A.dtype.name, _options())
    eigen.eigen_new.restype = ctypes.c_void_p
    eigen.eigen_nnz.restype = ctypes.c_int64
    product = ctypes.c_void_p(eigen.eigen_new())
    given = ctypes.c_int64(A.shape[0]), *map(address, (A.indptr, A.indices, A.data))

    def copied() -> Any:
        nnz = eigen.eigen_nnz(product)
        indptr, indices, values = np.empty(A.shape[0] + 1, np.int32), np.empty(nnz, np.int32), np.empty(nnz, A.dtype)
        eigen.eigen_copy(product, *map(address, (indptr, indices, values)))
        return scipy.sparse.csr_array((values, indices, indptr), shape=A.shape)

    def run() -> Foreign:
        eigen.eigen_spgemm(product, *given)
        return Foreign(copied)

    return Prepared(run, {}, lambda: eigen.eigen_free(product))
