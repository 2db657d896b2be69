"""Use of PyTorch's OpenMP threads for products on torch tensors.

These threads compute the dense operators around the products and stay awake after each operator. A second set of
threads would compete with them for the cores.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from pathlib import Path
from typing import Final

import torch

from autosparse._native import runtime_api

_FORKED_WITHOUT_EXEC: Final = 0x40
"""Process flag PF_FORKNOEXEC of Linux: the process is a fork that has started no other program."""

_FUNCTIONS: Final = ("GOMP_parallel", "omp_get_thread_num")
"""Functions of the OpenMP library that kernels need, in the order of the arguments of `asp_pool_team`."""


def share() -> None:
    """Run kernels on PyTorch's threads from now on, if its OpenMP library has the necessary functions.

    In the child of a fork, kernels run on autosparse's own threads. If OpenMP was used before the fork, its threads are
    missing in the child, and the library would block forever.
    """
    if runtime_api.available and not _has_lost_threads():
        runtime_api.lib.asp_pool_team(*_addresses())


def separate() -> None:
    """Run kernels on autosparse's own threads again."""
    if runtime_api.available:
        runtime_api.lib.asp_pool_team(0, 0)


def _has_lost_threads() -> bool:
    """Return whether threads of the OpenMP library may have been lost in a fork.

    No threads are lost in a process that was started by exec, nor in the fork of a parent with a single thread.
    """
    if not Path("/proc/self/stat").exists():
        return multiprocessing.parent_process() is not None
    is_fork, _ = _process("self")
    if not is_fork:
        return False
    parent = os.getppid()
    try:
        is_same = Path(f"/proc/{parent}/exe").readlink() == Path("/proc/self/exe").readlink()
    except OSError:
        return True
    is_parent_fork, n_threads = _process(str(parent))
    return not is_same or is_parent_fork or n_threads != 1


def _process(name: str) -> tuple[bool, int]:
    """Return whether process `name` ("self" or an id) is a fork without exec, and its thread count (0: unknown)."""
    try:
        fields = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return bool(int(fields[6]) & _FORKED_WITHOUT_EXEC), int(fields[17])
    except (OSError, ValueError, IndexError):
        return True, 0


def _addresses() -> tuple[int, int]:
    """Return the addresses of the two OpenMP `_FUNCTIONS` in the library that PyTorch has loaded, or (0, 0)."""
    try:
        core = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))  # and dependencies
        parallel, number = (ctypes.cast(getattr(core, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)
    except (OSError, AttributeError):
        return 0, 0
    return parallel, number
