"""Build of the C runtime; everything else is declared in pyproject.toml.

A machine without a working C compiler still gets an installed autosparse: SciPy then computes every product and
`python -m autosparse doctor` says that the runtime is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

HERE = Path(__file__).parent
RUNTIME = "_native/runtime/build_runtime.py"


class OptionalBuildExt(build_ext):
    """build_ext for which a failing compiler is a warning."""

    def build_extension(self, ext: Any) -> None:
        ext.optional = True  # setuptools then does not miss the file afterwards
        ext.depends = [*(ext.depends or []), *map(str, sorted((HERE / RUNTIME).parent.glob("*.[ch]")))]
        try:
            super().build_extension(ext)
        except (BaseError, CCompilerError, OSError) as error:
            sys.stderr.write(f"autosparse: no C runtime, SciPy will serve every product: {error}\n")


setup(
    cffi_modules=[f"{RUNTIME}:ffibuilder"] if (HERE / RUNTIME).exists() else [],
    cmdclass={"build_ext": OptionalBuildExt},
)
