"""Tests of an operation of SpMM's shape that is registered at run time: it is computed, tuned and explained."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse.tuner.space.families import schedule

import autosparse as asp
from autosparse import _native
from autosparse.core.expression import Access, IndexExpression
from autosparse.dispatch import executor
from autosparse.dispatch.calls import MatmulCall
from autosparse.errors import OptionError
from autosparse.explain import explain
from autosparse.ops import MATMUL, OPS, SPGEMM, register, unregister
from tests.native.interpreter import interpret
from tests.tuning.forcing import close
from tests.tuning.test_operations import force

WORDS = dataclasses.replace(MATMUL.words, title="messages of {A}, features of {width}") if MATMUL.words else None
AGGREGATE = dataclasses.replace(
    MATMUL,
    name="aggregate",
    formula="H[i,j] += A[i,k] * F[k,j]",
    expressions=(IndexExpression(Access("H", ("i", "j")), Access("A", ("i", "k")), (Access("F", ("k", "j")),)),),
    abilities=frozenset({"rows"}),
    synonyms=("gather",),
    tuning=dataclasses.replace(MATMUL.tuning, collected=(), learned_names={}, runtime_loops=""),
    words=WORDS,
)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register(AGGREGATE)
    yield
    unregister(AGGREGATE.name)


def aggregate(A: Any, F: np.ndarray) -> np.ndarray:
    """Compute the operation, as the module of a built-in operation would: allocate the output and make the call."""
    operand = A._cell
    rows, n_vecs, address = operand.rows or operand.validate(), F.shape[1], runtime_api.address_of
    H = np.empty((A.shape[0], n_vecs), F.dtype)
    executor.serve(
        AGGREGATE.name, operand, rows, n_vecs,
        lambda threads: MatmulCall(
            rows, (address(F), n_vecs), (address(H), n_vecs), n_vecs, transposed=False, kept=(F, H)
        ),
    )  # fmt: skip
    return H


def matrix(n: int = 300, m: int = 200) -> sps.csr_array:
    return sps.random_array((n, m), density=0.05, format="csr", dtype=np.float32, random_state=np.random.default_rng(3))


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_a_registered_operation_is_computed_tuned_and_explained() -> None:
    plain = matrix()
    A, F = asp.csr(plain, copy=True), np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    close(aggregate(A, F), plain @ F)
    plan = A.tune("gather", columns=8, effort="measure", budget_s=60.0)
    assert plan.effort == "measure"
    assert plan.candidates
    assert all(one.schedule is None or one.schedule.operation == "aggregate" for one in plan.candidates)
    close(aggregate(A, F), plain @ F)
    text = str(explain(A._cell, 8, operation="aggregate"))
    assert "aggregate: messages of A, features of 8 columns" in text
    assert AGGREGATE.formula in text


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_a_generated_kernel_of_a_registered_operation_equals_the_interpreter() -> None:
    plain = matrix()
    A, F = asp.csr(plain, copy=True), np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
    made = schedule("aggregate", "csr", {}, tile=8)
    state = force(A._cell, made, columns=8, operation="aggregate")
    for _ in range(3):
        close(aggregate(A, F), plain @ F)
    assert state.n_tuned == 3
    spec = _native.KernelSpec("aggregate", made, "float32", "int32", "baseline")
    packed = _native.pack(A._cell.pattern, A._cell.data, made.format, transposed=False)
    close(interpret(spec, packed, F), plain @ F)


def test_schedules_that_a_registered_operation_does_not_support_are_refused() -> None:
    symmetric = schedule("aggregate", "slices", {"r": 8, "sigma": 64})
    assert _native.supports("aggregate", symmetric) == "slices are not lowered for aggregate"
    with pytest.raises(ValueError, match="already"):
        register(AGGREGATE)


def test_several_sparse_operands_are_refused_with_the_reason() -> None:
    assert "2 sparse operands" in str(SPGEMM.expressions[0].reason_not_lowered)
    made = dataclasses.replace(schedule("aggregate", "csr", {}), operation=SPGEMM.name)
    assert "2 sparse operands" in str(_native.supports(SPGEMM.name, made))
    with pytest.raises(OptionError, match="one of matmul"):
        asp.csr(matrix()).tune(SPGEMM.name)


def test_every_tuned_operation_has_words_and_a_lowering_check() -> None:
    for row in OPS.values():
        if row.is_tuned:
            assert row.words is not None
            assert row.reason_not_lowered is None
