"""Build script of the C++ module for PyTorch.

``python -m autosparse._native.torch_extension.build_extension`` builds the module beside its sources, for the PyTorch
of this environment. `setup.py` and ``make dev`` do the same where they find PyTorch. `AUTOSPARSE_TORCH` names other
folders of PyTorch (``site-packages/torch``, separated by colons), so that a wheel can hold modules for several
versions. Only headers and libraries are needed: PyTorch is not imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os  # also run at build time, when nothing of autosparse can be imported
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SOURCE = "module.cpp"
FLAGS = ("-std=c++17", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-w", "-s")
LIBRARIES = ("-ltorch_cpu", "-lc10")
OLDEST = (2, 9)  # first version whose dispatcher hands out the kernels that a registration replaces
COMPILE_LIMIT_S = 900  # half a minute of processor time, on machines that do other things as well


class UnbuiltError(Exception):
    """Error for a module that cannot be built: no compiler, PyTorch too old, or a failing compilation."""


def torch_folders() -> list[Path]:
    """Return the folders of PyTorch to build for: those of `AUTOSPARSE_TORCH`, else that of this environment."""
    named = os.environ.get("AUTOSPARSE_TORCH")
    if named is not None:
        return [Path(one) for one in named.split(os.pathsep) if one]
    found = importlib.util.find_spec("torch")
    return [Path(found.origin).parent] if found is not None and found.origin else []


def torch_version(torch: Path) -> str:
    """Return the version of the PyTorch in a folder, without its local part. Raises UnbuiltError."""
    try:
        found = re.search(r"__version__ = '(\d+\.\d+\.\d+)", (torch / "version.py").read_text(encoding="utf-8"))
    except OSError as error:
        raise UnbuiltError(f"there is no PyTorch in {torch}: {error}") from error
    if found is None:
        raise UnbuiltError(f"the version of the PyTorch in {torch} cannot be read")
    return found.group(1)


def file_name(version: str) -> str:
    """Return the file name of the module for a version of PyTorch; it changes with the sources."""
    digest = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=6)
    for source in sorted([*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")]):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return f"torch-{version}-{digest.hexdigest()}.so"


def build_into(folder: Path, torch: Path) -> Path:
    """Build the module for a folder of PyTorch unless it is built already; return its file. Raises UnbuiltError."""
    version = torch_version(torch)
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise UnbuiltError(f"PyTorch {version} is older than {'.'.join(map(str, OLDEST))}")
    target = folder / file_name(version)
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            _compile(torch, Path(work) / "module.so")
            (Path(work) / "module.so").replace(target)
    for old in folder.glob(f"torch-{version}-*.so"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def _compile(torch: Path, target: Path) -> None:
    command = [
        *_compiler(), *FLAGS, "-isystem", str(torch / "include"), str(FOLDER / SOURCE), "-o", str(target),
        f"-L{torch / 'lib'}", *LIBRARIES,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=COMPILE_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnbuiltError(f"the C++ compiler failed: {error}") from error
    if done.returncode:
        raise UnbuiltError("the C++ compiler failed: " + "\n".join(done.stderr.splitlines()[-5:]))


def _compiler() -> list[str]:
    """Return the command of a C++ compiler. Raises UnbuiltError."""
    for named in (os.environ.get("CXX"), "c++", "g++", "clang++", sysconfig.get_config_var("CXX")):
        command = shlex.split(named or "")
        if command and shutil.which(command[0]):
            return command
    raise UnbuiltError("there is no C++ compiler (Hint: install g++, or set CXX)")


def main() -> int:
    """Build the module for each folder of PyTorch; return the exit status."""
    torches = torch_folders()
    if not torches:
        sys.stderr.write("autosparse: PyTorch is not installed\n  Hint: pip install 'autosparse[torch]'\n")
        return 1
    for torch in torches:
        try:
            print(build_into(FOLDER, torch))  # noqa: T201  a command
        except UnbuiltError as error:
            sys.stderr.write(f"autosparse: no module for PyTorch: {error}\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
