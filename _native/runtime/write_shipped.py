"""Write the C sources of the shipped kernels into a folder: `python -I -S write_shipped.py FOLDER`.

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


def write(folder: Path) -> None:
    """Write all sources into `folder`."""
    package, native = _folder_of_package()
    _package("autosparse", package)
    _package("autosparse._native", native)
    from autosparse._native.kernels.shipped_sources import sources

    folder.mkdir(parents=True, exist_ok=True)
    texts = sources()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            staged = path.with_name(f"{name}.{os.getpid()}")
            staged.write_text(text, encoding="utf-8")
            staged.replace(path)
    for path in folder.glob("shipped_*.[ch]"):
        if path.name not in texts:
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    write(Path(sys.argv[1]))
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]} - {""}
    sys.stdout.write("\n".join(sorted(str(Path(name).resolve()) for name in files)))
