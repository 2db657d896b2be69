"""TorchOperand: a structure and live values as the executor's operand, which shares plans, tuning, history and cache.

The memory is torch's: an operand keeps addresses only, valid while the product that set them runs. While tuning goes on
in the background it reads memory of its own instead. Values are compared by fingerprint whenever a packed copy is about
to be used.
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
from autosparse.core.pattern import Pattern
from autosparse.dispatch import executor
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import NativeRows
from autosparse.torch import native
from autosparse.torch.structure import CPU, VALUE_CODES, IndexArrays, Structure, Transposed, ffi, lib, pointer

AnyArray = NDArray[Any]  # index or value arrays

NUMPY_DTYPES: Final[dict[torch.dtype, np.dtype[Any]]] = {
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.complex64: np.dtype(np.complex64),
    torch.complex128: np.dtype(np.complex128),
}
_INDEX_DTYPES: Final[tuple[np.dtype[Any], ...]] = (np.dtype(np.int32), np.dtype(np.int64))
Arrays: TypeAlias = tuple[torch.Tensor, ...]  # crow and col, or the sparse tensor that holds them
Source: TypeAlias = tuple[torch.Tensor, Arrays]  # values, index arrays


class _Borrowed:
    """Memory that an array uses without owning it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, **interface: Any) -> None:
        self.__array_interface__ = {"version": 3, **interface}


def _view(address: Any, n: int, dtype: np.dtype[Any]) -> AnyArray:
    place = int(ffi.cast("uintptr_t", address))
    return np.asarray(_Borrowed(shape=(n,), typestr=dtype.str, data=(place, True))) if n else np.empty(0, dtype)


def array_over(tensor: torch.Tensor) -> AnyArray:
    """An array over a dense tensor's memory, which the caller keeps alive.

    After ``tensor.numpy()`` the tensor's storage could not be resized any more.
    """
    dtype = NUMPY_DTYPES[tensor.dtype]
    if not tensor.numel():
        return np.empty(tensor.shape, dtype)
    strides = tuple(step * dtype.itemsize for step in tensor.stride())
    data = (tensor.data_ptr(), False)
    return np.asarray(_Borrowed(shape=tuple(tensor.shape), typestr=dtype.str, data=data, strides=strides))


class Pinned:
    """A copy of values, and the index arrays kept alive: what can be read between products."""

    __slots__ = ("_arrays", "_memory", "_print", "address", "n_bytes")

    def __init__(self, values: torch.Tensor, arrays: Arrays) -> None:
        self._arrays = arrays
        self.n_bytes = values.nbytes
        self._memory = np.empty(self.n_bytes, np.uint8)
        self.address: int = self._memory.ctypes.data
        self._print: int | None = None
        self.take(values)

    def take(self, values: torch.Tensor) -> bool:
        """Copy `values` unless they are what was copied last; whether they were copied."""
        source = pointer(values)
        now = lib.asp_look_low(source, self.n_bytes, native.threads())
        if now == self._print:
            return False
        self._print = None  # a fork, or an interrupt, may leave half of a copy
        ffi.memmove(ffi.from_buffer(self._memory), source, self.n_bytes)
        self._print = now
        return True


class TorchOperand(Operand):
    """Operand of ``A @ B`` over a `Structure` and values of one dtype; one product at a time holds `busy`."""

    def __init__(self, structure: Structure | Transposed, dtype: torch.dtype) -> None:
        super().__init__()
        self.n_major, self.n_minor = structure.n_rows, structure.n_cols
        self.busy = forking.lock()
        self._structure = structure
        self._value_dtype = NUMPY_DTYPES[dtype]
        self._address = 0
        self._source: Source | None = None  # of the product that runs now
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
        """Read these values until `let_go`; the caller keeps them and the index arrays alive so long."""
        self._source = values, arrays
        if self._pinned is not None:
            if self._n_pins:
                if self._pinned.take(values):
                    self.values_version += 1  # after the copy: who packed half of it has the older number
                return
            self._pinned = None
        self._read_at(values.data_ptr())

    def let_go(self) -> None:
        """The product is done: the tensors may be freed or written."""
        self._source = None

    def pin(self) -> None:
        """Somebody reads the operand between products too, until `unpin`: from memory that the user cannot free."""
        with self._pins_lock:
            self._n_pins += 1
        if self._pinned is None and self._source is not None:
            self._pinned = Pinned(*self._source)
            self._read_at(self._pinned.address)

    def unpin(self) -> None:
        """Undo one `pin`; the next product gives the memory back."""
        with self._pins_lock:
            self._n_pins -= 1

    def _read_at(self, address: int) -> None:
        if address != self._address:
            self._address = address
            self.rows.data = (ffi.cast("void *", address),)

    # -- what the engine asks of an operand

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
        """Values, where they are now."""
        return _view(self.rows.data[0], self.nnz, self._value_dtype)

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self._structure.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self._value_dtype

    def validate(self) -> NativeRows:
        """The kernels' view; its structure was checked when something was derived from it."""
        return self.rows

    def refresh(self) -> None:
        """Raise the versions when values or structure are not what they were at the last look."""
        start_ns = perf_counter_ns()
        now = lib.asp_look_low(self.rows.data[0], self.nnz * self._value_dtype.itemsize, native.threads())
        if now != self._fingerprint:
            self._fingerprint = now
            self.values_version += 1
        self._refresh_structure()
        self._count_look(perf_counter_ns() - start_ns)

    @property
    def is_exposed(self) -> bool:
        """Whether others can write the arrays unseen: who made the tensors can."""
        return True

    def _refresh_structure(self) -> None:
        if isinstance(self._structure, Structure):
            self._structure.changed()
            self.structure_version = max(self.structure_version, self._structure.n_changes)

    @property
    def pattern(self) -> Pattern:
        """The structure for planning; checked before."""
        self.refresh()
        if self._pattern is None or self._pattern[0] != self.structure_version:
            self._pattern = self.structure_version, Pattern(self.n_major, self.n_minor, *self._index_views)
        return self._pattern[1]


class Gathered(TorchOperand):
    """Operand over a `Transposed` structure; its values are the original's, collected into the transpose's order."""

    def __init__(self, structure: Transposed, dtype: torch.dtype) -> None:
        super().__init__(structure, dtype)
        self._collected = torch.empty(structure.nnz, dtype=dtype, device=CPU)
        self.rows.data = (pointer(self._collected),)
        self._source_print: int | None = None

    def collect(self, values: torch.Tensor) -> None:
        """Take the original's values, if they are not those that were taken last."""
        width = self._value_dtype.itemsize
        now = lib.asp_look_low(pointer(values), self.nnz * width, native.threads())
        if now == self._source_print:
            return
        self._source_print = None  # as in `Pinned.take`
        turned = self._structure
        assert isinstance(turned, Transposed)
        status = lib.asp_gather(
            width, turned.index_code, turned.perm, pointer(values), pointer(self._collected), self.nnz, native.threads()
        )
        runtime_api.raise_for(status)
        self._source_print = now
        self.values_version += 1  # after the writing, for a background thread that reads meanwhile


class Sampling(TorchOperand):
    """Operand of products sampled at the entries of `structure`: all of its values are 1."""

    def __init__(self, structure: Structure, dtype: torch.dtype) -> None:
        super().__init__(structure, dtype)
        self.ones = torch.ones(structure.nnz, dtype=dtype, device=CPU)

    def refresh(self) -> None:
        """Raise the version of the structure when it is not what it was at the last look."""
        self._refresh_structure()


def operand_of(structure: Structure | Transposed, dtype: torch.dtype) -> TorchOperand:
    """The operand of `structure` with values of `dtype`."""
    return (
        _kept(structure, dtype, Gathered)
        if isinstance(structure, Transposed)
        else _kept(structure, dtype, TorchOperand)
    )


def sampling_of(structure: Structure, dtype: torch.dtype) -> Sampling:
    """The operand of `structure` for products of `dtype` that are sampled at its entries."""
    return _kept(structure, dtype, Sampling)


OperandKind = TypeVar("OperandKind", bound=TorchOperand)


def _kept(structure: Any, dtype: torch.dtype, kind: type[OperandKind]) -> OperandKind:  # Any: what `kind` is made of
    kept: OperandKind | None = structure.operands.get((dtype, kind))
    return kept if kept is not None else structure.operands.setdefault((dtype, kind), kind(structure, dtype))


@contextmanager
def held(rows: IndexArrays, values: torch.Tensor, *, transposed: bool) -> Iterator[TorchOperand]:
    """The operand with the rows of A, or of Aᵀ when `transposed` (which is built), pointing at `values`; ours alone."""
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
    """The executor's product into `out`; the operand is the caller's alone (`busy`) and points at the values."""
    try:
        executor.matmul(operand, array_over(B), transposed=False, out=array_over(out))
    finally:
        operand.let_go()
    return out
