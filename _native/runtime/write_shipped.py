"""Write generated C sources into a folder: `python -I -S write_shipped.py FOLDER`.

They are the shipped kernels, and a source `<name>_isa<level>.c` for each header `<name>_isa.h` of the runtime and each
instruction set (`runtime/isa/isa.h`).

The build runs this script in a Python of its own, without site packages: the emitter needs the standard library alone,
also where autosparse is not installed yet. A file that would stay the same is not written; files that an
earlier version wrote are removed. The script prints the names of the modules that it read, one a line.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent.parent
LEVELS = range(3)
"""Levels of instruction sets; the source of a level that a family of processors does not have is empty."""
OF_A_LEVEL = """#include "common.h"

#if {level} == 0 || defined ASP_ISA_{level}
#define ASP_ISA_LEVEL {level}
#include "{header}"
#endif
"""


def _package(name: str, folder: Path) -> None:
    """Define the package `name` in `folder` without running its __init__.py."""
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = [str(folder)]
    parent, _, own = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], own, package)


def _folder_of_package() -> tuple[Path, Path]:
    """Return the folders of `autosparse` and `autosparse._native`: in a checkout, else in an installed copy."""
    native = ROOT / "_native"
    return (ROOT / "autosparse" if (ROOT / "autosparse").is_dir() else ROOT), native


def levels() -> dict[str, str]:
    """Return the source of each header `<name>_isa.h` beside the folder `isa`, for each level, by name."""
    runtime = Path(__file__).resolve().parent
    headers = sorted(path.name for path in runtime.rglob("*_isa.h") if path.parent.name != "isa")
    return {
        header.replace(".h", f"{level}.c"): OF_A_LEVEL.format(header=header, level=level)
        for header in headers
        for level in LEVELS
    }


def write(folder: Path) -> None:
    """Write all sources into `folder`."""
    package, native = _folder_of_package()
    _package("autosparse", package)
    _package("autosparse._native", native)
    from autosparse._native.kernels.shipped_sources import sources

    folder.mkdir(parents=True, exist_ok=True)
    texts = sources() | levels()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            staged = path.with_name(f"{name}.{os.getpid()}")
            staged.write_text(text, encoding="utf-8")
            staged.replace(path)
    for path in folder.glob("*_*.[ch]"):
        if path.name not in texts:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    write(Path(sys.argv[1]))
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]} - {""}
    sys.stdout.write("\n".join(sorted(str(Path(name).resolve()) for name in files)))
