"""Tests of `python -m autosparse transfer` and `autosparse.accelerators`, from a description to a ranking.

No optional dependency is needed.
"""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import runtime_api
from autosparse.tuner.research.targets.accelerator import FOLDER
from autosparse.tuner.research.transfer.source import to_measure

from autosparse import accelerators
from autosparse.cli import main
from autosparse.errors import InputError, RecordError
from tests.tuner.research.transfer.samples import pattern

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")


def matrix(seed, *, n_rows=400, nnz=2500):
    made = pattern(n_rows, 3000, nnz, seed)
    return scipy.sparse.csr_array((np.ones(made.nnz), made.indices, made.indptr), shape=made.shape)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{name}.npz" for name in "abc"]
    for seed, path in enumerate(paths):
        scipy.sparse.save_npz(path, scipy.sparse.csr_matrix(matrix(seed)))
    return paths


def mine(tmp_path, **changed):
    facts = json.loads((FOLDER / "wide.json").read_text(encoding="utf-8"))
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**facts, "name": "mine", **changed}), encoding="utf-8")
    return path


def test_from_a_description_to_five_programs(tmp_path, files, capsys):
    target, samples = mine(tmp_path), tmp_path / "samples.csv"
    assert main(["transfer", str(target), "--plan", str(samples), str(files[0]), str(files[1])]) == 0
    with samples.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["matrix"] for row in rows} == {str(files[0]), str(files[1])}
    assert all(float(row["cycles"]) > 0 for row in rows)
    capsys.readouterr()
    assert main(["transfer", str(target), "--samples", str(samples), str(files[2])]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  p_row=")]
    assert len(shown) == len(set(shown)) == 5


def test_without_a_machine_the_times_are_the_users(tmp_path, files, capsys):
    target, samples = mine(tmp_path, machine=None), tmp_path / "samples.csv"
    assert main(["transfer", str(target), "--plan", str(samples), str(files[0]), "--configurations", "7"]) == 0
    assert "fill in" in capsys.readouterr().out
    assert len(samples.read_text(encoding="utf-8").splitlines()) == 8
    assert main(["transfer", str(target), "--samples", str(samples), str(files[1])]) == 1
    assert "line 2" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["none.json", "--plan", "x.csv"], ["spade", "--samples", "none.csv"]])
def test_missing_files_are_named(arguments, files, capsys):
    assert main(["transfer", *arguments, str(files[0])]) == 1
    assert "none." in capsys.readouterr().err


def samples_of(target, A, seed):
    times = accelerators.times(target, A)
    return {number: float(times[number]) for number in to_measure(target, A.shape, seed=seed)}


def test_samples_of_the_target_bring_its_programs_into_order():
    """Check a target that is none of the sources, with tiles of other sizes."""
    target = accelerators.read("wide")
    given = {f"{seed}": matrix(seed, n_rows=600, nnz=6000) for seed in range(4)}
    measured = {name: samples_of(target, A, 1) for name, A in given.items()}
    other = matrix(9, n_rows=600, nnz=6000)
    times = np.log(accelerators.times(target, other))
    before = np.corrcoef(accelerators.transfer(target, {}, {}).costs(other), times)[0, 1]
    model = accelerators.transfer(target, measured, given)
    after = np.corrcoef(model.costs(other), times)[0, 1]
    assert after > max(before, 0.9)
    assert times[model.ranking(other, 5)].min() <= np.quantile(times, 0.05)
    whole = model.ranking(other)
    assert sorted(whole) == sorted(set(target.distinct(*other.shape)))
    assert whole[:5] == model.ranking(other, 5)


@pytest.mark.parametrize("has_trees", [True, False])
def test_five_matrices_are_enough_for_trees_where_they_can_be_fitted(has_trees, monkeypatch):
    if has_trees:
        pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: train)")
    monkeypatch.setattr(accelerators, "can_fit", lambda: has_trees)
    target = accelerators.read("spade")
    given = {f"{seed}": matrix(seed, n_rows=300, nnz=2000) for seed in range(5)}
    model = accelerators.transfer(target, {name: samples_of(target, A, 2) for name, A in given.items()}, given)
    assert (model.corrected is not None) == has_trees
    assert model.correction.startswith("trees" if has_trees else ("an additive", "no correction"))
    other = matrix(9, n_rows=300, nnz=2000)
    times = np.log(accelerators.times(target, other))
    assert np.corrcoef(model.costs(other), times)[0, 1] > 0.8


def test_units_of_time_do_not_matter():
    target = accelerators.read("spade")
    A = matrix(3)
    measured = {"A": samples_of(target, A, 0), "B": samples_of(target, matrix(4), 0)}
    scaled = {name: {number: 7e-9 * time for number, time in one.items()} for name, one in measured.items()}
    costs = [accelerators.transfer(target, one, {"A": A, "B": matrix(4)}).costs(A) for one in (measured, scaled)]
    assert np.allclose(*costs, atol=1e-9)


def test_mistakes_are_named():
    target = accelerators.read("spade")
    with pytest.raises(InputError, match="no such matrix"):
        accelerators.transfer(target, {"A": {0: 1.0}}, {})
    with pytest.raises(RecordError, match="times > 0"):
        accelerators.transfer(target, {"A": {0: 0.0}}, {"A": matrix(0)})
    with pytest.raises(RecordError, match="operation"):
        accelerators.transfer(target, {}, {}, operation="spmv")
