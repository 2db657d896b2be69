"""Tests that emitted Triton kernels compute the float64 result: cases of `interpreted`, run in one process in turn."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.triton.interpreted import Case, cases

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("triton", "torch")
]

CASES = [pytest.param(one, id=one.id, marks=pytest.mark.full if one.full else ()) for one in cases()]


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Return a process that runs the cases whose ids are written to it, and the file of its error messages.

    It runs a case when the test of this case begins, so that no case runs twice where two workers share the tests.
    """
    errors = tmp_path_factory.mktemp("interpreter") / "errors"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.triton.interpreted"]
    pipe = subprocess.PIPE
    with (
        errors.open("w") as file,
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=file, text=True, env=environment, cwd=REPOSITORY
        ) as one,
    ):
        yield one, errors


@pytest.mark.parametrize("case", CASES)
def test_triton_kernel_computes_the_product(case: Case, interpreter: tuple[subprocess.Popen[str], Path]):
    process, errors = interpreter
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{case.id}\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, f"the process ended: {errors.read_text()[-3000:]}"
    found = json.loads(line)
    assert found["id"] == case.id
    assert found["error"] is None, found["error"]
