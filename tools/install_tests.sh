#!/bin/sh
# install_tests.sh PYTHON AUTOSPARSE [PIN...]: install autosparse and the packages that its tests need. AUTOSPARSE is a
# folder (editable installation) or a wheel. PyTorch is installed as its CPU build, because pip would otherwise take the
# build with 2.6 GB of CUDA. A folder of wheels that pip was given (PIP_FIND_LINKS) is tried before PyTorch's index of
# CPU builds. The runtime and hnswlib take minutes to compile, and PyTorch and the other packages minutes to unpack, so all
# four are installed concurrently; pip itself uses one core. PyTorch's own requirements come last.
set -eu
python=$1
source=$2
shift 2
cpu=https://download.pytorch.org/whl/cpu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tests import, and so compile, a fourth of the modules; of the packages that builds need, still fewer are imported.
# As a variable it holds also for the environments that pip makes for builds.
export PIP_COMPILE=0
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
install() { pip install "$@"; }
has() { "$python" -c "import $1" 2>/dev/null; }
# hnswlib's own build uses -O3. Tests check its results and not its speed, so it is compiled with -O0, into a wheel that
# stays out of pip's cache and is kept beside it for other clones. A wheel that pip has cached is used.
wheel_of_hnswlib() { pip wheel --no-deps --wheel-dir "$work" "$@" 'hnswlib>=0.8'; }
kept_wheels() {
    printf '%s/../autosparse-tests/%s-' "$(pip cache dir)" "$(uname -n)"
    "$python" -c 'import sys; print(sys.implementation.cache_tag)'
}
kept_hnswlib() {
    cp "$(kept_wheels)"/hnswlib-*.whl "$work" || { pip cache list hnswlib | grep -q hnswlib- && wheel_of_hnswlib; }
}
quick_hnswlib() {
    printf '#!/bin/sh\nexec %s "$@" -O0 -g0\n' "${CXX:-g++}" >"$work/c++" && chmod +x "$work/c++"
    CC="$work/c++" CXX="$work/c++" wheel_of_hnswlib --no-cache-dir &&
        { mkdir -p "$(kept_wheels)" && cp "$work"/hnswlib-*.whl "$(kept_wheels)" || true; } # no cache: compile next time
}
from_folder() { install --no-index --no-deps torch==2.13.0; }
from_index() { install --index-url "$cpu" --retries 1 --timeout 30 --no-deps torch==2.13.0; }
from_index_any() { install --index-url "$cpu" --retries 1 --timeout 30 --no-deps 'torch>=2.9'; }
torch_of_any_kind() {
    for way in "has torch" from_folder from_index from_index_any; do
        if $way; then return 0; fi
    done
    return 1
}

if [ -d "$source" ]; then way=-e; else way=; fi
install --no-deps $way "$source" >"$work/autosparse.log" 2>&1 &
autosparse=$!
# hnswlib has no wheel: it is the only package here that needs g++ and Python's headers.
{ has hnswlib || kept_hnswlib || quick_hnswlib; } >"$work/hnswlib.log" 2>&1 &
hnswlib=$!

torch_of_any_kind >"$work/torch.log" 2>&1 &
torch=$!

"$python" - "$source" "$@" >>"$work/requirements.txt" <<'END'
"""Print the pins and the requirements of autosparse with its extra `test`, which is not installed yet."""
import sys
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

from pip._vendor.packaging.requirements import Requirement

try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib

source, *pins = sys.argv[1:]
print(*pins, sep="\n")
if Path(source).is_dir():
    project = tomllib.loads((Path(source) / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
else:
    with ZipFile(source) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        needed = message_from_bytes(wheel.read(metadata)).get_all("Requires-Dist")
for one in map(Requirement, needed):
    if one.marker is None or one.marker.evaluate({"extra": "test"}):
        one.marker = None
        print(one)
END
install -r "$work/requirements.txt" && required=0 || required=$?

# The C++ module for PyTorch needs its headers only, so it is compiled while pip installs what PyTorch requires.
module_of_torch() { [ ! -d "$source" ] || "$python" "$source/_native/torch_extension/build_extension.py"; }
module=
if wait $torch; then
    module_of_torch >"$work/module.log" 2>&1 &
    module=$!
    install -r "$work/requirements.txt" 'torch>=2.9' || required=$? # what PyTorch requires, within the pins
else
    tail -n 3 "$work/torch.log" >&2
    echo "no CPU build of PyTorch could be installed: its tests are skipped, and fail where CI is set" >&2
    echo "  Hint: $python -m pip install torch --index-url $cpu" >&2
fi

if ! wait $autosparse; then
    cat "$work/autosparse.log" >&2
    exit 1
fi
[ $required = 0 ] || exit $required

if ! wait $hnswlib || ! { has hnswlib || install --no-index --no-deps "$work"/hnswlib-*.whl; } >>"$work/hnswlib.log" 2>&1; then
    tail -n 3 "$work/hnswlib.log" >&2
    echo "hnswlib could not be built: its tests are skipped, and fail where CI is set" >&2
    echo "  Hint: apt-get install g++ python3-dev, then make again" >&2
fi
[ -z "$module" ] || wait "$module" || true # make tries again
