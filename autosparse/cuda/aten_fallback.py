"""Access to torch's own kernels for sparse tensors on a GPU while the override replaces them."""

# mypy: allow-untyped-calls
from __future__ import annotations

from typing import Any, Final

import torch

PREFIX = "cuda::"
"""Prefix of the GPU kernels' names in `fallback.aten_fallbacks`."""
_zeros: Final[dict[tuple[torch.dtype, torch.device], torch.Tensor]] = {}


def zero(like: torch.Tensor) -> torch.Tensor:
    """Return a zero of the dtype and on the device of `like`; it is cached, since making it is a kernel launch.

    A zero made during a graph capture is not cached, because it has no value yet; neither is a tensor subclass.
    """
    found = _zeros.get((like.dtype, like.device))
    if found is None:
        found = like.new_zeros(())
        if type(found) is torch.Tensor and not (like.is_cuda and torch.cuda.is_current_stream_capturing()):
            _zeros[like.dtype, like.device] = found
    return found


def aten_fallback(operator: str) -> Any | None:  # Any: torch.library's kernel, which has no type
    """Return torch's kernel of ``aten::operator``, or None where the override has not replaced it."""
    import sys

    fallback = sys.modules.get("autosparse.torch.dispatcher.fallback")  # not imported without the override
    return None if fallback is None else fallback.aten_fallbacks.find(PREFIX + operator)
