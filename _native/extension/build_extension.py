"""Build script of the extension module `autosparse._native._extension`; setup.py and build_runtime.py call it.

The module is built for one version of Python and runs with NumPy 1.26 and later if it is built with NumPy 2. It calls
functions of the C runtime by their addresses. Both contain `headers_digest`, so that a module is refused that was built
from other declarations than the runtime.

By hand, also into another folder:  python _native/extension/build_extension.py [FOLDER]
"""

from __future__ import annotations

import hashlib
import os  # build time: nothing of autosparse can be imported yet
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
RUNTIME = FOLDER.parent / "runtime"
MODULE = "autosparse._native._extension"
BUILD = FOLDER.parent.parent / "build" / "extension"
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden", "-ffp-contract=off"]  # scalars round as Python's


def sources() -> list[Path]:
    """Return the module's C files, sorted by name, and the runtime's allocator."""
    return [*sorted(FOLDER.glob("*.c")), RUNTIME / "dense" / "output.c"]


EXPORTS = RUNTIME / "python" / "exports.h"


def _declarations() -> list[Path]:
    """Return the runtime's headers that the module includes, sorted by name."""
    names = re.findall(r'^#include "(\w+_api\.h)"', EXPORTS.read_text(encoding="utf-8"), re.MULTILINE)
    found = (path for path in RUNTIME.rglob("*_api.h") if path.name in names)
    return [EXPORTS, *sorted(found, key=lambda path: path.name)]


def depends() -> list[Path]:
    """Return the files that the C files include."""
    allocator = [
        RUNTIME / "dense" / "heap_thresholds.h",
        RUNTIME / "dense" / "huge_pages.h",
        RUNTIME / "dense" / "output.h",
        RUNTIME / "platform.h",
    ]
    return [*sorted(FOLDER.glob("*.h")), *_declarations(), *allocator]


def headers_digest() -> str:
    """Return 16 hex digits over the declarations that the module and the runtime share."""
    digest = hashlib.blake2b(digest_size=8)
    for header in _declarations():
        digest.update(header.name.encode() + b"\0" + header.read_bytes())
    return digest.hexdigest()


def unavailable() -> str:
    """Return why the module cannot be built for this interpreter, or "" if nothing is known to be missing."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "the extension module needs CPython with a GIL"
    try:
        import numpy as np
    except ImportError:
        return "the extension module needs NumPy when it is built"
    return "" if Path(np.get_include()).exists() else "this NumPy has no headers"


def include_dirs() -> list[str]:
    """Return the folders of the headers, but for Python's."""
    import numpy as np

    folders = {RUNTIME, *(header.parent for header in _declarations())}
    return [str(FOLDER), *sorted(map(str, folders)), np.get_include()]


def compile_flags() -> list[str]:
    """Return the flags for compiling, but for folders and optimisation."""
    return [*FLAGS, f'-DASP_HEADERS="{headers_digest()}"']


def _command() -> list[str]:
    """Return the command that compiles the module, but for its output."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    sanitizers = os.environ.get("AUTOSPARSE_SANITIZE", "")
    checked = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-g1"] if sanitizers else []
    shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    folders = [f"-I{folder}" for folder in (*include_dirs(), sysconfig.get_path("include"))]
    flags = ["-O1" if sanitizers else "-O2", "-DASP_HOOKS", *compile_flags(), *checked, "-fPIC", *folders, *shared]
    return [*compiler, *flags, *map(str, sources())]


def _state() -> str:
    """Return 16 hex digits over the command, the versions of Python and NumPy, and the files that are compiled."""
    import numpy as np

    digest = hashlib.blake2b(repr([_command(), sys.version, np.__version__]).encode(), digest_size=8)
    for path in (*sources(), *depends()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def build_into(destination: Path) -> Path:
    """Compile the module into a folder and return its path. The last build is kept in `build/extension`."""
    target = destination / f"_extension{sysconfig.get_config_var('EXT_SUFFIX')}"
    staged = target.with_suffix(f".{os.getpid()}.new")
    kept = BUILD / f"{_state()}.so"
    if not kept.exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        BUILD.mkdir(parents=True)
        made = kept.with_suffix(f".{os.getpid()}.new")
        subprocess.run([*_command(), "-o", str(made)], check=True)
        made.replace(kept)
    shutil.copyfile(kept, staged)
    staged.replace(target)  # a process that has mapped the old file keeps it
    return target


if __name__ == "__main__":
    if unavailable():
        sys.exit(unavailable())
    sys.stdout.write(f"{build_into(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER.parent)}\n")
