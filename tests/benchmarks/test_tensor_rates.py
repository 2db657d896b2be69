"""Tests of the fitted rates of the MTTKRP statistics model, and of the script that fits them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from autosparse.tuner.analytic.mttkrp import TensorRates, tensor_facts, terms
from autosparse.tuner.research.collect.files import read_merged
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.core.problem import Problem
from autosparse.core.target import Target

RATES = np.array(list(dataclasses.asdict(TensorRates()).values()))


@pytest.fixture(scope="module")
def measured():
    import tensor_rates
    from peerlib.archives import extracted

    def first_small(folder, name):
        return [one for one in read_merged(folder / name) if one.facts["nnz"] < 150_000][:10]

    found = [tensor_rates._case(one, None) for one in first_small(extracted("training") / "xeon480", tensor_rates.MORE)]
    return tensor_rates, found


def test_shipped_rates_order_what_was_measured(measured):
    tensor_rates, found = measured
    assert {case.recipe.n_dims for case in found} == {4, 5}
    taus = [float(tensor_rates.quality([case], RATES)[1]) for case in found]
    assert np.mean(taus) > 0.35
    shuffled = np.random.default_rng(0).permutation(RATES)
    assert np.mean([float(tensor_rates.quality([case], shuffled)[1]) for case in found]) < 0.3


def test_a_fit_finds_rates_again(measured):
    """Make ratios from other rates than the fit starts from: the fitted rates must reproduce them."""
    tensor_rates, found = measured
    true = RATES * np.exp(np.random.default_rng(1).normal(0.0, 0.7, RATES.size))
    made = []
    for case in found[:5]:
        times = case.terms @ true
        made.append(case._replace(log_ratios=np.log(times[1:] / times[0]), default_ns=times[0]))
    fitted = tensor_rates.fitted(made, RATES)
    for case in made:
        times = case.terms @ fitted
        np.testing.assert_allclose(np.log(times[1:] / times[0]), case.log_ratios, atol=0.1)


@pytest.mark.parametrize("n_dims", [3, 4, 5])
def test_recipes_make_the_same_tensor_every_time(measured, n_dims):
    tensor_rates, _ = measured
    recipe = next(one for one in tensor_rates.recipes(8, 3) if n_dims in (3, one.n_dims))
    recipe = dataclasses.replace(recipe, n_dims=n_dims, nnz=3_000)
    one, other = tensor_rates.tensor_of(recipe, None), tensor_rates.tensor_of(recipe, None)
    assert len(one.shape) == n_dims
    assert one.shape == other.shape
    assert all(np.array_equal(a, b) for a, b in zip(one.indices, other.indices, strict=True))


def test_terms_are_what_a_schedule_does(measured):
    """Check that terms are nonnegative, and that wider indices, more passes and prefetching change the cost."""
    tensor_rates, _ = measured
    recipe = dataclasses.replace(next(tensor_rates.recipes(1, 0)), nnz=3_000)
    pattern = tensor_rates.tensor_of(recipe, None).to_structure()
    problem = Problem(
        operation="mttkrp", pattern=pattern, transposed=False, n_dense_cols=32, dtype="float32", threads=2,
        deterministic=False, target=Target.host(),
    )  # fmt: skip
    whole = spaces.everything(problem, _native.supports)
    found = terms(tensor_facts(pattern, 0), problem, [None, *whole])
    assert (found >= 0).all()
    times = dict(zip(whole, (found @ RATES)[1:], strict=True))
    n_pairs = 0
    for one, time_ns in times.items():
        wider = dataclasses.replace(one, format=dataclasses.replace(one.format, index_bits=32))
        if one.format.index_bits == 16 and wider in times:
            assert times[wider] > time_ns
        fetching = dataclasses.replace(one, prefetch=8)
        if not one.prefetch and fetching in times and one.format.levels[0].kind.value == "U":
            n_pairs += times[fetching] != time_ns
        more_passes = dataclasses.replace(one, dense_splits=(("j", 16),))
        if one.dense_split("j") == 32 and more_passes in times:
            assert times[more_passes] > time_ns
    assert n_pairs
