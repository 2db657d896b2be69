"""Stamps: digests whose equality implies equal plan keys, without computing the keys.

The key of a plan contains digests of source files and a signature of the search space, whose computation imports the
search. A stamp is a digest of everything that these depend on, with sources represented by size and date as in
Python's compiled files. Equal stamps and an equal pattern imply an equal key.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosparse import _native, core, ops
from autosparse._native import runtime_api
from autosparse._version import __version__

if TYPE_CHECKING:
    from autosparse.cache.folder import Folder
    from autosparse.config import Options
    from autosparse.core.problem import Problem

VERSION: Final = 1
"""Version of the notes about plans in accounts; increase it if their meaning changes."""
_NATIVE: Final = ("c", "c/include", "ir", "storage", "kernels")
"""Folders below `_native` whose sources determine the code of a schedule."""


def stamp_of(problem: Problem, options: Options) -> bytes | None:
    """Return the 16-byte stamp of a problem's plan key, pattern excluded; None if kernels are not compiled from C."""
    from autosparse._native.c import build as c_build  # `kernel_notes` needs `sources` only

    compiler = c_build.compiler_id(options.compiler)
    if options.compiler == "numba" or compiler == "none" or options.dump_dir is not None:
        return None
    # The runtime recorded at its build: digest of sources and flags, and the compiler's version.
    runtime = runtime_api.ffi.string(runtime_api.lib.asp_identity()) if runtime_api.available else b""
    facts = (
        VERSION, __version__, problem.operation, problem.mode, problem.transposed, problem.dtype,
        problem.pattern.index_dtype, problem.threads, problem.deterministic, problem.storage, problem.target.key(),
        options.hybrid, options.vendor, compiler, runtime, sources(),
    )  # fmt: skip
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).digest()


def has_registered_solvers() -> bool:
    """Return whether this process has registered solvers, whose registry it has then imported."""
    return bool(getattr(sys.modules.get("autosparse.ops.registry"), "REGISTERED", None))


@functools.cache
def sources() -> str:
    """Return a digest of names, sizes and dates of the sources that plan keys depend on; 0.3 ms, once per process."""
    native = Path(_native.__path__[0])
    folders = [*(native / name for name in _NATIVE), native.parent / "tuner" / "space"]
    folders += [Path(package.__path__[0]) for package in (core, ops)]
    facts = []
    for folder in folders:
        with os.scandir(folder) as entries:
            for one in entries:
                if one.name.endswith((".py", ".h")):
                    known = one.stat()
                    facts.append((folder.name, one.name, known.st_size, known.st_mtime_ns))
    return hashlib.blake2b(repr(sorted(facts)).encode(), digest_size=16).hexdigest()


def compiled(folder: Folder, key: str, plan_key: Mapping[str, Any], isa: str) -> Path | None:
    """Return the shared object of the kernel `key` that an earlier process compiled; None if there is none."""
    from autosparse._native.c import build as c_build
    from autosparse.cache import artefacts

    flags = " ".join((*c_build.FLAGS, *c_build.ISA_FLAGS[isa]))
    facts = [key, str(plan_key["emitter"]), str(plan_key["compiler"]), flags, ""]
    name = hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()
    place = artefacts.find(folder, name)
    return None if place is None else place / "kernel.so"
