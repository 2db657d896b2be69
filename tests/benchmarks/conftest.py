"""Configuration of the tests of benchmark scripts: put the scripts' folder on the path, or skip the tests."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"

if FOLDER.is_dir():
    sys.path.insert(0, str(FOLDER))
else:  # tests that run against an installed wheel
    collect_ignore_glob = ["test_*.py"]
