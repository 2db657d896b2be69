"""Tests that large sampled products of PyTorch go through the executor, where a tuned kernel may serve them."""

from __future__ import annotations

import threading

import pytest
from autosparse.tuner.hybrid.schedules import runtime

from autosparse import config
from autosparse.dispatch import executor
from tests.torch.samples import assert_close, compressed, dense, numbers, torch
from tests.tuning.test_operations import force

import autosparse.torch as asp  # isort: skip
from autosparse.torch import operand, thresholds  # isort: skip
from autosparse.torch.structure import structure_of  # isort: skip

N, M, K = 60, 45, 16


@pytest.fixture
def served(monkeypatch):
    """Return the names of operations that the executor was asked for; every sampled product counts as large."""
    monkeypatch.setattr(thresholds, "DIRECT_SAMPLE", 0)
    asked, serve = [], executor.serve

    def note(operation, *given):
        asked.append(operation)
        serve(operation, *given)

    monkeypatch.setattr(executor, "serve", note)
    return asked


def operands(*, by_columns=False, dtype=torch.float32):
    D = dense(N, M, dtype=dtype)
    D[3, 5] = torch.nan  # 0 · NaN in beta · S is NaN, as in PyTorch
    S = compressed(D, index_dtype=torch.int32)
    X, Y = numbers(N, K, dtype=dtype), numbers(M, K, seed=2, dtype=dtype).t()
    return S, X, Y if by_columns else Y.contiguous()


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (2.0, 0.0), (-0.5, 3.0)])
def test_a_tuned_kernel_computes_what_pytorch_does(served, alpha, beta, by_columns):
    S, X, Y = operands(by_columns=by_columns)
    want = torch.sparse.sampled_addmm(S, X, Y, alpha=alpha, beta=beta)
    crow, col = S.crow_indices(), S.col_indices()
    ours = operand.sampling_of(structure_of(crow, col, N, M), S.dtype)
    ours.point_at(ours.ones, (crow, col))
    state = force(ours, runtime("sddmm", "degree"), columns=K, operation="sddmm")
    with asp.override():
        for n in range(1, 4):
            got = torch.sparse.sampled_addmm(S, X, Y, alpha=alpha, beta=beta)
            assert_close(got.values(), want.values())
            assert torch.equal(got.col_indices(), col)
            assert state.n_tuned == n
    assert served


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_counted_until_tuning_pays(served, dtype):
    S, X, Y = operands(dtype=dtype)
    want = torch.sparse.sampled_addmm(S, X, Y)
    with asp.override(), config.options(overhead=0.0):
        for _ in range(3):
            assert_close(torch.sparse.sampled_addmm(S, X, Y).values(), want.values())
    assert served == ["sddmm"] * 3


def test_gradients_of_values_are_planned_too(served):
    D, X = dense(N, M), numbers(M, K)
    A = asp.csr(compressed(D))
    values = A.values.clone().requires_grad_()
    (A.with_values(values) @ X).square().sum().backward()
    want = (2 * (D @ X) @ X.t())[D != 0]
    assert_close(values.grad, want)
    assert served == ["sddmm"]


def test_settings_that_forbid_a_plan_and_other_threads_take_the_default_kernel(served):
    S, X, Y = operands()
    want = torch.sparse.sampled_addmm(S, X, Y)
    ours = operand.sampling_of(structure_of(S.crow_indices(), S.col_indices(), N, M), S.dtype)
    with asp.override():
        with config.options(extra_memory=0):
            assert_close(torch.sparse.sampled_addmm(S, X, Y).values(), want.values())
        with config.options(deterministic=True):
            assert_close(torch.sparse.sampled_addmm(S, X, Y).values(), want.values())
        with ours.busy:
            got = []
            thread = threading.Thread(target=lambda: got.append(torch.sparse.sampled_addmm(S, X, Y)))
            thread.start()
            thread.join()
            assert_close(got[0].values(), want.values())
    assert served == []
