"""Forks: what another thread held, or was importing, when the process forked must not stop the child.

In the child only the forking thread is left. A lock that another thread held then is never released, a module that it
was importing is never finished. So the package's locks are made here and are free again in the child; what a thread
left half done is put right by functions registered with `in_child`; and a fork waits until no other thread is
importing a module that products may need, or, where that takes longer than PATIENCE_S, has the child import it anew.
See docs/design/cache-and-trust.md.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from importlib import _bootstrap  # where the locks of modules are
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")

PATIENCE_S: Final = 5.0
"""How long a fork waits for imports of other threads: one of them may itself be waiting for the forking thread."""
POLL_S: Final = 2e-3
ROOTS: Final = frozenset({"autosparse", "numpy", "scipy", "platformdirs"})
"""Packages that products import from."""

_locks: weakref.WeakSet[Any] = weakref.WeakSet()  # Any: Lock and RLock, whose classes have no public names
_in_child: list[Callable[[], None]] = []
_held: set[int] = set()  # ids of locks that were held at the last fork
_is_held = False  # the interpreter's lock on imports, by the hook


def lock() -> threading.Lock:
    """A lock that is free in the child of a fork."""
    made = threading.Lock()
    _locks.add(made)
    return made


def rlock() -> threading.RLock:
    """The same, which its holder may take again."""
    made = threading.RLock()
    _locks.add(made)
    return made


def in_child(put_right: Callable[[], None]) -> Callable[[], None]:
    """Call `put_right` in the child of every fork, when locks are free again; `was_held` tells which were not."""
    _in_child.append(put_right)
    return put_right


def was_held(lock: threading.Lock) -> bool:
    """Whether somebody held `lock` when this child was forked."""
    return id(lock) in _held


class computed_once(Generic[T]):  # noqa: N801  # used as a decorator, like functools.cached_property
    """`functools.cached_property` without the lock that it has before Python 3.12: threads may compute twice.

    That lock is the class's: one thread that hashes a large pattern would hold up all others, and a child for ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> computed_once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> computed_once[T] | T:
        if instance is None:
            return self
        value = self._compute(instance)
        found: T = instance.__dict__.setdefault(self._name, value)
        return found


def _others_import() -> list[str]:
    """Modules that are wanted here and whose locks other threads hold, as far as that can be known."""
    me, locks = threading.get_ident(), getattr(_bootstrap, "_module_locks", {})
    owners = {name: getattr(one(), "owner", None) for name, one in list(locks.items())}
    return [name for name, owner in owners.items() if name.partition(".")[0] in ROOTS and owner not in (None, me)]


def _before() -> None:
    """Let imports end. From here to the fork no other thread begins one: it would need the lock that is kept."""
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
    """What nobody is left to finish is imported from its beginning when it is wanted."""
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
        one._at_fork_reinit()  # as the standard library does with its own
    for put_right in _in_child:
        put_right()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_release_imports, after_in_child=_after_in_child)
IS_WATCHING: Final = True
"""The last line of the module: forks wait from here on."""
