"""Processes for tests of programs that begin with the same imports, forked from a template instead of started.

A template has imported PyTorch, or NumPy and SciPy, which takes a new process two seconds or .3, and has run nothing
since: it has one thread. A process forked from it differs from a new one only in what is imported. Libraries read some
variables when they are loaded (``OMP_NUM_THREADS``); a program that sets those needs a new process.
"""

from __future__ import annotations

import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ENVIRONMENT: Final = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
"""Variables of the template, which no test has changed yet. OpenBLAS would start threads as NumPy is imported."""
TEMPLATE: Final = """
import json, os, sys
import {library}
threads = "/proc/self/task"
print(len(os.listdir(threads)) if os.path.isdir(threads) else 1, flush=True)
while True:
    line = sys.stdin.readline()
    if not line:
        os._exit(0)
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        break
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
for number, name in enumerate((os.devnull, asked["out"], asked["err"])):
    opened = os.open(name, os.O_WRONLY if number else os.O_RDONLY)
    os.dup2(opened, number)
    os.close(opened)
os.environ.clear()
os.environ.update(asked["environment"])
os.chdir(asked["folder"])
sys.argv = ["-c", *asked["arguments"]]
code = asked["code"]
del asked, child, line, name, number, opened, threads
exec(compile(code, "<string>", "exec"))
"""
"""Program that forks one process for each line of its input, and prints the process and then its exit status."""
OPTIONS: Final = {"torch": ("-W", "ignore"), "scipy.sparse": ()}
"""Library that a template has imported -> options of Python."""


@functools.cache
def _template(library: str) -> subprocess.Popen[str]:
    command = [sys.executable, *OPTIONS[library], "-c", TEMPLATE.replace("{library}", library)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT)
    assert _line(process, 300) == "1", "the template has several threads, of which a fork would copy one"
    return process


def _line(process: subprocess.Popen[str], seconds: float) -> str | None:
    """Return the next line that the template prints, or None if there is none for so many seconds."""
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], seconds)[0]:
        return None
    return process.stdout.readline().strip()


def run_with(
    library: str,
    code: str,
    *arguments: str,
    folder: Path | None = None,
    seconds: float = 300.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that has imported `library`; kill it after `seconds`, and return what it printed."""
    environment = dict(os.environ if environment is None else environment)
    if not hasattr(os, "fork"):
        command = [sys.executable, *OPTIONS[library], "-c", code, *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=seconds, cwd=folder, env=environment
        )
    template = _template(library)
    assert template.stdin is not None
    with tempfile.TemporaryDirectory() as place:
        files = {name: Path(place, name) for name in ("out", "err")}
        for path in files.values():
            path.touch()
        asked = {name: str(path) for name, path in files.items()}
        asked["folder"] = str(folder or Path.cwd())
        more = {"code": code, "arguments": arguments, "environment": environment}
        template.stdin.write(json.dumps({**asked, **more}) + "\n")
        template.stdin.flush()
        child = int(_line(template, 300) or 0)
        status = _line(template, seconds)
        if status is None:
            os.kill(child, signal.SIGKILL)
            _line(template, 60)
        out, err = (files[name].read_text(encoding="utf-8") for name in ("out", "err"))
    if status is None:
        raise subprocess.TimeoutExpired(code, seconds, out, err)
    return subprocess.CompletedProcess(code, int(status), out, err)


def run_with_torch(
    code: str, *arguments: str, folder: Path | None = None, seconds: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run a program as `run_with` does, in a process that has imported PyTorch."""
    return run_with("torch", code, *arguments, folder=folder, seconds=seconds)
