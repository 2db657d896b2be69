#!/bin/sh
# install_tests.sh PYTHON REQUIREMENT...: what the tests need. PyTorch first, as its build for CPUs: where any build
# will do, pip takes the one with 2.6 GB of CUDA. A folder of wheels that pip was given (PIP_FIND_LINKS) comes before
# PyTorch's own index of such builds.
set -eu
python=$1
shift
cpu=https://download.pytorch.org/whl/cpu

pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
has_torch() { "$python" -c 'import torch' 2>/dev/null; }
from_folder() { pip install --no-index --no-deps torch==2.13.0; }
from_index() { pip install --index-url "$cpu" --retries 1 --timeout 30 torch==2.13.0; }
from_index_any() { pip install --index-url "$cpu" --retries 1 --timeout 30 'torch>=2.6'; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for way in has_torch from_folder from_index from_index_any missing; do
    if [ $way = missing ]; then
        tail -n 3 "$log" >&2
        echo "no CPU build of PyTorch could be installed: its tests are skipped, and fail where CI is set" >&2
        echo "  Cure: $python -m pip install torch --index-url $cpu" >&2
    elif $way >>"$log" 2>&1; then
        pip install 'torch>=2.6' "$@" && break  # what torch itself needs, too
        exit 1
    fi
done
has_torch || pip install "$@"

# It has no wheel: g++ and Python's headers are needed, which nothing else here is.
if ! pip install 'hnswlib>=0.8' >"$log" 2>&1; then
    tail -n 3 "$log" >&2
    echo "hnswlib could not be built: its tests are skipped, and fail where CI is set" >&2
    echo "  Cure: apt-get install g++ python3-dev, then make again" >&2
fi
