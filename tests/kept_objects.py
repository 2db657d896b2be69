"""A compiler for the tests that keeps the kernels it made: a kernel that several tests need is compiled once.

A script `cc` on the search path runs the first compiler of `autosparse._native.c.build.COMPILERS` that is there. It
keeps each shared object under a digest of the command and of the source, and copies an object that is there already.
Processes that the tests start inherit the path. All other commands, and compilers that a test names, are unchanged.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

FOLDER: Final = "KEPT_OBJECTS"
"""Environment variable with the folder of kept objects; another run that is given the same folder uses them too."""
NAME: Final = "cc"
SCRIPT: Final = """#!/bin/sh
real='{real}' kept='{kept}' source= target= previous= command= library= other=
for word; do
    case $previous in -o) target=$word word= ;; esac
    previous=$word
    case $word in
        *.c) source=$source$word word= ;;
        -shared) library=1 ;;
        -fsyntax-only | -E | -S | -c) other=1 ;;
    esac
    command="$command $word"
done
if [ -z "$library" ] || [ -n "$other" ] || [ ! -f "$source" ] || [ -z "$target" ]; then exec "$real" "$@"; fi
key=$({{ echo "$command"; cat "$source"; }} | sha256sum)
object=$kept/${{key%% *}}
if [ ! -e "$object" ]; then
    "$real" "$@" || exit
    cp "$target" "$object.$$" && mv "$object.$$" "$object"
else
    cp "$object" "$target"
fi
"""


def begin(folder: Path) -> None:
    """Put the script first on the search path of this process, unless a parent process did."""
    folder = Path(os.environ.setdefault(FOLDER, str(folder)))
    programs = folder / "bin"
    real = shutil.which(NAME)
    is_begun = real is not None and Path(real).parent == programs
    if real is None or is_begun or not all(map(shutil.which, ("sh", "sha256sum", "cat", "cp", "mv"))):
        return
    programs.mkdir(parents=True, exist_ok=True)
    draft = programs / f"{NAME}.{os.getpid()}"
    draft.write_text(SCRIPT.format(real=real, kept=folder), encoding="utf-8")
    draft.chmod(0o755)
    draft.rename(programs / NAME)
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
