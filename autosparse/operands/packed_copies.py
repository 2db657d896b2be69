"""PackedCopyCache: the packed copies of one operand, shared by its problems and limited in bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from autosparse import forking
from autosparse.errors import PackError

if TYPE_CHECKING:
    from autosparse.core.composite import Composite
    from autosparse.core.formats import Format


SMOOTHING: Final = 8
"""Number of samples over which `smoothed` averages; a larger number follows changes more slowly."""


def smoothed(average_ns: int, sample_ns: int) -> int:
    """Return the exponential average after one more sample; the first sample is the average."""
    return average_ns + (sample_ns - average_ns) // SMOOTHING if average_ns else sample_ns


def _no_bound() -> None:
    return None


class PackedCopy:
    """Packed copy of an operand. Products hold it by `enter`/`leave`; its values are rewritten only while none runs.

    `n_refreshes` is the number of times that new values were written into it, `refresh_ns` the time of the last one and
    `smoothed_refresh_ns` their exponential average. Both times are zero before the first.
    """

    __slots__ = (
        "_lock", "_room_bytes", "fast_paths", "n_bytes", "n_owners", "n_refreshes", "n_running", "packed", "refresh_ns",
        "smoothed_refresh_ns", "values_version",
    )  # fmt: skip

    def __init__(
        self, packed: Any, n_bytes: int, values_version: int, *, room_bytes: Callable[[], int] | None = None
    ) -> None:
        self._room_bytes: Callable[[], int | None] = room_bytes or _no_bound
        self.packed = packed  # autosparse._native.PackedOperand
        self.n_bytes = n_bytes
        self.values_version = values_version
        self.n_owners = self.n_running = 0
        self.n_refreshes = self.refresh_ns = self.smoothed_refresh_ns = 0
        self.fast_paths: Any = weakref.WeakSet()  # fast paths to kernels that read it
        self._lock = forking.lock()

    def enter(self) -> None:
        """Record that a product begins to read."""
        with self._lock:
            self.n_running += 1

    def leave(self) -> None:
        """Record that a product has finished reading."""
        with self._lock:
            self.n_running -= 1

    def retire_fast_paths(self, trial: Any) -> None:  # Any: a KernelTrial, of a higher layer
        """Retire all fast paths of `trial` to this copy."""
        for fast_path in [fast_path for fast_path in self.fast_paths if fast_path.trial is trial]:
            fast_path.retire()
            self.fast_paths.discard(fast_path)

    def refresh(self, operand: Any) -> bool:  # Any: an Operand or Unfolding, of a higher layer
        """Write the operand's values of its last look to the copy; return False, unchanged, while a product reads."""
        version = operand.values_version
        with self._lock:
            if self.n_running or any(fast_path.n_running for fast_path in self.fast_paths):
                return False
            if self.values_version != version:
                start_ns = perf_counter_ns()
                ranges = operand.changed_since(self.values_version)
                self.packed.refresh(operand.data, ranges, room_bytes=self._room_bytes())
                self.values_version, self.n_bytes = version, int(self.packed.nbytes)
                self.n_refreshes, self.refresh_ns = self.n_refreshes + 1, perf_counter_ns() - start_ns
                self.smoothed_refresh_ns = smoothed(self.smoothed_refresh_ns, self.refresh_ns)
            return True


class PackedCopyCache:
    """Packed copies by (format, view of the operand). A copy beyond the limit is refused before memory is allocated."""

    __slots__ = ("_lock", "_copies", "compared")

    def __init__(self) -> None:
        self.compared: set[tuple[Any, ...]] = set()  # kernels whose results on the operand were compared
        self._copies: dict[tuple[Hashable, str], PackedCopy] = {}
        self._lock = forking.rlock()

    @property
    def n_bytes(self) -> int:
        """Bytes of all packed copies."""
        return sum(packed_copy.n_bytes for packed_copy in self._copies.values())

    def has(self, fmt: Format | Composite, view: str) -> bool:
        """Return whether a packed copy of `view` in the format `fmt` exists, so that taking it costs nothing."""
        return (fmt, view) in self._copies

    def take(
        self,
        fmt: Hashable,
        view: str,
        *,
        needed_bytes: int,
        limit_bytes: int,
        pack: Callable[[], tuple[Any, int]],
    ) -> PackedCopy:
        """Return the copy of `view` in the format `fmt`, made by `pack` -> (packed operand, values version) if new.

        Raises PackError when it does not fit beside the others. Each `take` needs one `give`.
        """
        with self._lock:
            packed_copy = self._copies.get((fmt, view))
            if packed_copy is None:
                if self.n_bytes + needed_bytes > limit_bytes:
                    raise PackError.too_large(fmt, needed_bytes=self.n_bytes + needed_bytes, limit_bytes=limit_bytes)
                packed, version = pack()
                packed_copy = self._copies[fmt, view] = PackedCopy(
                    packed, int(packed.nbytes), version, room_bytes=lambda: limit_bytes - self.n_bytes
                )
            packed_copy.n_owners += 1
            return packed_copy

    def rename(self, packed_copy: PackedCopy, fmt: Format | Composite, view: str) -> None:
        """Make `packed_copy`, which `take` returned under another name, the copy of `view` in the format `fmt`."""
        with self._lock:
            others = {key: one for key, one in self._copies.items() if one is not packed_copy}
            self._copies = others | {(fmt, view): packed_copy}

    def forget_threads(self) -> None:
        """Reset the counts of reading products in a forked child, where no other thread exists."""
        for packed_copy in self._copies.values():
            packed_copy.n_running = 0

    def give(self, packed_copy: PackedCopy) -> None:
        """Undo one `take` of this packed copy; the last `give` frees it."""
        with self._lock:
            packed_copy.n_owners -= 1
            if packed_copy.n_owners <= 0:
                self._copies = {key: one for key, one in self._copies.items() if one is not packed_copy}
