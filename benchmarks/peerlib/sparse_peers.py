"""Peers of SpGEMM (A @ A, both sparse): SciPy, torch, MKL, pydata/sparse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from peerlib.case import Case, Prepared
from peerlib.mkl_peer import NON_TRANSPOSE, checked, create, library
from peerlib.python_peers import pydata_matrix, torch_matrix


def scipy_sparse(case: Case) -> Prepared:
    """Prepare ``A @ A`` of scipy.sparse.csr_array."""
    A = case.A
    return Prepared(lambda: A @ A)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A result held by another library, converted only when it is checked."""

    to_scipy: Callable[[], Any]


def torch_sparse(case: Case) -> Prepared:
    """Prepare ``A @ A`` of a torch CSR tensor."""
    _, A = torch_matrix(case)

    def run() -> Foreign:
        C = A @ A
        parts = (C.values, C.col_indices, C.crow_indices)
        return Foreign(lambda: scipy.sparse.csr_array(tuple(part().numpy() for part in parts), shape=case.A.shape))

    return Prepared(run)


def pydata_sparse(case: Case) -> Prepared:
    """Prepare ``A @ A`` of a sparse.GCXS array; the product stays one."""
    A = pydata_matrix(case)

    def run() -> Foreign:
        C = A @ A
        return Foreign(lambda: scipy.sparse.csr_array(C.to_scipy_sparse()))

    return Prepared(run)


def mkl_sparse(case: Case) -> Prepared:
    """Prepare ``mkl_sparse_spmm``; the product stays in MKL's memory until the next one."""
    mkl = library()
    mkl.mkl_set_num_threads(ctypes.byref(ctypes.c_int(case.threads)))
    letter, handle = create(case)
    product = ctypes.c_void_p()

    def run() -> Foreign:
        if product:
            mkl.mkl_sparse_destroy(product)
        checked(mkl.mkl_sparse_spmm(NON_TRANSPOSE, handle, handle, ctypes.byref(product)), "spmm")
        return Foreign(lambda: _exported(case, letter, product))

    def close() -> None:
        for one in filter(None, (product, handle)):
            mkl.mkl_sparse_destroy(one)

    return Prepared(run, {}, close)


def _exported(case: Case, letter: str, product: ctypes.c_void_p) -> Any:
    """Return a copy of MKL's product as a SciPy array."""
    base, n_rows, n_cols = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    starts, ends, columns, values = (ctypes.c_void_p() for _ in range(4))
    where = map(ctypes.byref, (base, n_rows, n_cols, starts, ends, columns, values))
    checked(library()[f"mkl_sparse_{letter}_export_csr"](product, *where), "export_csr")

    def array(address: ctypes.c_void_p, n: int, dtype: Any) -> np.ndarray:
        size = n * np.dtype(dtype).itemsize
        return np.frombuffer(ctypes.string_at(address.value or 0, size), dtype=dtype) if n else np.zeros(0, dtype)

    first, last = array(starts, n_rows.value, np.int32), array(ends, n_rows.value, np.int32)
    indptr = np.append(first, last[-1:]).astype(np.int32)
    parts = array(values, int(indptr[-1]), case.A.dtype), array(columns, int(indptr[-1]), np.int32), indptr
    return scipy.sparse.csr_array(parts, shape=case.A.shape)
