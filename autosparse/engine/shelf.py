"""Shelf: the packed copies of one operand, shared by its problems and bounded in bytes."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autosparse.errors import PackError
from autosparse.formats import Format


@dataclass(slots=True)
class Packing:
    """One packed copy. Products hold it by `enter`/`leave`; values are rewritten only while none runs."""

    packed: Any  # autosparse._native.PackedOperand
    n_bytes: int
    values_version: int
    n_owners: int = 0
    entries: Any = field(default_factory=weakref.WeakSet)  # ways past Python to kernels that read it
    _n_running: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        """A product begins to read."""
        with self._lock:
            self._n_running += 1

    def leave(self) -> None:
        """A product is done reading."""
        with self._lock:
            self._n_running -= 1

    def retire_entries(self, trial: Any) -> None:  # Any: a KernelTrial, which is above us
        """No product by `trial` past Python any more."""
        for entry in [entry for entry in self.entries if entry.trial is trial]:
            entry.retire()
            self.entries.discard(entry)

    def refresh(self, values: Any, version: int) -> bool:
        """Take new values, unless a product is reading the old ones (then: not now)."""
        with self._lock:
            if self._n_running or any(entry.n_running for entry in self.entries):
                return False
            if self.values_version != version:
                self.packed.refresh(values)
                self.values_version = version
            return True


@dataclass(slots=True)
class Shelf:
    """Packed copies by (format, view of the operand). What would exceed the bound is refused before memory is taken."""

    _packings: dict[tuple[Format, str], Packing] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

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

    def give(self, packing: Packing) -> None:
        """One owner less; the copy goes with the last."""
        with self._lock:
            packing.n_owners -= 1
            if packing.n_owners <= 0:
                self._packings = {key: one for key, one in self._packings.items() if one is not packing}
