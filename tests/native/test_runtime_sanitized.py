"""The runtime's own tests again, compiled with address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NATIVE = REPOSITORY / "_native"
TESTS = (
    "test_assembly.py",
    "test_graph_kernels.py",
    "test_lookups.py",
    "test_ready.py",
    "test_ready_sddmm.py",
    "test_runtime_crowded.py",
    "test_runtime_matmul.py",
    "test_runtime_panels.py",
    "test_runtime_shifts.py",
    "test_runtime_structure.py",
    "test_runtime_twins.py",
    "test_runtime_pool.py",
    "test_runtime_memory.py",
    "test_slices.py",
    "test_waconet.py",
    "../ops/test_spgemm.py",
)


def library(name: str) -> str:
    done = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A folder for PYTHONPATH in which `autosparse` is this checkout with a sanitized runtime."""
    if shutil.which("cc") is None or not Path(library("libasan.so")).is_absolute():
        pytest.skip("no cc with address sanitizer")
    folder = tmp_path_factory.mktemp("sanitized")
    package = folder / "autosparse"
    (package / "_native").mkdir(parents=True)
    for source in (REPOSITORY / "autosparse").iterdir():
        (package / source.name).symlink_to(source)
    for name in ("tuner", "cache"):
        (package / name).symlink_to(REPOSITORY / name)
    for source in NATIVE.iterdir():
        if not source.name.startswith("_runtime"):
            (package / "_native" / source.name).symlink_to(source)
    builder = [sys.executable, str(NATIVE / "runtime" / "build_runtime.py"), str(package / "_native")]
    subprocess.run(builder, env={**os.environ, "AUTOSPARSE_SANITIZE": "1"}, check=True, capture_output=True)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", TESTS)
def test_no_sanitizer_speaks_up(tree, name):
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "LD_PRELOAD": library("libasan.so"),
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"]
    where = f"import autosparse._native._runtime as r; assert r.__file__.startswith({str(tree)!r}), r.__file__"
    subprocess.run([sys.executable, "-c", where], env=environment, cwd=tree, check=True)
    done = subprocess.run(
        [*command, str(REPOSITORY / "tests" / "native" / name)],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
