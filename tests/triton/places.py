"""Where laws of GPU products are tried: Triton's interpreter, or a GPU, which then is torch's default device."""

from __future__ import annotations

import os
import sys
from typing import TypeVar

T = TypeVar("T")


def is_on_gpu() -> bool:
    """Whether the first argument is ``cuda``; torch then makes its tensors there."""
    import torch

    if sys.argv[1:2] != ["cuda"]:
        return False
    torch.set_default_device("cuda")
    return True


def of_share(cases: list[T]) -> list[T]:
    """Every n-th of `cases` from the k-th on, as the variable TEST_SHARE says by ``k/n``: processes share the work."""
    k, n = map(int, os.environ.get("TEST_SHARE", "0/1").split("/"))
    return cases[k::n]
