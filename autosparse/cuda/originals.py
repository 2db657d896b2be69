"""Kernels of torch's own for sparse tensors on a GPU, while the override stands in their place."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PREFIX = "cuda::"


def zero(like: torch.Tensor) -> torch.Tensor:
    """A number of the dtype and on the device of `like` for sums that take none: made once, since it costs a launch."""
    return _zero(like.dtype, like.device)


@functools.cache
def _zero(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    import torch

    return torch.zeros((), dtype=dtype, device=device)


def original(operator: str) -> Any | None:  # Any: torch.library's kernel, which has no type
    """Torch's kernel of ``aten::operator``; None where the dispatcher still leads to it."""
    import sys

    theirs = sys.modules.get("autosparse.torch.dispatcher.fallback")  # none without the override
    return None if theirs is None else theirs.originals.get(PREFIX + operator)
