"""Identity of the code generator: implementation, compiler, and digests of the sources that determine kernels' speed.

The identity is part of plan keys. This module imports no emitter and no compiler driver.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.c import build as c_build

from autosparse import ops, scalar
from autosparse._version import __version__
from autosparse.core.values import dataclass

_LOWERING: Final = ("ir/*.py", "storage/slices.py")
EMITTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "c": ("c/*.py", "c/include/*.h", *_LOWERING),
    "numba": ("numba/*.py", *_LOWERING, "c/parallel.py", "c/types.py"),
    "triton": ("triton/*.py",),
}
"""Patterns of the modules that turn a spec into source code, by implementation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Identity of the code generator and the runtime of a search."""

    implementation: str  # of generated kernels: a key of EMITTERS; "none" without a generator
    compiler: str  # compiler program or packages, with size and date or versions
    emitter: str  # digest of the emitting sources
    runtime: str  # digest of the sources of the precompiled kernels, and their compiler


def has_numba() -> bool:
    """Return whether numba is installed, without importing it."""
    return importlib.util.find_spec("numba") is not None


def backend_name(compiler: str | None) -> str:
    """Return the backend for the setting `compiler`: numba if it is named or the only one available, else C."""
    if compiler == "numba":
        return "numba"
    if compiler is None and c_build.compiler_id() == "none" and has_numba():
        return "numba"
    return "c"


@functools.cache
def numba_versions() -> str:
    """Return the versions of numba and llvmlite, or "none" without numba."""
    if not has_numba():
        return "none"
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite"))


@functools.cache
def code_digest(implementation: str) -> str:
    """Return the digest of the modules that turn a spec into source code, by which kernels of other versions are not
    reused.

    The sources are read once per process, in half a millisecond, because they may have changed since installation. An
    installation of bytecode without sources has the library's version in their place.
    """
    if not Path(__file__).with_suffix(".py").exists():
        return __version__
    folder = Path(__file__).parent.parent
    digest = hashlib.blake2b(digest_size=8)
    emitters = sorted(one for pattern in EMITTERS[implementation] for one in _matching(folder, pattern))
    folders = [Path(package.__path__[0]) for package in (ops, scalar)]
    for source in (*emitters, *(one for place in folders for one in sorted(_matching(place, "*.py")))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _matching(folder: Path, pattern: str) -> list[Path]:
    """Return the files of `Path.glob`, whose regular expressions take 4 ms of a process, for PATH/*SUFFIX or a path."""
    place, _, name = pattern.rpartition("/")
    if not name.startswith("*"):
        return [folder / pattern]
    names = os.listdir(folder / place)  # noqa: PTH208  # a Path each takes ten times as long
    return [folder / place / one for one in names if one.endswith(name[1:])]


def runtime_digest() -> str:
    """Return the digest of the runtime's sources and flags and its compiler's version, recorded at build time; else
    "none".
    """
    if not runtime_api.available:
        return "none"
    noted: bytes = runtime_api.ffi.string(runtime_api.lib.asp_identity())
    return noted.decode()


def toolchain_of(compiler: str | None) -> Toolchain:
    """Return the identity under the setting `compiler`. Takes microseconds, except for the first call in a process."""
    name = backend_name(compiler)
    identity = numba_versions() if name == "numba" else c_build.compiler_id(compiler)
    is_there = identity != "none"
    return Toolchain(
        implementation=name if is_there else "none",
        compiler=identity,
        emitter=code_digest(name) if is_there else "none",
        runtime=runtime_digest(),
    )
