"""Tests that run a sample of einsum programs under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native.c.build import Compiler

from autosparse.errors import BuildError

SAMPLE = ("members_of_the_frontier_agree", "dense_operands", "types", "threads_share", "huge_extents", "many_operands")


def checked_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose kernels are compiled with sanitizers."""
    try:
        gcc = Compiler.find().command[0]
    except BuildError:
        pytest.skip("no C compiler")
    asked = [gcc, "-print-file-name=libasan.so"]
    asan = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(asan).exists():
        pytest.skip("no libasan")
    return {
        **os.environ,
        "AUTOSPARSE_CC": f"{gcc} -g -fsanitize=address,undefined -fno-sanitize-recover=all",
        "AUTOSPARSE_CACHE_DIR": str(folder),
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def run_checked(command: list[str], folder: Path) -> str:
    """Run the command with sanitized kernels, and return what it prints."""
    root, environment = Path(__file__).resolve().parent.parent.parent, checked_environment(folder)
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.full
def test_programs_under_sanitizers(tmp_path: Path) -> None:
    files = ("tests/einsum/test_programs.py", "tests/einsum/test_lowering.py")
    chosen = " or ".join(SAMPLE)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", chosen, *files]
    assert " passed" in run_checked(command, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("module", ["einsum_cases", "program_cases"])
def test_fuzz_under_sanitizers(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"tests.fuzz.{module}", str(tmp_path), "20000", "500"]
    assert 0 < int(run_checked(command, tmp_path)) < 500
