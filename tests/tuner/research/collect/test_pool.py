"""Tests of kernel pools: few kernels for many samples, all of them legal members of their space."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse.tuner.research.collect.sampling import KernelPool
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.space.algorithms import ALGORITHMS
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import TemplateSpace

from autosparse.errors import ScheduleError

SPACES = [make(algorithm, threads=(1, 2)) for algorithm in ALGORITHMS for make in (waco_space, own_space)]
everywhere = pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)


@everywhere
@pytest.mark.parametrize("n_patterns", [8, pytest.param(50, marks=pytest.mark.full)])
def test_100_samples_of_each_pattern_need_one_kernel_per_five_pairs_at_most(
    space: TemplateSpace, n_patterns: int
) -> None:
    pool = KernelPool(space, 10 * n_patterns)
    pairs = [
        pool.sample(np.random.default_rng(pattern * 1000 + at)) for pattern in range(n_patterns) for at in range(100)
    ]
    kernels = {one.as_compiled() for one in pairs}
    assert len(kernels) <= len(pairs) / 5
    assert kernels <= {one.as_compiled() for one in pool.members}
    assert len(set(pairs)) > 2 * len(kernels)  # run-time parameters vary


@everywhere
def test_a_pool_repeats_with_its_seed_and_stays_in_the_space(space: TemplateSpace) -> None:
    pool = KernelPool(space, 30, seed=4)
    assert len(pool) == 30
    assert pool.members == KernelPool(space, 30, seed=4).members != KernelPool(space, 30, seed=5).members
    assert len({one.as_compiled() for one in pool.members}) == 30
    rng = np.random.default_rng(0)
    assert all(space.contains(pool.sample(rng)) for _ in range(50))


def test_a_pool_of_what_little_is_supported_is_small() -> None:
    space = own_space("spmv")
    csr = KernelPool(space, 1000, supports=lambda _, one: None if one.format.is_csr and one.prefetch == 0 else "no")
    assert len(csr) == 6  # unroll factors
    with pytest.raises(ScheduleError):
        KernelPool(space, 10, supports=lambda operation, one: "none")
