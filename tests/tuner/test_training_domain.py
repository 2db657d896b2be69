"""Tests that estimates are accepted only for problems like those that the model was trained on."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from autosparse.tuner.learned.training_domain import STATISTICS, TrainingDomain
from autosparse.tuner.research.training.data import FEWEST_KNOWN, measured_domain
from autosparse.tuner.search.style import acceptance_ratio

from autosparse.config import Effort
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.targets import priors
from tests.tuner.fakes import FakeClock, FakeFactory, tune
from tests.tuner.test_tuner_search import FlatModel, make_problem, make_search

TRAINED = {"dtype": "float32", "n_dense_cols": 32, "threads": 2, "machine": {"isa": "avx512"}}


def problem(**changed: object) -> Problem:
    """Return a problem in the training domain of `TRAINED`, except for the given changes."""
    known = make_problem()
    target = dataclasses.replace(known.target, isa=changed.pop("isa", "avx512"))
    trained = dataclasses.replace(known, dtype="float32", n_dense_cols=32, threads=2, target=target)
    return dataclasses.replace(trained, **changed)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({}, None),
        ({"n_dense_cols": 20}, None),  # shares its plans with 32
        ({"dtype": "float64"}, "float64"),
        ({"isa": "avx2"}, "avx2"),
        ({"n_dense_cols": 8}, "8 columns"),
        ({"n_dense_cols": 128}, "128 columns"),
        ({"threads": 1}, "on 1 threads"),
    ],
)
def test_problems_outside_the_training_domain_are_named_and_not_estimated(
    changed: dict[str, object], what: str
) -> None:
    seen = measured_domain([TRAINED] * FEWEST_KNOWN)
    asked = problem(**changed)
    untrusted_reason = seen.untrusted_reason(asked)
    assert (untrusted_reason is None) == (what is None)
    assert what is None or (untrusted_reason is not None and what in untrusted_reason)
    for effort in (Effort.ESTIMATE, Effort.MEASURE):
        clock = FakeClock()
        factory = FakeFactory(clock, lambda one: 1e-3 if one is None else 5e-4)
        search = make_search(factory, asked, effort=effort, model=FlatModel(lambda one: 0.5))
        search.untrusted_reason = lambda is_learned: untrusted_reason
        plan = tune(search, runner=factory.run_of, budget_s=10, clock=clock)
        assert plan.is_default == (what is not None and effort is Effort.ESTIMATE), "measuring goes on as ever"
        if plan.is_default:
            assert what in plan.why
            assert "effort='measure' times candidates" in plan.why


@pytest.mark.parametrize(
    ("columns", "predicted", "at_home", "unseen_cpu"),
    [
        (32, 0.92, False, False),
        (32, 0.89, True, False),
        (32, 0.85, True, True),
        (1, 0.92, False, False),
        (1, 0.85, True, False),
        (1, 0.80, True, True),
    ],
)
def test_an_unknown_kind_of_processor_is_allowed_for_by_a_larger_error(
    columns: int, predicted: float, at_home: bool, unseen_cpu: bool
) -> None:
    zen4 = {"isa": "avx512", "cpu": "AMD EPYC 9R14", "l1_bytes": 32 << 10, "l2_bytes": 1 << 20}
    seen = measured_domain([{**TRAINED, "n_dense_cols": columns, "machine": zen4}] * FEWEST_KNOWN)
    here = problem(n_dense_cols=columns)
    here = dataclasses.replace(here, target=dataclasses.replace(here.target, **zen4))
    there = dataclasses.replace(here, target=dataclasses.replace(here.target, l1_bytes=48 << 10))
    assert not seen.is_foreign(here)
    assert seen.is_foreign(there)
    assert seen.untrusted_reason(there) is None, "predictions are trusted"
    assert TrainingDomain.of_model("spmm32", {"machines": [zen4], "seen": {**TrainingDomain().to_data()}}).is_foreign(
        here
    )
    old = {name: said for name, said in seen.to_data().items() if name != "processors"}
    assert not TrainingDomain.of_model("spmm32", {"machines": [zen4], "seen": old}).is_foreign(here), (
        "an older model, without the field"
    )
    taken = {}
    for asked in (here, there):
        ratio = acceptance_ratio(asked, is_learned=True, is_foreign=seen.is_foreign(asked))
        taken[seen.is_foreign(asked)] = predicted <= ratio
    assert taken == {False: at_home, True: unseen_cpu}


@pytest.mark.parametrize("columns", [1, 8, 32])
@pytest.mark.parametrize("changed", [{"dtype": "float64"}, {"threads": 1}, {"dtype": "float64", "threads": 1}])
def test_other_dtypes_and_one_thread_are_allowed_for_as_an_unseen_processor_is(
    changed: dict[str, object], columns: int
) -> None:
    there = problem(n_dense_cols=columns, **changed)
    here = dataclasses.replace(there, dtype="float32", threads=2)
    machine = {name: getattr(there.target, name) for name in ("isa", "cpu", "l1_bytes", "l2_bytes")}
    facts = {**TRAINED, "n_dense_cols": columns, "machine": machine}
    seen = measured_domain([facts] * FEWEST_KNOWN)
    assert (seen.is_foreign(here), seen.is_foreign(there)) == (False, True)
    margins = [acceptance_ratio(one, is_learned=True, is_foreign=seen.is_foreign(one)) for one in (here, there)]
    assert margins[1] < margins[0]
    assert seen.untrusted_reason(here) is None
    assert (seen.untrusted_reason(there) is None) == (columns <= 8), "no errors of wider products were measured"
    assert not measured_domain([{**facts, **changed}] * FEWEST_KNOWN).is_foreign(there), "the training data have it"
    assert STATISTICS.untrusted_reason(there) is not None, "the statistics model errs more there"
    many = dataclasses.replace(there, threads=8)
    assert "on 8 threads" in (seen.untrusted_reason(many) or "")


def test_the_training_domain_is_saved_with_a_model() -> None:
    others = [{**TRAINED, "dtype": "float64", "threads": 8}]
    assert measured_domain([*[TRAINED] * FEWEST_KNOWN, *others]) == measured_domain([TRAINED] * FEWEST_KNOWN), "too few"
    seen = measured_domain([TRAINED, *others], fewest=1)
    assert seen.dtypes == {"float32", "float64"}
    assert TrainingDomain.of_model("spmm32", {"seen": seen.to_data()}) == seen
    assert measured_domain([{"dtype": "float32", "machine": {}}]) == TrainingDomain(), "no more than is said"
    assert (seen | STATISTICS).columns == {1, 16, 32, 256}
    # Old models list machines only: 32 columns of float32, as `collect` measures, and all cores.
    before = TrainingDomain.of_model("spmm32", {"machines": [{"isa": "avx512", "n_cores": 2}]})
    assert before == measured_domain([TRAINED], fewest=1)
    assert TrainingDomain.of_model("spmv", {"machines": []}).columns == {1}


@pytest.mark.parametrize("about", [{}, {"seen": 3}, {"seen": {"dtypes": []}}, {"machines": [3]}, {"machines": 3}])
def test_a_model_that_does_not_say_has_seen_nothing(about: dict[str, object]) -> None:
    assert TrainingDomain.of_model("spmm32", about).untrusted_reason(problem()) is not None


@pytest.mark.parametrize(
    ("nnz", "threads", "is_held_back"), [(10_000, 2, False), (24_000, 2, True), (24_000, 1, False), (40_000, 2, False)]
)
def test_a_default_kernel_that_shares_since_models_were_trained_is_allowed_for(
    nnz: int, threads: int, *, is_held_back: bool
) -> None:
    row = np.arange(1_001, dtype=np.int64) * nnz // 1_000
    pattern = Pattern(1_000, 1_000, row.astype(np.int32), np.zeros(nnz, np.int32))
    known = dataclasses.replace(make_problem(), pattern=pattern, threads=threads)
    vector = dataclasses.replace(known, n_dense_cols=1)
    allowance = priors.table("matmul", "error of learned models")[1]
    allowance += priors.number("acceptance", "error of stale models") if is_held_back else 0.0
    assert acceptance_ratio(vector, is_learned=True) == pytest.approx(math.exp(-allowance))
