"""Facts about the machine and the software, recorded with every result."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from autosparse.core.target import Target
from peerlib.environment import openmp_runtimes

OTHERS: Final = ("torch", "numba", "mkl", "suitesparse-graphblas", "sparse", "dgl", "pyamg")
PACKAGES: Final = ("autosparse", "numpy", "scipy", *OTHERS)


def versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of those `packages` that are installed."""
    found = ((name, next(iter(importlib.metadata.distributions(name=name)), None)) for name in packages)
    return {name: distribution.version for name, distribution in found if distribution is not None}


def _first_line(*command: str, cwd: Path | None = None) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, cwd=cwd)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.split("\n", 1)[0]


def commit(*, but: Path | None = None) -> str | None:
    """Return the commit of the benchmarks' checkout, with "+" if tracked files differ; None outside git.

    Differences in the folder `but` are ignored.
    """
    here = Path(__file__).resolve().parent
    head = _first_line("git", "rev-parse", "--short=12", "HEAD", cwd=here)
    rest = ["--", ":/", f":(exclude,top){but.relative_to(here.parent.parent)}"] if but is not None else []
    changed = _first_line("git", "status", "--porcelain", "--untracked-files=no", *rest, cwd=here)
    return f"{head}+" if head and changed else head


def machine_facts() -> dict[str, Any]:
    """Return CPU, caches, memory, compiler, versions, OpenMP runtimes and the load before the benchmark."""
    target = Target.host()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "target": asdict(target),
        "target_key": target.key(),
        "memory_bytes": pages,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "compiler": _first_line("cc", "--version"),
        "versions": versions(),
        "commit": commit(),
        "openmp_runtimes": openmp_runtimes(),
        "load_average": list(os.getloadavg()),
        "transparent_huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
    }


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return None
