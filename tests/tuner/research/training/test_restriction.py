"""Tests of the restriction of trees to this library's space: the same predictions, bit for bit, with fewer columns."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.learned.codes import code_rows
from autosparse.tuner.learned.trees import Trees
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.research.training.boosted import is_joint, is_own, own_columns, own_only, restricted
from autosparse.tuner.research.training.boosting import trees_of
from autosparse.tuner.space.joint import JointSpace
from autosparse.tuner.space.own import own_space

N_SKETCH = 6


def joint(algorithm: str) -> JointSpace:
    return JointSpace((own_space(algorithm, threads=(0, 1, 2)), waco_space(algorithm, threads=(1, 2))))


def random_trees(n_columns: int, seed: int) -> Trees:
    """Return trees of depth 4 that split on all inputs: sketch, columns of codes, and the analytic model's ratio."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(40):
        splits = [
            (int(rng.integers(N_SKETCH + n_columns + 1)), float(rng.integers(-1, 12)) - 0.5, 2 * at + 1, 2 * at + 2)
            for at in range(15)
        ]
        leaves = [(-1, float(np.float32(rng.normal())), 0, 0) for _ in range(16)]
        tables.append([*splits, *leaves])
    return trees_of(tables, 0.25, N_SKETCH)


@pytest.mark.parametrize("algorithm", ["spmv", "spmm", "sddmm", "mttkrp"])
def test_restricted_trees_predict_the_same_for_programs_of_this_librarys_space(algorithm):
    space = joint(algorithm)
    rng = np.random.default_rng(1)
    schedules = [space.spaces[0].sample(rng) for _ in range(60)]
    whole = code_rows([space.encode(one) for one in schedules], space.parameters)
    own = own_only(space)
    few = code_rows([own.encode(one) for one in schedules], own.parameters)
    np.testing.assert_array_equal(whole[:, own_columns(space)], few)
    trees = random_trees(whole.shape[1], seed=2)
    kept = restricted(trees, space)
    assert len(kept.nodes) < len(trees.nodes)
    guesses = rng.integers(-9, 12, (len(few), 1)).astype(np.int16)
    for _ in range(5):
        sketch = np.repeat(rng.normal(size=(1, N_SKETCH)), len(few), axis=0)
        expected = trees.predict(np.hstack([sketch, whole, guesses]))
        np.testing.assert_array_equal(kept.predict(np.hstack([sketch, few, guesses])), expected)


def test_programs_of_other_spaces_are_told_apart():
    space = joint("spmv")
    rng = np.random.default_rng(3)
    both = [one.sample(rng) for one in space.spaces]
    codes = code_rows([space.encode(one) for one in both], space.parameters)
    assert is_own(codes, space).tolist() == [True, False]
    assert is_joint(space)
    single = own_only(space)
    assert not is_joint(single)
    assert is_own(code_rows([single.encode(both[0])], single.parameters), single).tolist() == [True]
    assert not is_joint(JointSpace(space.spaces[1:])), "a model of WACO's space alone has nothing to keep"
