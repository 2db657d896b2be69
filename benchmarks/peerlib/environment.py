"""Environment of a fair comparison: one OpenMP runtime, one thread count, a private plan cache.

MKL with ``MKL_THREADING_LAYER=GNU``, torch, numba's ``omp`` layer and autosparse's kernels then share one libgomp,
whose workers spin between regions. Two runtimes would spin against each other (alternating calls take 7.2 ms instead of
6.3 ms). These variables are read when a library is loaded, so the script restarts itself with them set.
"""

from __future__ import annotations

import ctypes.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

STARTED: Final = "AUTOSPARSE_BENCH_STARTED"
MATRICES: Final = "AUTOSPARSE_MATRICES"
MATRICES_BESIDE: Final = Path(__file__).resolve().parents[2].parent / "shared" / "matrices"
"""Folder of real matrices that is used if neither an option nor AUTOSPARSE_MATRICES names one."""


def matrices_folder() -> Path | None:
    """Return the folder of real matrices, or None.

    It is AUTOSPARSE_MATRICES if set, else ``../shared/matrices`` beside the checkout.
    """
    named = os.environ.get(MATRICES)
    folder = Path(named) if named else MATRICES_BESIDE
    return folder if folder.is_dir() else None


def _wanted(threads: int) -> dict[str, str]:
    wanted = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "NUMBA_NUM_THREADS": str(threads),
        "MKL_THREADING_LAYER": "GNU",
        "NUMBA_THREADING_LAYER": "omp",
        STARTED: str(os.getpid()),
    }
    libgomp = ctypes.util.find_library("gomp")
    if libgomp:
        wanted["LD_PRELOAD"] = " ".join(filter(None, (libgomp, os.environ.get("LD_PRELOAD"))))
    return wanted


def start_again(threads: int, *, arguments: Sequence[str] = ()) -> None:
    """Replace this process by itself with the variables of `_wanted`; return at once in the restarted process.

    exec keeps the process id, so a stale variable inherited from another benchmark has no effect.
    """
    if os.environ.get(STARTED) != str(os.getpid()):
        os.execve(
            sys.executable, [sys.executable, *(arguments or sys.orig_argv[1:])], {**os.environ, **_wanted(threads)}
        )


def child_environment(**extra: str) -> dict[str, str]:
    """Return the environment of a measuring child process: the user's without autosparse's settings, plus `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOSPARSE_")}
    return {**kept, **extra}


def openmp_runtimes() -> list[str]:
    """Return the OpenMP runtimes mapped into this process; with more than one, the peers disturb each other."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    names = sorted(Path(path).name for path in paths)
    return [name for name in names if name.startswith(("libgomp", "libiomp", "libomp"))]
