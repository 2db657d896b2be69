"""Tests of remembered plans whose kernels read slices: they serve without formats, schedules and a search's trials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.ir import key_of
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.shipped_specs import specs
from autosparse._native.kernels.slice_kernel import PackedSlices
from autosparse._native.kernels.slice_names import Slices
from autosparse._native.storage.packing import pack
from autosparse.cache import trust
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse import cache
from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.dispatch import state
from autosparse.dispatch.state import DispatchState
from autosparse.isa import ISAS
from autosparse.notices import FallbackWarning, forget_warnings
from autosparse.tuning.live import LiveTuner
from autosparse.tuning.memory import recall, slice_trial
from autosparse.tuning.memory.slice_trial import SliceTrial
from autosparse.tuning.setup import context_of
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.dispatch.test_first_look import account_of, looked_at, remembered
from tests.dispatch.test_first_look_processes import PROGRAM
from tests.tuning.forcing import state_of

HOST = Target.host().isa
pytestmark = pytest.mark.skipif(not runtime_api.available or not ISAS[HOST].is_shipped, reason="no avx2 here")
LANES = ISAS[HOST].vector_bytes // 8
N = 300
FORMATS = [
    Format.parse(f"i1:U,k1:{level},i0:U | i={rows}{sigma}{values}{bits}")
    for level in "SD" for rows in (2, 8, 32) for sigma in ("", " | sigma=512")
    for values in ("", " | values=numbered") for bits in ("", " | bits=16")
]  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a cache folder and shipped kernels, and prevent tuning however long products take."""
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)
    forget_warnings()
    with asp.options(cache_dir=tmp_path, extra_memory=50.0, isa=HOST):  # type: ignore[arg-type]
        yield tmp_path


def shipped(text: str = "", unroll: int = 2, prefetch: int = 32) -> SuperSchedule:
    """Return the schedule of a shipped kernel on slices."""
    return SuperSchedule(
        format=Format.parse(text or f"i1:U,k1:D,i0:U | i={LANES} | bits=16"), loop_order=("i1", "k1", "i0"),
        unroll=unroll, prefetch=prefetch,
    )  # fmt: skip


def matrix() -> Any:
    m = sps.random_array((N, N), density=0.05, random_state=np.random.default_rng(2), format="csr")
    m.data[:] = np.random.default_rng(3).standard_normal(m.nnz)
    return m


def served(schedule: SuperSchedule) -> tuple[Any, Any, DispatchState]:
    """Return a matrix of SciPy, one of ours whose plan is remembered, and the state after the first look."""
    m = matrix()
    remembered(asp.csr(m), schedule)
    A = asp.csr(m)
    return m, A, looked_at(A)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_slices_are_read_from_the_text_of_their_format_and_written_as_it(fmt: Format) -> None:
    slices = Slices.of(str(fmt))
    assert slices is not None
    assert slices.text() == str(fmt)
    assert slices.text(is_compiled=True) == str(fmt.as_compiled())


@pytest.mark.parametrize("text", ["i1:U,k1:C", "i1:U,k1:C,i0:U | i=8", "i1:U,k1:D,i0:U | i=8 | bits=64", "", None, 3,
                                  "i1:U,k1:D,i0:U | bits=16 | i=8", "i1:U,k1:D,i0:U | i=8,k=2"])  # fmt: skip
def test_other_texts_are_no_slices(text: object) -> None:
    assert Slices.of(text) is None


@given(st.sampled_from(FORMATS), st.sampled_from([1, 2, 4]), st.sampled_from([0, 32]), st.booleans(), st.booleans())
def test_the_key_of_a_recorded_schedule_is_that_of_its_spec(fmt, unroll, prefetch, gathers, is_dynamic):
    schedule = SuperSchedule(
        format=fmt, loop_order=("i1", "k1", "i0"), unroll=unroll, prefetch=prefetch, chunk=64,
        partition="dynamic" if is_dynamic else "nnz",
    )  # fmt: skip
    spec = KernelSpec("matmul", schedule, "float64", "int32", "avx2", gathers=gathers)
    found = json.loads(schedule.to_json())
    assert set(found) == recall.FIELDS
    code = {name: value for name, value in found.items() if name not in recall.AT_RUN_TIME}
    slices = Slices.of(found["format"])
    assert slices is not None
    more = () if gathers else ("loads",)
    types = "float64", "int32", "avx2"
    assert spec.key() == key_of("matmul", code | {"format": slices.text(is_compiled=True)}, types, *more)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_slices_hold_what_a_packed_operand_of_their_format_holds(fmt: Format) -> None:
    m = matrix()
    m.data[:] = np.sign(m.data) if fmt.values else m.data
    slices = Slices.of(str(fmt))
    assert slices is not None
    light = PackedSlices.laid_out(m.shape, m.indptr, m.indices, slices)
    assert light.fill(m.indptr, m.indices, m.data)
    packed = pack(Pattern(N, N, m.indptr, m.indices), m.data, fmt, transposed=False)
    for mine, theirs in ((light.pos, packed.pos), (light.crd, packed.crd), ({"": light.values}, {"": packed.values})):
        assert mine.keys() == theirs.keys()
        for name, array in theirs.items():
            np.testing.assert_array_equal(mine[name], array, err_msg=name)
            assert mine[name].dtype == array.dtype


def test_every_plan_of_a_shipped_kernel_on_slices_serves_lightly() -> None:
    """Check that the kernels that most plans name need no formats and schedules, in windows of any size."""
    for spec in specs(HOST):
        fmt = spec.schedule.format
        if fmt.is_sliced and not fmt.values and spec.dtype == "float64" and spec.gathers == runtime_api.gathers():
            assert Slices.of(str(fmt)) is not None, fmt


@pytest.mark.parametrize("text", ["", f"i1:U,k1:D,i0:U | i={LANES} | sigma=64 | bits=16"])
def test_a_remembered_plan_of_slices_serves_without_its_schedule(text: str) -> None:
    m, A, found = served(shipped(text))
    assert isinstance(found.serving, SliceTrial)
    assert found.live_tuner is None
    x = np.arange(float(N))
    np.testing.assert_allclose(A @ x, m @ x)
    assert found.n_tuned == 1
    A.data[:] *= 2.0  # the schedule's trial writes the new values to the same copy
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    assert isinstance(found.recalled, KernelTrial), "whether it serves depends on what the writes cost"
    assert found.recalled.schedule == shipped(text)
    assert found.recalled.service is not None


def test_a_matrix_that_dies_takes_its_light_plan_along() -> None:
    _, A, found = served(shipped())
    operand = weakref.ref(A._cell)
    copy = weakref.ref(found.serving.packed_copy) if hasattr(type(found.serving.packed_copy), "__weakref__") else None
    del A, found
    assert operand() is None
    assert copy is None or copy() is None


def test_a_shared_matrix_gets_the_trial_that_checks_for_writes() -> None:
    m = matrix()
    remembered(asp.csr(m), shipped(), measured_s=1.0)
    A = asp.csr(m, copy=False)
    found = looked_at(A)
    assert isinstance(found.serving, KernelTrial)
    x = np.ones(N)
    np.testing.assert_allclose(A @ x, m @ x)
    m.data[:] *= 3.0
    np.testing.assert_allclose(A @ x, m @ x)


def test_tuning_that_comes_later_takes_the_kernel_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveTuner, "_affordable", lambda *_: True)
    m, A, found = served(shipped())
    x = np.ones(N)
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 0.0)
    for _ in range(20):
        found.next_look_ns = 0
        np.testing.assert_allclose(A @ x, m @ x)
        assert found.serving is not None
    assert isinstance(found.serving, KernelTrial)
    assert found.live_tuner.session.incumbent is found.serving  # type: ignore[union-attr]
    assert found.serving.packed_copy.n_owners == 1  # type: ignore[union-attr]


def test_tuning_that_is_asked_for_shares_the_packed_copy() -> None:
    m, A, found = served(shipped())
    plan = A.tune(effort="measure", budget_s=0.2)
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))
    copies = A._cell.dispatcher.packed_copies
    assert copies.n_bytes == (0 if plan.is_default else found.serving.packed_copy.n_bytes)  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", ["record gone", "stamp", "wrong kernel", "failure", "no memory", "not finite"])
def test_plans_that_fail_a_check_do_not_serve(own_cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, schedule = matrix(), shipped()
    B = asp.csr(m)
    remembered(B, schedule)
    (record,) = trust.root_of(own_cache).glob("records/plan-*/*/*.json")
    if damage == "record gone":
        record.unlink()
    elif damage == "stamp":
        monkeypatch.setattr(recall.stamps, "sources", lambda: "other sources")
    elif damage == "failure":
        context = context_of(B._cell, state_of(B))
        failure = cache.Failure(reason="a test", compiler="none", failed_at=0.0)
        context.store.save("failure", context.spec(schedule).key(), failure.to_record())
    elif damage == "not finite":
        m.data[:] = np.inf
    elif damage == "wrong kernel":
        monkeypatch.setattr(slice_trial.SliceTrial, "_difference", lambda *_: "1 instead of 2")
    A = asp.csr(m)
    with asp.options(extra_memory=0.0 if damage == "no memory" else 50.0):
        if damage == "wrong kernel":
            with pytest.warns(FallbackWarning, match="is not used"):
                found = looked_at(A)
        else:
            found = looked_at(A)
    assert found.serving is None
    assert (account_of(own_cache, A).plan is None) == (damage == "wrong kernel"), "the next process must not try it"
    assert A._cell.dispatcher.packed_copies.n_bytes == 0
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))


def test_a_kernel_that_was_compiled_serves_as_a_shipped_one_does() -> None:
    """Check that a kernel of the cache serves lightly, with as many tasks and threads as its schedule says."""
    schedule = SuperSchedule(
        format=Format.parse(f"i1:U,k1:S,i0:U | i={2 * LANES} | sigma=16"), loop_order=("i1", "k1", "i0"),
        partition="dynamic", chunk=4, threads=2,
    )  # fmt: skip
    B = asp.csr(matrix())
    context = context_of(B._cell, state_of(B))
    if context.compiler_id() == "none":
        pytest.skip("no C compiler here")
    trial = context(asp.core.solver.choice_of(schedule))
    trial.build()
    m, A, found = served(schedule)
    assert isinstance(found.serving, SliceTrial)
    assert found.serving.library is not None
    bound: Any = found.serving.bound
    assert (bound._chunk, bound._max_threads) in {(4, 2), (4, 1)}
    x = np.arange(float(N))
    np.testing.assert_allclose(A @ x, m @ x)
    A.data[:] *= 2.0
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    assert found.recalled.schedule == schedule  # type: ignore[union-attr]


MAX_MODULES = 23
"""Maximum number of our modules that a process loads from its first look to a plan that serves on slices."""
FAST_CALLS = "autosparse.dispatch.fast_path"
"""Module that products load before the first look if they are short, thus many."""


def test_serving_a_plan_of_slices_loads_few_modules(tmp_path: Path) -> None:
    m = sps.random_array((3000, 3000), density=0.01, random_state=np.random.default_rng(2), format="csr")
    remembered(asp.csr(m, copy=True), shipped())
    sps.save_npz(tmp_path / "m.npz", m)
    own = {"AUTOSPARSE_CACHE_DIR": str(tmp_path), "AUTOSPARSE_EXTRA_MEMORY": "50", "AUTOSPARSE_ISA": HOST}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(more=""), str(tmp_path / "m.npz")], env=os.environ | own,
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["served"]
    ours = [name for name in found["new"] if name.startswith("autosparse") and name != FAST_CALLS]
    assert len(ours) <= MAX_MODULES, ours
    parts = ("core.formats", "core.schedule", "core.solver", "ops.table", "tuning.trials", "tuner", "_native.ir.spec")
    heavy = {f"autosparse.{part}" for part in parts}
    assert not heavy & set(ours)
