"""Tests that emitted Triton kernels compute the float64 result: each case of `interpreted`, run in one process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY
from tests.triton.interpreted import Case, cases

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")
    for name in ("triton", "torch")
]

CASES = [pytest.param(one, id=one.id, marks=pytest.mark.full if one.full else ()) for one in cases()]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest) -> dict[str, str | None]:
    """Return the error of each selected case, or None."""
    with_full = request.config.getoption("--full")
    chosen = [item.callspec.params["case"] for item in request.session.items if item.module is request.module]
    asked = [case.id for case in chosen if with_full or not case.full]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.triton.interpreted"]
    done = subprocess.run(
        command, input=json.dumps(asked), capture_output=True, text=True, env=environment, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {line["id"]: line["error"] for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("case", CASES)
def test_triton_kernel_computes_the_product(case: Case, answers: dict[str, str | None]):
    assert case.id in answers, "the process ended before this case"
    assert answers[case.id] is None, answers[case.id]
