"""Solver that computes by the inspector-executor interface of Intel's MKL, where the package mkl is installed.

MKL converts the matrix to a format of its own, which its hints and the operand determine. Its values are a copy, so
that the operand is prepared again when they change.
"""

from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

from autosparse.core.problem import Problem
from autosparse.core.solver import Bound, Cost, ProductArguments, SparseOperand
from autosparse.errors import BuildError
from autosparse.scalar import NARROW_INDEX, REAL, SCALARS
from autosparse.targets.priors import number

LETTERS: Final = {name: SCALARS[name].blas for name in REAL}
"""Dtype -> letter in the names of MKL's functions."""
SET_UP_PRODUCTS: Final = number("mkl", "passes of set-up")
"""Seconds of MKL's conversion of a matrix, in passes over its arrays; used before any was measured."""
BYTES_PER_S: Final = number("mkl", "bytes per s")
"""Bytes per second of one such pass."""
GENERAL, ROW_MAJOR, OPERATIONS, N_CALLS, GNU_THREADS = 20, 101, (10, 11), 1000, 3
"""Constants of mkl_spblas.h and mkl_service.h, and the number of products that the hint announces."""


class _Description(ctypes.Structure):
    """Structure ``matrix_descr``: type, mode and diagonal of a matrix."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))


@functools.cache
def installed() -> tuple[str, str]:
    """Return the version of the package mkl and the path of its library; ("", reason) if there is none."""
    import importlib.metadata

    try:
        found = importlib.metadata.distribution("mkl")
    except importlib.metadata.PackageNotFoundError:
        return "", "the package mkl is not installed"
    paths = [str(found.locate_file(one)) for one in found.files or () if "libmkl_rt" in one.name]
    path = next((one for one in paths if Path(one).exists()), "")
    return (found.version, path) if path and sys.platform == "linux" else ("", "the package mkl has no library here")


@functools.cache
def _library() -> Any:  # Any: a ctypes library
    """Return the loaded library, which uses GNU's OpenMP: a second copy of Intel's would end the process."""
    ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
    lib = ctypes.CDLL(str(Path(installed()[1]).resolve()))
    lib.MKL_Set_Threading_Layer(GNU_THREADS)
    lib.MKL_Set_Interface_Layer(0)  # 32-bit integers
    return lib


class _Matrix:
    """Matrix in MKL's own format, and the arrays that it was made from."""

    def __init__(self, operand: SparseOperand, n_columns: int) -> None:
        self._lib, self._kept = _library(), operand
        self._letter, self._real = LETTERS[operand.data.dtype.name], np.ctypeslib.as_ctypes_type(operand.data.dtype)
        self._operation, self._description = OPERATIONS[operand.transposed], _Description(GENERAL, 0, 0)
        self._handle = ctypes.c_void_p()
        starts, n_calls = operand.indptr.ctypes.data, ctypes.c_int(N_CALLS)
        ends = starts + operand.indptr.itemsize
        places = (starts, ends, operand.indices.ctypes.data, operand.data.ctypes.data)
        made = ctypes.byref(self._handle), 0, *map(ctypes.c_int, operand.shape), *map(ctypes.c_void_p, places)
        self._lib.MKL_Set_Num_Threads_Local(operand.n_threads)
        self._check("create_csr", *made, letter=self._letter)
        if n_columns == 1:
            self._check("set_mv_hint", self._handle, self._operation, self._description, n_calls)
        else:
            columns = ctypes.c_int(n_columns)
            self._check("set_mm_hint", self._handle, self._operation, self._description, ROW_MAJOR, columns, n_calls)
        self._check("optimize", self._handle)
        self._mv = self._function("mv", ctypes.c_void_p, self._real, ctypes.c_void_p)
        self._mm = self._function(
            "mm", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, self._real, ctypes.c_void_p, ctypes.c_int
        )

    def _function(self, name: str, *types: Any) -> Any:  # Any: types and functions of ctypes
        found = self._lib[f"mkl_sparse_{self._letter}_{name}"]  # an object of its own, with types of its own
        found.argtypes = (ctypes.c_int, self._real, ctypes.c_void_p, _Description, *types)
        return found

    def _check(self, name: str, *arguments: Any, letter: str = "") -> None:
        """Call a function of MKL; raise BuildError if it reports a failure."""
        status = self._lib[f"mkl_sparse_{letter}_{name}" if letter else f"mkl_sparse_{name}"](*arguments)
        if status:
            raise BuildError(f"MKL's {name} failed with status {status}")

    def run(self, arguments: ProductArguments) -> bool:
        """Compute C; return False if it has values that are not finite, which zeros that MKL added may have caused."""
        B, C = arguments.B, arguments.C
        self._lib.MKL_Set_Num_Threads_Local(arguments.n_threads)
        begin = self._operation, 1.0, self._handle, self._description
        if B.ndim == 1:
            if B.strides[0] != B.itemsize or C.strides[0] != C.itemsize:
                return False
            status = self._mv(*begin, B.ctypes.data, 0.0, C.ctypes.data)
        else:
            n_columns, ldb, ldc = B.shape[1], B.strides[0] // B.itemsize, C.strides[0] // C.itemsize
            status = self._mm(*begin, ROW_MAJOR, B.ctypes.data, n_columns, ldb, 0.0, C.ctypes.data, ldc)
        with np.errstate(all="ignore"):
            return not status and math.isfinite(C.sum())

    def __del__(self) -> None:
        if self._handle and not sys.is_finalizing():
            self._lib.mkl_sparse_destroy(self._handle)


class MklSolver:
    """Solver by MKL."""

    name = "mkl"

    @property
    def version(self) -> str:
        """Version of the package mkl; "" if it cannot be used."""
        return installed()[0]

    def applicable(self, problem: Problem) -> str | None:
        """Return why MKL cannot compute `problem`; None if it can."""
        version, path = installed()
        if not version:
            return path
        if problem.dtype not in LETTERS:
            return f"values of {problem.dtype} are not offered to MKL"
        if problem.pattern.index_dtype != NARROW_INDEX.name:
            return "MKL is loaded for 32-bit indices"
        try:
            _library()
        except (OSError, AttributeError) as err:
            return f"MKL could not be loaded: {err}"
        return None

    def knobs(self, problem: Problem) -> Iterable[Hashable]:
        """Return the number of columns that the hint announces."""
        return (problem.n_dense_cols,)

    def cost(self, problem: Problem, knobs: Hashable) -> Cost:
        """Return the expected seconds of the conversion, and no prediction of the product's time."""
        return Cost(setup_s=SET_UP_PRODUCTS * problem.operand_bytes / BYTES_PER_S, n_bytes=problem.operand_bytes)

    def prepare(self, operand: SparseOperand, knobs: Hashable) -> Bound:
        """Return the matrix in MKL's format, optimized for products with `knobs` columns."""
        return _Matrix(operand, int(str(knobs)))


MKL: Final = MklSolver()
