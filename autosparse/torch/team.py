"""Threads for products on torch tensors: those of PyTorch's OpenMP, which compute the dense operators around them.

They stay awake after each operator. A second set of threads would wait for the cores that they keep.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

import torch

from autosparse._native import runtime_api

_FUNCTIONS: Final = ("GOMP_parallel", "omp_get_thread_num")
"""Functions of the OpenMP library, in the order of `asp_pool_team`."""


def share() -> None:
    """Let kernels run on PyTorch's threads from now on, where its OpenMP library has the functions for it."""
    if runtime_api.available:
        runtime_api.lib.asp_pool_team(*_addresses())


def separate() -> None:
    """Let kernels run on threads of autosparse's own again."""
    if runtime_api.available:
        runtime_api.lib.asp_pool_team(0, 0)


def _addresses() -> tuple[int, int]:
    """Addresses in the library that PyTorch has loaded; zeros where it was built without OpenMP, or is elsewhere."""
    try:
        core = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))  # with what it depends on
        parallel, number = (ctypes.cast(getattr(core, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)
    except (OSError, AttributeError):
        return 0, 0
    return parallel, number
