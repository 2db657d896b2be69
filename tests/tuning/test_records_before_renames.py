"""A cache directory that was written before names changed is ignored without an error."""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps
from autosparse.cache import keys, trust
from autosparse.cache.envelope import Envelope

import autosparse as asp
from autosparse import cache
from autosparse.core.plan import Plan
from autosparse.core.solver import DEFAULT
from autosparse.dispatch.state import state_for
from autosparse.tuning.memory import plan_lookup
from autosparse.tuning.setup import context_of

PLAN = Plan(choice=DEFAULT, why="the last heat", effort="full", default_s=2e-5, measured_s=1e-5, tune_s=1e3)
OLD: dict[str, Any] = {
    "history": {"heats": 3, "fresh": [], "n_processes": "two"},
    "machine": {"prices": {"compile": 1.0}, "settled": 3},
    "features": {"seen": [1.0], "numbered": True},
    "failure": {"maker": "tcc", "doubt": "none"},
    "device_plan": {"schedule": {"Part": "near"}, "measured_s": {"theirs": "fast"}},
    "einsum": {"program": "∀i R += T0[i:s] * T1[i:s]", "dense_levels": ["T0"], "effort": "measure"},
}
"""Records of each kind with names and types that no present reader knows."""


def matrix() -> Any:
    return asp.csr(sps.random_array((60, 60), density=0.1, random_state=np.random.default_rng(0), dtype=np.float32))


def key_of(A: Any) -> keys.PlanKey:
    return plan_lookup.key_of(context_of(A._cell, state_for(A._cell, A._cell.rows or A._cell.validate(), 8, False)))


def write(root: Path, kind: str, name: str, record: Any) -> None:
    """Write a record as the release before the renames did: sealed, with the present schema and the one before."""
    newest = trust.SCHEMAS.get(kind, 2)  # plans of GPUs and of einsum programs had kinds of their own
    for schema in (newest - 1, newest):
        folder = root / "records" / f"{kind}-{schema}" / keys.file_name(name)[:2]
        folder.mkdir(parents=True, exist_ok=True)
        sealed = Envelope.seal(kind, name, record, schema=schema, saved_at=1.0)
        (folder / f"{keys.file_name(name)}.json").write_bytes(sealed.to_bytes())


def test_a_cache_written_before_the_renames_is_ignored_without_an_error(tmp_path: Path) -> None:
    with asp.options(cache=True, cache_dir=tmp_path, effort="measure", budget_s=0.2):
        key = key_of(matrix())
        cache.open_store().save("plan", "0" * 32, cache.plan_to_record(PLAN))  # makes the folder
        (root,) = (path.parent for path in tmp_path.rglob("records"))
        # Sources of the emitters and of the runtime have other names, so that their digests differ.
        old = dataclasses.replace(key, emitter="0" * 16, runtime="1" * 16)
        record = cache.plan_to_record(PLAN, old) | {"doubted": 1, "heat": True, "division": "near"}
        write(root, "plan", old.stable_hash(), record)
        for kind, content in OLD.items():
            write(root, kind, key.stable_hash(), content)
            write(root, kind, f"tuner|{key.target}", content)
        (root / "accounts").mkdir(exist_ok=True)
        (root / "accounts" / "0").write_text(json.dumps({"settled": True}))
        A = matrix()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plan = A.tune(columns=8)
            assert not plan.remembered
            assert PLAN.why not in str(A.explain(np.ones((60, 8), np.float32)))
            np.testing.assert_allclose(A @ np.ones((60, 8), np.float32), A.toarray() @ np.ones((60, 8)), rtol=1e-4)


def test_the_digest_of_the_emitters_is_part_of_a_plans_key() -> None:
    key = key_of(matrix())
    assert {"emitter", "runtime"} <= set(key.to_json())
    assert dataclasses.replace(key, emitter="0" * 16).stable_hash() != key.stable_hash()
