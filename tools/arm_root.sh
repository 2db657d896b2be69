#!/bin/sh
# arm_root.sh PYTHON FOLDER: make FOLDER/venv/bin/python, an arm64 Python with NumPy, SciPy and pytest that runs under
# qemu-user, and FOLDER/tree, this checkout with the runtime compiled for aarch64. `make test-arm` calls it; FOLDER/root
# is made once, FOLDER/tree each time.
#
# Needs the Debian packages mmdebstrap, qemu-user and gcc-aarch64-linux-gnu, and a registry of Python packages.
set -eu
python=$(cd "$(dirname "$(command -v "$1")")" && pwd)/$(basename "$1")
mkdir -p "$2"
folder=$(cd "$2" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
version=3.11 # the suite's Python

for program in mmdebstrap qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v "$program" >/dev/null || {
        echo "$program is missing. Hint: apt-get install mmdebstrap qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross" >&2
        exit 1
    }
done

if [ ! -e "$folder/root/.made" ]; then
    rm -rf "$folder/root"
    # Packages are unpacked and not configured: nothing of them runs here.
    mmdebstrap --quiet --architectures=arm64 --variant=extract --include=python3,libgomp1,libstdc++6 \
        "$suite" "$folder/root"
    touch "$folder/root/.made"
fi

if [ ! -e "$folder/venv/.made" ]; then
    rm -rf "$folder/venv" "$folder/wheels"
    site=$folder/venv/lib/python$version/site-packages
    mkdir -p "$folder/venv/bin" "$site" "$folder/wheels"
    printf 'home = %s/usr/bin\nversion = %s\n' "$folder/root" "$version" >"$folder/venv/pyvenv.cfg"
    printf '#!/bin/sh\nexec qemu-aarch64 -0 "$0" -L %s %s/usr/bin/python%s "$@"\n' \
        "$folder/root" "$folder/root" "$version" >"$folder/venv/bin/python"
    chmod +x "$folder/venv/bin/python"
    "$python" -m pip download --quiet --disable-pip-version-check --dest "$folder/wheels" --only-binary :all: \
        --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
        --python-version "$version" --implementation cp --abi "cp$(echo $version | tr -d .)" --abi abi3 --abi none \
        'numpy>=1.26' 'scipy>=1.13' 'cffi>=1.17' 'platformdirs>=3' 'pytest>=8' 'hypothesis>=6.100' 'threadpoolctl>=3' \
        'xxhash>=3'
    for wheel in "$folder"/wheels/*.whl; do
        (cd "$site" && "$python" -m zipfile -e "$wheel" .)
    done
    touch "$folder/venv/.made"
fi

# The layout of an installation: the mapped folders are inside the package.
rm -rf "$folder/tree"
mkdir -p "$folder/tree"
(cd "$here" && tar -cf - --exclude '*.so' --exclude __pycache__ autosparse _native tuner cache tests pyproject.toml) |
    tar -xf - -C "$folder/tree"
(cd "$folder/tree" && mv _native tuner cache autosparse/)
CC=aarch64-linux-gnu-gcc "$python" "$here/_native/runtime/build_runtime.py" "$folder/tree/autosparse/_native" >"$folder/log" ||
    { tail -n 20 "$folder/log" >&2; exit 1; }
echo "$folder/venv/bin/python, in $folder/tree, with AUTOSPARSE_CC=aarch64-linux-gnu-gcc"
