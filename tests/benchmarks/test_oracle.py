"""Tests of the oracle report, and of the rule that sealed groups are opened once per release."""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
import sealed
from autosparse.tuner.research.collect.operations import OPS
from autosparse.tuner.research.collect.recipes import Recipe, is_held_out, is_sealed
from autosparse.tuner.research.generators.coordinates import Coordinates
from autosparse.tuner.research.training.data import ON_HOST, TrainingCase, is_validation
from autosparse.tuner.space import spaces
from peerlib.oracle_report import by_group, interval, outcomes, report

from autosparse.calibration.collection import context_for
from autosparse.config import Options
from autosparse.core.solver import choice_of

GROUPS = [f"group {n}" for n in range(900)]


def records(name="m", group="g", estimate=0.8, best=0.5):
    search = {
        "case": name, "step": "search", "matrix": name, "group": group, "operation": "spmv", "is_long": True,
        "tiers": {
            "estimate": {"schedule": "a", "claimed": 0.6},
            "measure": {"schedule": None, "claimed": 1.0},
        },
        "long": {"schedule": "b", "claimed": 0.5},
    }  # fmt: skip
    race = {"case": name, "step": "race", "ratios": {"default": 1.0, "a": estimate, "b": best + 0.1, "c": best}}
    return [search, race]


def test_tiers_are_compared_with_the_best_of_all_that_raced():
    (one,) = outcomes(records())
    assert one.oracle == 0.5
    assert one.ratios == {"default": 1.0, "estimate": 0.8, "measure": 1.0, "long": 0.6}
    assert one.claimed == {"estimate": 0.6, "long": 0.5}  # the default kernel claims no gain
    text = report(records())
    assert "| spmv | 1 | 1 | estimate | 0.625 |" in text
    assert "| spmv | estimate | 1 | 1.67 | 1.25 | 0.750 | 0.750 |" in text


def test_tiers_that_decided_again_before_the_race_are_reported():
    search, race = records()
    race["tiers"] = {**search["tiers"], "estimate": {"schedule": "c", "claimed": 0.5}}
    (one,) = outcomes([search, race])
    assert one.ratios["estimate"] == one.oracle == 0.5


def test_a_case_without_its_race_is_not_reported():
    assert outcomes(records()[:1]) == []
    assert "no case" in report(records()[:1])


def test_a_choice_that_could_not_race_is_no_default_kernel():
    search, race = records()
    del race["ratios"]["a"]
    assert outcomes([search, race]) == []
    text = report([*records("n"), search, race])
    assert "1 cases" in text
    assert "Left out: 1 cases" in text


def test_a_stopped_run_has_seen_every_group_first(monkeypatch):
    held = [group for group in GROUPS if is_held_out(group) and not is_sealed(group)][:3]
    files = [oracle.RealFile(name=f"{n}.npz", group=held[n % 3], nnz=20_000 + n, n_dims=2) for n in range(9)]
    monkeypatch.setattr(oracle, "real_files", lambda folder: files)
    chosen = [file.group for file in oracle.files_of(oracle.arguments(["--matrices", "."]))]
    assert len(chosen) == 6
    assert set(chosen[:3]) == set(held)
    cells = list(oracle.cells(oracle.arguments(["--matrices", ".", "--ops", "spmv,spmm8"])))
    assert [op.name for _, op, _ in cells[:4]] == ["spmv", "spmm8", "spmv", "spmm8"]


def test_the_validation_option_selects_the_validation_groups_of_training(monkeypatch):
    files = [oracle.RealFile(name=f"{n}.npz", group=group, nnz=20_000, n_dims=2) for n, group in enumerate(GROUPS)]
    monkeypatch.setattr(oracle, "real_files", lambda folder: files)
    groups = {
        name: {one.group for one in oracle.files_of(oracle.arguments(["--matrices", ".", "--groups", name]))}
        for name in ("open", "validation")
    }
    assert groups["validation"] == {one for one in GROUPS if not is_held_out(one) and is_validation(one)}
    assert groups["open"] == {one for one in GROUPS if is_held_out(one) and not is_sealed(one)}


def test_searches_have_the_memory_of_users_and_races_more():
    n, n_long = 500, 400  # a diagonal and one long row, to whose length its slice is padded
    rows, cols = np.append(np.arange(n), np.zeros(n_long, int)), np.append(np.arange(n), np.arange(1, 1 + n_long))
    pattern = Coordinates.of((n, n), (rows, cols))
    with context_for(pattern, OPS["spmv"]) as context:
        users = oracle.as_users_have_it(context)
        assert users.limit_bytes == int(Options().extra_memory * context.problem.operand_bytes) < context.limit_bytes
        sliced = (one for one in spaces.everything(context.problem, context.supports) if one.format.is_sliced)
        slices = min(sliced, key=lambda one: one.format.split("i"))  # the number of rows depends on the instruction set
        assert context(choice_of(slices)).fits()
        assert not users(choice_of(slices)).fits()


def test_disturbed_runs_are_repeated_and_reported(monkeypatch):
    loads = iter([1.5, 0.1, 0.9, 0.4, 0.6])
    monkeypatch.setattr(oracle, "others_load", lambda before: next(loads))
    times = iter("abcde")
    assert oracle.undisturbed(lambda: next(times)) == ("b", 0.1)
    assert oracle.undisturbed(lambda: next(times)) == ("d", 0.4)  # never quiet: the least disturbed run
    search, race = records()
    assert "other processes" not in report([search, race])
    assert "In 1 other processes were busy" in report([search, {**race, "others_load": 0.4}])


def test_groups_have_equal_weight_regardless_of_their_size():
    cases = outcomes([*records("a", "x", 0.5), *records("b", "x", 0.5), *records("c", "y", 1.0)])
    assert by_group(cases, lambda one: one.ratios["estimate"]) == pytest.approx([0.5, 1.0])
    low, high = interval([0.5, 1.0])
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(1.0)
    assert math.isclose(low, interval([0.5, 1.0])[0])


def test_sealed_groups_are_held_out_from_everything():
    share = sum(map(is_sealed, GROUPS)) / sum(map(is_held_out, GROUPS))
    assert 0.4 < share < 0.6
    for group in GROUPS:
        if is_sealed(group):
            recipe = Recipe(kind="real", source="x", group=group)
            case = TrainingCase(recipe, *[None] * 3, 1.0, setting=ON_HOST)
            assert case.split == "sealed"


def test_a_release_is_opened_once(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    assert sealed.opened("1.0", "abc", ledger)
    assert not sealed.opened("1.0", "abc", ledger)  # the same commit may continue
    known = sealed.openings(ledger)
    assert sealed.objection("1.0", "abc", known) is None
    assert "once is the rule" in sealed.objection("1.0", "def", known)
    assert sealed.objection("1.1", "def", known) is None
    for nowhere in ("def+", sealed.UNKNOWN):
        assert "commit it first" in sealed.objection("1.1", nowhere, known)
    assert sealed.broken_rules(known) == []
    sealed.opened("1.0", "def", ledger)
    assert sealed.broken_rules(sealed.openings(ledger)) == ["release 1.0 was opened on 2 commits"]


def test_recorded_openings_of_sealed_groups_follow_the_rule():
    assert sealed.broken_rules(sealed.openings()) == []
