"""Peers in C: plain and register-tiled OpenMP CSR (our own file, compiled here), and adapters built by others.

Other modules compile their C and C++ files by `own_library`.
"""

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

from peerlib.case import Case, Prepared, UnavailableError

COMPILERS: Final = {".c": "cc", ".cpp": "g++"}
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
    """Compile `source` to ``folder/name.so`` with the system's compiler of its language."""
    library, compiler = folder / f"{name}.so", COMPILERS[source.suffix]
    if shutil.which(compiler) is None:
        raise UnavailableError(f"no compiler {compiler}")
    command = [compiler, *FLAGS, *extra, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return library


@functools.lru_cache(maxsize=1)
def _build_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="autosparse-peers-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.lru_cache(maxsize=16)
def own_library(name: str, dtype: str, extra: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The file `name` beside this one, compiled for values of `dtype` with the options `extra`."""
    source = Path(__file__).with_name(name)
    extra = (f"-DREAL={C_TYPES[dtype]}", *extra)
    return ctypes.CDLL(str(compile_shared(source, _build_folder(), name=f"{source.stem}_{dtype}", extra=extra)))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def call_c(case: Case, source: str, function: str, given: list[Any], *, extra: tuple[str, ...] = ()) -> Prepared:
    """``function(*given, n_threads)`` of a file beside this one: arrays by address, numbers as int64."""
    if any(isinstance(one, np.ndarray) and one.dtype == np.int64 for one in given):
        raise RuntimeError("written for int32 indices")
    call = own_library(source, case.A.dtype.name, extra)[function]
    arguments = [address(one) if isinstance(one, np.ndarray) else ctypes.c_int64(one) for one in given]
    return Prepared(_filler(call, [*arguments, ctypes.c_int(case.threads)], case.out))


def _own(case: Case, function: str) -> Prepared:
    A = case.A
    given = [A.shape[0], A.indptr, A.indices, A.data, case.B, case.out]
    if not case.operation.is_vector:
        given.append(case.operation.n_dense_cols)
    return call_c(case, "csr_openmp.c", function, given)


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
    """A peer built elsewhere, behind the functions of peer_abi.h in the shared library at `path`."""

    def prepare(case: Case) -> Prepared:
        library, start = ctypes.CDLL(str(path)), time.perf_counter()
        suffix = SUFFIXES[case.operation.kind]
        try:
            prepare_it, run_it = library[f"peer_prepare{suffix[0]}"], library[f"peer_run{suffix[1]}"]
        except AttributeError as err:
            raise RuntimeError(f"the adapter has no {case.operation.kind}") from err
        prepare_it.restype = ctypes.c_void_p
        state = prepare_it(case.operation.name.encode(), case.A.dtype.name.encode(), *_described(case))
        if not state:
            raise RuntimeError("the adapter declined this case")
        arguments = [ctypes.c_void_p(state), *_dense(case), address(case.out)]
        facts = {"prepare_s": time.perf_counter() - start}
        return Prepared(_filler(run_it, arguments, case.out), facts, lambda: library.peer_free(ctypes.c_void_p(state)))

    return prepare


SUFFIXES: Final = {"spmv": ("", ""), "spmm": ("", ""), "sddmm": ("", "_sampled"), "mttkrp": ("_tensor", "_tensor")}
"""Kind of operation -> what the adapter's functions to prepare and to run it end with."""


def _described(case: Case) -> list[Any]:
    """The sparse operand, the columns and the threads as peer_prepare takes them."""
    A, wide = case.A, ctypes.c_int64
    threads = ctypes.c_int(case.threads)
    if case.operation.is_of_tensors:
        case.shared["shape"] = shape = (wide * len(A.shape))(*A.shape)
        numbers = (case.operation.n_dense_cols, case.operation.mode)
        return [
            wide(len(A.shape)),
            shape,
            wide(A.nnz),
            address(A.coords),
            address(A.data),
            *map(wide, numbers),
            threads,
        ]
    numbers = (*A.shape, case.operation.n_dense_cols)
    return [*map(wide, numbers), *map(address, (A.indptr, A.indices, A.data)), threads]


def _dense(case: Case) -> list[Any]:
    """The dense operands as peer_run takes them."""
    if case.operation.is_of_tensors:
        case.shared["factors"] = factors = (ctypes.c_void_p * len(case.B))(*(one.ctypes.data for one in case.B))
        return [factors]
    return list(map(address, case.B if isinstance(case.B, tuple) else (case.B,)))
