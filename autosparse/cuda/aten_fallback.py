"""Kernels of torch's own for sparse tensors on a GPU, while the override stands in their place."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any, Final

import torch

PREFIX = "cuda::"
_zeros: Final[dict[tuple[torch.dtype, torch.device], torch.Tensor]] = {}


def zero(like: torch.Tensor) -> torch.Tensor:
    """A number of the dtype and on the device of `like` for sums that take none: kept, since making it is a launch.

    Not kept is one that is made while a graph is captured, which is no number yet, and what only stands for a tensor.
    """
    found = _zeros.get((like.dtype, like.device))
    if found is None:
        found = like.new_zeros(())
        if type(found) is torch.Tensor and not (like.is_cuda and torch.cuda.is_current_stream_capturing()):
            _zeros[like.dtype, like.device] = found
    return found


def aten_fallback(operator: str) -> Any | None:  # Any: torch.library's kernel, which has no type
    """Torch's kernel of ``aten::operator``; None where the dispatcher still leads to it."""
    import sys

    aten_kernel = sys.modules.get("autosparse.torch.dispatcher.fallback")  # none without the override
    return None if aten_kernel is None else aten_kernel.aten_fallbacks.get(PREFIX + operator)
