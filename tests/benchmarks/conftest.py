"""The benchmark scripts are no part of the installed package: put their folder on the path, or skip."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

if FOLDER.is_dir():
    sys.path.insert(0, str(FOLDER))
else:  # tests that run beside a wheel
    collect_ignore_glob = ["test_*.py"]
