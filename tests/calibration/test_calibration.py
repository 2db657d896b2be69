"""Tests of calibration: honest gains, no change by chance, no damage when killed, and undo."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from autosparse.tuner.research.calibration import adjustments, choice
from autosparse.tuner.research.calibration.adjustments import ADJUSTMENTS, left_over
from autosparse.tuner.research.calibration.choice import choose
from autosparse.tuner.research.calibration.examples import Example
from autosparse.tuner.research.calibration.store import ModelStore
from autosparse.tuner.research.training.boosting import clipped_logs, trees_of

N_SKETCH, N_COLUMNS, N_PROGRAMS = 4, 3, 40


def examples(n_groups, *, effect=0.0, noise=0.0, slope=1.0, per_group=1, seed=0):
    """Return examples whose model is right up to `effect` where the first column is 2, a slope, and noise."""
    rng = np.random.default_rng(seed)
    found = []
    for group in range(n_groups):
        for _ in range(per_group):
            codes = rng.integers(0, 4, (N_PROGRAMS, N_COLUMNS)).astype(np.int16)
            predicted = 0.25 * codes[:, 1] - 0.4 + 0.1 * rng.normal(size=N_PROGRAMS)
            true = slope * predicted + effect * (codes[:, 0] == 2) + noise * rng.normal(size=N_PROGRAMS)
            pattern = rng.normal(size=N_SKETCH).astype(np.float32)
            no = np.zeros(N_PROGRAMS, np.bool_)
            found.append(Example(f"g{group}", pattern, codes, predicted, np.exp(true).astype(np.float32), no))
    return found


@pytest.mark.parametrize("way", [way for way in ADJUSTMENTS if way != "nothing"])
def test_no_adjustment_shifts_the_mean_prediction(way):
    """Trees without leaf weights, added with their whole base, had moved estimates by a quarter."""
    if way in adjustments.missing():
        pytest.skip("sklearn is not installed (extra: train)")
    measured = examples(6, effect=0.5, noise=0.2)
    # Slow schedules with large errors have small weights: they must not shift the fast ones.
    measured = [
        dataclasses.replace(one, ratios=np.where(one.programs[:, 2] == 3, 12.0, one.ratios)) for one in measured
    ]
    rest, weights = left_over(measured, ADJUSTMENTS[way](measured))
    assert abs(float(np.average(rest, weights=weights))) < 1e-5


def test_a_machine_specific_error_is_learned_and_helps_on_held_out_patterns():
    found = choose(examples(8, effect=-0.6))
    assert found.way in ("residual", "more trees")
    assert found.after.loss < found.before.loss
    assert found.after.pairs > found.before.pairs
    fresh = examples(3, effect=-0.6, seed=9)
    error = [np.abs(found.adjustment.on(one) - clipped_logs(one.ratios)).mean() for one in fresh]
    assert np.mean(error) < 0.15


@pytest.mark.parametrize("seed", range(6))
def test_no_adjustment_is_chosen_without_an_effect(seed):
    """The reported gain was once the maximum over sixty stages on the split that chose among them, so noise won."""
    found = choose(examples(5, noise=0.15, seed=seed))
    gained = found.before.loss - found.after.loss
    assert found.way == "nothing" or gained > 0.0
    if found.way == "nothing":
        assert found.after == found.before


def test_no_adjustment_is_chosen_on_noise():
    """With a limit of one standard error, noise had won in three of these cases."""
    ways = [choose(examples(5, noise=0.15, seed=seed)).way for seed in range(20, 32)]
    assert ways.count("nothing") == len(ways)


def test_a_small_effect_is_learned_from_many_patterns():
    found = choose(examples(20, effect=-0.3, noise=0.1, seed=3))
    assert found.way in ("residual", "more trees")
    assert found.after.loss < found.before.loss


def test_errors_common_to_a_pattern_are_not_attributed_to_programs():
    """Use two patterns, each measured with programs of one kind; the model is off by a factor on one of them."""
    off = [
        dataclasses.replace(one, programs=np.where([True, False, False], at, one.programs).astype(np.int16))
        for at, one in enumerate(examples(2))
    ]
    off[1] = dataclasses.replace(off[1], ratios=2.0 * off[1].ratios)
    found = ADJUSTMENTS["residual"](off)
    fresh = examples(1, seed=4)[0]
    changes = found.on(fresh) - fresh.predicted
    assert float(np.ptp(changes)) < 0.02


def test_groups_are_left_out_whole(monkeypatch):
    """A split by index put patterns of one origin on both sides, so memorising looked like a gain."""
    measured = examples(4, per_group=3)
    fitted_to = []

    def spy(seen):
        fitted_to.append({one.group for one in seen})
        return adjustments.Adjustment()

    choice.judged_without(measured, ["g0", "g1", "g2", "g3"], "spy", spy)
    assert fitted_to == [{"g0", "g1", "g2", "g3"} - {group} for group in ("g0", "g1", "g2", "g3")]


def test_few_patterns_decide_nothing():
    assert choose(examples(2, effect=-1.0)).way == "nothing"
    with pytest.raises(ValueError, match="0 given, at least 1 needed"):
        choose([])


def test_without_scikit_learn_the_other_ways_compete(monkeypatch):
    monkeypatch.setattr(adjustments.importlib.util, "find_spec", lambda name: None)
    found = choose(examples(6, effect=-0.6))
    assert found.way == "residual"
    assert found.left_out == {"more trees": "sklearn"}
    assert "more trees" not in found.judged


def test_an_adjusted_model_is_the_sum_that_was_judged():
    """The written model is one sum of trees: the old ones times the slope, and the new ones."""
    old = trees_of([[(N_SKETCH, 1.5, 1, 2), (-1, 0.3, 0, 0), (-1, -0.2, 0, 0)]], 0.1, N_SKETCH)
    measured = [
        dataclasses.replace(one, predicted=old.on(one.pattern).predict(one.programs).astype(np.float64))
        for one in examples(4, effect=-0.4)
    ]
    for way in ("scale", "residual"):
        found = ADJUSTMENTS[way](measured)
        written = old.scaled(found.slope).joined(found.more)
        for one in measured:
            np.testing.assert_allclose(written.on(one.pattern).predict(one.programs), found.on(one), atol=1e-5)


# -- the store ------------------------------------------------------------------------------------------------------


def test_a_calibration_is_taken_back_to_what_was_there_before(tmp_path):
    store = ModelStore(tmp_path)
    assert store.undo(["spmv"]) == {}
    store.staged("spmv").write_bytes(b"first")
    store.replace("spmv")
    assert store.undo(["spmv", "spmm32"]) == {"spmv": "the model that comes with autosparse"}
    assert not store.path("spmv").exists()
    for text in (b"first", b"second"):
        store.staged("spmv").write_bytes(text)
        store.replace("spmv")
    assert store.path("spmv").read_bytes() == b"second"
    assert store.undo(["spmv"]) == {"spmv": "the calibration before"}
    assert store.path("spmv").read_bytes() == b"first"


KILLED = """
import os, signal, sys
from pathlib import Path
from autosparse.tuner.research.calibration import store as module
folder, at = Path(sys.argv[1]), int(sys.argv[2])
steps = 0
def counted(real):
    def step(*given, **named):
        global steps
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        return real(*given, **named)
    return step
module.shutil.copyfile = counted(module.shutil.copyfile)
Path.replace, Path.touch, Path.unlink = counted(Path.replace), counted(Path.touch), counted(Path.unlink)
models = module.ModelStore(folder)
models.staged("spmv").write_bytes(b"new" * 1000)
models.replace("spmv")
"""


@pytest.mark.parametrize("at", range(4))
def test_killed_at_any_step_the_old_model_or_the_new_one_is_there_whole(tmp_path, at):
    store = ModelStore(tmp_path)
    store.path("spmv").write_bytes(b"old" * 1000)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(at)], check=False, timeout=60)
    assert (done.returncode == -9) == (at < 4)
    assert store.path("spmv").read_bytes() in (b"old" * 1000, b"new" * 1000)
    if at < 3:
        assert store.path("spmv").read_bytes() == b"old" * 1000
    store.clear_staged()
    assert not list(tmp_path.glob(".new-*"))
