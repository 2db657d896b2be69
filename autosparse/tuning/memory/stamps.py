"""Stamps: under which conditions the key of a plan is known to be the same without computing it.

The key of a plan holds digests of source files and a signature of the space that was searched; computing them imports
what searches. A stamp is a digest of what these depend on, the sources by size and date as Python's own compiled files
are. Equal stamps, and an equal pattern, mean an equal key.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path
from typing import Final

from autosparse import _native, core, ops
from autosparse._native import runtime_api
from autosparse._native.c import build as c_build
from autosparse._version import __version__
from autosparse.config import Options
from autosparse.core.problem import Problem

VERSION: Final = 1
"""Raise when the meaning of the notes that plans leave in accounts changes."""
_NATIVE: Final = ("c", "c/include", "ir", "storage", "kernels")
"""Folders below `_native` whose sources decide what a schedule is compiled to."""


def stamp_of(problem: Problem, options: Options) -> bytes | None:
    """Return the stamp of a problem's plan key but for the pattern, 16 bytes; None where kernels are not made by C."""
    compiler = c_build.compiler_id(options.compiler)
    if options.compiler == "numba" or compiler == "none" or options.dump_dir is not None:
        return None
    facts = (
        VERSION, __version__, problem.operation, problem.mode, problem.transposed, problem.dtype,
        problem.pattern.index_dtype, problem.threads, problem.deterministic, problem.storage, problem.target.key(),
        options.hybrid, compiler, _runtime_digest(), _sources(),
    )  # fmt: skip
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).digest()


def _runtime_digest() -> bytes:
    """Return what the runtime noted when it was built: digest of its sources and flags, and the compiler's version."""
    noted: bytes = runtime_api.ffi.string(runtime_api.lib.asp_identity()) if runtime_api.available else b""
    return noted


@functools.cache
def _sources() -> str:
    """Return a digest of names, sizes and dates of the sources that a plan key depends on: 0.3 ms, once per process."""
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
