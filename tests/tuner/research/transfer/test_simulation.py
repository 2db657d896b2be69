"""Tests of the simulated accelerator: general laws, and counts of the C code equal to the reference in Python."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import runtime_api
from autosparse.tuner.research.targets.accelerator import UNBOUNDED, Configuration
from hypothesis import given, settings

from autosparse import accelerators
from autosparse.errors import InputError, RecordError
from tests.tuner.research.transfer import reference
from tests.tuner.research.transfer.samples import (
    MACHINE,
    configurations,
    large_patterns,
    machines,
    operations,
    pattern,
    patterns,
)

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
N = 24


def run(A, configuration, machine=MACHINE, operation="spmm", n_columns=N):
    return accelerators.simulate(A, configuration, machine=machine, operation=operation, n_columns=n_columns)


@settings(max_examples=60)
@given(A=patterns, configuration=configurations, machine=machines, operation=operations)
def test_c_counts_what_the_reference_counts(A, configuration, machine, operation):
    told = {"machine": machine, "operation": operation, "n_columns": N}
    assert accelerators.simulate(A, configuration, **told) == reference.simulate(A, configuration, **told)


@pytest.mark.parametrize("n_columns", [1, 5, 64])
@pytest.mark.parametrize(("n_rows", "n_cols", "nnz"), [(7, 9, 0), (1, 50, 20), (50, 1, 20), (2, 2, 1)])
def test_small_shapes(n_rows, n_cols, nnz, n_columns):
    """Check empty matrices, one row, one column, more elements than panels, and fewer columns than a split."""
    A = pattern(n_rows, n_cols, nnz, 3)
    for barrier in (0, 1):
        configuration = Configuration(4, 8, 16, barrier, 0, 1)
        told = {"machine": MACHINE, "operation": "sddmm", "n_columns": n_columns}
        found = accelerators.simulate(A, configuration, **told)
        assert found == reference.simulate(A, configuration, **told)
        assert (found.cycles > 0) == (A.nnz > 0)


@settings(max_examples=40)
@given(A=large_patterns, configuration=configurations, machine=machines, operation=operations)
def test_more_of_a_resource_is_never_slower(A, configuration, machine, operation):
    """Check that more bandwidth or larger caches never slow the machine; larger caches of the elements save reads only.

    LRU is a stack algorithm. With larger caches of the elements, the shared cache gets another stream, so there is no
    law of its time.
    """
    base = run(A, configuration, machine, operation)
    wider = run(A, configuration, dataclasses.replace(machine, dram_bytes_per_cycle=300.0), operation)
    assert wider.cycles <= base.cycles
    larger = run(A, configuration, dataclasses.replace(machine, llc_bytes=machine.llc_bytes * 2 + 256), operation)
    assert larger.cycles <= base.cycles
    assert larger.dram_bytes <= base.dram_bytes
    own = run(A, configuration, dataclasses.replace(machine, l1_bytes=machine.l1_bytes * 2 + 256), operation)
    assert own.l1_misses <= base.l1_misses
    assert own.port_bytes <= base.port_bytes


@settings(max_examples=40)
@given(A=large_patterns, configuration=configurations, machine=machines, operation=operations)
def test_simulated_costs_respect_lower_bounds(A, configuration, machine, operation):
    """Check lower bounds: multiply-adds over elements and lanes; reads of A and touched dense rows in each split."""
    found = run(A, configuration, machine, operation)
    whole, rest = divmod(N, configuration.split)
    vectors = whole * -(-configuration.split // machine.lanes) + -(-rest // machine.lanes)
    assert found.cycles >= A.nnz * vectors / machine.n_pes * (1 - 1e-12)
    n_invalidated = np.unique(A.indices[: A.nnz]).size + np.count_nonzero(A.row_lengths)
    n_splits = whole + (rest > 0)
    assert found.dram_bytes >= n_splits * A.nnz * 12 + 4 * N * n_invalidated


@settings(max_examples=30)
@given(A=large_patterns, configuration=configurations, machine=machines)
def test_one_column_panel_makes_a_barrier_cost_its_cycles(A, configuration, machine):
    without = dataclasses.replace(configuration, p_col=UNBOUNDED, barrier=0)
    n_splits = -(-N // configuration.split)
    expected = run(A, without, machine).cycles + (n_splits * machine.barrier_cycles if A.nnz else 0)
    assert run(A, dataclasses.replace(without, barrier=1), machine).cycles == pytest.approx(expected, rel=1e-12)


@settings(max_examples=30)
@given(A=large_patterns, configuration=configurations)
def test_same_input_same_bits_and_splits_are_alike(A, configuration):
    """Check that time is linear in the number of splits of one width, because each begins with cold caches."""
    once = run(A, configuration, n_columns=configuration.split)
    assert once == run(A, configuration, n_columns=configuration.split)
    thrice = run(A, configuration, n_columns=3 * configuration.split)
    assert thrice.cycles == pytest.approx(3 * once.cycles, rel=1e-12)
    assert thrice.dram_bytes == 3 * once.dram_bytes


def test_a_bypass_keeps_rows_of_the_result_out_of_the_caches():
    A = pattern(40, 40, 200, 0)
    cached, bypassed = (run(A, Configuration(4, 8, 16, 0, bypass, 0)) for bypass in (0, 1))
    assert bypassed.l1_misses < cached.l1_misses
    assert bypassed.vectors == cached.vectors


def test_times_of_equal_programs_are_equal():
    target = accelerators.read("spade")
    A = pattern(300, 900, 1500, 1)
    times = accelerators.times(target, A)
    same = target.distinct(*A.shape)
    assert len(set(same)) < len(times)
    assert np.array_equal(times, times[list(same)])
    numbers = [0, 37, 128, 255]
    direct = [run(A, target.configurations[n], target.machine, n_columns=target.n_columns).cycles for n in numbers]
    void = [target.configurations[n].barrier * 500 * (64 // min(64, target.configurations[n].split)) for n in numbers]
    assert np.allclose(times[numbers] + void, direct)  # all columns lie in one panel: a barrier has no other effect


def test_without_the_runtime_nothing_is_simulated(monkeypatch):
    monkeypatch.setattr(runtime_api, "available", False)
    with pytest.raises(InputError, match="C runtime"):
        run(pattern(4, 4, 3, 0), Configuration(4, 8, 16, 0, 0, 1))


def test_unsupported_simulations_raise_with_a_reason():
    A = scipy.sparse.csr_array(([1.0, 1.0], [1, 0], [0, 2]), shape=(1, 2))
    with pytest.raises(InputError, match="columns ascend"):
        accelerators.pattern_of(A)
    target = dataclasses.replace(accelerators.read("spade"), machine=None)
    with pytest.raises(InputError, match="without a machine"):
        accelerators.times(target, pattern(3, 3, 3, 0))
    with pytest.raises(RecordError, match="operation='spmv'"):
        run(pattern(3, 3, 3, 0), Configuration(4, 4, 8, 0, 0, 0), operation="spmv")
