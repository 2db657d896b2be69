"""Where the override is on: in the whole process, in this thread, or in the thread that called ``backward()``."""

# mypy: allow-untyped-calls
from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import torch

_KEY: Final = "autosparse.override"
"""Name of a thread's `OpenScopes` among the objects that PyTorch copies to the threads of its autograd engine."""

_has_inherited: Final = torch._C._is_key_in_tls  # type: ignore[attr-defined]
_inherited: Final = torch._C._get_obj_in_tls  # type: ignore[attr-defined]
_bequeath: Final = torch._C._stash_obj_in_tls  # type: ignore[attr-defined]


class OpenScopes:
    """Numbers of open requests for our products, and of those with sparse gradients."""

    __slots__ = ("__weakref__", "before", "products", "sparse_gradients")

    def __init__(self) -> None:
        self.products = self.sparse_gradients = 0
        self.before: OpenScopes | None = None  # what this thread had inherited when its first block was entered

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenScopes, ()  # a copy has no open blocks


class _Local(threading.local):
    """A thread's own blocks."""

    def __init__(self) -> None:
        self.blocks = OpenScopes()
        _all.add(self.blocks)


_all: weakref.WeakSet[OpenScopes] = weakref.WeakSet()
process: Final = OpenScopes()
"""What holds for every thread: `install` and `enable`."""
local: Final = _Local()


def is_on() -> bool:
    """Return whether our kernels compute the products of this thread."""
    if process.products or local.blocks.products:
        return True
    return bool(_has_inherited(_KEY) and _inherited(_KEY).products)


def has_sparse_gradients() -> bool:
    """Return whether gradients of CSR tensors in this thread are CSR tensors."""
    if process.sparse_gradients or local.blocks.sparse_gradients:
        return True
    return bool(_has_inherited(_KEY) and _inherited(_KEY).sparse_gradients)


def enter(sparse_gradients: bool) -> None:
    """Open a block in this thread."""
    blocks = local.blocks
    if not blocks.products:
        before = _inherited(_KEY) if _has_inherited(_KEY) else None
        if before is not blocks:
            blocks.before = before
            _bequeath(_KEY, blocks)
    blocks.products += 1
    if sparse_gradients:
        blocks.sparse_gradients += 1


def leave(sparse_gradients: bool) -> None:
    """Close a block that was opened in this thread with the same argument."""
    blocks = local.blocks
    blocks.products -= 1
    if sparse_gradients:
        blocks.sparse_gradients -= 1
    if not blocks.products and blocks.before is not None:
        _bequeath(_KEY, blocks.before)
        blocks.before = None


def is_on_anywhere() -> bool:
    """Return whether any thread of the process needs our kernels."""
    return bool(process.products) or any(blocks.products for blocks in list(_all))
