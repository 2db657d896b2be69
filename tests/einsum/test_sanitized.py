"""A sample of einsum programs again, compiled with address and undefined-behaviour checks that end the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from autosparse._native.c.build import Compiler

from autosparse.errors import BuildError

SAMPLE = ("members_of_the_frontier_agree", "dense_operands", "types", "threads_share", "huge_extents", "many_operands")


@pytest.mark.full
def test_programs_under_sanitizers(tmp_path: Path) -> None:
    try:
        gcc = Compiler.find().command[0]
    except BuildError:
        pytest.skip("no C compiler")
    asked = [gcc, "-print-file-name=libasan.so"]
    asan = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(asan).exists():
        pytest.skip("no libasan")
    environment = {
        **os.environ,
        "AUTOSPARSE_CC": f"{gcc} -g -fsanitize=address,undefined -fno-sanitize-recover=all",
        "AUTOSPARSE_CACHE_DIR": str(tmp_path),
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    chosen = " or ".join(SAMPLE)
    files = ("tests/einsum/test_programs.py", "tests/einsum/test_lowering.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", chosen, *files]
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout
