"""Compile the C runtime for other systems and processors with `ziglang`, as far as that needs no Python of theirs.

    python tools/cross_compile.py [TARGET ...]      # default: every target of TARGETS

All sources are compiled but those in `python/`, which need the headers of the target's own Python. A source that does
not compile fails the command. It shows that the code is portable, not that it computes the same: for aarch64,
`make test-arm` runs the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

RUNTIME: Final = Path(__file__).resolve().parent.parent / "_native" / "runtime"
TARGETS: Final = (
    "x86_64-linux-gnu", "aarch64-linux-gnu", "x86_64-linux-musl", "aarch64-linux-musl", "aarch64-macos",
    "x86_64-macos", "x86_64-windows-gnu", "aarch64-windows-gnu",
)  # fmt: skip
FLAGS: Final = (
    "-O1",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",
    "-fno-math-errno",
    "-fno-sanitize=all",
)


def sources(generated: Path) -> list[Path]:
    """Return the sources that need no headers of Python, with those in the folder `generated`."""
    found = [*RUNTIME.rglob("*.c"), *generated.glob("*.c")]
    return sorted(path for path in found if path.parent.name != "python")


def faults(target: str, generated: Path, folder: Path) -> list[str]:
    """Compile every source for `target` into `folder` and return the compiler's output for those that fail."""
    places = [f"-I{path}" for path in (RUNTIME, generated, *RUNTIME.iterdir()) if path.is_dir()]

    def compile_one(source: Path) -> str:
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *FLAGS, *places]
        command += ["-c", str(source), "-o", str(folder / f"{source.stem}.o")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else f"{source.name}: {done.stderr}"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(compile_one, sources(generated)) if text]


def main() -> int:
    """Compile for each target and print one line for it."""
    status = 0
    with tempfile.TemporaryDirectory() as name:
        generated = Path(name)
        subprocess.run([sys.executable, "-I", "-S", str(RUNTIME / "write_shipped.py"), name], check=True)
        n_sources = len(sources(generated))
        for target in sys.argv[1:] or TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                found = faults(target, generated, Path(folder))
            sys.stdout.write(f"{target}: {n_sources - len(found)} of {n_sources} sources compile\n")
            sys.stdout.writelines(found)
            status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
