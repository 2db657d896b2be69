"""Kernels of torch's own for sparse tensors on a GPU, while the override stands in their place."""

from __future__ import annotations

from typing import Any

PREFIX = "cuda::"


def original(operator: str) -> Any | None:  # Any: torch.library's kernel, which has no type
    """Torch's kernel of ``aten::operator``; None where the dispatcher still leads to it."""
    import sys

    theirs = sys.modules.get("autosparse.torch.dispatcher.fallback")  # none without the override
    return None if theirs is None else theirs.originals.get(PREFIX + operator)
