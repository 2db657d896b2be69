"""Where laws of GPU products are tried: Triton's interpreter, or a GPU, which then is torch's default device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def is_on_gpu() -> bool:
    """Whether the first argument is ``cuda``; torch then makes its tensors there."""
    import torch

    if sys.argv[1:2] != ["cuda"]:
        return False
    torch.set_default_device("cuda")
    return True


@contextmanager
def everywhere(**options: Any) -> Iterator[None]:
    """Options for all threads: torch goes backward in one of its own on a GPU."""
    import autosparse as asp
    from autosparse import config

    kept = dict(config._overrides)
    asp.set_options(**options)
    try:
        yield
    finally:
        config.reload_options()
        asp.set_options(**kept)


def of_share(cases: list[T]) -> list[T]:
    """Every n-th of `cases` from the k-th on, as the variable TEST_SHARE says by ``k/n``: processes share the work."""
    k, n = map(int, os.environ.get("TEST_SHARE", "0/1").split("/"))
    return cases[k::n]
