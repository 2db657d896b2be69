"""Tests of plan keys: a plan is accepted only for the toolchain of its kernels; explanations say why none was found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native.kernels import identity
from autosparse.cache.envelope import Envelope
from autosparse.cache.store import Store

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.dispatch.state import state_for
from autosparse.tuning.memory import misses, plan_lookup
from autosparse.tuning.setup import context_of
from autosparse.tuning.trials.context import TuningContext

KNOWN = Plan(choice=DEFAULT, why="w", effort="full", default_s=2e-5, measured_s=2e-5, tune_s=1e3)
OTHERS: dict[str, Any] = {
    "operation": "sddmm", "transposed": True, "columns_bucket": 4096, "dtype": "float16", "index_dtype": "int8",
    "threads": 999, "deterministic": True, "target": "t", "space": "s", "implementation": "tcc", "compiler": "cc 1",
    "emitter": "e", "runtime": "r", "solvers": "toy 1", "schema": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path) -> Iterator[None]:
    with asp.options(cache=True, cache_dir=tmp_path, effort="measure", budget_s=0.2):
        yield


def matrix(seed: int = 0) -> Any:
    return asp.csr(sps.random_array((60, 60), density=0.1, random_state=np.random.default_rng(seed), dtype=np.float32))


def context(A: Any) -> TuningContext:
    return context_of(A._cell, state_for(A._cell, A._cell.rows or A._cell.validate(), 8, False))


def remember(key: cache.PlanKey) -> None:
    cache.open_store().save("plan", key.stable_hash(), cache.plan_to_record(KNOWN, key))


def explained(A: Any) -> str:
    return str(A.explain(np.ones((60, 8), np.float32)))


@pytest.mark.parametrize("field", OTHERS)
def test_the_field_that_differs_is_named(field: str) -> None:
    A = matrix()
    remember(dataclasses.replace(plan_lookup.key_of(context(A)), **{field: OTHERS[field]}))
    assert plan_lookup.recall(context(A)) is None
    told = misses.why_not_remembered(context(A))
    assert misses.WORDS[field] in told
    assert all(word not in told for name, word in misses.WORDS.items() if name != field)
    assert told in " ".join(explained(A).split()) or "not remembered" in explained(A)


def test_every_key_field_has_a_description() -> None:
    assert set(misses.WORDS) == {field.name for field in dataclasses.fields(cache.PlanKey)}
    assert set(OTHERS) == set(misses.WORDS) - {"pattern"}


def test_the_nearest_plan_is_the_one_with_fewest_differences() -> None:
    A = matrix()
    key = plan_lookup.key_of(context(A))
    remember(dataclasses.replace(key, threads=999, compiler="cc 1", emitter="e"))
    remember(dataclasses.replace(key, runtime="r"))
    remember(dataclasses.replace(key, threads=998, runtime="r"))
    assert misses.why_not_remembered(context(A)).endswith(f"differs in {misses.WORDS['runtime']}")


def test_a_remembered_plan_needs_no_explanation() -> None:
    A = matrix()
    remember(plan_lookup.key_of(context(A)))
    assert misses.why_not_remembered(context(A)) == ""
    plan = A.tune(columns=8)
    assert plan.remembered
    assert plan.not_remembered == ""
    assert "not remembered" not in explained(A)


def test_plans_of_other_patterns_are_none() -> None:
    A, B = matrix(0), matrix(1)
    remember(plan_lookup.key_of(context(B)))
    assert "no plan of a matrix with this pattern" in misses.why_not_remembered(context(A))


def test_a_plan_made_with_another_compiler_is_not_used() -> None:
    A = matrix()
    with asp.options(compiler="cc -g0"):
        remember(plan_lookup.key_of(context(A)))
        assert A.tune(columns=8).remembered
    with asp.options(compiler="cc -g1"):
        plan = matrix().tune(columns=8)
    assert not plan.remembered
    if identity.toolchain_of("cc").implementation == "c":
        assert "the compiler (" in plan.not_remembered


def test_the_compiler_is_part_of_the_plan_key() -> None:
    A = matrix()
    keys = []
    for compiler in ("cc -g0", "cc -g1", "cc -g0"):
        with asp.options(compiler=compiler):
            keys.append(plan_lookup.key_of(context(A)).stable_hash())
    assert keys[0] == keys[2]
    assert len(set(keys)) == (2 if identity.toolchain_of("cc").implementation == "c" else 1)


def test_a_plan_record_of_the_old_layout_is_ignored(tmp_path: Path) -> None:
    """Check that records of layout 1, whose keys had no toolchain, are ignored and harmless."""
    A = matrix()
    key = plan_lookup.key_of(context(A))
    name = key.stable_hash()
    old = Envelope.seal("plan", name, cache.plan_to_record(KNOWN), schema=1, saved_at=1.0).to_bytes()
    for folder in tmp_path.glob("*/"):
        for path in (folder / "records/plan-1" / name[:2], folder / "records/plan-2" / name[:2]):
            path.mkdir(parents=True, exist_ok=True)
            (path / f"{name}.json").write_bytes(old)
    assert plan_lookup.recall(context(A)) is None
    assert not matrix().tune(columns=8).remembered
    explained(A)


@pytest.mark.parametrize("key", [None, 3, [], {}, {"threads": [1]}, {"compiler": "x" * 10**5}, {"emitter": {}}])
def test_a_key_of_any_content_is_no_danger(key: Any) -> None:
    A = matrix()
    wanted = plan_lookup.key_of(context(A))
    other = dataclasses.replace(wanted, threads=999)
    record = cache.plan_to_record(KNOWN, other)
    fields = wanted.to_json() | key if isinstance(key, dict) and key else key
    cache.open_store().save("plan", other.stable_hash(), record | {"key": fields})
    assert len(misses.why_not_remembered(context(A))) < 500


def test_explain_names_the_higher_effort() -> None:
    A = matrix()
    key = plan_lookup.key_of(context(A))
    plan = dataclasses.replace(KNOWN, effort="estimate")
    cache.open_store().save("plan", key.stable_hash(), cache.plan_to_record(plan, key))
    assert "effort estimate" in A.tune(columns=8, effort="measure").not_remembered


def test_toolchain_identity_is_cached_and_complete() -> None:
    made = identity.toolchain_of(None)
    assert made == identity.toolchain_of(None)
    assert len({identity.code_digest("c"), identity.code_digest("numba")}) == 2
    assert all(getattr(made, field.name) for field in dataclasses.fields(made))
    assert identity.toolchain_of("no-such-compiler-here").implementation == "none"


def test_a_better_plan_of_another_process_is_kept(tmp_path: Path) -> None:
    """Check a plan that is stored while this process searches, after it has looked for one."""
    here = context(matrix())
    key = plan_lookup.key_of(here)
    assert plan_lookup.recall(here) is None
    Store(tmp_path).save("plan", key.stable_hash(), cache.plan_to_record(KNOWN, key))
    plan_lookup.remember(here, dataclasses.replace(KNOWN, effort="measure"))
    found = plan_lookup.recall(here)
    assert found is not None
    assert found.effort == KNOWN.effort
