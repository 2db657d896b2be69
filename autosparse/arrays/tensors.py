"""Conversion of torch tensors to sparse matrices. This module uses torch where the caller has imported it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import scipy.sparse as sps

from autosparse import notices
from autosparse.errors import InputError, InputTypeError, StructureError
from autosparse.interop.foreign import is_on_gpu, is_tensor
from autosparse.notices import SnapshotWarning
from autosparse.operands.csr import DATA, INDICES, INDPTR, NOT_SMALL_NS, Operand
from autosparse.operands.native_rows import check_structure

Tensor = Any  # torch.Tensor; torch is optional


def as_array(tensor: Tensor) -> Any:
    """Return the tensor's memory as an ndarray; raise InputTypeError for dtypes that NumPy lacks."""
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except TypeError as err:  # bfloat16 and similar dtypes
        raise InputTypeError.refused(
            str(err), given=describe(tensor), hint="convert it first, for example by tensor.float()"
        ) from None


def _from_coo(tensor: Tensor) -> Any:
    rows, columns = as_array(tensor._indices())
    return sps.coo_array((as_array(tensor._values()), (rows, columns)), shape=tuple(tensor.shape))


def _from_rows(container: Callable[..., Any]) -> Callable[[Tensor], Any]:
    def convert(tensor: Tensor) -> Any:
        values, col, crow = map(as_array, (tensor.values(), tensor.col_indices(), tensor.crow_indices()))
        (n, m), (height, width) = tensor.shape, values.shape[1:] or (1, 1)
        if height and width:
            _check(crow, col, values, (n // height, m // width))
        return container((values, col, crow), shape=(n, m))

    return convert


def _from_csc(tensor: Tensor) -> Any:
    values, row, ccol = map(as_array, (tensor.values(), tensor.row_indices(), tensor.ccol_indices()))
    n, m = tensor.shape
    _check(ccol, row, values, (m, n))
    return sps.csc_array((values, row, ccol), shape=(n, m))


def _check(starts: Any, indices: Any, values: Any, shape: tuple[int, int]) -> None:
    """Raise StructureError unless the compressed arrays of a tensor fit together and all indices are within `shape`."""
    if len(starts) != shape[0] + 1:
        raise StructureError.indptr_size(len(starts), wanted=shape[0] + 1)
    if len(values) != len(indices):
        raise StructureError.unsound(
            f"there are {len(values)} values and {len(indices)} indices", shape=shape, n_stored=len(indices)
        )
    check_structure(starts, indices, shape)


LAYOUTS: Final[Mapping[str, Callable[[Tensor], Any]]] = {
    "torch.strided": as_array,
    "torch.sparse_coo": _from_coo,
    "torch.sparse_csr": _from_rows(sps.csr_array),
    "torch.sparse_csc": _from_csc,
    "torch.sparse_bsr": _from_rows(sps.bsr_array),
}


def describe(tensor: Tensor) -> str:
    """Return one phrase about the tensor for error messages."""
    shape = tuple(tensor.shape)
    return f"a {str(tensor.layout).removeprefix('torch.')} tensor of shape {shape}, {tensor.dtype}, on {tensor.device}"


def from_tensor(tensor: Tensor) -> Any:
    """Return a SciPy array or ndarray over the tensor's own memory; raise InputError if the tensor is no CPU matrix."""
    if tensor.device.type != "cpu":
        raise InputError.refused("the tensor is not in CPU memory", given=describe(tensor), hint="pass tensor.cpu()")
    convert = LAYOUTS.get(str(tensor.layout))
    if convert is None:
        raise InputError.refused(
            "this tensor layout has no SciPy equivalent", given=describe(tensor), hint="pass tensor.to_sparse_csr()"
        )
    if tensor.dim() != 2 or (str(tensor.layout) != "torch.strided" and tensor.dense_dim() != 0):
        raise InputError.refused(
            "a sparse matrix has two dimensions and scalar entries",
            given=describe(tensor),
            hint="pass the matrices of a batch one by one",
        )
    return convert(tensor)


def keeps_gradients(obj: object, wanted: bool | None) -> bool:
    """Return whether products keep gradients: for a CPU tensor `wanted`, or its `requires_grad` if that is None."""
    if not is_tensor(obj) or is_on_gpu(obj):
        return False
    return bool(getattr(obj, "requires_grad", False) if wanted is None else wanted)


def with_gradients(tensor: Tensor, shape: Any, dtype: Any, *, is_copy: bool) -> Any:
    """Return an `autosparse.torch.Csr` of a tensor in CPU memory, whose products give gradients to the tensor."""
    import numpy as np
    import torch

    from autosparse.torch import matrix

    A = matrix.csr(tensor, shape=shape)
    if dtype is not None:
        A = A.to(torch.from_numpy(np.empty(0, dtype)).dtype)
    return A.with_values(A.values.clone()) if is_copy else A


_FAST_PATH: Final = Operand.__dict__["fast_path"]


def _version(tensor: Tensor) -> int:
    """Return the number of torch's writes to the tensor; 0 for inference-mode tensors, which do not count them."""
    return 0 if tensor.is_inference() else int(tensor._version)


class Snapshot(Operand):
    """Operand over copies of a tensor's values that warns once, at the second product after the tensor was written.

    Products read `fast_path`, a property here, so that other matrices do not pay for the check.
    """

    __slots__ = ("n_later", "origin", "version")

    n_later: int  # products since the tensor was written
    origin: weakref.ref[Tensor] | None  # None: nothing left to watch
    version: int  # version of the tensor when its values were copied

    @classmethod
    def of(cls, operand: Operand, tensor: Tensor) -> Snapshot:
        """Return an operand over the same arrays, not yet validated, that watches `tensor`."""
        made = cls()
        made._arrays = [operand.peek(field) for field in (INDPTR, INDICES, DATA)]
        made.finish(operand.n_major, operand.n_minor, flat=operand._flat)
        made.copied_bytes, made.unvalidated = operand.copied_bytes, False
        made.small_product_ns = NOT_SMALL_NS  # small products before validation would not read fast_path
        made.origin, made.version, made.n_later = weakref.ref(tensor), _version(tensor), 0
        return made

    @property
    def fast_path(self) -> Any:
        """Fast path of the operand (see `dispatch.fast_path`), after a check whether the tensor was written."""
        if self.origin is not None:
            self._watch(self.origin())
        return _FAST_PATH.__get__(self)

    @fast_path.setter
    def fast_path(self, enter: Any) -> None:
        _FAST_PATH.__set__(self, enter)

    def _watch(self, tensor: Tensor | None) -> None:
        if tensor is None:
            self.origin = None
        elif _version(tensor) != self.version:
            self.n_later += 1
            if self.n_later == 2:
                self.origin = None
                notices.warn(SnapshotWarning, SnapshotWarning.written(describe(tensor)), stacklevel=3)
