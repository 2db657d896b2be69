"""Tests of what the tests share: the compiler that keeps its objects, and processes forked from a template."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import kept_objects
from tests.processes import run_with_torch

COMPILER = """#!/bin/sh
echo "$*" >> {log}
for last; do :; done
case "$*" in *-fail*) exit 3 ;; esac
echo "object $(cat {source})" > "$last"
"""


def calls(log: Path) -> int:
    return len(log.read_text().splitlines())


@pytest.mark.skipif(os.name != "posix" or shutil.which("sha256sum") is None, reason="POSIX: a script of the shell")
def test_an_object_is_compiled_once_for_each_source_and_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real, log, source = tmp_path / "real", tmp_path / "log", tmp_path / "k.c"
    real.mkdir()
    (real / kept_objects.NAME).write_text(COMPILER.format(log=log, source=source))
    (real / kept_objects.NAME).chmod(0o755)
    monkeypatch.setenv("PATH", f"{real}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(kept_objects.FOLDER, str(tmp_path / "kept"))
    kept_objects.begin(tmp_path / "unused")
    kept_objects.begin(tmp_path / "unused")  # changes nothing
    command = shutil.which(kept_objects.NAME)
    assert command == str(tmp_path / "kept" / "bin" / kept_objects.NAME)

    def compiled(*flags: str, target: str) -> tuple[int, str]:
        status = subprocess.run([command, *flags, "-shared", source, "-o", tmp_path / target], check=False).returncode
        return status, (tmp_path / target).read_text() if status == 0 else ""

    source.write_text("one")
    assert compiled("-O2", target="a.so") == compiled("-O2", target="b.so") == (0, "object one\n")
    assert calls(log) == 1
    assert compiled("-O1", target="c.so")[0] == 0
    source.write_text("two")
    assert compiled("-O2", target="d.so") == (0, "object two\n")
    assert calls(log) == 3
    assert [compiled("-fail", target="e.so")[0] for _ in range(2)] == [3, 3], "failures are not kept"
    for flags in (["-c"], ["-shared", "-fsyntax-only"]):
        assert subprocess.run([command, *flags, source, "-o", tmp_path / "f.o"], check=False).returncode == 0
    assert calls(log) == 7


def test_a_forked_program_is_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch", reason="torch is not installed (extra: torch)")
    monkeypatch.setenv("SOME_VARIABLE", "seen")
    program = """
import atexit, os, sys
atexit.register(print, "ended")
print(os.environ["SOME_VARIABLE"], sys.argv[1:], os.getcwd() == sys.argv[1], "scipy" in sys.modules, __name__)
print("trouble", file=sys.stderr)
sys.exit(3)
"""
    done = run_with_torch(program, str(tmp_path), folder=tmp_path)
    assert (done.returncode, done.stdout) == (3, f"seen {[str(tmp_path)]} True False __main__\nended\n")
    assert done.stderr == "trouble\n"
    assert "ZeroDivisionError" in run_with_torch("1 / 0").stderr
    with pytest.raises(subprocess.TimeoutExpired):
        run_with_torch("import time; time.sleep(600)", seconds=0.2)
    assert run_with_torch("print(1)").stdout == "1\n"
