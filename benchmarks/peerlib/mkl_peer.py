"""MKL's inspector-executor sparse BLAS as a peer, through ctypes, with and without hint and optimisation."""

from __future__ import annotations

import ctypes
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from peerlib.case import Case, Prepared

GENERAL, FILL_LOWER, DIAG_NON_UNIT = 20, 40, 50
NON_TRANSPOSE, ROW_MAJOR = 10, 101
LETTERS: Final = {"float32": ("s", ctypes.c_float), "float64": ("d", ctypes.c_double)}
EXPECTED_CALLS: Final = 10_000


class MatrixDescription(ctypes.Structure):
    """Counterpart of ``struct matrix_descr`` in mkl_spblas.h."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


GENERAL_MATRIX: Final = MatrixDescription(GENERAL, FILL_LOWER, DIAG_NON_UNIT)


@functools.lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    """Load libmkl_rt of the installed wheel, or of the system."""
    beside = sorted((Path(sys.prefix) / "lib").glob("libmkl_rt.so*"))
    return ctypes.CDLL(str(beside[-1]) if beside else "libmkl_rt.so")


def checked(status: int, call: str) -> None:
    if status != 0:
        raise RuntimeError(f"{call} returned status {status}")


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def create(case: Case) -> tuple[str, ctypes.c_void_p]:
    """Return the type letter and a handle over the case's own CSR arrays (LP64 interface: int32 indices)."""
    letter, _ = LETTERS[case.A.dtype.name]
    A, handle, item = case.A, ctypes.c_void_p(), case.A.indptr.itemsize
    if A.indptr.dtype != np.int32:
        raise RuntimeError("the LP64 interface takes int32 indices only")
    checked(
        library()[f"mkl_sparse_{letter}_create_csr"](
            ctypes.byref(handle), 0, A.shape[0], A.shape[1],
            _pointer(A.indptr), ctypes.c_void_p(A.indptr.ctypes.data + item), _pointer(A.indices), _pointer(A.data),
        ),
        "create_csr",
    )  # fmt: skip
    return letter, handle


def _optimise(handle: ctypes.c_void_p, case: Case) -> float:
    """Set the hint for many products and let MKL inspect the matrix; return the seconds of both."""
    start, mkl, n = time.perf_counter(), library(), case.operation.n_dense_cols
    if case.operation.is_vector:
        checked(mkl.mkl_sparse_set_mv_hint(handle, NON_TRANSPOSE, GENERAL_MATRIX, EXPECTED_CALLS), "set_mv_hint")
    else:
        checked(
            mkl.mkl_sparse_set_mm_hint(handle, NON_TRANSPOSE, GENERAL_MATRIX, ROW_MAJOR, n, EXPECTED_CALLS),
            "set_mm_hint",
        )
    checked(mkl.mkl_sparse_optimize(handle), "optimize")
    return time.perf_counter() - start


def _product(letter: str, handle: ctypes.c_void_p, case: Case) -> Callable[[], np.ndarray]:
    real, out = LETTERS[case.A.dtype.name][1], case.out
    one, zero, n = real(1.0), real(0.0), case.operation.n_dense_cols
    arguments: tuple[Any, ...] = (NON_TRANSPOSE, one, handle, GENERAL_MATRIX)
    if case.operation.is_vector:
        call = library()[f"mkl_sparse_{letter}_mv"]
        arguments += (_pointer(case.B), zero, _pointer(out))
    else:
        call = library()[f"mkl_sparse_{letter}_mm"]
        arguments += (ROW_MAJOR, _pointer(case.B), n, n, zero, _pointer(out), n)
    checked(call(*arguments), "product")

    def run() -> np.ndarray:
        call(*arguments)
        return out

    return run


def mkl_plain(case: Case) -> Prepared:
    """Prepare ``mkl_sparse_?_mv/mm`` directly after create_csr."""
    return _prepared(case, hinted=False)


def mkl_hinted(case: Case) -> Prepared:
    """Prepare ``mkl_sparse_?_mv/mm`` after set_mv_hint/set_mm_hint and mkl_sparse_optimize."""
    return _prepared(case, hinted=True)


def _prepared(case: Case, *, hinted: bool) -> Prepared:
    library().mkl_set_num_threads(ctypes.byref(ctypes.c_int(case.threads)))
    letter, handle = create(case)
    facts = {"prepare_s": _optimise(handle, case)} if hinted else {}
    return Prepared(
        _product(letter, handle, case), facts, lambda: checked(library().mkl_sparse_destroy(handle), "destroy")
    )
