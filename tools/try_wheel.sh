#!/bin/sh
# try_wheel.sh PYTHON WHEEL FOLDER: install WHEEL into a new environment in FOLDER and run the product tests there. The
# search path has no compiler and the working folder has no sources. PROCESSES (default 2) tests run at a time.
set -eu
python=$1
wheel=$(realpath "$2")
folder=$3
here=$(cd "$(dirname "$0")" && pwd)

rm -rf "$folder"
mkdir -p "$folder"
folder=$(realpath "$folder")
sh "$here/make_venv.sh" "$python" "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
    "$wheel" pytest pytest-xdist hypothesis threadpoolctl xxhash
cp -r "$here/../tests" "$here/../pyproject.toml" "$folder"
cd "$folder"
without() { env -i HOME="$folder" LANG=C.UTF-8 PATH="$folder/venv/bin" AUTOSPARSE_CACHE_DIR="$folder/cache" "$@"; }

without "$folder/venv/bin/python" - <<'END'
"""Check that the wheel contains its runtime and that no compiler is on the path."""
import shutil
import sys

import autosparse
from autosparse import _native
from autosparse._native import runtime_api

found = [name for name in ("cc", "gcc", "clang", "zig") if shutil.which(name)]
assert not found, f"there are compilers here: {found}"
assert autosparse.__file__.startswith(sys.prefix), autosparse.__file__
assert runtime_api.max_threads() >= 1
print("runtime:", _native._runtime.__file__.rpartition("/")[2], "threads:", runtime_api.max_threads())
END
without "$folder/venv/bin/python" -m autosparse doctor || test $? -eq 1 # status 1: doctor reports the missing compiler
without "$folder/venv/bin/python" -m pytest -q --full -n "${PROCESSES:-2}" --dist worksteal tests/arrays tests/ops
