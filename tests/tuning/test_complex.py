"""Tests of tuned complex products: candidates, packed copies, later writes, plans on disk, and the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse.tuner.space import spaces

import autosparse as asp
from autosparse.isa import ISAS
from autosparse.scalar import COMPLEX
from autosparse.tuning.setup import context_of
from autosparse.tuning.trials import comparison
from tests.covering import covering
from tests.native.runtime_cases import needs_runtime
from tests.tuning.forcing import ENOUGH_S, FORMATS, WIDTHS, close, force, make, schedule_of, state_of

pytestmark = needs_runtime


def matrix(dtype: str, n: int = 300) -> asp.csr_array:
    return asp.csr(make(n, n + 40, dtype=dtype))


def dense(A: Any, columns: int, seed: int = 1) -> np.ndarray:
    rng, shape = np.random.default_rng(seed), (A.shape[1], columns) if columns > 1 else (A.shape[1],)
    found: np.ndarray = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(A.dtype)
    return found


def context(A: Any, columns: int = 1) -> Any:
    state = state_of(A, columns)
    state.n_dense_cols = columns
    return context_of(A._cell, state)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("columns", [1, 8])
def test_candidates_are_generated_kernels_of_real_values_formats(dtype: str, columns: int) -> None:
    """Check that complex products choose among the formats of real ones that kernels of complex values can read."""
    found = context(matrix(dtype), columns)
    made = [*spaces.candidates(found.problem, found.supports), *spaces.everything(found.problem, found.supports)]
    levels = {",".join(map(str, one.format.levels)) for one in made}
    is_wide = ISAS[found.problem.target.isa].vector_bytes > np.dtype(dtype).itemsize  # else a vector is one value
    assert {"i1:U,k1:C", *({"i1:U,k1:C,i0:U", "i1:U,k1:C,i0:U,k0:U"} if is_wide else ())} <= levels
    if is_wide:
        assert ("i1:U,k1:D,i0:U" in levels) == (columns == 1)
    assert not any(one.is_precompiled or one.format.values for one in made)


@covering(name=FORMATS, columns=[1, 5, 32], dtype=COMPLEX, transposed=[False, True])
def test_products_of_a_packed_copy_follow_the_values(name: str, columns: int, dtype: str, transposed: bool) -> None:
    columns = columns if columns in WIDTHS[name] else 1
    M = matrix(dtype)
    A, plain = (M.T, M.to_scipy().T) if transposed else (M, M.to_scipy())
    B = dense(A, columns)
    expected = plain @ B
    trial = force(A, schedule_of(name, columns), columns=columns)
    close(A @ B, expected)
    assert state_of(A, columns).serving is trial
    M.data[:] *= 2 - 1j
    for _ in range(3):
        close(A @ B, (2 - 1j) * expected)
    assert trial.failed is None
    text = str(A.explain(columns))
    assert dtype in text
    assert "generated" in text


@pytest.mark.parametrize("dtype", COMPLEX)
def test_a_kernel_that_conjugates_is_noticed(dtype: str) -> None:
    """Check that synthetic operands are complex, and that either part is compared."""
    A = matrix(dtype)
    for columns in (1, 3):
        problem = context(A, columns).problem
        for change in (np.conj, np.real, lambda found: found * (1 + 1e-3j)):

            def compute(call: Any, change: Any = change) -> bool:
                runtime_api.raise_for(call.by_default(1, 0))
                found = call.kept[-1]
                found[...] = change(found)
                return True

            assert "instead of" in str(comparison.difference(problem, A._cell, compute, None, 1))
        same = comparison.difference(problem, A._cell, lambda call: call.by_default(1, 0) == 0, None, 1)
        assert same is None


@pytest.mark.parametrize("dtype", ["complex64", pytest.param("complex128", marks=pytest.mark.full)])
def test_a_search_measures_candidates_and_its_plan_is_recalled(dtype: str, tmp_path: Path) -> None:
    with asp.options(cache_dir=tmp_path):
        A = matrix(dtype)
        plan = A.tune(effort="measure", budget_s=ENOUGH_S)
        measured = [one for one in plan.candidates if one.measured_s is not None and one.schedule is not None]
        assert measured, plan.why
        assert not [one.failed for one in plan.candidates if one.failed and "memory" not in one.failed], plan.candidates
        x = dense(A, 1)
        close(A @ x, A.to_scipy() @ x)
        again = matrix(dtype).tune(effort="measure", budget_s=ENOUGH_S)
        assert again.schedule == plan.schedule


@pytest.mark.parametrize("dtype", COMPLEX)
def test_other_operations_keep_the_default_kernel(dtype: str) -> None:
    A = matrix(dtype)
    X, Y = dense(A.T, 4), dense(A, 4, seed=2)
    plan = A.tune("sddmm", columns=4)
    assert plan.is_default
    assert dtype in plan.why
    found, plain = asp.sddmm(A, X, Y.T), A.to_scipy()
    close(found.data, plain.multiply(X @ Y.T).tocsr().data)
