"""Threads for products on torch tensors: those of PyTorch's OpenMP, which compute the dense operators around them.

They stay awake after each operator. A second set of threads would wait for the cores that they keep.
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
"""Flag of a process (PF_FORKNOEXEC of Linux) that is a copy of another one: a fork that started no program."""

_FUNCTIONS: Final = ("GOMP_parallel", "omp_get_thread_num")
"""Functions of the OpenMP library, in the order of `asp_pool_team`."""


def share() -> None:
    """Let kernels run on PyTorch's threads from now on, where its OpenMP library has the functions for it.

    In the child of a fork they run on threads of autosparse. The OpenMP library may have been used before the fork; its
    threads did not survive, and the library would wait for them without end.
    """
    if runtime_api.available and not _has_lost_threads():
        runtime_api.lib.asp_pool_team(*_addresses())


def separate() -> None:
    """Let kernels run on threads of autosparse's own again."""
    if runtime_api.available:
        runtime_api.lib.asp_pool_team(0, 0)


def _has_lost_threads() -> bool:
    """Return whether threads of the OpenMP library may have been lost in a fork.

    A process that started a program of its own has lost none. The child of a fork has lost none where its parent has a
    single thread.
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
    """Return whether a process is a fork that started no program, and its number of threads (0: not known)."""
    try:
        fields = Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return bool(int(fields[6]) & _FORKED_WITHOUT_EXEC), int(fields[17])
    except (OSError, ValueError, IndexError):
        return True, 0


def _addresses() -> tuple[int, int]:
    """Addresses in the library that PyTorch has loaded; zeros where it was built without OpenMP, or is elsewhere."""
    try:
        core = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))  # with what it depends on
        parallel, number = (ctypes.cast(getattr(core, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)
    except (OSError, AttributeError):
        return 0, 0
    return parallel, number
