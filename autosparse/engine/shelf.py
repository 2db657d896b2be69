"""Shelf: the packed copies of one operand, shared by its problems and bounded in bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from autosparse import forking
from autosparse.errors import PackError

if TYPE_CHECKING:
    from autosparse.formats import Format


class Packing:
    """One packed copy. Products hold it by `enter`/`leave`; values are rewritten only while none runs."""

    __slots__ = ("_lock", "entries", "n_bytes", "n_owners", "n_running", "packed", "values_version")

    def __init__(self, packed: Any, n_bytes: int, values_version: int) -> None:
        self.packed = packed  # autosparse._native.PackedOperand
        self.n_bytes = n_bytes
        self.values_version = values_version
        self.n_owners = self.n_running = 0
        self.entries: Any = weakref.WeakSet()  # ways past Python to kernels that read it
        self._lock = forking.lock()

    def enter(self) -> None:
        """A product begins to read."""
        with self._lock:
            self.n_running += 1

    def leave(self) -> None:
        """A product is done reading."""
        with self._lock:
            self.n_running -= 1

    def retire_entries(self, trial: Any) -> None:  # Any: a KernelTrial, which is above us
        """No product by `trial` past Python any more."""
        for entry in [entry for entry in self.entries if entry.trial is trial]:
            entry.retire()
            self.entries.discard(entry)

    def refresh(self, values: Any, version: int) -> bool:
        """Take new values, unless a product is reading the old ones (then: not now)."""
        with self._lock:
            if self.n_running or any(entry.n_running for entry in self.entries):
                return False
            if self.values_version != version:
                self.packed.refresh(values)
                self.values_version = version
            return True


class Shelf:
    """Packed copies by (format, view of the operand). What would exceed the bound is refused before memory is taken."""

    __slots__ = ("_lock", "_packings", "compared")

    def __init__(self) -> None:
        self.compared: set[tuple[Any, ...]] = set()  # kernels whose results on the operand are known
        self._packings: dict[tuple[Format, str], Packing] = {}
        self._lock = forking.rlock()

    @property
    def n_bytes(self) -> int:
        """Bytes of all packed copies."""
        return sum(packing.n_bytes for packing in self._packings.values())

    def has(self, fmt: Format, view: str) -> bool:
        """Whether this copy exists: taking it costs nothing."""
        return (fmt, view) in self._packings

    def take(
        self,
        fmt: Format,
        view: str,
        *,
        needed_bytes: int,
        limit_bytes: int,
        pack: Callable[[], tuple[Any, int]],
    ) -> Packing:
        """The packed copy, made by `pack` -> (packed operand, values version) if it is not there yet.

        PackError when it does not fit beside the others. Every `take` is undone by one `give`.
        """
        with self._lock:
            packing = self._packings.get((fmt, view))
            if packing is None:
                if self.n_bytes + needed_bytes > limit_bytes:
                    raise PackError.too_large(fmt, needed_bytes=self.n_bytes + needed_bytes, limit_bytes=limit_bytes)
                packed, version = pack()
                packing = self._packings[fmt, view] = Packing(packed, int(packed.nbytes), version)
            packing.n_owners += 1
            return packing

    def forget_threads(self) -> None:
        """In a forked child: nobody reads a copy but who forked, and that was not in a product."""
        for packing in self._packings.values():
            packing.n_running = 0

    def give(self, packing: Packing) -> None:
        """One owner less; the copy goes with the last."""
        with self._lock:
            packing.n_owners -= 1
            if packing.n_owners <= 0:
                self._packings = {key: one for key, one in self._packings.items() if one is not packing}
