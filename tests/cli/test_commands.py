"""Tests of the commands: each does what its help says, and errors are one message with a hint, no traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.space import families as space

from autosparse.cli import COMMANDS, EXAMPLES, demo, main, make_parser
from autosparse.cli.operands import Pair
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of

# the search ends long before the budget; one that was cut short would resume later
QUICK = ("--effort", "measure", "--budget-s", "60")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Give this test and the processes it starts a cache folder of their own."""
    from autosparse.cache import close_stores

    from autosparse.config import reload_options

    monkeypatch.setenv("AUTOSPARSE_CACHE_DIR", str(tmp_path / "cache"))
    reload_options()
    close_stores()
    yield
    close_stores()


@pytest.fixture
def matrix(tmp_path):
    """Return the path of a file with a 3000 x 2000 matrix, 20 nonzeros in each row."""
    path = tmp_path / "small.npz"
    rng = np.random.default_rng(1)
    indices = np.sort(rng.integers(0, 2000, (3000, 20)), axis=1).ravel()
    indptr = np.arange(0, 60001, 20)
    scipy.sparse.save_npz(path, scipy.sparse.csr_array((rng.standard_normal(60000), indices, indptr), (3000, 2000)))
    return str(path)


def python_m(*arguments, **variables):
    command = [sys.executable, "-m", "autosparse", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert COMMANDS[command][1:] in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_in_its_help_parses(command):
    assert make_parser().parse_args(shlex.split(EXAMPLES[command])).command == command


@pytest.mark.parametrize("wrong", [[], ["nonsense"], ["tune"], ["tune", "x.npz", "--columns", "0"], ["cache"]])
def test_wrong_usage_is_status_2(wrong, capsys):
    with pytest.raises(SystemExit) as stop:
        main(wrong)
    assert stop.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["tune", "absent.npz"],
        ["explain", "absent.mtx"],
        ["bench", "absent"],
        ["bench", "{folder}"],
        ["bench", "{matrix}", "--min-nnz", "1000000000"],
        ["tune", "{broken}"],
        ["demo", "{broken}"],
        ["cache", "show", "zzz"],
        ["cache", "import", "{broken}"],
        ["cache", "export", "/proc/none/file"],
    ],
    ids=" ".join,
)
def test_impossible_requests_give_a_message(arguments, matrix, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.npz").write_bytes(b"PK not a matrix")
    places = {"folder": tmp_path / "empty", "matrix": matrix, "broken": tmp_path / "broken.npz"}
    assert main([argument.format(**places) for argument in arguments]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"autosparse {arguments[0]}: ")
    assert "Traceback" not in message


@pytest.mark.parametrize("effort", ["estimate", pytest.param("measure", marks=pytest.mark.full)])
def test_demo_remembers(matrix, effort):
    """The first process finds the plans, and the second one loads them."""
    first = python_m("demo", matrix, "--effort", effort, *QUICK[2:])
    assert first.returncode == 0, first.stderr
    second = python_m("demo", matrix, "--effort", effort, *QUICK[2:])
    assert second.returncode == 0, second.stderr
    assert "3,000 x 2,000" in first.stdout
    assert "remembered from an earlier run" not in first.stdout
    assert "3 remembered from an earlier run;" in second.stdout
    assert "found" not in second.stdout
    for words in ("A @ x", "A @ B, B of 32 columns", "A @ B, B of 256 columns", "SciPy", "break-even", "first call"):
        assert words in first.stdout


def test_demo_compares_what_was_measured_together(matrix, capsys, monkeypatch):
    """The speed-up shown beside a product must follow from the times shown beside it, not from an earlier race."""
    # tuned is slower than untuned, although the plan claims a gain
    seconds = {"scipy": 8e-3, "untuned": 2e-3, "ours": 4e-3}
    monkeypatch.setattr(demo.timing, "race", lambda calls: {name: seconds[name] for name in calls})
    schedule = space.schedule("matmul", "csr", {})
    plan = Plan(
        choice=choice_of(schedule),
        why="fastest of 3 measured, 1.36x the default kernel",
        default_s=1.36,
        measured_s=1.0,
    )
    pair = Pair.read(Path(matrix), "float32")
    shown = demo._measured(pair, demo.Tuned(1, pair.dense(1), 1e-3, plan))
    assert "1.36x" not in shown
    assert "tuned 0.50x as fast" in shown
    assert "never against the untuned default kernel" in shown


def test_bench_writes_what_it_measured(matrix, tmp_path, capsys):
    assert main(["bench", matrix, "--columns", "1,4", "--json", str(tmp_path / "out.json"), *QUICK]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())
    assert [row["columns"] for row in rows] == [1, 4]
    assert all(row["scipy_s"] > 0 and row["ours_s"] > 0 and row["nnz"] == 60000 for row in rows)
    assert "geomean" in capsys.readouterr().out


def test_bench_of_a_folder_leaves_out_broken_files(matrix, tmp_path, capsys):
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert main(["bench", str(tmp_path), "--columns", "2", "--effort", "off"]) == 0
    shown = capsys.readouterr()
    assert "small.npz" in shown.out
    assert "left out" in shown.err


def test_tune_then_explain(matrix, capsys):
    assert main(["tune", matrix, "--columns", "8", "--runs", "1000000000", *QUICK]) == 0
    assert "A @ B, B of 8 columns" in capsys.readouterr().out
    assert main(["tune", matrix, "--columns", "8", "--runs", "1000000000", *QUICK]) == 0
    assert "remembered" in capsys.readouterr().out
    assert main(["explain", matrix, "--columns", "1,8", "--transposed"]) == 0
    assert "3,000 x 2,000" in capsys.readouterr().out


def test_cache_export_clear_import(matrix, tmp_path, capsys):
    wisdom = str(tmp_path / "wisdom.zip")
    assert main(["tune", matrix, "--columns", "8", "--runs", "1000000000", *QUICK]) == 0
    assert main(["cache", "ls"]) == 0
    before = capsys.readouterr().out
    (name,) = re.findall(r"^plan .* (\S+)$", before, re.MULTILINE)
    assert main(["cache", "show", name]) == 0
    assert "plan" in capsys.readouterr().out
    assert main(["cache", "export", wisdom]) == 0
    assert main(["cache", "clear"]) == 0
    capsys.readouterr()
    assert main(["cache", "ls"]) == 0
    assert "nothing is remembered" in capsys.readouterr().out
    assert main(["cache", "import", wisdom]) == 0
    capsys.readouterr()
    assert main(["cache", "ls"]) == 0
    assert name in capsys.readouterr().out


def test_cache_show_says_where_it_is(tmp_path, capsys):
    assert main(["cache", "show"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == str(tmp_path / "cache")


def test_doctor_names_versions_and_hints(monkeypatch, capsys):
    from autosparse.config import reload_options

    main(["doctor"])
    assert scipy.__version__ in capsys.readouterr().out
    monkeypatch.setenv("AUTOSPARSE_CC", "no-such-compiler")
    reload_options()
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "looked for 'no-such-compiler'" in shown
    assert "AUTOSPARSE_CC" in shown
    assert "Hint: " in shown


def test_doctor_says_that_a_compiler_compiles_no_kernel(monkeypatch, tmp_path, capsys):
    """Check a compiler that runs and fails on vectors, as tcc does."""
    from autosparse.config import reload_options

    compiler = tmp_path / "narrowcc"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo narrow 1.0 && exit\necho "error: no vectors" >&2\nexit 1\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("AUTOSPARSE_CC", str(compiler))
    reload_options()
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "narrow 1.0; compiling a kernel with" in shown
    assert "error: no vectors" in shown
    assert "Hint: set AUTOSPARSE_CC to gcc" in shown


def test_closed_pipe_is_silent():
    """Check a reader that has ended before the command writes."""
    done = subprocess.run(
        f"{sys.executable} -m autosparse cache show | true", shell=True, capture_output=True, text=True, env=os.environ
    )
    assert done.stderr == ""


def test_doctor_says_that_the_extension_module_is_missing(monkeypatch, capsys):
    from autosparse._native import runtime_api

    monkeypatch.setattr(runtime_api, "extension_fault", "it was not built")
    assert main(["doctor"]) == 1
    assert "Python code reads arrays, some us more per product (it was not built)" in capsys.readouterr().out


def test_doctor_names_what_is_not_optimised(monkeypatch, capsys):
    from autosparse._native import runtime_api

    monkeypatch.setattr(runtime_api, "dev_sources", tuple)
    main(["doctor"])
    assert "make dev" not in capsys.readouterr().out
    monkeypatch.setattr(runtime_api, "dev_sources", lambda: ("a.c", "b.c"))
    main(["doctor"])
    assert "built by make dev, without optimisation of a.c, b.c" in capsys.readouterr().out


def test_doctor_tells_the_backend(monkeypatch, capsys):
    from autosparse.config import reload_options

    main(["doctor"])
    assert "backend" in capsys.readouterr().out
    monkeypatch.setenv("AUTOSPARSE_CC", "numba")
    reload_options()
    main(["doctor"])
    shown = capsys.readouterr().out
    assert "(asked for)" in shown or "pip install 'autosparse[numba]'" in shown
