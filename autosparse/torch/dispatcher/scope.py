"""State of the override: active in the whole process, in this thread, or in the thread that called ``backward()``.

The C++ module of `extension` keeps the state where it is built, so that its kernels read it without Python.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import torch

from autosparse import forking
from autosparse.torch.dispatcher import extension

_KEY: Final = "autosparse.override"
"""Key of a thread's `OpenScopes` among the objects that PyTorch copies to the threads of its autograd engine."""

_has_inherited: Final = torch._C._is_key_in_tls  # type: ignore[attr-defined]
_inherited: Final = torch._C._get_obj_in_tls  # type: ignore[attr-defined]
_bequeath: Final = torch._C._stash_obj_in_tls  # type: ignore[attr-defined]


class OpenScopes:
    """Numbers of active `override` blocks: `products` counts all, `sparse_gradients` those with sparse gradients."""

    __slots__ = ("__weakref__", "before", "products", "sparse_gradients")

    def __init__(self) -> None:
        self.products = self.sparse_gradients = 0
        self.before: OpenScopes | None = None  # Blocks that this thread had inherited when it entered its first block

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenScopes, ()  # a copy has no open blocks


class _Local(threading.local):
    """Thread-local holder of the blocks that the thread itself has entered."""

    def __init__(self) -> None:
        self.blocks = OpenScopes()
        _all.add(self.blocks)


_all: weakref.WeakSet[OpenScopes] = weakref.WeakSet()
process: Final = OpenScopes()
"""Counts that hold for every thread, set by `install` and `enable`."""
local: Final = _Local()


def is_on() -> bool:
    """Return whether autosparse's kernels compute the products of this thread."""
    if (library := extension.library) is not None:
        return bool(library.is_on())
    if process.products or local.blocks.products:
        return True
    return bool(_has_inherited(_KEY) and _inherited(_KEY).products)


def has_sparse_gradients() -> bool:
    """Return whether gradients of CSR tensors in this thread are CSR tensors."""
    if (library := extension.library) is not None:
        return bool(library.has_sparse_gradients())
    if process.sparse_gradients or local.blocks.sparse_gradients:
        return True
    return bool(_has_inherited(_KEY) and _inherited(_KEY).sparse_gradients)


def enter(sparse_gradients: bool) -> None:
    """Enter a block in this thread."""
    if (library := extension.library) is not None:
        library.enter(sparse_gradients)
        return
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
    """Leave a block that this thread has entered with the same argument."""
    if (library := extension.library) is not None:
        library.leave(sparse_gradients)
        return
    blocks = local.blocks
    blocks.products -= 1
    if sparse_gradients:
        blocks.sparse_gradients -= 1
    if not blocks.products and blocks.before is not None:
        _bequeath(_KEY, blocks.before)
        blocks.before = None


@forking.in_child
def _keep_own_blocks() -> None:
    """Forget the blocks of threads that do not exist in the child of a fork."""
    _all.clear()
    _all.add(local.blocks)


def set_process(products: int, sparse_gradients: int) -> None:
    """Set the numbers of blocks that hold for every thread: all of them, and those with sparse gradients."""
    if (library := extension.library) is not None:
        library.set_process(products, sparse_gradients)
    else:
        process.products, process.sparse_gradients = products, sparse_gradients


def is_on_anywhere() -> bool:
    """Return whether the override is active in any thread of the process."""
    if (library := extension.library) is not None:
        return bool(library.is_on_anywhere())
    return bool(process.products) or any(blocks.products for blocks in list(_all))
