"""Operands of tensor products: a tensor's entries, watched for writes to their values, and one unfolding per mode.

`TensorEntries` is shared by all modes. An `Unfolding` is the operand of products that have one mode as rows, as
`Operand` is for matrices. Coordinates never change; any holder of the value array may write it (see `mutation_guard`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.core.dtypes import WideIndex
from autosparse.core.pattern import TensorPattern
from autosparse.operands import mutation_guard, ownership
from autosparse.operands.csf import MAX_ORDER, Csf, compressed_fibers
from autosparse.operands.csr import Operand

AnyArray = NDArray[Any]  # Any: values may have any dtype
T = TypeVar("T")


class TensorEntries:
    """Entries of a tensor: private, read-only coordinates (ndim, nnz) and the user's values (nnz,)."""

    __slots__ = (
        "_anchors", "_clean", "_print", "_touch", "_values", "coords", "copied_bytes", "ordered", "pattern", "shape",
        "shared", "values_version",
    )  # fmt: skip

    frozen: Final = False
    """Constant False: tensors cannot be declared read-only."""

    def __init__(self, shape: tuple[int, ...], coords: AnyArray, values: AnyArray) -> None:
        self.shape = shape
        self.coords = coords
        self.pattern = TensorPattern(shape, coords)
        self.values_version = 0
        self.shared = False  # whether another tensor uses these entries, too
        self.copied_bytes: int | None = None  # bytes of values that were copied; None: values may be shared
        self.ordered: Any = None  # Any: data of einsum, private to autosparse.contraction
        self._values = values
        self._anchors: mutation_guard.Anchors | None = None
        # Exporting stores None; a look stores its own token, and marks it clean only if the token is still there.
        self._touch: object = None
        self._clean: object = object()
        self._print: Any = None

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self.coords.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self._values.dtype

    def own(self, given: ownership.Given, *, everything: bool) -> None:
        """Copy the values where they belong to the caller; raise RoomError where the copy does not fit."""
        held = [self._values] if given.holds(self._values) else []
        copies, self.copied_bytes = ownership.copies_of(held, everything=everything)
        self._values = copies[0] if copies else self._values

    @property
    def is_alone(self) -> bool:
        """Return whether no other object can reach the values now."""
        return mutation_guard.is_alone(self._anchors or mutation_guard.anchors_of((self._values,)))

    def fetch(self) -> AnyArray:
        """Return the user's own array; later writes to it are expected."""
        self._touch = None
        return self._values

    def peek(self) -> AnyArray:
        """Return the user's own array for reading within one call. It must not leave the package."""
        return self._values

    def rebind(self, values: AnyArray) -> None:
        """Replace the array of values."""
        self._values, self._anchors, self._print = values, None, None
        self._touch = self.copied_bytes = None
        self.values_version += 1

    def refresh(self) -> None:
        """Bring `values_version` up to date with every write made before this call."""
        anchors = self._anchors
        if (
            anchors is None
            or self._touch is not self._clean
            or mutation_guard.reference_total(anchors.arrays) != anchors.expected
        ):
            self._look()

    def _look(self) -> None:
        token = object()
        self._touch = token
        if self._anchors is None:
            self._anchors = mutation_guard.anchors_of((self._values,))
        # Checked before the bytes are read: an alias that no longer exists cannot write any more.
        alone = mutation_guard.is_alone(self._anchors)
        now, last = mutation_guard.Print.of(self._values), self._print
        if not now.is_like(last):
            self.values_version += last is not None
            self._print = now
        if alone:
            self._clean = token


class Unfolding:
    """Operand of MTTKRP with `mode` as rows; the other modes are ordered so that levels have few nodes."""

    __slots__ = ("__weakref__", "_csf", "_csf_version", "dispatcher", "entries", "mode", "order", "places")

    def __init__(self, entries: TensorEntries, mode: int) -> None:
        self.entries = entries
        self.mode = mode
        self.order = entries.pattern.level_order(mode)
        # Positions of the factors of the levels below the first, in a list of all factors but the mode's own.
        self.places = tuple(n - (n > mode) for n in self.order[1:])
        self.dispatcher: Any = None  # Any: dispatch state, private to autosparse.dispatch
        self._csf: Csf | None = None
        self._csf_version = -1

    structure_version: Final = 0
    """Constant 0: coordinates do not change."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the values."""
        return self.entries.dtype

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.entries.nnz

    @property
    def data(self) -> AnyArray:
        """Values, (nnz,), for reading."""
        return self.entries.peek()

    @property
    def values_version(self) -> int:
        """Version that rises with every write that `refresh` detects."""
        return self.entries.values_version

    def changed_since(self, version: int) -> None:
        """Return None: entries changed since a version are not tracked, so all may have changed."""

    @property
    def structure_bytes(self) -> int:
        """Bytes of the coordinates."""
        return int(self.entries.coords.nbytes)

    def structure_sample(self) -> bytes:
        """Return shape, mode and samples of the coordinates as bytes; they distinguish most tensors in microseconds."""
        picks = np.linspace(0, max(self.nnz - 1, 0), 64).astype(WideIndex)
        facts = np.array([*self.entries.shape, self.mode, self.nnz], dtype=WideIndex).tobytes()
        return facts + (self.entries.coords[:, picks].astype(WideIndex).tobytes() if self.nnz else b"")

    def pin(self) -> None:
        """Keep the arrays readable (see `Operand.pin`); nothing to do here, as the tensor holds them."""

    def unpin(self) -> None:
        """Undo one `pin`."""

    def refresh(self) -> None:
        """Bring `values_version` up to date."""
        self.entries.refresh()

    @property
    def is_native(self) -> bool:
        """Return whether kernels accept the values unchanged; otherwise they are converted, or NumPy computes."""
        values = self.entries.peek()
        is_plain = values.dtype.char in "fd" and values.dtype.isnative
        return is_plain and values.flags.c_contiguous and values.flags.aligned

    @property
    def has_kernels(self) -> bool:
        """Return whether the runtime is available and supports tensors of this order."""
        return runtime_api.is_there() and 2 <= len(self.entries.shape) <= MAX_ORDER

    @property
    def pattern(self) -> TensorPattern:
        """Structure with the modes in the tensor's order, one for all unfoldings."""
        return self.entries.pattern

    def csf(self, dtype: np.dtype[Any] | None = None) -> Csf:
        """Return the tensor as CSF, its modes in the order `order`, with the present values, in `dtype` if given.

        The result is built at first use and kept, but not with converted values.
        """
        entries = self.entries
        entries.refresh()
        version, found = entries.values_version, self._csf
        is_converted = not self.is_native or (dtype is not None and dtype != entries.dtype)
        if found is not None and self._csf_version == version and not is_converted:
            return found
        values = np.ascontiguousarray(entries.peek(), dtype=dtype) if is_converted else entries.peek()
        if found is None:
            coords = [entries.coords[n] for n in self.order]
            found = compressed_fibers(coords, [entries.shape[n] for n in self.order], values)
            version = -1 if is_converted else version
        else:
            found = found.with_values(values)  # a new object, because another thread may be reading the old one
            if is_converted:
                return found
        self._csf, self._csf_version = found, version
        return found


AnyOperand = Operand | Unfolding
"""Operand that plans are made for: a matrix, or one mode of a tensor."""


def while_reading(operand: AnyOperand | None, compute: Callable[[], T]) -> T:
    """Return ``compute()``; arrays of a matrix that other threads replace meanwhile are kept.

    Kernels read arrays by their addresses. The arrays of a tensor cannot be replaced.
    """
    if not isinstance(operand, Operand):
        return compute()
    operand.begin_reading()
    try:
        return compute()
    finally:
        operand.end_reading()
