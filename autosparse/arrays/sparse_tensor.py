"""`tensor` and `mttkrp`: sparse tensors of any order with a fixed structure, and products with factor matrices."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sps
from numpy.typing import NDArray

from autosparse.arrays.construct import check_out, describe
from autosparse.config import get_options
from autosparse.core.dtypes import NarrowIndex, WideIndex
from autosparse.dispatch import executor
from autosparse.errors import DtypeError, InputError, InputTypeError, ShapeError, StructureError
from autosparse.interop import foreign
from autosparse.operands import ownership
from autosparse.operands.dense import has_rows
from autosparse.operands.unfolding import TensorEntries, Unfolding
from autosparse.ops import MTTKRP
from autosparse.ops import mttkrp as operation
from autosparse.scalar import REAL

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from autosparse.config import Effort, EffortName
    from autosparse.core.plan import Plan
    from autosparse.explain.explanation import Explanation
    from autosparse.log import Progress

AnyArray = NDArray[Any]  # Any: any dtype that NumPy multiplies

_INT32_MAX = np.iinfo(NarrowIndex).max
_INT64_MAX = np.iinfo(WideIndex).max


class AutoSparseTensor:
    """Sparse tensor by coordinates: entry e is ``values[e]`` at ``coords[:, e]``; repeated entries add up.

    The coordinates are fixed. `values` may be written or assigned; the next product uses the new values. Make instances
    by `tensor`, and multiply them by `mttkrp` and `einsum`.
    """

    __slots__ = ("__weakref__", "_entries", "_unfoldings")
    __array_ufunc__ = None  # arithmetic with arrays raises TypeError, where NumPy would make an array of objects

    def __init__(self, entries: TensorEntries) -> None:
        self._entries = entries
        self._unfoldings: dict[int, Unfolding] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Extent of every mode."""
        return self._entries.shape

    @property
    def ndim(self) -> int:
        """Number of modes."""
        return len(self._entries.shape)

    @property
    def nnz(self) -> int:
        """Number of stored entries, repeated ones and explicit zeros included."""
        return self._entries.nnz

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the values."""
        return self._entries.dtype

    @property
    def coords(self) -> AnyArray:
        """Coordinates, of shape (ndim, nnz), read-only; int32 where the extents allow it."""
        return self._entries.coords[:]

    @property
    def values(self) -> AnyArray:
        """Values, of shape (nnz,), not a copy: the next product uses values that were written to it."""
        return self._entries.fetch()

    @values.setter
    def values(self, values: Any) -> None:
        array = np.asarray(values)
        if array.shape != (self.nnz,):
            raise ShapeError.unfit("tensor", wanted=f"values of shape ({self.nnz},)", values=array.shape)
        if self._entries.shared:  # the other tensor keeps its values
            self._entries, self._unfoldings = TensorEntries(self.shape, self._entries.coords, array), {}
        else:
            self._entries.rebind(array)

    @property
    def owns_arrays(self) -> bool:
        """Return whether the tensor owns its values: no caller passed them in, or no other object refers to them."""
        return ownership.owns_arrays(self._entries)

    def tune(
        self,
        operation: str = MTTKRP.name,
        *,
        mode: int = 0,
        columns: int = 1,
        runs: int | None = None,
        effort: Effort | EffortName | None = None,
        budget_s: float | None = None,
        dtype: DTypeLike | None = None,
        progress: bool | Progress = False,
    ) -> Plan:
        """Search for a faster kernel for ``mttkrp(T, factors, mode)`` now, keep it, and return its plan.

        `columns` is the number of columns of each factor. The other arguments are those of `csr_array.tune`.
        """
        return executor.tune(
            self._unfolding(mode_of(self, mode)), operation=operation, columns=columns, runs=runs, effort=effort,
            budget_s=budget_s, dtype=dtype, progress=progress,
        )  # fmt: skip

    def explain(self, columns: int = 1, *, mode: int = 0) -> Explanation:
        """Return what runs for ``mttkrp(T, factors, mode)`` and why; `columns` is the number of factor columns."""
        from autosparse.explain.explanation import explain

        return explain(self._unfolding(mode_of(self, mode)), columns, operation=MTTKRP.name)

    def todense(self) -> AnyArray:
        """Return the tensor as an ndarray."""
        dense = np.zeros(self.shape, dtype=self.dtype)
        np.add.at(dense, tuple(self._entries.coords), self._entries.peek())
        return dense

    def __repr__(self) -> str:
        return f"<autosparse tensor of shape {self.shape}, {self.nnz} stored entries, {self.dtype}>"

    def __reduce__(self) -> tuple[Callable[..., AutoSparseTensor], tuple[Any, ...]]:
        return _unpickled, (self._entries.coords, self._entries.peek(), self.shape)

    def _same(self) -> AutoSparseTensor:
        """Return another tensor of the same entries and plans. The two separate when either is given new values."""
        self._entries.shared = True
        copied = AutoSparseTensor(self._entries)
        copied._unfoldings = self._unfoldings
        return copied

    def _unfolding(self, mode: int) -> Unfolding:
        """Return the operand of products that have `mode` as rows."""
        found = self._unfoldings.get(mode)
        return found if found is not None else self._unfoldings.setdefault(mode, Unfolding(self._entries, mode))


def tensor(
    coords: Any, values: Any = None, shape: Sequence[int] | None = None, *, copy: bool | None = None
) -> AutoSparseTensor:
    """Return the sparse tensor with ``values[e]`` at ``coords[:, e]``; the entries may be in any order.

    Parameters
    ----------
    coords
        Integers of shape (ndim, nnz), which are copied. Or, without `values` and `shape`: a ``sparse.COO`` (with fill
        value 0), a COO array of SciPy, an autosparse tensor, a path or an open file (.tns as FROSTT writes it, .npz,
        .mtx).
    values
        Array of shape (nnz,).
    shape
        Extent of each mode; None: the smallest extents that hold the coordinates.
    copy
        None: values of the caller are copied, and an autosparse tensor shares everything, plans included. False:
        values are shared, and products see writes to them. True: everything is copied.

    Raises
    ------
    InputError or StructureError (ValueError), InputTypeError (TypeError), or RoomError (MemoryError) where the copy of
    the values does not fit.

    >>> T = asp.tensor([[0, 1], [0, 2], [1, 0]], [2.0, 3.0])  # T[0, 0, 1] = 2, T[1, 2, 0] = 3
    >>> T.shape
    (2, 3, 2)
    """
    if copy is None and get_options().share:
        copy = False
    if isinstance(coords, AutoSparseTensor):
        if not copy and shape is None:
            return coords._same()
        coords, values, shape = coords._entries.coords, coords._entries.peek(), shape or coords.shape
    elif values is None:
        coords, values, shape = _parts(coords, shape)
    entries, places = np.asarray(values), np.asarray(coords)
    if places.ndim == 2 and places.size == 0:
        places = places.astype(NarrowIndex)  # an empty list has no integer type
    if places.ndim != 2 or places.dtype.kind not in "iu":
        hint = "pass integers of shape (ndim, nnz): a row per mode"
        raise InputTypeError.refused(
            "coordinates must be integers in two dimensions", given=describe(coords), hint=hint
        )
    if entries.shape != places.shape[1:]:
        wanted = f"one value for each of the {places.shape[1]} columns of coords"
        raise ShapeError.unfit("tensor", wanted=wanted, coords=places.shape, values=entries.shape)
    if entries.dtype.kind not in "biufc":
        raise DtypeError.unserved("tensor", dtypes=[entries.dtype], known=REAL)
    extents = _extents(places, shape)
    is_small = max((*extents, places.shape[1])) <= _INT32_MAX
    fixed = np.array(places, dtype=NarrowIndex if is_small else WideIndex, order="C")
    fixed.flags.writeable = False
    made = TensorEntries(extents, fixed, entries)
    if copy is None or copy:
        made.own(ownership.Given((values,)), everything=bool(copy))
    return AutoSparseTensor(made)


def _unpickled(coords: AnyArray, values: AnyArray, shape: tuple[int, ...]) -> AutoSparseTensor:
    """Return the tensor of a pickle, over the unpickled arrays."""
    is_plain = (
        type(coords) is np.ndarray and coords.ndim == 2 and coords.dtype.char in "ilq" and coords.flags.c_contiguous
    )
    is_kept = is_plain and coords.dtype.itemsize == (4 if max((*shape, coords.shape[1])) <= _INT32_MAX else 8)
    if not is_kept or values.shape != coords.shape[1:] or values.dtype.kind not in "biufc":
        return tensor(coords, values, shape, copy=False)
    extents = _extents(coords, shape)
    coords.flags.writeable = False
    return AutoSparseTensor(TensorEntries(extents, coords, values))


def _parts(obj: Any, shape: Sequence[int] | None) -> tuple[Any, Any, Any]:
    """Return (coords, values, shape) of an object that has them, or of a file."""
    if isinstance(obj, str | os.PathLike) or (hasattr(obj, "read") and not hasattr(obj, "shape")):
        from autosparse.arrays import files  # imports scipy.io
        from autosparse.reading import tensors as coordinates

        obj = files.read_any(Path(obj)) if isinstance(obj, str | os.PathLike) else files.read_any_open(obj)
        if isinstance(obj, coordinates.Entries):
            return obj.coords, obj.values, shape
        obj = sps.coo_array(sps.csr_array(obj[:3], shape=obj[3]) if isinstance(obj, tuple) else obj)
    if isinstance(obj, sps.coo_array):
        return np.stack(obj.coords), obj.data, shape or obj.shape
    if type(obj).__name__ == "COO" and hasattr(obj, "fill_value"):
        if obj.fill_value != 0:
            given = f"{describe(obj)}, fill value {obj.fill_value}"
            raise InputError.refused(
                "entries that are not stored must be 0", given=given, hint="subtract the fill value"
            )
        return obj.coords, obj.data, shape or obj.shape
    hint = "pass (coords, values, shape), a sparse.COO, a scipy.sparse.coo_array, or a path to a .tns file"
    raise InputTypeError.refused("a sparse tensor cannot be made from this", given=describe(obj), hint=hint)


def _extents(places: AnyArray, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return `shape`, or for None the smallest that holds the coordinates; raise StructureError for one outside."""
    most = [int(row.max()) if row.size else -1 for row in places]
    extents = tuple(n + 1 for n in most) if shape is None else _integers(shape)
    if max(extents, default=0) > _INT64_MAX:
        raise InputError.refused("extents must be < 2**63", given=f"shape={extents}", hint="pass a smaller shape")
    if len(extents) != len(most) or not extents or min(extents) < 0:
        wanted = f"a shape of {len(most)} extents >= 0, one for each row of coords"
        raise ShapeError.unfit("tensor", wanted=wanted, coords=places.shape, shape=extents)
    for row, last, extent in zip(places, most, extents, strict=True):
        if last >= extent:
            raise StructureError.index_too_large(last, extent=extent)
        if row.size and row.min() < 0:
            raise StructureError.index_negative(int(row.min()))
    return extents


def _integers(shape: Any) -> tuple[int, ...]:
    """Return the extents of a shape; raise InputTypeError when it is no sequence of integers."""
    try:
        return tuple(operator.index(n) for n in shape)
    except TypeError:
        raise InputTypeError.refused(
            "the shape of a tensor is a sequence of integers",
            given=f"shape={shape!r:.60}",
            hint="pass shape=(n_1, n_2, ...), one extent >= 0 for each row of coords",
        ) from None


def mttkrp(T: Any, factors: Sequence[Any], mode: int, *, out: Any = None) -> Any:
    """Compute the matricized tensor times Khatri-Rao product of the factors (MTTKRP).

    Row i of the result M is a sum over the entries of T that have coordinate i at `mode`. Each term is the entry's
    value times the elementwise product of one row of every other factor, the row at the entry's coordinate. For order 3
    and mode 0, M equals ``einsum("ikl,kj,lj->ij", T, B, C)``. Kernels compute float32 and float64, NumPy other dtypes.

    Parameters
    ----------
    T
        Tensor of order 2 or more: an autosparse tensor, an object that `tensor` takes, or a torch sparse COO tensor.
    factors
        One matrix of shape (shape[n], R) for each mode n. The one at `mode` is not read and may be None. Factors of a
        tensor on a GPU must be there too, in the tensor's dtype (docs/gpu.md).
    mode
        Mode whose extent is the number of rows of M.
    out
        Array that M is written to, and which is returned.

    Returns
    -------
    M of shape (shape[mode], R), in NumPy's promotion of all dtypes. For a torch tensor T, M is a torch tensor, with
    gradients where T or factors require them.

    Raises
    ------
    ShapeError (ValueError), InputTypeError or DtypeError (TypeError).

    >>> T = asp.tensor([[0, 1], [0, 2], [1, 0]], [2.0, 3.0])
    >>> asp.mttkrp(T, [None, np.ones((3, 1)), np.ones((2, 1))], mode=0)
    array([[2.],
           [3.]])
    """
    factors = _as_list(factors)
    if foreign.is_on_gpu(T) or any(map(foreign.is_on_gpu, factors)):
        from autosparse.cuda import fibers  # imports torch, which the owner of such a tensor has

        on_gpu: Any = fibers.mttkrp(T, factors, mode, out=out)
        return on_gpu
    if foreign.is_tensor(T):
        from autosparse.torch import fibers as fibers_of_torch  # imports torch, which the owner of such a tensor has

        return fibers_of_torch.mttkrp(T, factors, mode_of(T, mode), make=tensor, multiply=mttkrp, out=out)
    T = T if isinstance(T, AutoSparseTensor) else tensor(T, copy=False)
    mode = mode_of(T, mode)
    matrices = _matrices(T, factors, mode)
    others = [matrix for matrix in matrices if matrix is not None]
    shape, dtype = (T.shape[mode], others[0].shape[1]), np.result_type(T.dtype, *others)
    if out is not None:
        check_out(out, shape, dtype, hint=f"pass out=np.empty({shape}, dtype=...)")
    unfolding = T._unfolding(mode)
    is_inexact = dtype.char in "fd" and dtype.isnative and all(one.dtype.kind == "f" for one in others)
    if is_inexact and unfolding.has_kernels:
        dense = [np.asarray(one, dtype=dtype) for one in others]
        is_apart = out is not None and has_rows(out) and not any(
            np.may_share_memory(out, one) for one in (*dense, T._entries.peek())
        )  # fmt: skip
        M = executor.mttkrp(unfolding, dense, out=out if is_apart else None)
    else:
        with np.errstate(all="ignore"):  # as the kernels, which report no overflow and no invalid values
            M = operation.reference(T._entries.coords, T._entries.peek(), T.shape, matrices, mode)
    if out is None or M is out:
        return M
    out[...] = M
    return out


def mode_of(T: AutoSparseTensor, mode: Any) -> int:
    """Return `mode` counted from 0; raise ShapeError where T has no such mode or fewer than two modes."""
    if T.ndim < 2:
        raise ShapeError.unfit(MTTKRP.name, wanted="a tensor of order 2 or more", T=T.shape)
    if isinstance(mode, bool) or not isinstance(mode, (int, np.integer)) or not -T.ndim <= mode < T.ndim:
        raise ShapeError.unfit(f"mttkrp with mode={mode!r}", wanted=f"a mode from 0 to {T.ndim - 1}", T=T.shape)
    return int(mode) % T.ndim


def _matrices(T: AutoSparseTensor, factors: Sequence[Any], mode: int) -> list[AnyArray | None]:
    """Return the factors as ndarrays, None at `mode`; raise ShapeError unless they fit T and each other."""
    factors = _as_list(factors)
    if len(factors) != T.ndim:
        wanted = f"one factor for each of the {T.ndim} modes (None at mode {mode}), not {len(factors)}"
        raise ShapeError.unfit(MTTKRP.name, wanted=wanted, T=T.shape)
    matrices: list[AnyArray | None] = [None] * T.ndim
    first = 1 if mode == 0 else 0
    for n, factor in enumerate(factors):
        if n == mode:
            continue
        if sps.issparse(factor) or factor is None:
            hint = f"pass an array of shape ({T.shape[n]}, R)"
            raise InputTypeError.refused(
                f"mttkrp: factor {n} must be a dense matrix", given=describe(factor), hint=hint
            )
        matrix = _as_numbers(factor, n)
        if matrix.ndim != 2 or matrix.shape[0] != T.shape[n]:
            wanted = f"factor {n} with {T.shape[n]} rows, the extent of mode {n}"
            raise ShapeError.unfit(MTTKRP.name, wanted=wanted, T=T.shape, factor=matrix.shape)
        matrices[n] = matrix
        start = matrices[first]
        if start is not None and matrix.shape[1] != start.shape[1]:
            named = {f"factor_{first}": start.shape, f"factor_{n}": matrix.shape}
            raise ShapeError.unfit(MTTKRP.name, wanted="factors of one number of columns", **named)
    return matrices


def _as_list(factors: Any) -> list[Any]:
    try:
        return list(factors)
    except TypeError:
        raise InputTypeError.refused(
            "mttkrp: factors must be a sequence of matrices", given=describe(factors), hint="pass one for each mode"
        ) from None


def _as_numbers(factor: Any, n: int) -> AnyArray:
    """Return factor `n` as an ndarray; raise InputTypeError where it holds no numbers."""
    try:
        matrix = np.asarray(factor)
    except ValueError:  # rows of different lengths
        matrix = np.asarray(None)
    if matrix.dtype.kind not in "biufc":
        hint = "pass a matrix of numbers, of shape (extent of the mode, R)"
        raise InputTypeError.refused(f"mttkrp: factor {n} holds no numbers", given=describe(factor), hint=hint)
    return matrix
