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
from autosparse.torch.dispatcher import extension

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
    try:
        is_fork, _ = _process("self")
        if not is_fork:
            return False
        parent = os.getppid()
        if Path(f"/proc/{parent}/exe").readlink() != Path("/proc/self/exe").readlink():
            return True
        is_parent_fork, n_threads = _process(parent)
    except (OSError, ValueError, IndexError):
        return Path("/proc/self/stat").exists() or multiprocessing.parent_process() is not None
    return is_parent_fork or n_threads != 1


def _process(name: int | str) -> tuple[bool, int]:
    """Return whether process `name` ("self" or an id) is a fork without exec, and its thread count (0: unknown)."""
    file = os.open(f"/proc/{name}/stat", os.O_RDONLY)  # a tenth of the time of Path.read_text
    try:
        fields = os.read(file, 1 << 12).rpartition(b")")[2].split()
    finally:
        os.close(file)
    return bool(int(fields[6]) & _FORKED_WITHOUT_EXEC), int(fields[17])


def _addresses() -> tuple[int, int]:
    """Return the addresses of the two OpenMP `_FUNCTIONS` in the library that PyTorch has loaded, or (0, 0)."""
    try:
        if extension.library is not None:
            core = extension.library.loaded
        else:
            core = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        # names are looked up in the library's dependencies, too
        parallel, number = (ctypes.cast(getattr(core, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS)
    except (OSError, AttributeError):
        return 0, 0
    return parallel, number
