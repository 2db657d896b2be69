"""Fork safety: locks and imports that other threads held at a fork must not block the child process.

`loading` is the context for imports at the first use of a part of the library, and `lazy_names` imports a package's
names then.

In the child only the forking thread exists. A lock that another thread held is never released, and a module that
another thread was importing is never completed. Therefore:

- the package's locks are made here and are free again in the child;
- functions registered with `in_child` repair state that another thread left half done;
- a fork waits until no other thread imports a module that products may need. After `PATIENCE_S` seconds it proceeds,
  and the child imports such modules anew.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from importlib import _bootstrap  # holds the locks of modules
from typing import Any, Final

PATIENCE_S: Final = 5.0
"""Longest time in seconds that a fork waits for imports of other threads, which may themselves wait for this thread."""
POLL_S: Final = 2e-3
ROOTS: Final = frozenset({"autosparse", "numpy", "scipy", "platformdirs"})
"""Top-level packages that products import from; imports of other packages do not delay a fork."""

_locks: weakref.WeakSet[Any] = weakref.WeakSet()  # Any: Lock and RLock, whose classes have no public names
_in_child: list[Callable[[], None]] = []
_held: set[int] = set()  # ids of locks that were held at the last fork
_is_held = False  # whether this module holds the interpreter's import lock
_is_frozen = False  # whether the program has frozen objects, which Python counts one by one: 4 ms in a large process


def lock() -> threading.Lock:
    """Return a lock that is free in the child of a fork."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> threading.RLock:
    """Return a reentrant lock that is free in the child of a fork."""
    made = threading.RLock()
    _locks.add(made)
    return made


def in_child(put_right: Callable[[], None]) -> Callable[[], None]:
    """Register `put_right` to be called in the child of every fork, when locks are free again (see `was_held`)."""
    _in_child.append(put_right)
    return put_right


def was_held(lock: threading.Lock) -> bool:
    """Return whether a thread held `lock` when this child was forked."""
    return id(lock) in _held


class loading:  # noqa: N801  # used in `with` statements
    """Context in which modules are imported while the garbage collector is disabled.

    Objects that modules allocate are never freed, so collecting costs time for nothing: 1 to 2 ms at the first `csr`,
    5 ms at the first tuning, and 40 to 70 ms where their number lets the collector visit all objects of the process.
    Afterwards the young objects count as old, as those that survive a collection do.
    """

    __slots__ = ("_n_before", "_was_enabled")

    def __enter__(self) -> None:
        self._was_enabled, self._n_before = gc.isenabled(), len(sys.modules)
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if not self._was_enabled:
            return
        global _is_frozen
        if len(sys.modules) > self._n_before and hasattr(gc, "freeze") and not _is_frozen:
            _is_frozen = gc.get_freeze_count() > 0
            if not _is_frozen:
                gc.freeze()
                gc.unfreeze()
        gc.enable()


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for `package` that imports the module of a name, `homes[name]`, at the name's first use.

    A package whose import imports its own modules can fail with `_DeadlockError`: one thread imports the package, and
    another one a module of it that imports the package.
    """

    def getter(name: str) -> Any:  # Any: the attribute of the home module
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return getter


def _others_import() -> list[str]:
    """Return names of modules under `ROOTS` that other threads are importing, as far as their locks tell."""
    me, locks = threading.get_ident(), getattr(_bootstrap, "_module_locks", {})
    owners = {name: getattr(one(), "owner", None) for name, one in list(locks.items())}
    return [name for name, owner in owners.items() if name.partition(".")[0] in ROOTS and owner not in (None, me)]


def _before() -> None:
    """Wait for imports of other threads, then hold the import lock until the fork so that none begins."""
    global _is_held
    imp = sys.modules.get("_imp")
    if imp is None or not hasattr(imp, "acquire_lock"):
        return
    end_s = time.monotonic() + PATIENCE_S
    while True:
        while _others_import() and time.monotonic() < end_s:
            time.sleep(POLL_S)
        imp.acquire_lock()
        if not _others_import() or time.monotonic() >= end_s:
            break
        imp.release_lock()
    _is_held = True


def _release_imports() -> None:
    global _is_held
    if _is_held:
        _is_held = False
        sys.modules["_imp"].release_lock()


def _forget_half_imported() -> None:
    """Remove modules from `sys.modules` whose importing thread the child lacks, so that they are imported anew."""
    for name in _others_import():
        _bootstrap._module_locks.pop(name, None)  # type: ignore[attr-defined]
        sys.modules.pop(name, None)


def _after_in_child() -> None:
    global _held
    _forget_half_imported()
    _release_imports()
    locks = list(_locks)
    _held = {id(one) for one in locks if getattr(one, "locked", bool)()}
    for one in locks:
        one._at_fork_reinit()  # the standard library resets its own locks in this way
    for put_right in _in_child:
        put_right()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_release_imports, after_in_child=_after_in_child)
IS_WATCHING: Final = True
"""The last statement: another thread that sees this name knows that the fork hooks are registered."""
