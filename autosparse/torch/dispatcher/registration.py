"""Registration of the library's kernels with PyTorch's dispatcher: once per process, at the first request.

The C++ module, where it is built, registers kernels that decide without Python whether those in Python run.

A registered kernel stays registered. The dispatcher reads its table without a lock, so that a change while other
threads multiply may crash the process. At each call the kernel reads from `scope` whether to compute itself or to call
PyTorch's own kernel. Products of COO tensors that PyTorch computes follow a check of their indices, because its kernels
read out of bounds.
"""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.errors import MissingExtraError
from autosparse.notices import FallbackWarning, warn_once
from autosparse.torch import team
from autosparse.torch.autograd.compiled import run_as_is
from autosparse.torch.dispatcher import (
    extension,
    fallback,
    operators,
    reductions,
    scope,
    sparse_gradients,
)
from autosparse.torch.dispatcher.fallback import aten_fallbacks, check_coordinates
from autosparse.torch.dispatcher.operators import Keys


def _checked(operator: str) -> Callable[..., Any]:
    """Return a kernel that checks the indices of COO tensors, then calls PyTorch's kernel. It raises StructureError."""

    def kernel(keys: Keys, *given: Any, **more: Any) -> Any:  # Any: arguments of the dispatcher
        for one in (*given, *more.values()):
            if isinstance(one, torch.Tensor):
                check_coordinates(one)
        return aten_fallbacks[f"coo::{operator}"].call_boxed(keys, *given, **more)

    return kernel


_CHECKED: Final = ("bmm", "bmm.out", "hspmm", "hspmm.out", "sspaddmm.out", "_sparse_sparse_matmul")
"""Operators on COO tensors that PyTorch computes. The C++ module has the same list (`CHECKED` in module.cpp)."""
_PASSED_ON: Final = {operator: _checked(operator) for operator in _CHECKED}
"""Kernels by operator, for the dispatch key SparseCPU."""


Table: TypeAlias = dict[str, Callable[..., Any]]


def _on_gpu(operator: str, *, gradient: bool = False) -> Callable[..., Any]:
    """Return a proxy for a kernel of `autosparse.cuda`, which is imported at the first call with a tensor on a GPU."""

    @functools.cache
    def found() -> Callable[..., Any]:
        from autosparse.cuda import aten
        from autosparse.cuda import reductions as reductions_on_gpu

        return (aten.GRADIENTS if gradient else aten.PRODUCTS | reductions_on_gpu.TABLE)[operator]

    def kernel(*given: Any, **more: Any) -> Any:  # Any: arguments of the dispatcher
        return found()(*given, **more)

    return kernel


ON_GPU: Final = {operator: _on_gpu(operator) for operator in (*operators.COMPRESSED, *reductions.TABLE)}
"""Kernels by operator, for the dispatch key SparseCsrCUDA."""
GRADIENTS_ON_GPU: Final = {operator: _on_gpu(operator, gradient=True) for operator in sparse_gradients.TABLE}
"""Kernels by operator, for the dispatch key AutogradCUDA."""

TABLES: Final[dict[str, Table]] = {
    "SparseCsrCPU": operators.COMPRESSED | reductions.TABLE,
    "SparseCPU": operators.COORDINATES | _PASSED_ON,
    "SparseCsrCUDA": ON_GPU,
}
"""Kernels of products by dispatch key and operator."""

SPARSE_GRADIENTS: Final[dict[str, Table]] = {"AutogradCPU": sparse_gradients.TABLE, "AutogradCUDA": GRADIENTS_ON_GPU}
"""Kernels that `sparse_gradients=True` adds, by dispatch key and operator."""

PREFIXES: Final = {
    "SparseCsrCPU": "", "SparseCPU": "coo::", "AutogradCPU": "autograd::",
    "SparseCsrCUDA": "cuda::", "AutogradCUDA": "cuda::autograd::",
}  # fmt: skip
"""Prefixes of the names of PyTorch's own kernels in `fallback.aten_fallbacks`, by dispatch key."""

_lock = forking.rlock()
_libraries: dict[bool, Any] = {}  # key: whether for sparse gradients; value: torch.library.Library, None with C++
_replaced: list[tuple[str, str]] = []  # operators and dispatch keys with a kernel of the C++ module
_foreign: set[str] = set()  # names in `aten_fallbacks` of kernels that another library has registered


def is_registered(sparse_gradients: bool) -> bool:
    """Return whether all kernels are registered that a block of `override` with this `sparse_gradients` needs."""
    return sparse_gradients in _libraries and False in _libraries


def register(sparse_gradients: bool) -> None:
    """Register the kernels for blocks with this argument unless done before. Raises MissingExtraError for an old torch.

    Without the C runtime, kernels for tensors on the CPU are left out, with a warning.
    """
    if not hasattr(torch.library, "get_kernel"):
        raise MissingExtraError.needed("torch>=2.9", extra="torch", purpose="autosparse.torch.override")
    if not runtime_api.available:
        warn_once(FallbackWarning, "torch", "autosparse has no C runtime: PyTorch computes every product on the CPU")
    with _lock:
        if not _libraries:
            team.share()
        for kind in (False, True)[: 1 + sparse_gradients]:
            if kind not in _libraries:
                _libraries[kind] = _registered(SPARSE_GRADIENTS if kind else TABLES, kind)


def deregister() -> None:
    """Restore PyTorch's own kernels in the dispatcher; no other thread may multiply meanwhile."""
    with _lock:
        for name, key in _replaced:
            extension.call("deregister", name, key)
        _replaced.clear()
        while _libraries:
            _, library = _libraries.popitem()
            if library is not None:
                library._destroy()
        team.separate()


def _registered(tables: dict[str, Table], sparse_gradients: bool) -> Any:
    """Register the tables' kernels, as far as this PyTorch build and the C runtime support them.

    Returns the library that holds them, or None if the C++ module does.
    """
    has = {"CPU": runtime_api.available, "CUDA": torch.backends.cuda.is_built()}
    served = [
        (operator, key, kernel)
        for key, table in tables.items()
        if any(key.endswith(end) for end in has if has[end])
        for operator, kernel in table.items()
    ]
    if extension.library is not None:
        _register_in_cpp(served)
        return None
    for operator, key, _ in served:  # all of them first: PyTorch's kernels call each other through the dispatcher
        _keep_aten_fallback(PREFIXES[key] + operator, operator, key)
    library = torch.library.Library("aten", "IMPL")
    for operator, key, kernel in served:
        with warnings.catch_warnings():  # PyTorch warns of each replaced kernel
            warnings.simplefilter("ignore", UserWarning)
            ours = _switched(PREFIXES[key] + operator, kernel, sparse_gradients)
            library.impl(operator, ours, key, with_keyset=True)
    return library


def _register_in_cpp(served: list[tuple[str, str, Callable[..., Any]]]) -> None:
    """Register kernels of the C++ module, which requests the kernels in Python when they are first called."""
    for operator, key, kernel in served:
        extension.kernels[operator, key] = kernel
        fallback.aten_fallbacks.places[PREFIXES[key] + operator] = operator, key
    places = [(operator, key) for operator, key, _ in served]
    _replaced.extend(places)
    extension.call("replace", " ".join(map(" ".join, places)))


def _switched(name: str, ours: Callable[..., Any], sparse_gradients: bool) -> Callable[..., Any]:
    """Return a kernel that calls `ours` while the override is active in the thread, otherwise PyTorch's kernel `name`.

    With `sparse_gradients`, only blocks with sparse gradients count as active.
    """
    ours, is_asked = run_as_is(ours), scope.has_sparse_gradients if sparse_gradients else scope.is_on
    aten_kernel = fallback.aten_fallbacks.get(name)
    if aten_kernel is None:
        return ours
    stock = aten_kernel.call_boxed if name in _foreign else fallback.OUTSIDE.get(name, aten_kernel.call_boxed)

    def kernel(*given: Any, **more: Any) -> Any:  # Any: arguments of the dispatcher
        if is_asked():
            return ours(*given, **more)
        return stock(*given, **more)

    return run_as_is(kernel)


def _keep_aten_fallback(name: str, operator: str, key: str) -> None:
    """Store PyTorch's (or another library's) present kernel in `aten_fallbacks`; delete the name where there is none.

    There is none e.g. for reductions on a GPU. PyTorch's own kernels are looked up only once, because `get_kernel`
    leaks 1 kB at each call.
    """
    is_foreign = f"aten/{operator}/{key}" in torch.library._impls
    if name in fallback.aten_fallbacks and not is_foreign and name not in _foreign:
        return
    (_foreign.add if is_foreign else _foreign.discard)(name)
    try:
        fallback.aten_fallbacks[name] = torch.library.get_kernel(f"aten::{operator}", key)
    except RuntimeError:
        fallback.aten_fallbacks.pop(name, None)
