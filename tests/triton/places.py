"""Selection of the device for checks of GPU products: Triton's interpreter, or a GPU as torch's default device."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def is_on_gpu() -> bool:
    """Return whether the first argument is ``cuda``; if so, make torch create tensors there."""
    import torch

    if sys.argv[1:2] != ["cuda"]:
        return False
    torch.set_default_device("cuda")
    return True


@contextmanager
def everywhere(**options: Any) -> Iterator[None]:
    """Set options for all threads, because torch runs backward passes in a thread of its own on a GPU."""
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
    """Return every n-th case from the k-th on, for TEST_SHARE=``k/n``, with which processes share the work."""
    k, n = map(int, os.environ.get("TEST_SHARE", "0/1").split("/"))
    return cases[k::n]
