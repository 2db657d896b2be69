"""Tests of bad records and of failures beside a product: the default kernel computes it, and nothing raises."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.solver import choice_of
from autosparse.core.target import Target
from autosparse.dispatch import fast_path
from autosparse.dispatch.state import state_for
from autosparse.tuning import live, setup
from autosparse.tuning.memory import history, plan_lookup
from autosparse.tuning.setup import context_of
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

N_PRODUCTS = 30
FIELDS: dict[str, dict[str, Any]] = {
    "chunk beyond 64 bits": {"partition": "dynamic", "chunk": 2**70},
    "a chunk and a half": {"partition": "dynamic", "chunk": 1.5},
    "threads beyond 64 bits": {"threads": 2**70},
    "threads beyond 32 bits": {"threads": 2**40},
    "true threads": {"threads": True},
    "unrolled a million times": {"unroll": 10**6},
    "fetched far away": {"prefetch": 2**62},
    "rounded values": {"format": "i1:U,k1:C | values=bfloat16"},
    "another operation": {"operation": "sddmm", "loop_order": ["i1", "k1", "j1", "j0"]},
    "no loop over columns": {"loop_order": ["i1", "k1"], "dense_splits": []},
    "a tile for minutes of compiling": {"dense_splits": [["j", 16384]]},
    "a tile and a half": {"dense_splits": [["j", 8.5]]},
}
TIMES: dict[str, dict[str, Any]] = {
    "integers that are no floats": {"measured_s": 10**400, "default_s": 10**400},
    "not a number": {"measured_s": float("nan"), "default_s": float("nan")},
    "infinite": {"measured_s": 1e-6, "default_s": float("inf")},
    "no time between them": {"measured_s": 5e-324, "default_s": 1e-323},
}
MACHINES: dict[str, dict[str, Any]] = {
    "beyond floats": {"rates_s": {"pack": [10**400, 3], "compile": [10**400, 10**400]}},
    "beyond floats in gains": {"gains": {"matmul|8": [0.1, 10**400], "matmul|1": [10**400, 1]}},
    "not a number": {"rates_s": {"rank": [float("nan"), 1], "hash": [float("inf"), 2]}},
    "no tables": {"rates_s": 3, "gains": [1]},
}


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start tuning at once, keep no records beyond the test, and make warnings errors."""
    monkeypatch.setattr(live, "WAIT_S", 600.0)  # waits for a compiler on a busy machine
    with (
        asp.options(cache=False, runs=10**10, overhead=1.0, effort="estimate", budget_s=1e6),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        cache.open_store().clear()
        yield
        cache.open_store().clear()


def plain() -> Any:
    return make(300, 300)


def plant_plan(**changed: Any) -> dict[str, Any]:
    """Store a plan for 8 columns of `plain()` with the given fields changed; return its record."""
    A = asp.csr(plain(), copy=True)
    rows = A._cell.rows or A._cell.validate()
    context = context_of(A._cell, state_for(A._cell, rows, 8, False))
    known = Plan(choice=choice_of(schedule_of("csr", 8)), why="w", effort="full", measured_s=1e-5, default_s=2e-5)
    record = cache.plan_to_record(known)
    own = {name: value for name, value in changed.items() if name in record["schedule"]}
    record = record | {name: value for name, value in changed.items() if name not in own}
    record["schedule"] |= own
    cache.open_store().save("plan", plan_lookup.key_of(context).stable_hash(), json.loads(json.dumps(record)))
    return record


def multiply(A: Any = None) -> Any:
    """Run N_PRODUCTS products, which is enough for tuning to act, check them, and return the array."""
    m = plain()
    A = asp.csr(m, copy=True) if A is None else A
    B = dense(m, 8)
    wanted = m @ B
    for _ in range(N_PRODUCTS):
        close(A @ B, wanted)
    return A


def test_a_good_plan_is_adopted() -> None:
    plant_plan()
    A = multiply()
    if (handed_over := state_of(A, 8).live_tuner._handed_over) is not None:
        handed_over.wait(600.0)  # on a busy machine products do not wait for the compiler
    assert state_of(multiply(A), 8).serving is not None


@pytest.mark.parametrize("name", FIELDS)
def test_plans_with_fields_out_of_range_are_not_adopted(name: str) -> None:
    record = plant_plan(**FIELDS[name])
    turn = state_of(multiply(), 8).serving
    assert turn is None or json.loads(turn.schedule.to_json()) != record["schedule"]


@pytest.mark.parametrize("name", TIMES)
def test_plans_with_impossible_times_cost_no_product(name: str) -> None:
    plant_plan(**TIMES[name])
    A = multiply()
    A.data[:] = A.data  # makes the packed copy, if there is one, stale; the wait for repacking depends on the gain
    multiply(A)


@pytest.mark.parametrize("name", MACHINES)
def test_prices_out_of_range_cost_no_product(name: str) -> None:
    plant_plan()
    store = cache.open_store()
    key = history.tuning_stats_of(store, Target.host().held_to(asp.get_options().isa)).machine_key
    history._tuning_stats.pop(store)
    store.save("machine", key, MACHINES[name])
    assert state_of(multiply(), 8).serving is not None
    history._tuning_stats.pop(store)


def test_an_untrusted_plan_is_deleted() -> None:
    plant_plan(threads=2**70)
    A = asp.csr(plain(), copy=True)
    assert not A.tune(columns=8, effort="estimate", budget_s=1).remembered
    key = plan_lookup.key_of(context_of(A._cell, state_of(A, 8))).stable_hash()
    found = cache.open_store().load("plan", key)
    assert found is None or cache.plan_from_record(found) is not None


# -- failures injected beside a product


ERRORS = (OverflowError("too large"), TypeError("no number"), KeyError("k"), RecursionError(), AssertionError("never"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("place", ["run", "look", "arm"])
def test_errors_of_the_tuner_do_not_affect_products(
    place: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **hints: Any) -> Any:
        raise error

    monkeypatch.setenv("AUTOSPARSE_STRICT", "0")
    warnings.simplefilter("ignore")
    m = plain()
    A = asp.csr(m, copy=True)
    if place == "run":
        trial = force(A, schedule_of("csr", 8), columns=8)
        monkeypatch.setattr(type(trial), "_bind_live", fail)
        A = asp.csr(m, copy=True)
        trial._bound_to = None
        A = multiply(_with(trial, m))
        assert trial.failed
        assert not trial.ready
        return
    monkeypatch.setattr(*{"look": (setup, "live_tuner_of", fail), "arm": (fast_path, "arm", fail)}[place])
    state = state_of(A, 8)
    state.fast_path_due = 1
    state.next_look_ns = 0 if place == "look" else 1 << 62
    multiply(A)
    assert state.serving is None
    is_later = place == "look" and type(error) is RecursionError  # tuning needs more frames than a product
    assert (state.next_look_ns < 1 << 62) == is_later


def _with(trial: Any, m: Any) -> Any:
    """Return an array whose products with 8 columns are computed by `trial`."""
    A = asp.csr(m, copy=True)
    state = state_of(A, 8)
    state.serving, state.next_look_ns = trial, 1 << 62
    return A


def test_interrupts_still_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "live_tuner_of", interrupt)
    A = asp.csr(plain(), copy=True)
    with pytest.raises(KeyboardInterrupt):
        A @ np.ones((300, 8), np.float32)
