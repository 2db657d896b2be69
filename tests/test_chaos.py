"""Tests of the clock and the machines of `pytest --chaos` (tests/chaos.py)."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

from autosparse.isa import ISAS, isas_of
from tests import chaos
from tests.native import hooks
from tests.processes import run_with_torch


@pytest.mark.parametrize("scale", chaos.SCALES)
def test_intervals_are_multiplied_by_factors_within_the_bounds_and_repeat_with_their_seed(scale):
    real_ns = range(0, 10**6, 1000)
    shown = [[clock.ns() for _ in real_ns] for clock in (clock_of(3, real_ns, scale), clock_of(3, real_ns, scale))]
    steps = [after - before for before, after in zip(shown[0], shown[0][1:], strict=False)]
    assert shown[0] == shown[1]
    assert min(steps) >= 1000 * scale * chaos.MIN_FACTOR - 1
    assert max(steps) <= 1000 * scale * chaos.MAX_FACTOR + 1
    assert max(steps) > 2 * min(steps)


def clock_of(seed: int, real_ns: range, scale: float) -> chaos.ChaoticClock:
    ticks = iter((0, *real_ns))
    return chaos.ChaoticClock(seed, lambda: next(ticks), scale=scale)


@hooks.needs_hooks
def test_the_clock_of_the_extension_module_is_scaled():
    """Check a factor of 0, by which a product takes no time."""
    A, x = sps.csr_array(np.eye(3)), np.ones(3)
    arrays = [A.indptr, A.indices, A.data]
    chaos.scale_native_clock(0.0)
    try:
        assert python_objects.small_product(arrays, 3, 3, False, x, np.zeros(3), False, 0, 100) == 0
    finally:
        chaos.scale_native_clock(1.0)


def test_the_machines_differ_in_what_decisions_depend_on():
    machines = [chaos.machine(name) for name in chaos.NAMES]
    assert len(machines) == 6
    assert {one.isa for one in machines} == {row.name for row in isas_of("x86_64")}
    assert {one.n_cores for one in machines} >= {2, 4, 8, 16, 64}
    assert len({one.l2_bytes for one in machines}) >= 5
    assert any(one.fills_last_cache_late for one in machines)


@pytest.mark.parametrize("name", chaos.NAMES)
def test_a_machine_is_a_target(name):
    assert chaos.machine(name).vector_bytes in {row.vector_bytes for row in ISAS.values()}


def run_twice(code: str) -> list[object]:
    run = lambda: run_with_torch(code)  # noqa: E731  a function inside another one
    return [run() for _ in range(2)]


def use_a_field(one: object) -> object:
    return one.subprocess, one.run_twice  # type: ignore[attr-defined]


def test_functions_that_start_processes_are_recognised():
    """Check functions that start a process themselves or through another one, and fields of the same names."""
    assert chaos.starts_processes(run_with_torch)
    assert chaos.starts_processes(run_twice)
    assert not chaos.starts_processes(use_a_field)
    assert not chaos.starts_processes(None)


TABLE = np.zeros(2)


def use_a_table() -> object:
    return TABLE


def test_functions_may_use_arrays_of_their_module():
    """Check a global whose comparison with anything is an array, which has no truth value."""
    assert not chaos.starts_processes(use_a_table)
