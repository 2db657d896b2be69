"""Tests of notes about kernels on slices: they serve before a plan's record is read, and never another problem."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.cache import trust
from autosparse.cache.folder import Folder
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from autosparse.core.formats import Format
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.dispatch import state
from autosparse.isa import ISAS
from autosparse.tuning.memory import kernel_notes
from autosparse.tuning.memory.slice_trial import SliceTrial
from autosparse.tuning.setup import context_of
from autosparse.tuning.trials.kernel_trial import KernelTrial
from tests.dispatch.test_first_look import account_of, looked_at, remembered
from tests.dispatch.test_recalled_slices import LANES, matrix, shipped
from tests.tuning.forcing import state_of

HOST = Target.host().isa
pytestmark = pytest.mark.skipif(not runtime_api.available or not ISAS[HOST].is_shipped, reason="no avx2 here")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a cache folder and shipped kernels, and prevent tuning however long products take."""
    monkeypatch.setattr(state, "tuning_look_ns", lambda *_: 1e18)
    with asp.options(cache_dir=tmp_path, extra_memory=50.0, isa=HOST):  # type: ignore[arg-type]
        yield tmp_path


def compiled_schedule(unroll: int = 2) -> SuperSchedule:
    """Return a schedule that no other test uses: a process compiles a kernel once, into the cache of that test."""
    return SuperSchedule(
        format=Format.parse(f"i1:U,k1:S,i0:U | i={2 * LANES} | sigma=16"), loop_order=("i1", "k1", "i0"),
        partition="dynamic", chunk=4, threads=2, unroll=unroll,
    )  # fmt: skip


def build(schedule: SuperSchedule) -> None:
    """Compile the kernel of `schedule` into the cache."""
    B = asp.csr(matrix())
    context = context_of(B._cell, state_of(B))
    if context.compiler_id() == "none":
        pytest.skip("no C compiler here")
    context(asp.core.solver.choice_of(schedule)).build()


def no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_record(*_: object) -> None:
        raise AssertionError("a record was read")

    monkeypatch.setattr(Folder, "read_record", read_record)


@given(st.fixed_dictionaries({name: st.integers(0, (1 << bits) - 1) for name, bits in kernel_notes.FIELDS}))
def test_packed_numbers_are_unpacked(numbers: dict[str, int]) -> None:
    word = kernel_notes.packed(numbers)
    assert word is not None
    assert 0 <= word < 1 << 64
    assert kernel_notes.unpacked(word) == numbers


@pytest.mark.parametrize(("name", "bits"), kernel_notes.FIELDS)
def test_a_number_that_is_too_large_is_not_packed(name: str, bits: int) -> None:
    assert kernel_notes.packed({one: 0 for one, _ in kernel_notes.FIELDS} | {name: 1 << bits}) is None


@pytest.mark.parametrize("schedule", [shipped(), compiled_schedule()], ids=["shipped", "compiled"])
def test_a_noted_kernel_serves_before_the_record_is_read(
    schedule: SuperSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(schedule)
    m = matrix()
    remembered(asp.csr(m), schedule)
    A, x = asp.csr(m), np.arange(float(m.shape[1]))
    with monkeypatch.context() as patched:
        no_records(patched)
        found = looked_at(A)
        assert isinstance(found.serving, SliceTrial)
        np.testing.assert_allclose(A @ x, m @ x)
        assert found.n_tuned == 1
    A.data[:] *= 2.0
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    assert isinstance(found.recalled, KernelTrial), "values change by the trial of the recorded schedule"
    assert found.recalled.schedule == schedule


def test_a_kernel_serves_until_values_change_where_the_record_was_removed(own_cache: Path) -> None:
    m = matrix()
    remembered(asp.csr(m), shipped())
    A, x = asp.csr(m), np.arange(float(m.shape[1]))
    found = looked_at(A)
    (record,) = trust.root_of(own_cache).glob("records/plan-*/*/*.json")
    record.unlink()
    np.testing.assert_allclose(A @ x, m @ x)
    assert found.n_tuned == 1
    A.data[:] *= 2.0
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    np.testing.assert_allclose(A @ x, 2.0 * (m @ x))
    assert found.serving is None
    assert A._cell.dispatcher.packed_copies.n_bytes == 0


@pytest.mark.parametrize("other", [f"i1:U,k1:D,i0:U | i={2 * LANES} | sigma=512 | bits=16", "unroll", ""])
def test_a_record_that_another_process_replaced_is_not_the_schedule_of_the_kernel(other: str) -> None:
    m = matrix()
    B = asp.csr(m)
    remembered(B, shipped())
    A, x = asp.csr(m), np.arange(float(m.shape[1]))
    found = looked_at(A)
    assert isinstance(found.serving, SliceTrial)
    remembered(B, shipped(unroll=4) if other == "unroll" else shipped(other))
    for factor in (2.0, 4.0):
        A.data[:] *= 2.0
        np.testing.assert_allclose(A @ x, factor * (m @ x))
    if other:
        assert found.recalled is None, "its packed copy has another layout, or its kernel another schedule"


def test_a_kernel_whose_file_has_changed_does_not_serve(own_cache: Path) -> None:
    schedule = compiled_schedule(unroll=4)
    build(schedule)
    m = matrix()
    remembered(asp.csr(m), schedule)
    (file,) = trust.root_of(own_cache).glob("kernels/*/*/kernel.so")
    content = file.read_bytes()
    file.unlink()  # the process has mapped it: written in place, the loaded kernel would change
    file.write_bytes(content[:-1])
    A = asp.csr(m)
    found = looked_at(A)
    assert found.serving is None
    np.testing.assert_allclose(A @ np.ones(m.shape[1]), m @ np.ones(m.shape[1]))


@pytest.mark.parametrize("change", ["structure", "dump folder", "sources", "compiler"])
def test_a_note_of_other_facts_is_not_used(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    m = matrix()
    B = asp.csr(m)
    remembered(B, shipped())
    account: Any = account_of(tmp_path, B)
    A, options = asp.csr(m), {}
    if change == "structure":  # with the same samples, so the same account
        m.indices[: m.indptr[1]] = m.indices[: m.indptr[1]][::-1].copy()
        A = asp.csr(m)
    elif change == "dump folder":
        options = {"dump_dir": tmp_path / "dump"}
    elif change == "sources":
        monkeypatch.setattr(kernel_notes.stamps, "sources", lambda: "other sources")
    else:
        monkeypatch.setattr(kernel_notes, "_compiler", lambda *_: ("another",))
    with asp.options(**options):  # type: ignore[arg-type]
        assert account.kernel is not None
        assert kernel_notes._trial(state_of(A), A._cell, account_with(account, tmp_path)) is None


def account_with(found: Any, folder: Path) -> Any:
    """Return a problem's account with what the file records."""
    from autosparse.dispatch.accounts import ProblemAccount

    account = ProblemAccount(folder, trust.root_of(folder), b"k" * 16, spent=found.spent, plan=found.plan)
    account.kernel = found.kernel
    return account


@pytest.mark.parametrize(("effort", "is_finished"), [("estimate", False), ("measure", True), ("full", True)])
def test_a_plan_of_less_effort_leaves_the_search_to_this_process(effort: str, is_finished: bool) -> None:
    m = matrix()
    remembered(asp.csr(m), shipped(), effort=effort)
    A = asp.csr(m)
    with asp.options(effort="measure"):
        found = looked_at(A)
    assert isinstance(found.serving, SliceTrial)
    assert found.account is not None
    assert found.account.is_finished == is_finished


def test_other_formats_have_no_note(own_cache: Path) -> None:
    m = matrix()
    A = asp.csr(m)
    remembered(A, SuperSchedule(format=Format.parse("i1:U,k1:C,i0:U | i=2"), loop_order=("i1", "k1", "i0")))
    assert account_of(own_cache, A).plan is not None
    assert account_of(own_cache, A).kernel is None
