#!/bin/sh
# Build MinkowskiEngine 0.5.4 for CPUs from its source package into an environment that has torch, then compare its
# convolutions with ours (embeddings, every layer, gradients).
#
#     tools/build_minkowski.sh PYTHON
#
# PYTHON is the interpreter of an environment of its own that has torch and autosparse: the build needs an old
# setuptools. The headers of OpenBLAS must be installed (libopenblas-dev).
set -eu

python=${1:?usage: tools/build_minkowski.sh PYTHON}
root=$(cd "$(dirname "$0")/.." && pwd)

"$python" -c 'import torch; print("torch", torch.__version__)'
"$python" -m pip install 'setuptools<70' wheel ninja numpy
CFLAGS=${CFLAGS:--g0} MAX_JOBS=${MAX_JOBS:-2} "$python" -m pip install --no-build-isolation --no-deps \
    --no-binary MinkowskiEngine MinkowskiEngine==0.5.4
cd "$root"
"$python" -m pytest -q -n 0 tests/tuner/research/networks/test_backends.py
