"""Tests of the moves of a search: one parameter each, other code each, every parameter among the first ones."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse
from autosparse.tuner.space import families as space
from autosparse.tuner.space import spaces
from autosparse.tuner.space.neighbours import neighbours

from autosparse import _native
from autosparse.core.pattern import Pattern, TensorPattern
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target

SMALL_CACHES = Target(
    cpu="test", machine="x86_64", isa="avx2", n_cores=2, l1_bytes=4 << 10, l2_bytes=16 << 10, l3_bytes=1 << 20
)


def make_problem(operation: str, n_dense_cols: int) -> Problem:
    """Return a problem with a dense operand beyond the caches, so that the space contains the runtime's own loops."""
    matrix = scipy.sparse.random_array((400, 500), density=0.02, random_state=0, format="csr", dtype="float32")
    pattern = Pattern(*matrix.shape, matrix.indptr.astype("int32"), matrix.indices.astype("int32"))
    return Problem(
        operation=operation, pattern=pattern, transposed=False, n_dense_cols=n_dense_cols, dtype="float32", threads=2,
        deterministic=False, target=SMALL_CACHES,
    )  # fmt: skip


def around(problem: Problem, one: SuperSchedule) -> list[SuperSchedule]:
    return list(neighbours(problem, one, _native.supports))


def axes(one: SuperSchedule, other: SuperSchedule) -> set[str]:
    """Return the names of fields in which the schedules differ; the chunk belongs to the partition."""
    fields = {field.name for field in dataclasses.fields(one)} - {"chunk"}
    different = {name for name in fields if getattr(one, name) != getattr(other, name)}
    return different | ({"partition"} if one.chunk != other.chunk else set())


@pytest.mark.parametrize(("operation", "width"), [("matmul", 1), ("matmul", 32), ("sddmm", 32)])
def test_each_step_changes_one_axis_and_can_be_lowered(operation: str, width: int) -> None:
    problem = make_problem(operation, width)
    generated = [one for one in spaces.candidates(problem, _native.supports) if not one.is_precompiled]
    for one in generated:
        found = around(problem, one)
        assert len(found) == len(set(found)) > 2
        assert one not in found
        assert all(len(axes(one, other)) == 1 for other in found)
        assert all(_native.supports(operation, other) is None for other in found)
        assert all(other.chunk == 32 for other in found if other.partition == "nnz")  # it has no effect there


def test_the_first_steps_try_every_axis() -> None:
    problem = make_problem("matmul", 32)
    one = space.schedule("matmul", "csr", {}, tile=16, unroll=2, prefetch=4)
    first = around(problem, one)[:4]
    assert {axis for other in first for axis in axes(one, other)} == {
        "partition", "unroll", "prefetch", "dense_splits",
    }  # fmt: skip


def test_neighbours_include_dynamic_chunks_and_static_partitions() -> None:
    problem = make_problem("matmul", 1)
    one = space.schedule("matmul", "csr", {}, unroll=4)
    dynamic = dataclasses.replace(one, partition="dynamic", chunk=32)
    assert dynamic in around(problem, one)
    steps = {(other.partition, other.chunk) for other in around(problem, dynamic)}
    assert {("dynamic", 8), ("dynamic", 128), ("nnz", 32)} <= steps


@pytest.mark.parametrize("operation", ["matmul", "sddmm"])
def test_neighbours_of_precompiled_kernels_include_generated_ones_of_the_format(operation: str) -> None:
    problem = make_problem(operation, 32)
    runtimes = [one for one in spaces.candidates(problem, _native.supports) if one.is_precompiled]
    assert runtimes
    for one in runtimes:
        found = around(problem, one)
        assert {(other.format.order, other.format.rows) for other in found} == {(one.format.order, one.format.rows)}
        assert {other.is_precompiled for other in found} == {True, False}
        assert {other.partition for other in found} == {"nnz", "dynamic"}


def test_neighbours_of_tensor_schedules_vary_partition_unroll_and_prefetch() -> None:
    pattern = TensorPattern((40, 30, 50), np.array([[0, 1, 2], [2, 1, 0], [3, 0, 1]], np.int32))
    problem = dataclasses.replace(make_problem("mttkrp", 16), pattern=pattern)
    for one in spaces.candidates(problem, _native.supports):
        first = around(problem, one)[:3]
        assert {axis for other in first for axis in axes(one, other)} == {"partition", "unroll", "prefetch"}
