"""Tests of boosted trees: NumPy, the runtime and scikit-learn agree; from measurements to a product, without torch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import runtime_api
from autosparse.tuner.features.pattern_vector import SKETCH_WIDTHS, sketch
from autosparse.tuner.features.setting import N_SETTING, MachineRates, RunSetting
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.learned.trees import NODE, Trees
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.research.generators.base import FAMILIES, generate
from autosparse.tuner.research.training.boosting import trees_of
from hypothesis import given, settings
from hypothesis import strategies as st

from autosparse import _native, cli
from autosparse.config import options
from autosparse.core.pattern import Pattern
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuning.learned import find_model
from tests.tuner.learned.samples import write_structure

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
N_SKETCH, N_COLUMNS = 5, 4


@st.composite
def some_trees(draw) -> Trees:
    """Draw a few random trees, single leaves among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tables = []
    for _ in range(draw(st.integers(0, 6))):
        n_splits = draw(st.integers(0, 12))
        rows = [None] * (2 * n_splits + 1)
        is_open, free = [0], 1
        for _ in range(n_splits):  # turn a leaf into a split whose children come later
            at = is_open.pop(int(rng.integers(len(is_open))))
            rows[at] = (int(rng.integers(N_SKETCH + N_COLUMNS)), float(np.float32(rng.normal() * 2)), free, free + 1)
            is_open += [free, free + 1]
            free += 2
        for at in is_open:
            rows[at] = (-1, float(np.float32(rng.normal())), 0, 0)
        tables.append(rows)
    return trees_of(tables, float(np.float32(rng.normal())), N_SKETCH)


@settings(deadline=None, max_examples=60)
@given(trees=some_trees(), seed=st.integers(0, 2**32 - 1), n=st.integers(0, 40))
def test_trees_specialised_to_a_pattern_predict_the_same(trees, seed, n):
    rng = np.random.default_rng(seed)
    pattern = rng.normal(size=N_SKETCH).astype(np.float32)
    codes = rng.integers(-3, 4, (n, N_COLUMNS)).astype(np.int16)
    whole = trees.predict(np.hstack([np.repeat(pattern[None], n, 0), codes.astype(np.float32)]))
    left = trees.on(pattern)
    np.testing.assert_allclose(left.predict(codes), whole, rtol=1e-5, atol=1e-5)
    again = Trees.of(trees.tensors(), N_SKETCH)
    np.testing.assert_array_equal(again.nodes, trees.nodes)
    np.testing.assert_allclose(trees.joined(again).on(pattern).predict(codes), 2 * whole, rtol=1e-5, atol=1e-5)
    assert left.n_sketch == 0
    assert len(left.nodes) <= len(trees.nodes)
    Trees(left.nodes, left.roots, left.base, 0)  # raises nothing: the trees are valid
    np.testing.assert_allclose(left.of_codes(codes), whole, rtol=1e-5, atol=1e-5)
    ids = rng.integers(0, max(1, n), 7 if n else 0).astype(np.int32)
    np.testing.assert_allclose(left.of_codes(codes, ids), whole[ids], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("n_between", "dtype"), [(10, np.uint8), (300, np.int32)])
def test_children_are_stored_as_distances_where_they_fit(n_between, dtype):
    split = [(0, 0.5, 1, 1 + n_between)]
    trees = trees_of([[*split, *[(-1, 1.0, 0, 0)] * (n_between + 1)]] * 3, 0.0, N_SKETCH)
    tensors = trees.tensors()
    assert tensors["trees.right"].dtype == dtype
    np.testing.assert_array_equal(Trees.of(tensors, N_SKETCH).nodes, trees.nodes)


def test_nodes_that_would_lead_a_walk_astray_are_refused():
    ring = np.array([(0.0, 1, 1, 0), (0.0, 0, 0, 0)], NODE)  # a child before its parent: a walk would not end
    with pytest.raises(ValueError, match="child outside the 2 nodes behind its parent"):
        Trees(ring, np.array([0], np.int32), 0.0, 0)
    with pytest.raises(ValueError, match=r"roots 0 \.\. 3 of 1 nodes"):
        Trees(np.array([(1.0, 0, 0, -1)], NODE), np.array([0, 3], np.int32), 0.0, 0)


@needs_runtime
def test_trees_that_read_what_is_not_there_are_refused():
    split = trees_of([[(3, 0.5, 1, 2), (-1, 1.0, 0, 0), (-1, 2.0, 0, 0)]], 0.0, 2)
    codes = np.zeros((2, 1), np.int16)
    with pytest.raises(ValueError, match="a sketch of 2 numbers"):
        split.of_codes(codes)
    with pytest.raises(ValueError, match="more than 1 columns"):
        split.on(np.zeros(2, np.float32)).of_codes(codes)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_sketch_has_its_length_and_finite_numbers_and_does_not_depend_on_the_order_in_rows(family):
    found = generate(family, nnz=3000, seed=2).to_structure()
    numbers = sketch(found)
    assert numbers.shape == (SKETCH_WIDTHS[len(found.shape)],)
    assert np.isfinite(numbers).all()


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (3, 0), (4, 4)])
def test_patterns_without_entries_have_a_sketch(shape):
    empty = Pattern(*shape, np.zeros(shape[0] + 1, np.int32), np.zeros(0, np.int32))
    assert np.isfinite(sketch(empty)).all()


def test_a_setting_tells_machines_dtypes_widths_and_threads_apart():
    host = dataclasses.replace(Target.host(), cpu="AMD EPYC", l2_bytes=1 << 20, isa="avx512")
    base = RunSetting(target=host, dtype="float32", n_dense_cols=32, threads=2)
    rates = MachineRates(l1=4e11, l2=2e11, l3=1e11, memory=5e10, gathers=2e9, flops=1e11)
    others = [
        dataclasses.replace(base, target=dataclasses.replace(host, cpu="Intel Xeon", l2_bytes=2 << 20)),
        dataclasses.replace(base, target=dataclasses.replace(host, isa="avx2")),
        dataclasses.replace(base, dtype="float64"),
        dataclasses.replace(base, n_dense_cols=8),
        dataclasses.replace(base, threads=1),
        dataclasses.replace(base, rates=rates),
    ]
    numbers = [tuple(one.numbers().tolist()) for one in (base, *others)]
    assert len(set(numbers)) == len(numbers)
    assert all(len(one) == N_SETTING and np.isfinite(one).all() for one in numbers)
    assert MachineRates.of_data(rates.to_data()) == rates
    with pytest.raises(ValueError, match="rates must be positive"):
        MachineRates.of_data({**rates.to_data(), "memory": 0.0})


def test_unmeasured_rates_are_taken_from_the_most_similar_machine():
    host = Target.host()
    zen = dataclasses.replace(host, cpu="AMD", l1_bytes=32768, l2_bytes=1 << 20, l3_bytes=64 << 20)
    xeon = dataclasses.replace(host, cpu="Intel", l1_bytes=49152, l2_bytes=2 << 20, l3_bytes=100 << 20)
    assert MachineRates.typical(zen).l2 < MachineRates.typical(xeon).l2


def test_a_sketch_tells_rows_with_shared_columns_apart():
    found = generate("mesh", nnz=3000, seed=2).to_pattern()
    three = scipy.sparse.kron(
        scipy.sparse.random_array((300, 300), density=0.03, random_state=np.random.default_rng(1)), np.ones((3, 3))
    ).tocsr()
    identical = Pattern(*three.shape, three.indptr, three.indices)
    assert sketch(identical)[-1] == float(runtime_api.available)
    assert sketch(found)[-1] == 0.0


def learnable(n_patterns: int, seed: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return (pattern, codes, ratios): the second column gains on patterns with a positive first number."""
    rng = np.random.default_rng(seed)
    examples = []
    for _ in range(n_patterns):
        pattern = rng.normal(size=N_SKETCH).astype(np.float32)
        codes = rng.integers(0, 4, (24, N_COLUMNS)).astype(np.int16)
        ratios = np.exp(0.3 * codes[:, 0] - 0.5 * np.sign(pattern[0]) * codes[:, 1]).astype(np.float32)
        examples.append((pattern, codes, ratios))
    return examples


def test_exported_trees_predict_what_scikit_learn_does():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: train)")
    from autosparse.tuner.research.training.boosting import BoostSettings, clipped_logs, features_of, fit

    examples = learnable(40, seed=1)
    x = np.vstack([features_of(pattern, codes) for pattern, codes, _ in examples])
    y = np.concatenate([clipped_logs(ratios) for *_, ratios in examples])
    fitted = fit(x, y, n_sketch=N_SKETCH, settings=BoostSettings(n_trees=30, fewest=5))
    (*_, (n, last)) = fitted.staged(x, every=10)
    assert n == 30
    np.testing.assert_allclose(fitted.trees.predict(x), last, atol=1e-5)
    assert np.mean((last - y) ** 2) < 0.1 * np.var(y)


def test_fits_leave_alone_the_processors_that_others_keep_busy(monkeypatch):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: train)")
    from autosparse.tuner.research.training import boosting
    from threadpoolctl import threadpool_info, threadpool_limits

    def most_threads() -> int:
        return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")

    class Watched(boosting._regressor()):
        def fit(self, *arguments, **named):
            self.n_threads = most_threads()
            return super().fit(*arguments, **named)

    monkeypatch.setattr(boosting, "_regressor", lambda: Watched)
    monkeypatch.setattr(boosting.os, "cpu_count", lambda: 8)
    x = np.arange(40, dtype=np.float32)[:, None]

    def threads_beside(load: float) -> int:
        monkeypatch.setattr(boosting, "seen_load", lambda look_s: load)
        model = boosting.fit(x, x[:, 0], n_sketch=0, settings=boosting.BoostSettings(n_trees=2, fewest=5))
        return model._model.n_threads

    with threadpool_limits(4, user_api="openmp"):
        found = [threads_beside(load) for load in (0.0, 0.2, 2.0, 5.0, 7.2, 20.0, float("nan"))]
        assert most_threads() == 4, "as before"
    assert found == [4, 4, 4, 3, 1, 1, 4]


def test_machines_count_alike_as_far_as_that_goes():
    from autosparse.tuner.research.training.boosted import MAX_WEIGHT, machine_weights
    from autosparse.tuner.research.training.data import ON_HOST, TrainingCase

    recipe = Recipe(kind="generated", source="mesh", group="g")
    codes, ratios = np.zeros((2, 1), np.int16), np.ones(2, np.float32)
    many, some, few = (dataclasses.replace(Target.host(), cpu=name) for name in ("many", "some", "few"))

    def cases(n, target):
        setting = dataclasses.replace(ON_HOST, target=target)
        return [TrainingCase(recipe, codes, ratios, ratios > 1, 1.0, setting=setting)] * n

    found = machine_weights([*cases(20, many), *cases(10, some), *cases(2, few)])
    assert found == {many: 1.0, some: 2.0, few: MAX_WEIGHT}
    assert machine_weights(cases(3, few)) == {few: 1.0}


@needs_runtime
def test_from_measurements_to_a_product_without_torch(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: train)")
    import autosparse as asp

    data, run = (str(tmp_path / name) for name in ("data", "run"))
    assert cli.main(["collect", "--out", data, "--ops", "spmv", "--patterns", "3", "--schedules", "4"]) == 0
    write_structure(tmp_path / "data", "spmv")
    train = ["train", "--data", data, "--op", "spmv", "--extractor", "boosted", "--trees", "5", "--out", run]
    assert cli.main(train) == 0
    (tmp_path / "run" / "spmv.safetensors").symlink_to(tmp_path / "run" / "weights.safetensors")
    trained = LearnedModel.read(tmp_path / "run", "spmv")  # tuning reads it as it is
    assert [one.name for one in trained.weights.space.spaces] == ["own-spmv"]
    with options(models=run, effort="measure", cache_dir=str(tmp_path / "cache")):
        from autosparse.config import get_options

        model = find_model(get_options(), Target.host().held_to(get_options().isa), "spmv")
        assert model is not None
        found = generate("banded", nnz=30_000, seed=7).to_pattern()
        features = model.features(found)
        schedules = [one for one in map(model.schedule, range(len(model.codes))) if one is not None]
        assert all(_native.supports("matmul", one) is None for one in schedules)
        problem = Problem(
            operation="matmul", pattern=found, transposed=False, n_dense_cols=1, dtype="float32", threads=2,
            deterministic=False, target=Target.host().held_to(get_options().isa),
        )  # fmt: skip
        rows = np.argsort(model.ratios(problem, features, schedules))
        assert rows.size == len(schedules)
        A = asp.csr((np.ones(found.nnz, np.float32), found.indices, found.indptr), shape=found.shape)
        A.tune("matmul", columns=1, budget_s=0.5)
        x = np.random.default_rng(0).standard_normal(found.shape[1]).astype(np.float32)
        np.testing.assert_allclose(A @ x, A.base @ x, rtol=1e-4, atol=1e-4)


def test_fast_schedules_weigh_more():
    boosting = pytest.importorskip("autosparse.tuner.research.training.boosting")
    ratios = np.array([0.5, 1.0, 2.0, 0.5, 1e9])
    weights = boosting.weights_of(ratios, boosting.BoostSettings(focus=1.0))
    np.testing.assert_allclose(weights[:4], [1.0, 0.5, 0.25, 1.0])
    assert 0 < weights[4] < weights[2], "hopeless schedules count, but hardly"
    np.testing.assert_array_equal(boosting.weights_of(ratios, boosting.BoostSettings(focus=0.0)), np.ones(5))


def test_weights_decide_what_is_learned_where_not_everything_can_be():
    pytest.importorskip("sklearn")
    boosting = pytest.importorskip("autosparse.tuner.research.training.boosting")
    x, y = np.zeros((200, N_SKETCH + N_COLUMNS), np.float32), np.repeat([0.0, 1.0], 100)

    def learned(weights: np.ndarray | None) -> float:
        chosen = boosting.BoostSettings(n_trees=20, fewest=1, ridge=0.0)
        trees = boosting.fit(x, y, n_sketch=N_SKETCH, settings=chosen, weights=weights).trees
        return float(trees.on(x[0, :N_SKETCH]).predict(np.zeros((1, N_COLUMNS), np.int16))[0])

    assert learned(None) == pytest.approx(0.5, abs=0.02)
    assert learned(np.repeat([9.0, 1.0], 100)) == pytest.approx(0.1, abs=0.02)
