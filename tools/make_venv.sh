#!/bin/sh
# make_venv.sh PYTHON FOLDER: make a virtual environment with pip, even if the system has no python3-venv.
set -eu
python=$1
folder=$2

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "autosparse needs Python 3.10 or later, and '$python' is not one. Hint: make PYTHON=/path/to/python3.12" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT

with_venv() { "$python" -m venv "$folder"; }
with_virtualenv() { "$python" -m virtualenv --quiet "$folder"; }
# Debian's python3 without python3-venv can only make an environment without pip: fetch the wheel of pip from the index.
with_bootstrap() { "$python" -m venv --without-pip "$folder" && "$folder/bin/python" "$(dirname "$0")/bootstrap_pip.py"; }

for way in with_venv with_virtualenv with_bootstrap; do
    rm -rf "$folder"
    if $way >>"$log" 2>&1; then
        exit 0
    fi
done
rm -rf "$folder"
tail -n 5 "$log" >&2
echo "could not make a virtual environment. Hint: apt-get install python3-venv (Debian, Ubuntu)" >&2
exit 1
