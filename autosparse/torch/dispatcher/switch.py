"""override, install, uninstall: PyTorch's dispatcher is told about our kernels, and about its own again."""

# mypy: allow-untyped-calls
# (torch's functions are not all typed, its autograd classes not at all)
from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch

from autosparse import forking
from autosparse._native import runtime_api
from autosparse.errors import MissingExtraError
from autosparse.notices import FallbackWarning, warn_once
from autosparse.torch.compiled import run_as_is
from autosparse.torch.dispatcher import fallback, operators, reductions, sparse_gradients

Table: TypeAlias = dict[str, Callable[..., Any]]


def _on_gpu(operator: str, *, gradient: bool = False) -> Callable[..., Any]:
    """A kernel of `autosparse.cuda`, which is imported when the first tensor on a GPU comes."""

    @functools.cache
    def found() -> Callable[..., Any]:
        from autosparse.cuda import aten
        from autosparse.cuda import reductions as reductions_on_gpu

        return (aten.GRADIENTS if gradient else aten.PRODUCTS | reductions_on_gpu.TABLE)[operator]

    def kernel(*given: Any, **more: Any) -> Any:  # Any: whatever the dispatcher hands over
        return found()(*given, **more)

    return kernel


ON_GPU: Final = {operator: _on_gpu(operator) for operator in (*operators.COMPRESSED, *reductions.TABLE)}
GRADIENTS_ON_GPU: Final = {operator: _on_gpu(operator, gradient=True) for operator in sparse_gradients.TABLE}

TABLES: Final[dict[str, Table]] = {
    "SparseCsrCPU": operators.COMPRESSED | reductions.TABLE,
    "SparseCPU": operators.COORDINATES,
    "SparseCsrCUDA": ON_GPU,
}
"""Dispatch key → operator → kernel."""

SPARSE_GRADIENTS: Final[dict[str, Table]] = {"AutogradCPU": sparse_gradients.TABLE, "AutogradCUDA": GRADIENTS_ON_GPU}
"""What `sparse_gradients=True` adds."""

PREFIXES: Final = {
    "SparseCsrCPU": "", "SparseCPU": "coo::", "AutogradCPU": "autograd::",
    "SparseCsrCUDA": "cuda::", "AutogradCUDA": "cuda::autograd::",
}  # fmt: skip
"""Names of PyTorch's own kernels in `fallback.originals`, by dispatch key."""

_lock = forking.rlock()
_libraries: list[tuple[Any, frozenset[str]]] = []  # (torch.library.Library or None, its kernels), innermost last


def install(*, sparse_gradients: bool = False) -> None:
    """From now on products with torch.sparse CSR and CSC tensors, on the CPU or a GPU, are computed by autosparse.

    `sparse_gradients`: the gradient of a CSR tensor in ``A @ B`` is a CSR tensor with A's entries, where PyTorch makes
    a dense n × m one; every dense product of the process then costs 4 µs more. Calls nest: each needs an `uninstall`.

    >>> asp.torch.install()
    >>> torch.eye(2).to_sparse_csr() @ torch.ones(2, 1)  # existing code, unchanged
    tensor([[1.],
            [1.]])
    >>> asp.torch.uninstall()
    """
    if not hasattr(torch.library, "get_kernel"):
        raise MissingExtraError.needed("torch>=2.9", extra="torch", purpose="autosparse.torch.install")
    with _lock:
        _libraries.append(_register(sparse_gradients))


def uninstall() -> None:
    """Undo the last `install`; nothing happens where there is none.

    >>> asp.torch.uninstall()
    >>> asp.torch.installed()
    False
    """
    with _lock:
        if _libraries:
            library, _ = _libraries.pop()
            if library is not None:
                library._destroy()


def installed() -> bool:
    """Whether PyTorch's sparse products go through autosparse.

    >>> asp.torch.installed()
    False
    """
    return any(library is not None for library, _ in _libraries)


@contextmanager
def override(*, sparse_gradients: bool = False) -> Iterator[None]:
    """`install` for the length of a ``with`` block (entering costs about a millisecond: a switch, not a wrapper).

    >>> with asp.torch.override():
    ...     asp.torch.installed()
    True
    """
    install(sparse_gradients=sparse_gradients)
    try:
        yield
    finally:
        uninstall()


def _register(sparse_gradients: bool) -> tuple[Any, frozenset[str]]:
    """A new library and its kernels' names; None when there is nothing to register (a nested call, no runtime)."""
    if not runtime_api.available:
        warn_once(FallbackWarning, "torch", "autosparse has no C runtime: PyTorch computes every product on the CPU")
    tables = _tables(sparse_gradients)
    if not tables:
        return None, frozenset()
    ours = frozenset[str]().union(*(names for _, names in _libraries))
    library = torch.library.Library("aten", "IMPL")
    for key, table in tables.items():
        for operator, kernel in table.items():
            name = PREFIXES[key] + operator
            if name not in ours:  # anew each time: another library may have put its own in place, or taken it away
                _keep_original(name, operator, key)
            with warnings.catch_warnings():  # PyTorch warns of each kernel that is replaced: that is what was asked for
                warnings.simplefilter("ignore", UserWarning)
                library.impl(operator, run_as_is(kernel), key, with_keyset=True)
    return library, frozenset(PREFIXES[key] + operator for key, table in tables.items() for operator in table)


def _tables(sparse_gradients: bool) -> dict[str, Table]:
    """What this PyTorch and this installation can have registered."""
    wanted = ({} if installed() else dict(TABLES)) | (SPARSE_GRADIENTS if sparse_gradients else {})
    has = {"CPU": runtime_api.available, "CUDA": torch.backends.cuda.is_built()}
    return {key: table for key, table in wanted.items() if any(key.endswith(end) for end in has if has[end])}


def _keep_original(name: str, operator: str, key: str) -> None:
    """Keep PyTorch's kernel; nothing where it has none for this key, as of reductions on a GPU."""
    try:
        fallback.originals[name] = torch.library.get_kernel(f"aten::{operator}", key)
    except RuntimeError:
        fallback.originals.pop(name, None)
