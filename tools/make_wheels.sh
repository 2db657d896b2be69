#!/bin/sh
# make_wheels.sh PYTHON FOLDER: build the source distribution, and from it the wheel, into FOLDER. auditwheel bundles
# the OpenMP library and tags the wheel with the oldest glibc that it works with, which is at most this machine's.
# Wheels of releases are built by cibuildwheel (pyproject.toml) in an image with an older glibc.
set -eu
python=$1
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

machine=$("$python" -c 'import platform; print(platform.machine())')
if [ "$machine" != x86_64 ]; then
    echo "wheels are built for x86_64, this machine is $machine. Hint: pip install . compiles the portable kernels" >&2
    exit 1
fi
"$python" -m build --sdist --outdir "$work/sdist" . >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
sdist=$(ls "$work"/sdist/*.tar.gz)
# The wheel holds the C++ module for the PyTorch of this environment, or for those that AUTOSPARSE_TORCH names.
find_torch='import importlib.util as u; found = u.find_spec("torch"); print(found.origin.rpartition("/")[0] if found else "")'
export AUTOSPARSE_TORCH="${AUTOSPARSE_TORCH-$("$python" -c "$find_torch")}"
"$python" -m pip wheel --disable-pip-version-check --no-deps --wheel-dir "$work/built" "$sdist" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
"$python" -m auditwheel repair --exclude "libtorch*.so" --exclude "libc10*.so" --wheel-dir "$work/repaired" "$work"/built/*.whl >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }
"$python" -m twine check --strict "$sdist" "$work"/repaired/*.whl
mkdir -p "$folder"
cp "$sdist" "$work"/repaired/*.whl "$folder"
ls "$sdist" "$work"/repaired/*.whl | sed "s|.*/|$folder/|"
