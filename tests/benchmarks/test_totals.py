"""Tests of total times with immediate and lazy tuning, of BestFormat, and of the script end to end."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from autosparse.tuner.research.collect.files import BATCH_COLUMNS, MEASURED, SCHEDULE_COLUMNS, Measurements
from autosparse.tuner.research.collect.recipes import Recipe
from autosparse.tuner.space.own import own_space
from peerlib.best_format import BestFormat, Trees, install, of_both_widths, training_vectors, widened
from peerlib.total_time import Lazy, Way
from peerlib.totals_report import curves, draw, markdown

from autosparse import csr
from autosparse.tuning import amortization
from tests.benchmarks.test_bench_scripts import folder, records, run_script  # noqa: F401  # a fixture

# -- arithmetic


def lazy(*tiers: Way, **changes: float) -> Lazy:
    return Lazy(**{"default_s": 1e-3, "tiers": tiers, "gain": 0.3, "overhead": 0.05, **changes})  # type: ignore[arg-type]


def test_the_setup_cost_is_added_once_to_the_total():
    way = Way(price_s=0.5, product_s=0.001)
    assert way.total_s(100) == pytest.approx(0.6)
    assert way.amortised_after(0.002) == pytest.approx(500)
    assert way.amortised_after(0.001) is None


@pytest.mark.parametrize("price_s", [1e-4, 3e-2, 1.0])
@pytest.mark.parametrize("speed", [0.8, 1.0, 1.5, 4.0])
def test_tuning_lazily_never_costs_more_than_the_overhead_allows(price_s, speed):
    one = lazy(Way(price_s=price_s, product_s=1e-3 / speed), overhead=0.05)
    share = 0.05 * (1 + amortization.advance_share(one.gain))  # the first tier may be bought in advance
    for n in (1, 10, 100, 1_000, 10_000, 100_000):
        before_s = n * 1e-3
        # A tier that turns out slower costs the time its products lose, besides its price.
        assert one.total_s(n) <= before_s * (1 + share) / min(1.0, speed) + 1e-12
    assert one.total_s(10**7) / 10**7 == pytest.approx(1e-3 / speed, rel=0.01)


def test_totals_rise_with_every_product_and_tiers_come_in_order():
    one = lazy(Way(price_s=0.01, product_s=7e-4), Way(price_s=0.5, product_s=5e-4))
    stretches = one.stretches()
    assert [stretch.product_s for stretch in stretches] == [1e-3, 7e-4, 5e-4]
    assert 0 < stretches[1].first < stretches[2].first
    found = [one.total_s(n) for n in range(1, 5_000)]
    assert all(b > a for a, b in itertools.pairwise(found))


def test_caught_up_is_the_last_time_that_it_was_behind():
    one = lazy(Way(price_s=0.01, product_s=7e-4), Way(price_s=0.5, product_s=5e-4))
    n = one.break_even()
    assert n is not None
    assert one.total_s(math.floor(n) - 1) > (math.floor(n) - 1) * 1e-3
    assert all(one.total_s(m) <= m * 1e-3 + 1e-12 for m in range(math.ceil(n), 10 * math.ceil(n), 97))
    assert lazy(Way(price_s=0.01, product_s=1e-3)).break_even() is None
    assert lazy(Way(price_s=0.01, product_s=7e-4), overhead=0.0).break_even() == 0.0, "never bought, never behind"


def test_caught_up_with_another_library_counts_its_products():
    one = lazy(Way(price_s=0.01, product_s=7e-4), Way(price_s=0.5, product_s=5e-4))
    assert one.break_even(over_s=2e-3) == 0.0, "ahead from the first product on, tuning included"
    assert one.break_even(over_s=4e-4) is None
    for over_s in (5.5e-4, 8e-4, 9.9e-4):
        n = one.break_even(over_s)
        assert n is not None
        assert one.total_s(math.floor(n) - 1) > (math.floor(n) - 1) * over_s
        assert all(one.total_s(m) <= m * over_s + 1e-12 for m in range(math.ceil(n), 10 * math.ceil(n), 97))


def test_announced_runs_decide_whether_tuning_starts():
    one = lazy(Way(price_s=0.01, product_s=5e-4))
    assert one.total_s(1_000, is_told=True) == pytest.approx(0.01 + 0.5)
    assert one.total_s(10, is_told=True) == pytest.approx(0.01), "ten default products: tuning would cost as much"


# -- BestFormat

SPACE = own_space("spmv", threads=(0,))


def measured(family: str, seed: int, best: str) -> Measurements:
    """Return measurements of a pattern on which schedules of the family `best` are fastest."""
    rng = np.random.default_rng(seed)
    schedules = list(dict.fromkeys(SPACE.sample(rng) for _ in range(30)))
    families = [SPACE.values_of(one)["family"] for one in schedules]
    ratios = [0.5 if found == best else 1.0 + 0.1 * rng.random() for found in families]
    columns = {name: np.zeros(len(schedules), dtype) for name, dtype in SCHEDULE_COLUMNS.items()}
    columns |= {"ratio": np.array(ratios, np.float32), "status": np.full(len(schedules), MEASURED, np.uint8)}
    recipe = Recipe(kind="generated", source=family, group=f"g{family}{seed}", nnz=3_000, seed=seed)
    facts = {"op": "spmv", "recipe": json.loads(recipe.to_json())}
    batches = {name: np.ones(1, dtype) for name, dtype in BATCH_COLUMNS.items()}
    return Measurements(facts, [one.to_json() for one in schedules], columns, batches)


def test_the_format_that_suits_a_pattern_is_chosen(tmp_path):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: dev)")
    wins = {"banded": "diagonals", "rmat": "csr"}
    found = [measured(family, seed, best) for family, best in wins.items() for seed in range(24)]
    kept = tmp_path / "vectors.npz"
    vectors = training_vectors(found, None, kept)
    assert len(vectors) == len(found)
    before = kept.read_bytes()
    again = training_vectors(found, None, kept)
    assert kept.read_bytes() == before
    assert all(np.array_equal(again[digest], vectors[digest]) for digest in vectors)
    selector = BestFormat.train("spmv", found, vectors)
    assert len(selector.schedules) <= 5
    for family, best in wins.items():
        unseen = training_vectors([measured(family, seed, best) for seed in range(50, 58)], None, None)
        chosen = [SPACE.values_of(selector.choose(vector)[0])["family"] for vector in unseen.values()]
        assert chosen.count(best) >= 7


def test_trees_predict_what_scikit_learn_predicts():
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed (extra: dev)")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 9)).astype(np.float32)
    model = ensemble.GradientBoostingRegressor(n_estimators=30, max_depth=4, random_state=0)
    model.fit(x, np.sin(x[:, 0]) + x[:, 1] * (x[:, 2] > 0))
    trees = Trees.of(model)
    np.testing.assert_allclose([trees(row) for row in x], model.predict(x), rtol=1e-9)


def test_training_without_measurements_raises():
    with pytest.raises(ValueError, match="no measurements"):
        BestFormat.train("spmv", [], {})


def test_schedules_are_widened_to_what_registers_hold():
    rng = np.random.default_rng(0)
    for one in (own_space("spmm").sample(rng) for _ in range(50)):
        wide = widened(one, tiles=(16, 32, 64, 128, 256), lanes=16)
        assert one.format == wide.format
        if one.implementation == "runtime":
            assert wide == one
            continue
        assert one.format.split("i") * wide.dense_split("j") <= 256 or wide.dense_split("j") == 16
        assert all(other.loop_order == one.loop_order for other in of_both_widths(wide))


def test_a_schedule_that_is_asked_for_runs(folder: Path):  # noqa: F811
    import scipy.sparse

    theirs = scipy.sparse.load_npz(folder / "small.npz").tocsr()
    A, x = csr(theirs, copy=True), np.random.default_rng(0).standard_normal(300).astype(np.float32)
    rng = np.random.default_rng(1)
    drawn = (SPACE.sample(rng) for _ in range(1_000))
    wanted = next(one for one in drawn if str(one.format) == "i1:U,k1:C | bits=16")
    assert install(A, 1, wanted).schedule == wanted
    np.testing.assert_allclose(A @ x, theirs @ x, rtol=1e-4, atol=1e-4)


# -- the script


@pytest.mark.full
def test_totals_are_measured_once_and_reported_from_the_records(folder: Path):  # noqa: F811
    out, table = folder / "out.jsonl", folder / "out.md"
    given = ("--matrices", folder, "--min-nnz", 1, "--groups", "all", "--ops", "spmv", "--rounds", 3)
    given = (*given, "--threads", 1, "--data", folder / "none", "--json", out)
    text = run_script("totals.py", *given)
    cases = [record for record in records(out) if record["kind"] == "case"]
    assert [case["operation"] for case in cases] == ["spmv"]
    for case in cases:
        assert {"scipy", "default", "estimate", "measure"} <= set(case["times"])  # type: ignore[call-overload]
        assert case["prices"]["measure"]["first_s"] > 0  # type: ignore[index]
    run_script("totals.py", *given)
    assert [record for record in records(out) if record["kind"] == "case"] == cases
    again = run_script("totals.py", "--report", "--threads", 1, "--json", out, "--table", table)
    assert table.read_text().strip() == again.strip()
    assert again.strip() in text
    assert re.search(r"autosparse, lazily \|", again)
    found = curves([case for case in cases if case["operation"] == "spmv"])
    assert found["SciPy"] == pytest.approx([found["SciPy"][0]] * 7), "SciPy pays no price"
    at_once = [row for label, row in found.items() if label.endswith("at once")]
    assert at_once
    assert all(a >= b for row in at_once for a, b in itertools.pairwise(row)), "prices spread over more products"
    assert markdown(cases).strip() == again.strip()
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra: plot)")
    draw(folder / "out.png", cases)
    assert (folder / "out.png").stat().st_size > 10_000
