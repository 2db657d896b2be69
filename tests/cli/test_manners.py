"""Tests that commands check their arguments before they work, and keep their results when they are interrupted."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from autosparse.cache import close_stores, open_store

from autosparse.cli import main, operands
from autosparse.config import reload_options


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOSPARSE_CACHE_DIR", str(tmp_path / "cache"))
    reload_options()
    close_stores()
    yield
    close_stores()


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with one good matrix."""
    place = tmp_path / "matrices"
    place.mkdir()
    scipy.sparse.save_npz(
        place / "m-good.npz", scipy.sparse.random_array((400, 300), density=0.02, format="csr", random_state=1)
    )
    return place


def plans() -> list[dict]:
    """Return every plan in the cache."""
    store = open_store()
    store.flush()
    return [one.record for one in store.envelopes(("plan",))]


@pytest.mark.parametrize("command", ["tune", "bench", "explain"])
def test_tune_uses_the_requested_effort_and_budget(command, folder, monkeypatch):
    """The planner must get exactly the effort and budget of the command line, and no number of products."""
    from autosparse.config import Effort
    from autosparse.tuning import planner

    plan, asked = planner.plan, []

    def told(bench, **how):
        asked.append(how)
        return plan(bench, **{**how, "effort": Effort.OFF})

    monkeypatch.setattr(planner, "plan", told)
    assert main([command, str(folder / "m-good.npz"), "--columns", "4", "--effort", "full", "--budget-s", "15"]) == 0
    (how,) = asked
    assert (how["effort"], how["runs"], how["budget_s"], how["may_lower"]) == (Effort.FULL, None, 15.0, False)


def test_runs_limit_tuning_that_does_not_pay(folder, capsys):
    assert main(["tune", str(folder / "m-good.npz"), "--runs", "1", "--budget-s", "5"]) == 0
    assert "tuning does not pay: 1 products" in capsys.readouterr().out


def test_an_interrupted_tune_keeps_what_it_found(folder, capsys, monkeypatch):
    """An interrupt after the second race must keep the winner, and the next `tune` must resume the search."""
    from autosparse.tuner.search.search import Search

    flush, n_races = Search._update_incumbent, 0

    def interrupted(self, race, entrants):
        nonlocal n_races
        flush(self, race, entrants)
        n_races += 1
        if n_races == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Search, "_update_incumbent", interrupted)
    command = ["tune", str(folder / "m-good.npz"), "--columns", "4,16", "--effort", "full", "--budget-s", "60"]
    assert main(command) == 130
    assert "what was found until now is kept" in capsys.readouterr().err
    (plan,) = plans()
    assert any(one["measured_s"] is not None for one in plan["candidates"])
    assert plan["effort"] == "estimate"  # less than the effort of a finished search, so the next search resumes
    monkeypatch.setattr(Search, "_update_incumbent", flush)
    assert main(["tune", str(folder / "m-good.npz"), "--columns", "4", "--budget-s", "5"]) == 0
    assert "remembered" not in capsys.readouterr().out


def test_interrupt_from_the_keyboard(folder, tmp_path):
    """A real SIGINT must have the same effect at any moment."""
    command = [sys.executable, "-m", "autosparse", "tune", str(folder / "m-good.npz"), "--columns", "16",
               "--effort", "full", "--budget-s", "60"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "400 x 300" in process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    if "found in" not in out:  # otherwise the search had ended before the signal
        # While Python executes source text, as dataclasses do, SIGINT can end `python -m` by the signal; shells report
        # 130 too.
        assert process.returncode in (130, -signal.SIGINT), err
        assert "what was found until now is kept" in err
        assert "Traceback" not in err


def bad_files(place: Path) -> list[str]:
    """Write files that hold no matrix, each broken in another way, and return their names."""
    (place / "a-empty.mtx").write_bytes(b"")
    (place / "b-short.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1.0\n")
    (place / "c-text.npz").write_text("not a zip file")
    (place / "d-cut.mtx.gz").write_bytes(gzip.compress(b"%%MatrixMarket matrix coordinate real general\n3 3 1\n")[:-9])
    (place / "e-folder.npz").mkdir()
    (place / "f-nowhere.npz").symlink_to(place / "nowhere")
    np.savez(place / "g-dense.npz", np.eye(3))
    np.savez(place / "h-object.npz", data=np.array([object()], dtype=object), format="csr")
    np.savez(place / "i-outside.npz", indices=[9], indptr=[0, 1], data=[1.0], shape=[1, 2], format=np.array("csr"))
    np.savez(place / "j-short.npz", indices=[0], indptr=[0, 5, 1], data=[1.0], shape=[2, 2], format=np.array("csr"))
    scipy.io.mmwrite(place / "k-good.mtx", scipy.sparse.eye_array(50))
    os.mkfifo(place / "l-pipe.npz")
    np.savez(place / "n-line.npz", coords=[[0, 1]], data=[1.0, 2.0], shape=[4], format=np.array("coo"))
    return [one.name for one in place.iterdir() if "good" not in one.name]


def test_bench_of_a_folder_names_each_bad_file_and_goes_on(folder, capsys):
    names = bad_files(folder)
    assert main(["bench", str(folder), "--columns", "2", "--effort", "off"]) == 0
    shown = capsys.readouterr()
    assert "k-good.mtx" in shown.out
    assert "m-good.npz" in shown.out
    for name in names:
        lines = [line for line in shown.err.split("\n") if name in line]
        assert len(lines) == 1, (name, shown.err)
        assert lines[0].startswith("left out: ")
    assert "Traceback" not in shown.err


def test_bench_goes_on_after_a_matrix_that_does_not_fit(folder, capsys, monkeypatch):
    scipy.sparse.save_npz(folder / "a-wide.npz", scipy.sparse.csr_array((4, 5)))
    dense = operands.Pair.dense

    def small(self, n_columns, *, transposed=False):
        if self.name == "a-wide.npz":
            raise MemoryError
        return dense(self, n_columns, transposed=transposed)

    monkeypatch.setattr(operands.Pair, "dense", small)
    assert main(["bench", str(folder), "--columns", "2", "--effort", "off"]) == 0
    shown = capsys.readouterr()
    assert "m-good.npz" in shown.out
    assert "left out: a-wide.npz" in shown.err


def test_an_interrupted_bench_keeps_its_rows(folder, tmp_path, capsys, monkeypatch):
    from autosparse.cli import timing

    race, n_races = timing.race, 0

    def interrupted(*arguments, **how):
        nonlocal n_races
        n_races += 1
        if n_races == 2:
            raise KeyboardInterrupt
        return race(*arguments, **how)

    monkeypatch.setattr(timing, "race", interrupted)
    out = tmp_path / "rows.json"
    assert main(["bench", str(folder), "--columns", "1,2", "--effort", "off", "--json", str(out)]) == 130
    assert [row["columns"] for row in json.loads(out.read_text())] == [1]
    assert "what was found until now is kept" in capsys.readouterr().err


BAD_ARGUMENTS = {
    "page in no folder": ["explain", "{matrix}", "--html", "{folder}/none/page.html"],
    "page over a folder": ["explain", "{matrix}", "--html", "{folder}"],
    "page of two widths": ["explain", "{matrix}", "--columns", "1,2", "--html", "{folder}/page.html"],
    "json in no folder": ["bench", "{matrix}", "--json", "{folder}/none/rows.json"],
    "export in no folder": ["cache", "export", "{folder}/none/wisdom.zip"],
    "out is a file": ["calibrate", "--out", "{matrix}"],
    "collect: out is a file": ["collect", "--out", "{matrix}"],
    "collect: no matrices": ["collect", "--out", "{folder}/out", "--matrices", "{folder}/none"],
    "train: out is a file": ["train", "--data", "{folder}", "--extractor", "boosted", "--out", "{matrix}"],
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_arguments_are_checked_before_work_begins(name, folder, capsys, monkeypatch):
    """A command that cannot succeed must not read, measure or tune anything."""
    from autosparse.calibration import collection
    from autosparse.cli import cache
    from autosparse.dispatch import executor
    from autosparse.tuning.rates import probing

    def work(*arguments, **how):
        raise AssertionError("work has begun")

    works = (
        (executor, "tune"), (executor, "report"), (executor, "matmul"), (collection, "context_for"),
        (probing, "measured_rates"), (cache, "wisdom_export"),
    )  # fmt: skip
    for home, what in works:
        monkeypatch.setattr(home, what, work)
    monkeypatch.setattr(operands.Pair, "read", work)
    arguments = [one.format(folder=folder, matrix=folder / "m-good.npz") for one in BAD_ARGUMENTS[name]]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"autosparse {arguments[0]}: ")
    assert "Hint:" in said
    assert "Traceback" not in said
