"""Tests of the residual transfer, of its samples and of its counts."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.research.transfer import residual
from autosparse.tuner.research.transfer.counts import COUNTED, additive, counted
from autosparse.tuner.research.transfer.residual import Fitted, fit_residual
from autosparse.tuner.research.transfer.source import Samples, best_distinct, drawn, to_measure
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from autosparse import accelerators
from autosparse.errors import RecordError
from tests.tuner.research.transfer.samples import pattern

SPADE = accelerators.read("spade")
PHI = additive(SPADE)


def made(k, *, seed=0, noise=0.0, gain=1.0):
    """Return k patterns whose log times are a base plus a sum over the parameters."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(PHI.shape[1]) * 0.3
    found = []
    for _ in range(k):
        numbers = rng.choice(256, 100, replace=False)
        base = rng.standard_normal(100)
        y = gain * base + PHI[numbers] @ theta + noise * rng.standard_normal(100)
        found.append(Fitted(base, PHI[numbers], y))
    return found, theta


def test_an_additive_truth_is_found():
    patterns, theta = made(8)
    fitted = fit_residual(patterns)
    base = np.random.default_rng(9).standard_normal(256)
    truth = base + PHI @ theta
    assert np.corrcoef(fitted.costs(base, PHI), truth)[0, 1] > 0.9999
    assert fitted.pairs[1] > fitted.pairs[0]


@settings(max_examples=4)
@given(factor=st.floats(0.01, 100), seed=st.integers(0, 5))
def test_only_ratios_within_a_pattern_count_and_no_order_does(factor, seed):
    patterns, _ = made(4, seed=seed, noise=0.1)
    changed = [Fitted(one.base, one.phi, one.y + np.log(factor)) for one in patterns]
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(100) for _ in changed]
    shuffled = [Fitted(one.base[at], one.phi[at], one.y[at]) for one, at in zip(changed[::-1], orders, strict=True)]
    base = rng.standard_normal(256)
    expected = fit_residual(patterns).costs(base, PHI)
    for other in (changed, shuffled):
        assert np.allclose(fit_residual(other).costs(base, PHI), expected, atol=1e-7)


def test_no_pattern_is_zero_shot_and_no_gain_is_none():
    base = np.random.default_rng(0).standard_normal(256).astype(np.float32)
    assert np.array_equal(fit_residual([]).costs(base, PHI), base)
    perfect = [Fitted(one.base, one.phi, one.base.copy()) for one in made(4)[0]]
    kept = fit_residual(perfect)
    assert kept.ridge is None
    assert np.array_equal(kept.costs(base, PHI), base)
    assert fit_residual(made(1)[0]).ridge is not None


def test_a_source_that_misleads_is_weighed_down():
    patterns, _ = made(8, gain=-1.0)
    assert fit_residual(patterns).scale <= 0.2


def test_samples_are_distinct_programs():
    A = pattern(300, 900, 1500, 1)
    same = SPADE.distinct(*A.shape)
    numbers = to_measure(SPADE, A.shape, seed=1)
    assert len(numbers) == len(set(numbers)) <= 100
    assert set(numbers) <= set(same)
    assert same[SPADE.configurations.index(SPADE.default)] in numbers
    one = drawn(numbers, np.arange(1.0, 257.0), rng=np.random.default_rng(0))
    assert np.array_equal(one.times, one.numbers + 1.0)
    assert abs(one.y.max()) <= 3


def test_samples_without_times_are_refused():
    with pytest.raises(RecordError, match="times > 0"):
        Samples("A", np.array([0, 1]), np.array([1.0, 0.0]))
    with pytest.raises(RecordError, match="configurations"):
        Samples("A", np.array([0, 1]), np.array([1.0]))


def test_the_best_five_are_five_programs():
    same = [0, 0, 2, 2, 4, 5, 6]
    assert best_distinct(np.array([1, 0, 3, 2, 9, 8, 7.0]), same, 5) == [0, 2, 6, 5, 4]
    assert best_distinct(np.zeros(7), same, 9) == [0, 2, 4, 5, 6]


def test_counts_are_those_of_the_tiles():
    A = pattern(200, 3000, 900, 2)
    found = 2 ** counted(A, SPADE).astype(np.float64)
    number = SPADE.find({"p_row": 32, "p_col": 1024, "split": 32, "barrier": 0, "bypass": 0, "reorder": 0})
    rows = np.repeat(np.arange(200), A.row_lengths)
    tiles = {(r // 32, c // 1024) for r, c in zip(rows.tolist(), A.indices.tolist(), strict=True)}
    visits = {(r, c // 1024) for r, c in zip(rows.tolist(), A.indices.tolist(), strict=True)}
    columns = {(r // 32, c) for r, c in zip(rows.tolist(), A.indices.tolist(), strict=True)}
    wanted = dict(zip(COUNTED, found[number], strict=True))
    assert wanted["tiles per entry"] == pytest.approx(len(tiles) / A.nnz, rel=1e-5)
    assert wanted["rows visited per entry"] == pytest.approx(len(visits) / A.nnz, rel=1e-5)
    assert wanted["columns of panels per entry"] == pytest.approx(len(columns) / A.nnz, rel=1e-5)
    assert wanted["columns of a panel"] == pytest.approx(1024, rel=1e-5)
    same = SPADE.distinct(*A.shape)
    assert np.array_equal(found, found[list(same)])
    assert not counted(pattern(4, 4, 0, 0), SPADE).any()


def test_small_systems_are_solved_by_one_thread(monkeypatch):
    threads: set[int] = set()

    def watched(*arguments: object) -> float:
        threads.update(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return 0.5

    monkeypatch.setattr(residual, "_left_out", watched)
    with threadpool_limits(2, user_api="blas"):  # the tests run with one thread (tests/__init__.py)
        before = threadpool_info()
        fit_residual(made(4)[0])
        assert threads == {1}
        assert threadpool_info() == before
