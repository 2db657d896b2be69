"""The entries of a sparse tensor, watched for writes to their values, and what each mode's products keep of them.

`TensorEntries` is shared by all modes. An `Unfolding` is the operand of products that have one mode as rows: what
`Operand`
is for matrices. Coordinates never change; values may be written by whoever holds the array (see `mutation_guard`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.core.pattern import TensorPattern
from autosparse.operands import mutation_guard, ownership
from autosparse.operands.csf import MAX_ORDER, Csf, compressed_fibers
from autosparse.operands.csr import Operand

AnyArray = NDArray[Any]  # values may have any dtype


class TensorEntries:
    """Coordinates (ndim, nnz) of a tensor of shape `shape`, read-only and ours alone, and values (nnz,), the user's."""

    __slots__ = (
        "_anchors", "_clean", "_print", "_touch", "_values", "coords", "copied_bytes", "ordered", "pattern", "shape",
        "shared", "values_version",
    )  # fmt: skip

    frozen: Final = False
    """Nobody promises that values are not written."""

    def __init__(self, shape: tuple[int, ...], coords: AnyArray, values: AnyArray) -> None:
        self.shape = shape
        self.coords = coords
        self.pattern = TensorPattern(shape, coords)
        self.values_version = 0
        self.shared = False  # by another tensor
        self.copied_bytes: int | None = None  # of the caller's values; None: they were handed in, and may be shared
        self.ordered: Any = None  # Any: what einsum keeps, private to autosparse.contraction
        self._values = values
        self._anchors: mutation_guard.Anchors | None = None
        # A touch stores None; a look stores a token of its own and calls it clean only while it is still there.
        self._touch: object = None
        self._clean: object = object()
        self._print: Any = None

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return int(self.coords.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self._values.dtype

    def own(self, given: ownership.Given, *, everything: bool) -> None:
        """Copy the values where they belong to the caller; RoomError where the copy does not fit."""
        held = [self._values] if given.holds(self._values) else []
        copies, self.copied_bytes = ownership.copies_of(held, everything=everything)
        self._values = copies[0] if copies else self._values

    @property
    def is_alone(self) -> bool:
        """Whether nobody else can reach the values now."""
        return mutation_guard.is_alone(self._anchors or mutation_guard.anchors_of((self._values,)))

    def fetch(self) -> AnyArray:
        """The user's own array; from now on it may be written."""
        self._touch = None
        return self._values

    def peek(self) -> AnyArray:
        """The user's own array, for reading within one call: it must not leave our code."""
        return self._values

    def rebind(self, values: AnyArray) -> None:
        """Put another array of values in place."""
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
        # Asked before the bytes are read: an alias that is gone by now has done all the writing it will do.
        alone = mutation_guard.is_alone(self._anchors)
        now, last = mutation_guard.Print.of(self._values), self._print
        if not now.is_like(last):
            self.values_version += last is not None
            self._print = now
        if alone:
            self._clean = token


class Unfolding:
    """The tensor as operand of MTTKRP with `mode` as rows; its other modes come so that levels have few nodes."""

    __slots__ = ("__weakref__", "_csf", "_csf_version", "dispatcher", "entries", "mode", "order", "places")

    def __init__(self, entries: TensorEntries, mode: int) -> None:
        self.entries = entries
        self.mode = mode
        self.order = entries.pattern.level_order(mode)
        # Where the factor of each level below the first stands in a list of all factors but the mode's own.
        self.places = tuple(n - (n > mode) for n in self.order[1:])
        self.dispatcher: Any = None  # Any: dispatch state, private to autosparse.dispatch
        self._csf: Csf | None = None
        self._csf_version = -1

    structure_version: Final = 0
    """Coordinates do not change."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return self.entries.dtype

    @property
    def nnz(self) -> int:
        """Stored entries."""
        return self.entries.nnz

    @property
    def data(self) -> AnyArray:
        """Values, (nnz,), for reading."""
        return self.entries.peek()

    @property
    def values_version(self) -> int:
        """Rises with every write that `refresh` saw."""
        return self.entries.values_version

    def changed_since(self, version: int) -> None:
        """Which entries may have changed since that version of the values is not kept: all of them."""

    @property
    def structure_bytes(self) -> int:
        """Bytes of the coordinates."""
        return int(self.entries.coords.nbytes)

    def structure_sample(self) -> bytes:
        """Shape, mode and some of the coordinates: tells most tensors apart in microseconds."""
        picks = np.linspace(0, max(self.nnz - 1, 0), 64).astype(np.int64)
        facts = np.array([*self.entries.shape, self.mode, self.nnz], dtype=np.int64).tobytes()
        return facts + (self.entries.coords[:, picks].astype(np.int64).tobytes() if self.nnz else b"")

    def pin(self) -> None:
        """Coordinates are the tensor's own, and its values are held by it: nothing to do (see `Operand.pin`)."""

    def unpin(self) -> None:
        """Undo one `pin`."""

    def refresh(self) -> None:
        """Bring `values_version` up to date."""
        self.entries.refresh()

    @property
    def is_native(self) -> bool:
        """Whether kernels take the values as they are; else they are converted, or NumPy computes."""
        values = self.entries.peek()
        is_plain = values.dtype.char in "fd" and values.dtype.isnative
        return is_plain and values.flags.c_contiguous and values.flags.aligned

    @property
    def has_kernels(self) -> bool:
        """Whether the runtime is there and knows tensors of this order."""
        return runtime_api.is_there() and 2 <= len(self.entries.shape) <= MAX_ORDER

    @property
    def pattern(self) -> TensorPattern:
        """The structure, modes as they are: one for all unfoldings."""
        return self.entries.pattern

    def csf(self, dtype: np.dtype[Any] | None = None) -> Csf:
        """Levels in the order of `order` with the values as they are now, in `dtype` when it is given.

        Built at first use, then kept; converted values are not.
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
            found = found.with_values(values)  # beside the old ones, which another thread may be reading
            if is_converted:
                return found
        self._csf, self._csf_version = found, version
        return found


AnyOperand = Operand | Unfolding
"""What is planned for: a matrix, or one mode of a tensor."""
