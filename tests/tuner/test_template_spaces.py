"""Tests of the spaces as templates: only legal schedules, one code each, and steps that stay inside."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from autosparse.tuner.research.collect.sampling import template_neighbours, with_run_time
from autosparse.tuner.research.space.waco import waco_space
from autosparse.tuner.space.algorithms import ALGORITHMS
from autosparse.tuner.space.families import READY_AHEAD
from autosparse.tuner.space.own import own_space
from autosparse.tuner.space.template import Categorical, Permutation, TemplateSpace

from autosparse.core.schedule import SuperSchedule
from autosparse.errors import ScheduleError

THREADS = {waco_space: (1, 2), own_space: (0, 1, 2)}
"""Numbers of threads in the spaces, which otherwise depend on the processor."""
SPACES = [make(algorithm, threads=THREADS[make]) for algorithm in ALGORITHMS for make in THREADS]  # type: ignore[operator]
everywhere = pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)


def samples(space: TemplateSpace, n: int = 60, seed: int = 0) -> list[SuperSchedule]:
    rng = np.random.default_rng(seed)
    return [space.sample(rng) for _ in range(n)]


@everywhere
def test_a_code_is_inverted_and_lies_within_its_parameters(space: TemplateSpace) -> None:
    for made in samples(space):
        code = space.encode(made)
        assert space.decode(code) == made
        assert len(code) == len(space.parameters)
        for parameter, one in zip(space.parameters, code, strict=True):
            if isinstance(parameter, Categorical):
                assert 0 <= one < parameter.size
            else:
                assert sorted(one) == list(range(len(parameter.items)))


@everywhere
def test_codes_tell_schedules_apart_and_samples_repeat_with_their_seed(space: TemplateSpace) -> None:
    made = samples(space, 200)
    assert len({space.encode(one) for one in made}) == len(set(made)) > 100
    assert made == samples(space, 200)


@everywhere
def test_schedules_survive_json(space: TemplateSpace) -> None:
    for made in samples(space):
        assert SuperSchedule.from_json(made.to_json()) == made
        assert made.operation == space.operation


@everywhere
def test_neighbours_are_others_in_the_space_and_mostly_mutual(space: TemplateSpace) -> None:
    for made in samples(space, 8):
        beside = list(template_neighbours(space, made))
        assert made not in beside
        assert len(set(beside)) == len(beside) >= 3
        assert all(space.contains(one) for one in beside)
        # A step that ends a split drops the position of the inner loop: only such steps are not undone by one step.
        mutual = [one for one in beside if made in set(template_neighbours(space, one))]
        assert len(mutual) >= len(beside) / 2


@everywhere
def test_unsupported_schedules_are_not_sampled(space: TemplateSpace) -> None:
    def supports(operation: str, one: SuperSchedule) -> str | None:
        assert operation == space.operation
        return None if one.threads == 1 else "one thread, please"

    rng = np.random.default_rng(1)
    made = [space.sample(rng, supports) for _ in range(8)]
    assert {one.threads for one in made} == {1}
    assert {one.threads for one in template_neighbours(space, made[0], supports)} == {1}
    with pytest.raises(ScheduleError, match="none of them supported"):
        space.sample(rng, lambda operation, one: "never")


@pytest.mark.parametrize("algorithm", ["spmm", "sddmm"])
def test_the_runtimes_own_loops_are_members(algorithm: str) -> None:
    """Check that all runtime kernels but the default are in the space, and are reached from each other in one step."""
    space = own_space(algorithm, threads=(0, 1))
    ready = {one for one in samples(space, 600) if one.is_precompiled}
    assert {(one.format.rows, one.prefetch) for one in ready} == {
        (order, ahead) for order in ("", "first", "rcm") for ahead in READY_AHEAD if order or ahead
    }
    one = min(ready, key=SuperSchedule.to_json)
    assert ready - {one} <= set(template_neighbours(space, one))
    assert with_run_time(space, one, np.random.default_rng(0)) == one
    values = dict(space.values_of(one))
    default = {"family": "csr", "row_order": 0, "prefetch": 0}
    for changed in ({"unroll": 2}, {"partition": "dynamic"}, {"parnum": 1}, default):
        with pytest.raises(ScheduleError, match="loop of the runtime"):
            space.schedule_of({**values, **changed})
    one_thread = own_space(algorithm, threads=(1, 2))
    assert all(not one.is_precompiled for one in samples(one_thread, 100))


def test_foreign_schedules_values_and_codes_are_refused_with_the_facts() -> None:
    spmv, spmm = waco_space("spmv"), waco_space("spmm")
    foreign = spmm.sample(np.random.default_rng(0))
    assert not spmv.contains(foreign)
    assert not own_space("spmv").contains(foreign)
    with pytest.raises(ScheduleError, match="not in this space"):
        spmv.encode(foreign)
    code = spmv.encode(spmv.sample(np.random.default_rng(0)))
    with pytest.raises(ScheduleError, match="isplit"):
        spmv.decode((16, *code[1:]))
    with pytest.raises(ScheduleError, match="spgemm"):
        waco_space("spgemm")


def test_the_template_is_the_papers() -> None:
    """Check the parameters of matrix-vector products against WACO's Table 3, and the number of points."""
    space = waco_space("spmv", threads=(24, 48))
    table = {parameter.name: parameter for parameter in space.parameters}
    powers = tuple(1 << at for at in range(16))
    assert table["isplit"] == Categorical("isplit", powers)
    assert powers[-1] == 32768
    assert table["order"] == Permutation("order", ("i1", "i0", "k1", "k0"))
    assert table["level_order"] == Permutation("level_order", ("i1", "i0", "k1", "k0"))
    assert table["paridx"].values == ("i1", "i0")
    assert table["parnum"].values == (24, 48)
    assert table["parchunk"].values == (1, 2, 4, 8, 16, 32, 64, 128, 256)
    formats = [name for name in table if name.startswith("format")]
    assert all(table[name].values == ("C", "U") for name in formats)
    assert math.prod(one.size for one in space.parameters) == 16**2 * 24 * 2 * 2 * 9 * 24 * 2**4


def test_the_four_algorithms_of_fig_10_are_reached_by_splits_of_one() -> None:
    """Check that coordinates of indices that are not split have neither loop nor level: C[i1], C[i1,i0] and so on."""
    seen = {tuple(sorted(made.loop_order)) for made in samples(waco_space("spmv"), 4000)}
    inner = [name for name, n in itertools.product(("i0", "k0"), (0, 1)) if n]
    expected = {
        tuple(sorted(("i1", "k1", *kept))) for n in range(len(inner) + 1) for kept in itertools.combinations(inner, n)
    }
    assert seen == expected


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_concordant_draws_are_as_the_published_ones(algorithm: str) -> None:
    """Check the order of loops: as the levels, outer before inner, j0 last."""
    space = waco_space(algorithm, concordant=1.0)
    for made in samples(space, 100):
        loops = [name for name in made.loop_order if name[0] != "j"]
        assert tuple(loops) == made.format.order
        assert all(loops.index(f"{name[0]}1") < loops.index(name) for name in loops if name.endswith("0"))
        assert "j0" not in made.loop_order or made.loop_order[-1] == "j0" or made.dense_split("j") == 1


def test_every_level_order_is_reached() -> None:
    made = samples(waco_space("spmv", concordant=0.0), 6000)
    orders = {one.format.order for one in made if len(one.format.levels) == 4}
    assert len(orders) == math.factorial(4)
