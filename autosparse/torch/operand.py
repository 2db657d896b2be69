"""Operands for the executor over torch tensors, so that torch products use the library's plans, tuning and cache.

The memory belongs to torch: an operand keeps addresses only, valid during the product that set them. Background tuning
reads a copy of the values instead. Values are compared by fingerprint before a packed copy of them is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.core.dtypes import Byte
from autosparse.core.pattern import Pattern
from autosparse.dispatch import executor
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import NativeRows
from autosparse.scalar import INDICES, SCALARS
from autosparse.scalar.tensors import VALUE_TYPES
from autosparse.torch import native
from autosparse.torch.structure import CPU, VALUE_CODES, IndexArrays, Structure, Transposed, ffi, lib, pointer

AnyArray = NDArray[Any]  # index or value arrays

NUMPY_DTYPES: Final[dict[torch.dtype, np.dtype[Any]]] = {
    dtype: SCALARS[name].dtype for name, dtype in VALUE_TYPES.items()
}
"""NumPy's dtypes of values by torch's."""
_INDEX_DTYPES: Final[tuple[np.dtype[Any], ...]] = tuple(SCALARS[name].dtype for name in INDICES)
"""NumPy's dtypes of indices by the runtime's code."""
Arrays: TypeAlias = tuple[torch.Tensor, ...]  # crow and col, or the sparse tensor that holds them
Source: TypeAlias = tuple[torch.Tensor, Arrays]  # values, index arrays


class _Borrowed:
    """Holder of NumPy's array interface for memory that it does not own, so that NumPy can make an array of it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, **interface: Any) -> None:
        self.__array_interface__ = {"version": 3, **interface}


def _view(address: Any, n: int, dtype: np.dtype[Any]) -> AnyArray:
    place = int(ffi.cast("uintptr_t", address))
    return np.asarray(_Borrowed(shape=(n,), typestr=dtype.str, data=(place, True))) if n else np.empty(0, dtype)


def array_over(tensor: torch.Tensor) -> AnyArray:
    """Return an array over a dense tensor's memory, which the caller keeps alive.

    ``tensor.numpy()`` is avoided because torch cannot resize the tensor's storage afterwards.
    """
    dtype = NUMPY_DTYPES[tensor.dtype]
    if not tensor.numel():
        return np.empty(tensor.shape, dtype)
    strides = tuple(step * dtype.itemsize for step in tensor.stride())
    data = (tensor.data_ptr(), False)
    return np.asarray(_Borrowed(shape=tuple(tensor.shape), typestr=dtype.str, data=data, strides=strides))


class Pinned:
    """Copy of an operand's values beside its index arrays, readable between products (background tuning)."""

    __slots__ = ("_arrays", "_memory", "_print", "address", "n_bytes")

    def __init__(self, values: torch.Tensor, arrays: Arrays) -> None:
        self._arrays = arrays
        self.n_bytes = values.nbytes
        self._memory = np.empty(self.n_bytes, Byte)
        self.address: int = self._memory.ctypes.data
        self._print: int | None = None
        self.take(values)

    def take(self, values: torch.Tensor) -> bool:
        """Copy `values` unless they equal the values copied last; return whether they were copied."""
        source = pointer(values)
        now = lib.asp_look_low(source, self.n_bytes, native.threads())
        if now == self._print:
            return False
        self._print = None  # a fork or an interrupt may leave an incomplete copy
        ffi.memmove(ffi.from_buffer(self._memory), source, self.n_bytes)
        self._print = now
        return True


class TorchOperand(Operand):
    """Operand of ``A @ B`` over a `Structure` and values of one dtype; `busy` is locked during a product."""

    def __init__(self, structure: Structure | Transposed, dtype: torch.dtype) -> None:
        super().__init__()
        self.n_major, self.n_minor = structure.n_rows, structure.n_cols
        self.busy = forking.lock()
        self._structure = structure
        self._value_dtype = NUMPY_DTYPES[dtype]
        self._address = 0
        self._source: Source | None = None  # tensors of the running product
        self._pinned: Pinned | None = None
        self._n_pins = 0
        self._pins_lock = forking.lock()
        self._fingerprint = 0
        index = _INDEX_DTYPES[structure.index_code]
        self._index_views = (
            _view(structure.crow, structure.n_rows + 1, index),
            _view(structure.col, structure.nnz, index),
        )
        rows = NativeRows(self.n_major, self.n_minor)
        rows.dtype, rows.dtype_code, rows.index_code = self._value_dtype, VALUE_CODES[dtype], structure.index_code
        rows.indptr, rows.indices = (structure.crow,), (structure.col,)
        self.rows: NativeRows = rows

    def point_at(self, values: torch.Tensor, arrays: Arrays) -> None:
        """Make kernels read `values` until `let_go`; the caller keeps `values` and `arrays` alive until then."""
        self._source = values, arrays
        if self._pinned is not None:
            if self._n_pins:
                if self._pinned.take(values):
                    self.values_version += 1  # after the copy, so that a copy packed meanwhile has the older number
                return
            self._pinned = None
        self._read_at(values.data_ptr())

    def let_go(self) -> None:
        """End the product: release the references to values and index arrays that `point_at` has stored."""
        self._source = None

    def pin(self) -> None:
        """Copy the values of the running product, so that they can be read until `unpin`, even if written or freed."""
        with self._pins_lock:
            self._n_pins += 1
        if self._pinned is None and self._source is not None:
            self._pinned = Pinned(*self._source)
            self._read_at(self._pinned.address)

    def unpin(self) -> None:
        """Undo one call of `pin`; after the last one, the next product frees the copy."""
        with self._pins_lock:
            self._n_pins -= 1

    def _read_at(self, address: int) -> None:
        if address != self._address:
            self._address = address
            self.rows.data = (ffi.cast("void *", address),)

    # -- interface of `Operand`

    @property
    def indptr(self) -> AnyArray:
        """Row starts."""
        return self._index_views[0]

    @property
    def indices(self) -> AnyArray:
        """Columns."""
        return self._index_views[1]

    @property
    def data(self) -> AnyArray:
        """Values at their present address."""
        return _view(self.rows.data[0], self.nnz, self._value_dtype)

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self._structure.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self._value_dtype

    def validate(self) -> NativeRows:
        """Return the arrays in the form for kernels, without a check: the structure was checked earlier."""
        return self.rows

    def refresh(self) -> None:
        """Compare values and structure with the last call, and raise the version number of each that has changed."""
        start_ns = perf_counter_ns()
        now = lib.asp_look_low(self.rows.data[0], self.nnz * self._value_dtype.itemsize, native.threads())
        if now != self._fingerprint:
            self._fingerprint = now
            self.values_version += 1
        self._refresh_structure()
        self._count_look(perf_counter_ns() - start_ns)

    @property
    def is_exposed(self) -> bool:
        """Return whether the arrays can be written unnoticed: always true, since the user owns the tensors."""
        return True

    def _refresh_structure(self) -> None:
        if isinstance(self._structure, Structure):
            self._structure.changed()
            self.structure_version = max(self.structure_version, self._structure.n_changes)

    @property
    def pattern(self) -> Pattern:
        """Sparsity pattern for planning; changes of the structure are checked first."""
        self.refresh()
        if self._pattern is None or self._pattern[0] != self.structure_version:
            self._pattern = self.structure_version, Pattern(self.n_major, self.n_minor, *self._index_views)
        return self._pattern[1]


class Gathered(TorchOperand):
    """Operand over a `Transposed` structure; values of the original are gathered into the transpose's order."""

    def __init__(self, structure: Transposed, dtype: torch.dtype) -> None:
        super().__init__(structure, dtype)
        self._collected = torch.empty(structure.nnz, dtype=dtype, device=CPU)
        self.rows.data = (pointer(self._collected),)
        self._source_print: int | None = None

    def collect(self, values: torch.Tensor) -> None:
        """Copy `values` in the order of the transpose's entries, unless they equal those copied last."""
        width = self._value_dtype.itemsize
        now = lib.asp_look_low(pointer(values), self.nnz * width, native.threads())
        if now == self._source_print:
            return
        self._source_print = None  # see `Pinned.take`
        turned = self._structure
        assert isinstance(turned, Transposed)
        status = lib.asp_gather(
            width, turned.index_code, turned.perm, pointer(values), pointer(self._collected), self.nnz, native.threads()
        )
        runtime_api.raise_for(status)
        self._source_print = now
        self.values_version += 1  # after the copy, so that a background thread notices the change


class Sampling(TorchOperand):
    """Operand of sampled products (SDDMM) at the entries of `structure`; all of its values are 1."""

    def __init__(self, structure: Structure, dtype: torch.dtype) -> None:
        super().__init__(structure, dtype)
        self.ones = torch.ones(structure.nnz, dtype=dtype, device=CPU)

    def refresh(self) -> None:
        """Raise the version number of the structure if it has changed since the last call."""
        self._refresh_structure()


def operand_of(structure: Structure | Transposed, dtype: torch.dtype) -> TorchOperand:
    """Return the operand of `structure` with values of `dtype`, created at the first call."""
    return (
        _kept(structure, dtype, Gathered)
        if isinstance(structure, Transposed)
        else _kept(structure, dtype, TorchOperand)
    )


def sampling_of(structure: Structure, dtype: torch.dtype) -> Sampling:
    """Return the operand of `structure` for sampled products of `dtype`, created at the first call."""
    return _kept(structure, dtype, Sampling)


OperandKind = TypeVar("OperandKind", bound=TorchOperand)


def _kept(structure: Any, dtype: torch.dtype, kind: type[OperandKind]) -> OperandKind:  # Any: argument of `kind`
    kept: OperandKind | None = structure.operands.get((dtype, kind))
    return kept if kept is not None else structure.operands.setdefault((dtype, kind), kind(structure, dtype))


@contextmanager
def held(rows: IndexArrays, values: torch.Tensor, *, transposed: bool) -> Iterator[TorchOperand]:
    """Lock and yield the operand of A, or of Aᵀ when `transposed` (then the transpose is built), with these values."""
    structure = rows.structure
    operand = operand_of(structure.transposed() if transposed else structure, values.dtype)
    with operand.busy:
        if isinstance(operand, Gathered):
            operand.collect(values)
        else:
            operand.point_at(values, rows.arrays)
        try:
            yield operand
        finally:
            operand.let_go()


def run(operand: TorchOperand, B: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Compute the product by the executor into `out`; the caller holds `busy` and has set the values."""
    try:
        executor.matmul(operand, array_over(B), transposed=False, out=array_over(out))
    finally:
        operand.let_go()
    return out
