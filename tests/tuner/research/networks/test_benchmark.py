"""Test that the benchmark of the layers runs."""

from __future__ import annotations

import runpy
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.tuner.research.networks.samples import one_thread  # noqa: F401

SCRIPT = REPOSITORY / "benchmarks" / "sparse_convolution.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="needs the sources: this is an installed copy")
def test_every_layer_has_its_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [SCRIPT.name, "--family", "mesh", "--nnz", "2000", "--repeats", "1"])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown[2:]] == [*map(str, range(1, 15)), "all"]
