"""Tests of cost models that read measured rates of a machine."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.features.setting import MachineRates
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.tuning.rates import probing
from autosparse.tuning.rates.probed import ProbedRates, RatesInUse
from autosparse.tuning.rates.scaling import SHIPPED, comparable, model_rates, references, rounded, usual_memory_share
from tests.tuning.test_rates import SHIPPED_XEON, TRUE, UNKNOWN, measured, problem


def used(rates: ProbedRates | None, threads: int) -> RatesInUse:
    return RatesInUse(rates, threads, "given")


def test_the_reference_machine_has_the_shipped_rates():
    """Check that models of the machine where they were fitted do not change when it measures itself."""
    there = dataclasses.replace(problem(threads=2), target=dataclasses.replace(SHIPPED_XEON, isa="avx512"))
    shipped_rates, probed = references()
    assert dataclasses.replace(comparable(probed), start_s=0.0) == shipped_rates
    (core, vector), (shipped_core, shipped_vector) = model_rates(there, used(shipped_rates, 2)), SHIPPED
    for found, shipped in ((core, shipped_core), (vector, shipped_vector)):
        for name, value in dataclasses.asdict(shipped).items():
            assert getattr(found, name) == pytest.approx(value), name
    assert model_rates(there, used(None, 2)) == SHIPPED


def test_memory_that_threads_share_costs_more_per_thread():
    """Check that a machine whose threads share one memory ranks by less bandwidth per thread than one thread has."""
    one, four = (model_rates(problem(threads=n), used(TRUE, 4))[0] for n in (1, 4))
    assert one.memory > four.memory
    assert one.memory / SHIPPED[0].memory == pytest.approx(TRUE.core_memory / (references()[0].memory / 1.7))


@pytest.mark.parametrize("n_dense_cols", [1, 32])
def test_the_same_plan_comes_out_in_nine_of_ten_measurements(n_dense_cols):
    """Rank all candidates by the rates of ten noisy measurements; the best one is the same nine times at least."""
    one = problem(n_dense_cols)
    schedules = (None, *spaces.candidates(one, _native.supports))
    best = []
    for seed in range(10):
        rates = rounded(comparable(measured(noise=0.15, seed=seed).rates), MachineRates.typical(UNKNOWN))
        times_s = statistics_model(one, model_rates(one, used(rates, 4))).rank(one, schedules)
        best.append(int(np.argmin(times_s)))
    assert max(map(best.count, best)) >= 9, best


def test_memory_that_is_slow_to_get_is_not_given_the_rate_of_a_cache():
    """Check rates of memory where no footprint beyond the caches can be written in time: a share of the cache's."""
    found, share = measured(write_s=2e-9).rates, usual_memory_share(UNKNOWN)
    assert share < 0.5
    assert found.l3 == pytest.approx(TRUE.l3, rel=1e-3)
    assert found.memory == pytest.approx(share * TRUE.l3, rel=1e-3)
    assert found.core_memory == pytest.approx(share * TRUE.core_l3, rel=1e-3)


@pytest.mark.parametrize("l3_mib", [8, 32, 64, 480])
def test_the_footprint_of_memory_exceeds_a_cache_that_fits_into_the_limit_twice(l3_mib):
    target = dataclasses.replace(UNKNOWN, l3_bytes=l3_mib << 20)
    far = probing.far_bytes(target, 4)
    assert probing.MIN_BYTES <= far <= probing.MAX_BYTES
    assert far >= 2 * target.l3_bytes or 2 * target.l3_bytes > probing.MAX_BYTES
