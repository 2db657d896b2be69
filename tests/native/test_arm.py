"""Test a sample of products on aarch64 under qemu-user; `make test-arm` makes what it needs and runs whole folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from autosparse.isa import isas_of
from tests.house.sources import IN_CHECKOUT, REPOSITORY

pytestmark = pytest.mark.skipif(not IN_CHECKOUT, reason="needs the sources: this is an installed copy")

FOLDER = Path(os.environ.get("AUTOSPARSE_ARM") or REPOSITORY / "build" / "arm")
"""Folder that `tools/arm_root.sh` makes."""


def is_current() -> bool:
    """Return whether the tree for aarch64 was made from these sources."""
    sources = [path for kind in ("py", "c", "h") for path in (REPOSITORY / "_native").rglob(f"*.{kind}")]
    copies = {path: FOLDER / "tree" / "autosparse" / path.relative_to(REPOSITORY) for path in sources}
    return all(copy.is_file() and copy.read_bytes() == path.read_bytes() for path, copy in copies.items())


def test_a_sample_of_products_on_aarch64() -> None:
    python = FOLDER / "venv" / "bin" / "python"
    if not python.is_file() or not is_current():
        pytest.skip("no arm64 Python under qemu-user with these sources: make arm-root")
    command = [str(python), str(REPOSITORY / "tests" / "native" / "arm_sample.py")]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER / "tree"), "AUTOSPARSE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=FOLDER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"aarch64: {' '.join(row.name for row in isas_of('aarch64'))}"
