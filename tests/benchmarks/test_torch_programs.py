"""Tests of the programs on torch's sparse tensors at toy size: each way gives PyTorch's answer."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: torch)")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "torch_programs.py"


def names() -> list[str]:
    """Return the names of the programs, with the folder of the benchmarks on the path."""
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return list(importlib.import_module("torchlib.catalogue").PROGRAMS)


def test_there_are_nineteen_programs_and_more() -> None:
    assert len(names()) >= 19


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", names())
def test_every_way_gives_the_answer_of_pytorch(name: str, dtype: str) -> None:
    child: Any = importlib.import_module("torchlib.child")
    compare: Any = importlib.import_module("programlib.race").compare
    asp = importlib.import_module("autosparse.torch")
    _, want = child.run(name, "stock", getattr(torch, dtype), toy=True)
    assert want.size
    for way in importlib.import_module("torchlib.race").WAYS:
        try:
            _, got = child.run(name, way, getattr(torch, dtype), toy=True)
        finally:
            asp.uninstall()
        assert compare(name, [want], [got], 1e-4 if dtype == "float32" else 1e-10) >= 0


@pytest.mark.full
def test_the_quick_script_runs_a_program_and_writes_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "torch_programs.jsonl"
    chosen = ["--quick", "--only", "cg", "--dtypes", "float64", "--threads", "1"]
    command = [sys.executable, str(SCRIPT), *chosen, "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["run", "case"]
    assert set(lines[1]["ways"]) == {"global", "step", "outside"}
    assert "| cg" in out.with_suffix(".md").read_text()
