"""Peers in C: plain and register-tiled OpenMP CSR (our own file, compiled here), and adapters built by others."""

from __future__ import annotations

import atexit
import ctypes
import functools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from peerlib.case import Case, Prepared

C_TYPES: Final = {"float32": "float", "float64": "double"}
REORDER: Final = (
    "-fassociative-math",
    "-fno-signed-zeros",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-ffinite-math-only",
)
FLAGS: Final = ("-O3", "-march=native", "-mprefer-vector-width=512", *REORDER, "-fopenmp", "-shared", "-fPIC")
"""The peers may reorder sums. Not -ffast-math: gcc then links code that turns subnormal numbers off for the whole
process, every other contender included. -mprefer-vector-width matters where there is AVX-512, and only there."""


def compile_shared(source: Path, folder: Path, *, name: str, extra: tuple[str, ...] = ()) -> Path:
    """Compile `source` to ``folder/name.so`` with the system's C compiler."""
    library = folder / f"{name}.so"
    command = ["cc", *FLAGS, *extra, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return library


@functools.lru_cache(maxsize=1)
def _build_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="autosparse-peers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=4)
def _own_library(dtype: str) -> ctypes.CDLL:
    source = Path(__file__).with_name("csr_openmp.c")
    return ctypes.CDLL(
        str(compile_shared(source, _build_folder(), name=f"csr_{dtype}", extra=(f"-DREAL={C_TYPES[dtype]}",)))
    )


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _own(case: Case, function: str) -> Prepared:
    A = case.A
    if A.indptr.dtype != np.int32:
        raise RuntimeError("written for int32 indices")
    call = _own_library(A.dtype.name)[function]
    arguments: list[Any] = [
        ctypes.c_int64(A.shape[0]), _address(A.indptr), _address(A.indices), _address(A.data),
        _address(case.B), _address(case.out),
    ]  # fmt: skip
    if not case.operation.is_vector:
        arguments.append(ctypes.c_int64(case.operation.n_dense_cols))
    arguments.append(ctypes.c_int(case.threads))
    return Prepared(_filler(call, arguments, case.out))


def _filler(call: Any, arguments: list[Any], out: np.ndarray) -> Callable[[], np.ndarray]:
    def run() -> np.ndarray:
        call(*arguments)
        return out

    return run


def openmp_plain(case: Case) -> Prepared:
    """Dynamic loop over rows, C row in memory."""
    return _own(case, "plain_spmv" if case.operation.is_vector else "plain_spmm")


def openmp_tiled(case: Case) -> Prepared:
    """Dynamic loop over rows, C row of a column tile in registers (the class of FusedMM); SpMM only."""
    return _own(case, "tiled_spmm")


def adapter(path: Path) -> Callable[[Case], Prepared]:
    """A peer built elsewhere, behind the four functions of peer_abi.h in the shared library at `path`."""

    def prepare(case: Case) -> Prepared:
        library = _adapter_library(path)
        A, start = case.A, time.perf_counter()
        state = library.peer_prepare(
            case.operation.name.encode(), A.dtype.name.encode(), *A.shape, case.operation.n_dense_cols,
            _address(A.indptr), _address(A.indices), _address(A.data), case.threads,
        )  # fmt: skip
        if not state:
            raise RuntimeError("peer_prepare declined this case")
        arguments = [ctypes.c_void_p(state), _address(case.B), _address(case.out)]
        run = _filler(library.peer_run, arguments, case.out)
        facts = {"prepare_s": time.perf_counter() - start}
        return Prepared(run, facts, lambda: library.peer_free(ctypes.c_void_p(state)))

    return prepare


def _adapter_library(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    text, pointer, wide = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64
    library.peer_prepare.argtypes = [text, text, wide, wide, wide, pointer, pointer, pointer, ctypes.c_int]
    library.peer_prepare.restype = pointer
    return library
