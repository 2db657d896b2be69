"""The C++ module for the installed PyTorch: it tests the override's state and computes small products without Python.

`_native/torch_extension` holds its sources. `library` is None where the module is not built for this PyTorch; kernels
in Python then do the same. It keeps a record (`KnownIndices`) of compressed tensors whose indices it has checked.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import ctypes
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from autosparse import forking
from autosparse._native import runtime_api
from autosparse._native.torch_extension import build_extension
from autosparse.scalar import WIDE_INDEX
from autosparse.torch import native, products, results, thresholds
from autosparse.torch.autograd.compiled import run_as_is
from autosparse.torch.structure import Structure, checked, forgotten_too, index_arrays, renewed


class KnownIndices:
    """Structure of a tensor's index arrays, made when it is first needed.

    The C++ module finds the record by the arrays. It holds weak references to their storages, so that no other storage
    gets their addresses.
    """

    __slots__ = ("_structure",)

    def __init__(self, A: torch.Tensor) -> None:
        results.keep_out(*index_arrays(A))
        self._structure: Structure | None = None

    def multiply(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """Return A B by the executor for the tensor A of this record; the module has checked both operands."""
        by_columns = A.layout is torch.sparse_csc
        structure = self._structure
        if structure is None:
            n_rows, n_cols = A.shape[::-1] if by_columns else A.shape
            structure = checked(index_arrays(A), n_rows, n_cols, of=A)
            if structure.has_other_content():  # the module has found it by counters that Python does not see
                structure = renewed(structure, index_arrays(A))
                structure.check()
            self._structure = structure
        return products.of_structure(structure, A.values(), native.rows_of(B), owner=(A,), transposed=by_columns)


_SIZE: Final = WIDE_INDEX.ctypes
_RUNTIME_FUNCTIONS: Final = (
    "asp_csr_mm_at", "asp_scaled_sum_at", "asp_sddmm_at", "asp_csr_check", "asp_look_low",
    "asp_coo_mm_at", "asp_dense_rows", "asp_csr_rows_at",
)  # fmt: skip
"""Functions of the C runtime that the module calls, in the order of `Runtime` in structures.h."""
_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "enter": (None, ctypes.c_int),
    "leave": (None, ctypes.c_int),
    "set_process": (None, _SIZE, _SIZE),
    "is_on": (ctypes.c_int,),
    "has_sparse_gradients": (ctypes.c_int,),
    "is_on_anywhere": (ctypes.c_int,),
    "known": (_SIZE,),
    "forget": (None,),
    "compute": (None, ctypes.c_int),
    "n_computed": (_SIZE,),
    "replace": (ctypes.c_int, ctypes.c_char_p),
    "deregister": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
    "define": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p),
    "fault": (ctypes.c_char_p,),
    "version": (ctypes.c_char_p,),
    "set_up": (None, ctypes.c_void_p, ctypes.c_void_p),
}
"""Types of the result and the arguments of the module's functions, by name without the prefix ``asp_torch_``."""
_MAX_RECORDS: Final = 64


class Library:
    """Functions of the module. They hold the GIL, except for those that register kernels."""

    def __init__(self, path: Path) -> None:
        with_gil, without_gil = ctypes.PyDLL(str(path)), ctypes.CDLL(str(path))
        self.loaded = without_gil
        for name, (result, *arguments) in _SIGNATURES.items():
            home = without_gil if name in ("replace", "deregister", "define") else with_gil
            function = getattr(home, f"asp_torch_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # Any: functions of ctypes; called for missing names only
        raise AttributeError(name)


def _found() -> Library | None:
    """Load the module that is built for this PyTorch; return None if there is none."""
    if not runtime_api.available or not hasattr(torch.library, "get_kernel"):
        return None
    version = torch.__version__.partition("+")[0]
    path = build_extension.FOLDER / build_extension.file_name(version)
    if not path.exists():
        return None
    try:
        library = Library(path)
    except (OSError, AttributeError):  # linked against another build of PyTorch
        return None
    if library.version().decode() != version:
        return None
    ffi, lib = runtime_api.ffi, runtime_api.lib
    addresses = [int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in _RUNTIME_FUNCTIONS]
    sizes = (
        thresholds.BUILTIN_PRODUCT, thresholds.PYTORCH_PRODUCT, thresholds.DIRECT_PRODUCT,
        thresholds.UNPREPARED_PRODUCTS, thresholds.ENTRIES_CHECKED, thresholds.REMEMBERED_PRODUCTS,
        thresholds.POOLED_BYTES, thresholds.KEPT_COORDINATES, thresholds.UNPREPARED_MULTIPLICATIONS,
        thresholds.PYTORCH_REDUCTION, thresholds.PYTORCH_ROWS, thresholds.PYTORCH_GRADIENTS,
        thresholds.DIRECT_SAMPLE,
    )  # fmt: skip
    _define_operators()
    library.set_up((ctypes.c_size_t * len(addresses))(*addresses), (_SIZE * len(sizes))(*sizes))
    forgotten_too.append(library.forget)
    return library


@run_as_is
def _how() -> int:
    """Return the thread count and flags of kernels as one integer."""
    return native.threads() + 1024 * native.flags()


@run_as_is
def _room(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Return uninitialised memory for a large result."""
    return native.empty(tuple(shape), dtype)


kernels: Final[dict[tuple[str, str], Callable[..., Any]]] = {}
"""Kernels in Python by operator and dispatch key, set by `registration`."""
_loaded: Final[dict[tuple[str, str], Callable[..., Any]]] = {}
_lock = forking.rlock()


@run_as_is
def _load(operator: str, key: str) -> None:
    """Register the kernel in Python of an operator and a dispatch key, under the module's name for it."""
    kernel = kernels[operator, key]
    with _lock, warnings.catch_warnings():
        if _loaded.get((operator, key)) is kernel:
            return
        warnings.simplefilter("ignore", UserWarning)  # PyTorch warns where a kernel is replaced
        call("define", operator, key)
        _operators[0].impl(f"{key}_{operator}", run_as_is(kernel), key, with_keyset=True)
        _loaded[operator, key] = kernel


def call(function: str, *words: str) -> None:
    """Call a function of the module, with an operator and a dispatch key or a list of them. Raises RuntimeError."""
    assert library is not None
    if getattr(library, function)(*[word.encode() for word in words]):
        raise RuntimeError(library.fault().decode())


def stock_kernel(operator: str, key: str) -> Any:  # Any: torch.library's kernel, which has no type
    """Return PyTorch's kernel of an operator and a dispatch key, which ours replaces, in the form for Python.

    Raises RuntimeError where PyTorch has none. `torch.library.get_kernel` leaks 1 kB at each call.
    """
    with _lock:
        call("define", operator, key)
        return torch.library.get_kernel(f"autosparse::stock_{key}_{operator}", key)


_operators: Final[list[Any]] = []  # torch.library.Library, kept because its deletion removes the operators


def _define_operators() -> None:
    """Define the operators by which the module calls Python."""
    if _operators:
        return
    library = torch.library.Library("autosparse", "FRAGMENT")
    for schema, function in (
        ("how() -> int", _how), ("room(int[] shape, ScalarType dtype) -> Tensor", _room),
        ("load(str operator, str key) -> ()", _load),
    ):  # fmt: skip
        library.define(schema)
        library.impl(schema.partition("(")[0], function, "CompositeExplicitAutograd")
    _operators.append(library)


_records: OrderedDict[int, KnownIndices] = OrderedDict()  # by the module's number of the structure


def known(A: torch.Tensor) -> KnownIndices | None:
    """Return the record of A if the module has checked A's indices for the running product, else None."""
    if library is None or not (number := library.known()):
        return None
    record = _records.get(number)
    if record is None:
        record = _records[number] = KnownIndices(A)
        while len(_records) > _MAX_RECORDS:
            _records.popitem(last=False)
    return record


def is_built() -> bool:
    """Return whether the module is used."""
    return library is not None


library: Library | None = _found()
"""Functions of the module, or None where it is not built for this PyTorch."""
