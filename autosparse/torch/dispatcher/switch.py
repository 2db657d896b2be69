"""Switches for the library's kernels: per block or function (`override`), or per process (`install`, `enable`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from autosparse import forking
from autosparse.torch.autograd.compiled import run_as_is
from autosparse.torch.dispatcher import registration, scope, stepwise

if TYPE_CHECKING:
    from typing_extensions import Self

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

_lock = forking.rlock()
_installed: list[bool] = []  # argument of each active `install`, innermost last
_enabled: list[bool] = []  # argument of `enable`; empty if not enabled


class override:  # noqa: N801  used like torch.no_grad
    """Compute products with torch.sparse tensors by autosparse inside a ``with`` block, or in a decorated function.

    CSR, CSC and COO tensors on the CPU and CSR tensors on a GPU are supported. The block affects the thread that enters
    it and the threads that PyTorch's autograd starts for it. An object can be entered again, also while it is active.
    The decorators ``@override()`` and ``@override`` accept functions, generators, coroutines and asynchronous
    generators; the override is active only while their own code runs.

    `sparse_gradients`: the gradient of a CSR tensor in ``A @ B`` is a CSR tensor with A's entries, where PyTorch makes
    a dense n × m one. Without the C++ module, every dense product of the process then costs 2 to 4 µs more.

    The first block of a process registers the kernels, which takes 1 to 2 ms; enter it, or call `install`, before
    other threads multiply. They stay registered until `uninstall`. A sparse product outside every block then costs
    less than 0.5 µs more with the C++ module for PyTorch, and 5 to 11 µs more without it.

    >>> with asp.torch.override():
    ...     asp.torch.installed()
    True
    """

    __slots__ = ("_sparse_gradients",)

    _sparse_gradients: bool

    @overload
    def __new__(cls, function: AnyFunction, /) -> AnyFunction: ...  # type: ignore[misc]  # a decorated function
    @overload
    def __new__(cls, function: None = None, /, *, sparse_gradients: bool = False) -> Self: ...
    def __new__(cls, function: Any = None, /, *, sparse_gradients: bool = False) -> Any:
        """Create a context manager, or decorate `function` with one."""
        made = super().__new__(cls)
        made._sparse_gradients = bool(sparse_gradients)
        return made if function is None else made(function)

    def __enter__(self) -> None:
        if not registration.is_registered(self._sparse_gradients):
            registration.register(self._sparse_gradients)
        scope.enter(self._sparse_gradients)

    def __exit__(self, *error: object) -> None:
        scope.leave(self._sparse_gradients)

    def __call__(self, function: AnyFunction) -> AnyFunction:
        """Decorate a function."""
        return stepwise.decorated(function, override(sparse_gradients=self._sparse_gradients))


run_as_is(override.__enter__)
run_as_is(override.__exit__)


def install(*, sparse_gradients: bool = False) -> None:
    """Compute products with torch.sparse tensors by autosparse in every thread from now on.

    `sparse_gradients` is described at `override`. Calls nest: each needs an `uninstall`.

    >>> asp.torch.install()
    >>> torch.eye(2).to_sparse_csr() @ torch.ones(2, 1)  # existing code, unchanged
    tensor([[1.],
            [1.]])
    >>> asp.torch.uninstall()
    """
    registration.register(sparse_gradients)
    with _lock:
        _installed.append(sparse_gradients)
        _count()


def uninstall() -> None:
    """Undo the last `install`; the last `uninstall` also removes autosparse's kernels from PyTorch's dispatcher.

    The kernels stay registered while a block of `override` is active in any thread, or after `enable`. No other thread
    may multiply sparse tensors during the last call, because PyTorch's dispatcher reads its table without a lock. If
    nothing is installed, the call removes the kernels that earlier blocks have registered.

    >>> asp.torch.uninstall()
    >>> asp.torch.installed()
    False
    """
    with _lock:
        if _installed:
            _installed.pop()
            _count()
        if not _installed and not scope.is_on_anywhere():
            registration.deregister()


def enable(*, sparse_gradients: bool = False) -> None:
    """Compute products with torch.sparse tensors by autosparse in every thread until `disable`; does not nest.

    `sparse_gradients` is described at `override`.

    >>> asp.torch.enable()
    >>> asp.torch.installed()
    True
    >>> asp.torch.disable()
    """
    registration.register(sparse_gradients)
    with _lock:
        _enabled[:] = [sparse_gradients]
        _count()


def disable() -> None:
    """Undo `enable`. Blocks of `override` and each `install` stay active, and kernels stay registered.

    >>> asp.torch.disable()
    """
    with _lock:
        _enabled.clear()
        _count()


def installed() -> bool:
    """Return whether PyTorch's sparse products go through autosparse in this thread.

    >>> asp.torch.installed()
    False
    """
    return scope.is_on()


def _count() -> None:
    asked = [*_installed, *_enabled]
    scope.set_process(len(asked), sum(asked))
