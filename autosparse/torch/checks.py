"""Checks of arguments before native code reads their memory: kinds of objects, dtypes, shapes and indices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from autosparse.errors import DtypeError, InputError, InputTypeError, ShapeError, StructureError
from autosparse.scalar.tensors import COMPUTED, REAL_TYPES, narrow_real
from autosparse.torch.structure import VALUE_CODES

HALF: Final = tuple(COMPUTED)
"""Half-precision dtypes, which are computed in float32."""
AUTOCAST: Final = {narrow_real, *HALF}
"""Dtypes that ``torch.autocast`` converts into each other."""
REAL: Final = (*REAL_TYPES, *HALF)
"""Dtypes of functions that need an order or a softmax."""
NUMBERS: Final = (*VALUE_CODES, *HALF)
"""Dtypes of products."""
is_transformed: Final[Callable[[torch.Tensor], bool]] = torch._C._functorch.is_functorch_wrapped_tensor
"""Return whether a transform of torch.func has wrapped the tensor."""
MAX_ROWS: Final = 2**62  # rows or columns of a matrix; lengths of arrays are 64-bit integers


def tensor(what: str, given: Any) -> torch.Tensor:
    """Return `given` unchanged if it is a torch tensor, else raise InputTypeError.

    `what` names the caller in the message.
    """
    if not isinstance(given, torch.Tensor):
        raise InputTypeError.refused(
            f"{what} takes dense torch tensors", given=f"an object of type {type(given).__name__}",
            hint="pass torch.as_tensor(X), or X.to_dense() for a sparse X",
        )  # fmt: skip
    return given


def in_memory(what: str, given: torch.Tensor) -> torch.Tensor:
    """Return `given` unchanged if it is a dense tensor in the memory of the CPU, else raise InputError.

    `what` names the caller in the message.
    """
    if given.layout is not torch.strided or not given.is_cpu:
        raise InputError.refused(
            f"{what} works on dense tensors in this computer's memory",
            given=f"a {type(given).__name__} of layout {given.layout} on {given.device}",
            hint="pass tensor.to_dense().cpu(), or the plain tensor inside",
        )
    return given


def common(what: str, *tensors: torch.Tensor, known: tuple[torch.dtype, ...] = NUMBERS) -> torch.dtype:
    """Return the dtype to compute in: that of `tensors`, or float32 for half-precision values.

    All must be dense tensors with readable memory and the same dtype, one of `known`. Raises DtypeError, InputError;
    `what` names the caller in messages.
    """
    dtype = tensor(what, tensors[0]).dtype
    for t in tensors:
        if tensor(what, t).dtype is not dtype or dtype not in known:
            raise DtypeError.unserved(what, dtypes=[tensor(what, t).dtype for t in tensors], known=known)
        in_memory(what, t)
        if is_transformed(t):
            continue  # torch.func's wrapper of a tensor has no memory of its own
        if t.data_ptr() == 0 and t.numel() and not t._is_zerotensor():  # a subclass around other tensors
            raise InputError.refused(
                f"{what} works on tensors in this computer's memory",
                given=f"a {type(t).__name__} without memory of its own",
                hint="pass the plain tensor inside",
            )
    return COMPUTED.get(dtype, dtype)


def autocast(*tensors: torch.Tensor) -> tuple[tuple[torch.Tensor, ...], torch.dtype]:
    """Return the tensors to compute with, and the dtype of the result: that of the last one.

    Under ``torch.autocast`` tensors that mix float32 with half precision are computed in float32, and the result has
    autocast's dtype, as results of torch.mm have.
    """
    dtypes: list[Any] = [getattr(one, "dtype", None) for one in tensors]  # `common` refuses what is no tensor
    if len(tensors) == 2 and dtypes[0] is dtypes[1]:  # a set would take longer than the rest of this function
        return tensors, dtypes[0]
    if len(set(dtypes)) == 1 or not torch.is_autocast_enabled("cpu") or not set(dtypes) <= AUTOCAST:
        return tensors, dtypes[-1]
    return tuple([one.to(narrow_real) for one in tensors]), torch.get_autocast_dtype("cpu")


def matrix_shape(shape: Any) -> tuple[int, int]:
    """Return `shape` as two integers ≥ 0 (Any: a user may pass any object). Raises InputTypeError, InputError."""
    try:
        n, m = (operator.index(extent) for extent in shape)
    except (TypeError, ValueError):
        raise InputTypeError.refused(
            "a shape is two whole numbers: rows and columns", given=f"shape={shape!r:.100}", hint="pass shape=(n, m)"
        ) from None
    if not (0 <= n < MAX_ROWS and 0 <= m < MAX_ROWS):
        raise InputError.refused(
            f"rows and columns of a shape are from 0 to {MAX_ROWS - 1}", given=f"shape={shape!r:.100}",
            hint="pass shape=(n, m)",
        )  # fmt: skip
    return n, m


def check_ids(indices: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raise StructureError unless `indices` (2, E), the rows and columns of the entries, lie within `shape`."""
    if not indices.numel():
        return
    least, most = int(indices.min()), indices.amax(1).tolist()
    if least < 0:
        raise StructureError.index_negative(least)
    for id_, extent in zip(most, shape, strict=True):
        if id_ >= extent:
            raise StructureError.index_too_large(id_, extent=extent)


def check_blocks(A: torch.Tensor) -> None:
    """Raise InputError unless the blocks of a BSR or BSC tensor are valid."""
    by_rows = A.layout == torch.sparse_bsr
    starts, indices = (A.crow_indices(), A.col_indices()) if by_rows else (A.ccol_indices(), A.row_indices())
    try:
        torch._validate_sparse_compressed_tensor_args(starts, indices, A.values(), A.shape, A.layout)
    except RuntimeError as error:
        raise InputError.refused(
            f"the blocks of a sparse tensor are not valid: {error}",
            given=f"layout {A.layout}",
            hint="pass a tensor made with check_invariants=True",
        ) from None


def ranks(what: str, *, wanted: str, dims: tuple[int, ...], **tensors: torch.Tensor) -> None:
    """Raise ShapeError unless each tensor's number of dimensions is in `dims`; `what` and `wanted` are its words."""
    if any(t.dim() not in dims for t in tensors.values()):
        raise ShapeError.unfit(what, wanted=wanted, **{name: t.shape for name, t in tensors.items()})
