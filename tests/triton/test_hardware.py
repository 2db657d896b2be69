"""Tests of GPU products on a GPU, where there is one: each module of checks runs in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

HOMES = ("hardware", "interpreted", "surfaces", pytest.param("composites", marks=pytest.mark.full))


@pytest.mark.parametrize("home", HOMES)
def test_triton_laws_hold_on_a_gpu(home: str):
    environment = {name: text for name, text in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-m", f"tests.triton.{home}", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [f"{line['id']}: {line['error']}" for line in lines if line["error"] is not None]
    assert lines
    assert not wrong, "\n".join(wrong)
