#!/bin/sh
# install_tests.sh PYTHON AUTOSPARSE [PIN...]: autosparse (a folder, installed so that it can be edited, or a wheel) and
# what its tests need. PyTorch comes as its build for CPUs: where any build will do, pip takes the one with 2.6 GB of
# CUDA. A folder of wheels that pip was given (PIP_FIND_LINKS) comes before PyTorch's own index of such builds.
#
# The runtime, hnswlib and everything else take minutes of compiling and unpacking: they run side by side.
set -eu
python=$1
source=$2
shift 2
cpu=https://download.pytorch.org/whl/cpu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
install() { pip install --no-compile "$@"; } # what the tests import is compiled then: a fourth of what there is
has() { "$python" -c "import $1" 2>/dev/null; }
# hnswlib asks for -O3. Tests look at what it finds, not how soon: it is compiled in half the time, into a wheel that pip
# does not keep for others. One that pip has kept is taken.
wheel_of_hnswlib() { pip wheel --no-deps --wheel-dir "$work" "$@" 'hnswlib>=0.8'; }
kept_hnswlib() { pip cache list hnswlib | grep -q hnswlib- && wheel_of_hnswlib; }
quick_hnswlib() {
    printf '#!/bin/sh\nexec %s "$@" -O1 -g0\n' "${CXX:-g++}" >"$work/c++" && chmod +x "$work/c++"
    CC="$work/c++" CXX="$work/c++" wheel_of_hnswlib --no-cache-dir
}
from_folder() { install --no-index --no-deps torch==2.13.0; }
from_index() { install --index-url "$cpu" --retries 1 --timeout 30 torch==2.13.0; }
from_index_any() { install --index-url "$cpu" --retries 1 --timeout 30 'torch>=2.9'; }

if [ -d "$source" ]; then way=-e; else way=; fi
install --no-deps $way "$source" >"$work/autosparse.log" 2>&1 &
autosparse=$!
# It has no wheel: g++ and Python's headers are needed, which nothing else here is.
{ has hnswlib || kept_hnswlib || quick_hnswlib; } >"$work/hnswlib.log" 2>&1 &
hnswlib=$!

for way in "has torch" from_folder from_index from_index_any missing; do
    if [ "$way" = missing ]; then
        tail -n 3 "$work/torch.log" >&2
        echo "no CPU build of PyTorch could be installed: its tests are skipped, and fail where CI is set" >&2
        echo "  Hint: $python -m pip install torch --index-url $cpu" >&2
    elif $way >>"$work/torch.log" 2>&1; then
        echo 'torch>=2.9' >>"$work/requirements.txt" # what torch itself needs, too
        break
    fi
done

"$python" - "$source" "$@" >>"$work/requirements.txt" <<'END'
"""Print the pins, and what autosparse and its extra `test` require: it is not installed yet."""
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
