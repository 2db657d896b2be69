"""Sparse matrices from torch tensors; torch is used when the caller has it, never imported."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import scipy.sparse as sps

from autosparse import notices
from autosparse.errors import InputError, InputTypeError, StructureError
from autosparse.notices import SnapshotWarning
from autosparse.operands.csr import DATA, INDICES, INDPTR, NOT_SMALL_NS, Operand
from autosparse.operands.native_rows import check_structure

Tensor = Any  # torch.Tensor; torch is optional


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, getattr(torch, "Tensor", ()))


def is_on_gpu(obj: object) -> bool:
    """Whether `obj` is a torch tensor in the memory of an NVIDIA GPU."""
    return is_tensor(obj) and bool(getattr(obj, "is_cuda", False))


def as_array(tensor: Tensor) -> Any:
    """The tensor's memory as an ndarray."""
    try:
        return tensor.detach().resolve_conj().resolve_neg().numpy()
    except TypeError as err:  # bfloat16 and its like
        raise InputTypeError.refused(
            str(err), given=describe(tensor), cure="convert it first: tensor.float() or tensor.double()"
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
    """Make sure that SciPy may follow the indices, which PyTorch does not check. Raises StructureError."""
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
    """One phrase for error messages."""
    shape = tuple(tensor.shape)
    return f"a {str(tensor.layout).removeprefix('torch.')} tensor of shape {shape}, {tensor.dtype}, on {tensor.device}"


def from_tensor(tensor: Tensor) -> Any:
    """SciPy array (or ndarray) over the tensor's own memory. InputError for tensors that are no CPU matrix."""
    if tensor.device.type != "cpu":
        raise InputError.refused("the tensor is not in CPU memory", given=describe(tensor), cure="pass tensor.cpu()")
    convert = LAYOUTS.get(str(tensor.layout))
    if convert is None:
        raise InputError.refused(
            "this tensor layout has no SciPy equivalent", given=describe(tensor), cure="pass tensor.to_sparse_csr()"
        )
    if tensor.dim() != 2 or (str(tensor.layout) != "torch.strided" and tensor.dense_dim() != 0):
        raise InputError.refused(
            "a sparse matrix has two dimensions and scalar entries",
            given=describe(tensor),
            cure="pass the matrices of a batch one by one",
        )
    return convert(tensor)


def keeps_gradients(obj: object, wanted: bool | None) -> bool:
    """Return whether `obj` is a tensor in CPU memory that becomes a torch matrix; None: where it requires gradients."""
    if not is_tensor(obj) or is_on_gpu(obj):
        return False
    return bool(getattr(obj, "requires_grad", False) if wanted is None else wanted)


def with_gradients(tensor: Tensor, shape: Any, dtype: Any, *, is_copy: bool) -> Any:
    """A `autosparse.torch.Csr` of a tensor in CPU memory, whose products give gradients to the tensor."""
    import numpy as np
    import torch

    from autosparse.torch import matrix

    A = matrix.csr(tensor, shape=shape)
    if dtype is not None:
        A = A.to(torch.from_numpy(np.empty(0, dtype)).dtype)
    return A.with_values(A.values.clone()) if is_copy else A


_FAST_PATH: Final = Operand.__dict__["fast_path"]


def _version(tensor: Tensor) -> int:
    """How often torch has written to the tensor; 0 for tensors of inference mode, which do not count."""
    return 0 if tensor.is_inference() else int(tensor._version)


class Snapshot(Operand):
    """Copies of a tensor's values: one warning at the second product after the tensor was written.

    Every product reads `fast_path`, so that no other matrix pays for the question.
    """

    __slots__ = ("n_later", "origin", "version")

    n_later: int  # products since the tensor was written
    origin: weakref.ref[Tensor] | None  # None: nothing to watch any more
    version: int  # of the tensor, when its values were copied

    @classmethod
    def of(cls, operand: Operand, tensor: Tensor) -> Snapshot:
        """The same arrays, none of which has been looked at, as an operand that watches `tensor`."""
        made = cls()
        made._arrays = [operand.peek(field) for field in (INDPTR, INDICES, DATA)]
        made.finish(operand.n_major, operand.n_minor, flat=operand._flat)
        made.copied_bytes, made.unvalidated = operand.copied_bytes, False
        made.small_product_ns = NOT_SMALL_NS  # products before the first look read no fast path
        made.origin, made.version, made.n_later = weakref.ref(tensor), _version(tensor), 0
        return made

    @property
    def fast_path(self) -> Any:
        """As of every operand (`dispatch.fast_path`)."""
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
