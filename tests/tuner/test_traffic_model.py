"""The traffic model of many schedules at once is that of one schedule after the other, and chooses the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.analytic.matmul import CROWDED, TWINS, TrafficModel, behind_runtime
from autosparse.tuner.analytic.traits import Traits
from autosparse.tuner.features.statistics import Locality, pattern_facts
from autosparse.tuner.generators.base import generate
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from tests.tuner.traffic import PlainTrafficModel

AVX512 = Target(
    cpu="fake", machine="x86_64", isa="avx512", n_cores=2, l1_bytes=48 << 10, l2_bytes=2 << 20, l3_bytes=90 << 20
)
SMALL = Target(
    cpu="fake", machine="x86_64", isa="avx2", n_cores=1, l1_bytes=32 << 10, l2_bytes=64 << 10, l3_bytes=1 << 20
)


def problem_of(family: str, n_columns: int, *, transposed: bool, dtype: str, target: Target) -> Problem:
    return Problem(
        operation="matmul", pattern=generate(family, nnz=60_000, seed=2).to_pattern(), transposed=transposed,
        n_dense_cols=n_columns, dtype=dtype, threads=2, deterministic=False, target=target,
    )  # fmt: skip


@pytest.mark.parametrize("family", ["blocks", "mesh", "rmat", "stencil", "hypersparse"])
@pytest.mark.parametrize("n_columns", [1, 3, 32, 256])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dtype", "target"), [("float32", AVX512), ("float64", SMALL)])
def test_times_and_order_are_those_of_one_schedule_after_the_other(family, n_columns, transposed, dtype, target):
    problem = problem_of(family, n_columns, transposed=transposed, dtype=dtype, target=target)
    facts = pattern_facts(problem.matrix, transposed=transposed)
    locality = None if transposed else Locality(problem.matrix)
    schedules = (None, *spaces.candidates(problem, _native.supports))
    found = TrafficModel(facts, locality=locality).rank(problem, schedules)
    wanted = PlainTrafficModel(facts, locality=locality).rank(problem, schedules)
    assert found == pytest.approx(wanted, rel=1e-14)
    for times in (found, wanted):  # ties and last bits aside
        times[:] = [float(f"{one:.12e}") for one in times]
    assert sorted(range(len(found)), key=found.__getitem__) == sorted(range(len(wanted)), key=wanted.__getitem__)


def test_generated_kernels_fall_behind_where_the_runtime_alone_stores_past_the_last_cache():
    for columns, crowded in ((256, True), (1, False), (2, False)):
        times = {}
        for cpu in ("AMD EPYC", "fake"):
            target = dataclasses.replace(SMALL, cpu=cpu)
            problem = problem_of("rmat", columns, transposed=False, dtype="float32", target=target)
            schedules = (None, *spaces.candidates(problem, _native.supports))
            times[cpu] = TrafficModel(pattern_facts(problem.matrix)).rank(problem, schedules)
            assert behind_runtime(problem) == (CROWDED if crowded and cpu == "AMD EPYC" else 1.0)
        is_runtimes = [one is None or one.is_precompiled for one in schedules]
        for theirs, ours, ready in zip(times["AMD EPYC"], times["fake"], is_runtimes, strict=True):
            assert theirs == pytest.approx(ours * (CROWDED if crowded and not ready else 1.0), rel=1e-14)


def test_generated_kernels_fall_behind_where_the_runtime_computes_rows_together():
    mesh = scipy.sparse.random_array((60, 60), density=0.1, random_state=np.random.default_rng(5)) + scipy.sparse.eye(
        60
    )
    three = scipy.sparse.csr_array(scipy.sparse.kron(mesh, np.ones((3, 3))))
    for transposed, factor in ((False, TWINS), (True, 1.0)):
        plain = problem_of("rmat", 32, transposed=transposed, dtype="float32", target=SMALL)
        assert behind_runtime(plain) == 1.0
        pattern = Pattern(*three.shape, three.indptr, three.indices)
        assert behind_runtime(dataclasses.replace(plain, pattern=pattern)) == factor


def test_what_is_remembered_of_schedules_is_theirs():
    problem = problem_of("blocks", 1, transposed=False, dtype="float32", target=AVX512)
    schedules = (None, *spaces.candidates(problem, _native.supports))
    assert Traits.of(schedules) is Traits.of(schedules)
    model = TrafficModel(pattern_facts(problem.matrix))
    forward, backward = model.rank(problem, schedules), model.rank(problem, schedules[::-1])
    assert forward == backward[::-1]
    assert model.rank(problem, list(schedules)) == forward
    assert [model.rank(problem, [one])[0] for one in schedules[:5]] == forward[:5]


def test_the_default_kernel_enters_first_and_formats_are_numbered():
    problem = problem_of("mesh", 32, transposed=False, dtype="float32", target=AVX512)
    found = spaces.entrants(problem, _native.supports)
    assert found is spaces.entrants(problem, _native.supports)
    assert found.schedules == (None, *spaces.candidates(problem, _native.supports))
    numbers: dict[int, object] = {}
    for one, number in zip(found.schedules[1:], found.format_of, strict=True):
        assert numbers.setdefault(number, one.format) == one.format
    assert len(set(numbers.values())) == len(numbers)
