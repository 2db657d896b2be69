"""Tests of the benchmark of short programs: it runs two of them, names the slow ones, and refuses wrong answers."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import short_programs
from shortlib import pages
from shortlib.catalogue import GROUPS, PROGRAMS

from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "benchmarks" / "short_programs.py"
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
NEEDS_PAGES = pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="there is no /proc here")


@NEEDS_FORK
def test_the_script_runs_two_programs_with_three_contenders(tmp_path: Path) -> None:
    out = tmp_path / "short.jsonl"
    command = [
        sys.executable,
        str(SCRIPT),
        "--only",
        "one_product,boolean_reach",
        "--rounds",
        "1",
        "--most-rounds",
        "1",
    ]
    done = subprocess.run(
        [*command, "--against", str(REPOSITORY), "--out", str(out)], capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in out.read_text().splitlines()]
    assert [case["key"] for case in cases] == ["one_product", "boolean_reach"]
    other = REPOSITORY.name
    assert all(case["found"].keys() == {"autosparse", other} for case in cases)
    assert all(one["ratio"] > 0 for case in cases for one in case["found"].values())
    assert "autosparse: 2 programs" in done.stdout
    assert f"{other}/autosparse: geomean" in done.stdout


def test_programs_have_descriptions_and_modules() -> None:
    assert len(PROGRAMS) >= 120
    assert all(
        program.what and program.run.__module__ in {one.__name__ for one in GROUPS} for program in PROGRAMS.values()
    )


def test_the_summary_counts_programs_below_each_floor() -> None:
    times = {0.5: 0.004, 0.9: 0.003, 0.96: 0.003, 1.2: 0.002}
    records = [
        {"key": f"p{ratio}", "found": {"autosparse": {
            "ratio": ratio, "interval": (ratio - 0.01, ratio + 0.01),
            "median_s": {"scipy.sparse": 0.001, "autosparse": ours_s},
        }}}
        for ratio, ours_s in times.items()
    ]  # fmt: skip
    found = short_programs.summary(records, ["autosparse"])
    assert "3 below 0.97, 2 below 0.95, 1 below 0.8; 2 intervals below 0.97" in found
    assert "later than scipy.sparse: 2.00 ms in the median, 2.85 at the 95th percentile" in found
    assert "slowest: p0.5 0.50, p0.9 0.90" in found


@NEEDS_PAGES
def test_a_child_owns_its_pages_before_it_is_timed() -> None:
    """Copying changes no byte of them; `_written_ranges` finds whole pages, in which objects of this process lie."""
    kept = np.arange(1 << 20)
    ranges = list(pages._written_ranges())
    assert all(begin < end and begin % 4096 == end % 4096 == 0 for begin, end in ranges)
    assert any(begin <= kept.ctypes.data < end for begin, end in ranges)
    pages.copy_shared_pages()
    assert (kept == np.arange(1 << 20)).all()


@NEEDS_FORK
def test_a_program_that_raises_fails() -> None:
    race = importlib.import_module("programlib.race")
    program = importlib.import_module("programlib.program").Program(
        name="wrong", what="raises", prepare=lambda _toy: {}, run=lambda sp: sp.no_such_name
    )
    with pytest.raises(race.ProgramFailedError, match="no_such_name"):
        short_programs.forked(program, {}, short_programs.Contender("SciPy", "scipy.sparse"), "")
