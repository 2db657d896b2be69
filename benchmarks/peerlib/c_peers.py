"""Peers in C: plain and register-tiled OpenMP CSR (compiled from csr_openmp.c), and adapters built elsewhere.

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

SCALAR: Final = ("-fno-tree-vectorize",)
"""Compiler option for loops without vector instructions."""
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
"""Compiler flags of the peers, which may reorder sums.

-ffast-math is not used: gcc would link code that disables subnormal numbers in the whole process, and so for every
other contender. -mprefer-vector-width has an effect only with AVX-512.
"""


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
    """Return the library of the file `name` beside this one, compiled for values of `dtype` with options `extra`."""
    source = Path(__file__).with_name(name)
    name = "_".join([source.stem, dtype, *("".join(filter(str.isalnum, one)) for one in extra)])
    extra = (f"-DREAL={C_TYPES[dtype]}", *extra)
    return ctypes.CDLL(str(compile_shared(source, _build_folder(), name=name, extra=extra)))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def call_c(case: Case, source: str, function: str, given: list[Any], *, extra: tuple[str, ...] = ()) -> Prepared:
    """Prepare ``function(*given, n_threads)`` of a file beside this one: arrays by address, numbers as int64."""
    if any(isinstance(one, np.ndarray) and one.dtype == np.int64 for one in given):
        raise RuntimeError("written for int32 indices")
    call = own_library(source, case.A.dtype.name, extra)[function]
    arguments = [address(one) if isinstance(one, np.ndarray) else ctypes.c_int64(one) for one in given]
    return Prepared(_filler(call, [*arguments, ctypes.c_int(case.threads)], case.out))


def _own(case: Case, function: str, *, extra: tuple[str, ...] = ()) -> Prepared:
    A = case.A
    given = [A.shape[0], A.indptr, A.indices, A.data, case.B, case.out]
    if not case.operation.is_vector:
        given.append(case.operation.n_dense_cols)
    return call_c(case, "csr_openmp.c", function, given, extra=extra)


def _filler(call: Any, arguments: list[Any], out: np.ndarray) -> Callable[[], np.ndarray]:
    def run() -> np.ndarray:
        call(*arguments)
        return out

    return run


def openmp_plain(case: Case) -> Prepared:
    """Prepare CSR with a dynamic loop over rows; rows of C stay in memory."""
    return _own(case, "plain_spmv" if case.operation.is_vector else "plain_spmm")


def openmp_scalar(case: Case) -> Prepared:
    """Prepare the plain loop without vector instructions, which is faster for a few columns."""
    return _own(case, "plain_spmv" if case.operation.is_vector else "plain_spmm", extra=SCALAR)


def openmp_tiled(case: Case) -> Prepared:
    """Prepare SpMM with a dynamic loop over rows; a column tile of the row of C stays in registers, as in FusedMM."""
    return _own(case, "tiled_spmm")


def adapter(path: Path) -> Callable[[Case], Prepared]:
    """Return a peer built elsewhere, behind the functions of peer_abi.h in the shared library at `path`."""

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
"""Suffixes of the adapter's functions for preparing and running, by kind of operation."""


def _described(case: Case) -> list[Any]:
    """Return the sparse operand, the columns and the threads as arguments of peer_prepare."""
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
    """Return the dense operands as arguments of peer_run."""
    if case.operation.is_of_tensors:
        case.shared["factors"] = factors = (ctypes.c_void_p * len(case.B))(*(one.ctypes.data for one in case.B))
        return [factors]
    return list(map(address, case.B if isinstance(case.B, tuple) else (case.B,)))
