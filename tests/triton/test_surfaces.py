"""Products on a GPU that Triton's interpreter stands for, and what is imported where there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")

LAWS = (
    "test_torch_serves_first", "test_planning_compares_and_remembers", "test_ours_gives_the_product",
    "test_values_are_read_live", "test_gradients_are_those_of_dense", "test_nothing_is_planned_in_a_capture",
    "test_failure_leaves_torch", "test_arrays_come_back_as_they_went", "test_shapes_and_dtypes_are_checked",
    "test_infinity_stays_in_its_rows",
)  # fmt: skip


def run(*arguments: str, **extra: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **extra}
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def answers() -> dict[str, str | None]:
    lines = run("-m", "tests.triton.surfaces", TRITON_INTERPRET="1").splitlines()
    return {line["id"]: line["error"] for line in map(json.loads, lines)}


@pytest.mark.parametrize("law", LAWS)
def test_triton_surface(law: str, answers: dict[str, str | None]):
    assert answers[law] is None, answers[law]


def test_triton_surface_laws_are_all_run(answers: dict[str, str | None]):
    assert set(answers) == set(LAWS)


IMPORTS = """
import sys, torch, autosparse as asp
A = torch.eye(9).to_sparse_csr()
asp.csr(A) @ torch.ones(9, 2).numpy()
asp.torch.csr(A) @ torch.ones(9, 2)
loaded = [name for name in sys.modules if name == "triton" or name.startswith("autosparse.cuda")]
assert not loaded, loaded
"""


def test_triton_is_not_imported_for_tensors_on_the_cpu():
    run("-c", IMPORTS)
