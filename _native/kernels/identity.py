"""Who makes kernels: the implementation, its compiler, and digests of the sources that decide how fast they are.

What a plan key says about the makers of the kernels that raced. Light: nothing that emits or compiles is imported.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.c import build as c_build

from autosparse import ops
from autosparse.core.values import dataclass

_LOWERING: Final = ("ir/*.py", "storage/slices.py")
EMITTERS: Final[Mapping[str, tuple[str, ...]]] = {
    "c": ("c/*.py", "c/include/*.h", *_LOWERING),
    "numba": ("numba/*.py", *_LOWERING, "c/parallel.py", "c/types.py"),
    "triton": ("triton/*.py",),
}
"""Implementation -> the modules that turn a spec into its source, as patterns of paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Who makes the kernels of a search."""

    implementation: str  # of generated kernels: a key of EMITTERS; "none": nothing generates any
    compiler: str  # the program or the packages that compile, with size and date or versions
    emitter: str  # digest of the sources that emit
    runtime: str  # digest of the sources of the precompiled kernels, and the compiler that built them


def has_numba() -> bool:
    """Whether numba is installed; it is not imported."""
    return importlib.util.find_spec("numba") is not None


def backend_name(compiler: str | None) -> str:
    """The backend that the setting `compiler` asks for: numba by its name, or where there is nothing else."""
    if compiler == "numba":
        return "numba"
    if compiler is None and c_build.compiler_id() == "none" and has_numba():
        return "numba"
    return "c"


@functools.cache
def numba_versions() -> str:
    """Versions of numba and LLVM; "none" without numba."""
    if not has_numba():
        return "none"
    return " ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numba", "llvmlite"))


@functools.cache
def code_digest(implementation: str) -> str:
    """Digest of the modules that turn a spec into source: kernels of another version of them are not reused.

    Read once per process, in half a millisecond: sources may have changed since they were installed.
    """
    folder = Path(__file__).parent.parent
    digest = hashlib.blake2b(digest_size=8)
    emitters = sorted(one for pattern in EMITTERS[implementation] for one in folder.glob(pattern))
    for source in (*emitters, *sorted(Path(ops.__file__).parent.glob("*.py"))):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def runtime_digest() -> str:
    """Digest of the runtime's sources and flags and the compiler's version, noted when it was built; else "none"."""
    if not runtime_api.available:
        return "none"
    noted: bytes = runtime_api.ffi.string(runtime_api.lib.asp_identity())
    return noted.decode()


def toolchain_of(compiler: str | None) -> Toolchain:
    """Who makes kernels under the setting `compiler`. Microseconds, but for the first time in a process."""
    name = backend_name(compiler)
    identity = numba_versions() if name == "numba" else c_build.compiler_id(compiler)
    is_there = identity != "none"
    return Toolchain(
        implementation=name if is_there else "none",
        compiler=identity,
        emitter=code_digest(name) if is_there else "none",
        runtime=runtime_digest(),
    )
