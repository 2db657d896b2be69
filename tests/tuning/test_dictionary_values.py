"""Tests of dictionary-encoded values: graphs with few distinct values have their own plans; later writes are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import autosparse
from autosparse.config import get_options
from autosparse.core.formats import DICTIONARY, Format
from autosparse.core.schedule import SuperSchedule
from autosparse.core.target import Target
from autosparse.tuning.memory.plan_lookup import key_of
from autosparse.tuning.setup import context_of
from tests.native.runtime_cases import needs_runtime
from tests.tuning.forcing import force, state_of

pytestmark = [
    needs_runtime,
    pytest.mark.skipif(Target.host().held_to(get_options().isa).isa != "avx512", reason="no avx512 here"),
]
N = 700


def graph(dtype: str = "float64", values: Any = 1) -> autosparse.csr_array:
    made = sp.random_array((N, N), density=0.02, format="csr", random_state=np.random.default_rng(1), dtype=dtype)
    made.data[:] = values
    return autosparse.csr_array(made, copy=True)


def storage_of(M: autosparse.csr_array, columns: int = 1) -> str:
    state = state_of(M, columns)
    state.n_dense_cols = columns
    return context_of(M._cell, state).problem.storage


def numbered(lanes: int = 8) -> SuperSchedule:
    fmt = Format.parse(f"i1:U,k1:D,i0:U | i={lanes} | sigma=512 | values=numbered | bits=16")
    return SuperSchedule(operation="matmul", format=fmt, loop_order=("i1", "k1", "i0"), unroll=2, prefetch=32)


def test_the_problem_of_a_graph_says_so_and_has_plans_of_its_own() -> None:
    M = graph()
    assert storage_of(M) == DICTIONARY
    assert storage_of(M.T) == DICTIONARY
    assert storage_of(M, 8) == ""  # with 8 columns, values are a small part of the traffic
    assert storage_of(graph(values=np.arange(graph().nnz))) == ""
    key = key_of(context_of(M._cell, state_of(M))).stable_hash()
    M.data[:] = np.arange(M.nnz)
    assert key_of(context_of(M._cell, state_of(M))).stable_hash() != key
    with autosparse.options(isa="avx2"):
        assert storage_of(graph()) == ""


def test_the_storage_option_takes_precedence_where_supported() -> None:
    with autosparse.options(storage="float16"):
        assert storage_of(graph("float32")) == "float16"
        assert storage_of(graph("float64")) == DICTIONARY


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
def test_values_written_later_are_seen(dtype: str, transposed: bool) -> None:
    M = graph(dtype)
    A = M.T if transposed else M
    rng = np.random.default_rng(2)
    x = rng.integers(-3, 4, N).astype(dtype)
    trial = force(A, numbered(16 if dtype == "float32" else 8))
    np.testing.assert_array_equal(A @ x, sp.csr_array(A) @ x)
    assert state_of(A).serving is trial
    for values in (2.0, rng.integers(1, 9, M.nnz), np.inf, 1.0):
        M.data[:] = values
        for _ in range(4):
            np.testing.assert_array_equal(A @ x, sp.csr_array(A) @ x)
    assert trial.failed is None


def test_weights_of_many_kinds_make_another_problem_which_is_tuned_anew() -> None:
    M, x = graph(), np.ones(N)
    trial = force(M, numbered())
    M @ x
    M.data[:] = np.arange(M.nnz)
    for _ in range(40):
        np.testing.assert_allclose(M @ x, sp.csr_array(M) @ x)
    assert "different values" in str(trial.failed)
    assert state_of(M).serving is None
    assert storage_of(M) == ""
    force(
        M, SuperSchedule(operation="matmul", format=Format.parse("i1:U,k1:S,i0:U | i=8"), loop_order=("i1", "k1", "i0"))
    )
    np.testing.assert_allclose(M @ x, sp.csr_array(M) @ x)


def test_explain_says_how_values_are_stored() -> None:
    M = graph()
    force(M, numbered())
    assert "values by number" in str(M.explain())
