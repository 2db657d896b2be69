"""Tests of the table of implementations: what each computes, and what each refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from autosparse._native.kernels.implementations import IMPLEMENTATIONS

from autosparse import _native, config
from autosparse.core.schedule import RUNTIME, SuperSchedule
from autosparse.errors import BuildError, ScheduleError
from tests.native import cases
from tests.native.runtime_cases import needs_runtime

GENERATED = cases.schedule("i1:U,k1:C", "i1 j1 k1 j0", 16)
PRECOMPILED = cases.schedule("i1:U,k1:C | rows=rcm", "i1 k1", implementation=RUNTIME)


def test_every_row_has_its_name() -> None:
    assert all(row.name == name for name, row in IMPLEMENTATIONS.items())
    assert set(IMPLEMENTATIONS) == {RUNTIME, *_native.BACKENDS, "parts", "triton"}


@pytest.mark.parametrize(
    ("schedule", "compiler", "name"),
    [(None, "cc", "runtime"), (PRECOMPILED, "numba", "runtime"), (GENERATED, "cc", "c"), (GENERATED, "numba", "numba")],
)
def test_schedule_and_setting_name_who_computes(schedule: SuperSchedule | None, compiler: str, name: str) -> None:
    assert _native.implementation_of(schedule, compiler).name == name


def test_runtime_and_generated_schedules_exclude_each_other() -> None:
    assert IMPLEMENTATIONS["runtime"].supports("matmul", PRECOMPILED) is None
    assert _native.supports("matmul", PRECOMPILED) is None
    assert IMPLEMENTATIONS["c"].supports("matmul", GENERATED) is None
    for changed in (
        {"unroll": 2},
        {"prefetch": 5},
        {"operation": "mttkrp"},
        {"format": dataclasses.replace(PRECOMPILED.format, index_bits=16)},
        {"loop_order": ("k1", "i1")},
    ):
        other = dataclasses.replace(PRECOMPILED, **changed)
        assert _native.supports(other.operation, other), changed
    assert _native.supports("sddmm", PRECOMPILED)


@needs_runtime
def test_schedules_without_runtime_loops_are_refused_not_generated(tmp_path: Path) -> None:
    """Check a spec whose loops over dense columns are not in the schedule: generated code would compute one column."""
    of = cases.spec(PRECOMPILED, index_dtype="int64")
    with config.options(cache_dir=tmp_path):
        store = cases.cache.open_store()
        assert _native.loaded(of) is None
        assert not _native.is_built(of, store=store)
        with pytest.raises(BuildError, match="no kernel for this schedule"):
            _native.build(of, store=store)


def test_an_implementation_that_is_none_is_no_schedule() -> None:
    with pytest.raises(ScheduleError, match="implementation"):
        dataclasses.replace(GENERATED, implementation="abacus")
    assert "implementation" not in GENERATED.to_json()
    assert SuperSchedule.from_json(PRECOMPILED.to_json()) == PRECOMPILED
