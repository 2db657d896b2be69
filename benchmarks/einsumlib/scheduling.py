"""Benchmark `scheduling`: time to find a plan from a shipped frontier, by enumeration, and from the disk cache."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import autosparse as asp
from autosparse.contraction import candidates as found
from einsumlib.inputs import Problem, load, seconds
from einsumlib.report import table

NAMED = ("ij,jk->ik", "ij,ik,kj->ij", "ij,jk,ik->", "ij,jk,kl->il", "ij,jk,kl,il->", "ikl,kj,lj->ij")
NEW = ("ij,jk,ki->k", "ijk,jl,kl->i", "ij,kj,lk->il")
CHILD = """
import json, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from autosparse.contraction import remembered
from einsumlib.inputs import Problem, load
A = load(Path(sys.argv[2]), "cora")
problem = Problem("ij,ik,kj->ij", [A] * 3)
start = time.perf_counter()
key = remembered.key_of(problem.prepared, problem.subscripts, is_dense_output=False)
loaded = remembered._load(key, problem.prepared, problem.subscripts, is_dense_output=False)
elapsed_s = time.perf_counter() - start
assert loaded is not None
print(json.dumps(elapsed_s))
"""


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return the seconds of each step, measured with empty in-memory caches.

    Steps named "shipped" find the file of frontiers already read.
    """
    rows = []
    found._frontiers.cache_clear()
    rows.append({"what": "reading the file of shipped frontiers, once a process", "s": seconds(found._frontiers)})
    for expression in NAMED:
        letters, output = split(expression)
        find = partial(found.candidates, letters, output, (True,) * len(letters))
        times = []
        for _ in range(5):
            found.candidates.cache_clear()
            times.append(seconds(find))
        rows.append({"what": f"shipped `{expression}`", "s": statistics.median(times)})
    for expression in NEW:
        letters, output = split(expression)
        kernel = found.assignment_of(letters, output, (True,) * len(letters))
        rows.append({"what": f"new `{expression}`", "s": seconds(partial(found.enumerated, kernel))})
    A = load(folder, "cora")
    problem = Problem("ij,jk,kl,il->", [A] * 4)
    problem.choice()
    rows.append({"what": "pricing the 64 programs of `ij,jk,kl,il->` on cora", "s": seconds(problem.choice)})
    rows.append({"what": "remembered plan, in a second process", "s": second_process(folder, A)})
    for row in rows:
        print(f"{row['what']:60} {row['s'] * 1e3:9.2f} ms", flush=True)
    return rows


def second_process(folder: Path, A: Any) -> float:
    """Return the median seconds, over three new processes, in which the choice is loaded from disk."""
    with tempfile.TemporaryDirectory() as cache:
        with asp.options(cache_dir=cache, runs=1000):  # compiled in the first call, and remembered
            asp.einsum("ij,ik,kj->ij", A, A, A)
        command = [sys.executable, "-c", CHILD, str(Path(__file__).parents[1]), str(folder)]
        environment = {"AUTOSPARSE_CACHE_DIR": cache}
        times = [
            json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
            for _ in range(3)
        ]
    return statistics.median(times)


def split(expression: str) -> tuple[tuple[str, ...], str]:
    """Return the subscripts of the operands and of the output."""
    inputs, output = expression.split("->")
    return tuple(inputs.split(",")), output


def as_table(rows: list[dict[str, Any]]) -> str:
    """Format times in milliseconds."""
    return table(("what", "ms"), [[row["what"], row["s"] * 1e3] for row in rows])
