"""Tests of calls inside a block that the C++ module passes to PyTorch, or composes of a product and other operators."""

from __future__ import annotations

import pytest

from tests.processes import run_with_torch
from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch.dispatcher import extension  # isort: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),  # PyTorch says once that its sparse tensors are beta
    pytest.mark.skipif(extension.library is None, reason="the C++ module for PyTorch is not built"),
]


@pytest.fixture(autouse=True)
def asked(builtin):
    builtin(yes=True)
    with asp.override():
        yield


def test_what_pytorch_computes_does_not_enter_python():
    """Check calls that Python would only pass on, and products that are composed of operators, in a fresh process."""
    code = """
import torch, warnings, autosparse.torch as asp
from autosparse.torch.dispatcher import extension
warnings.simplefilter("ignore")
F, D, X = torch.nn.functional, torch.eye(8) + torch.ones(8, 8).triu(3), torch.arange(16.0).view(8, 2)
A, C, B = D.to_sparse_csr(), D.to_sparse_coo(), D.to_sparse_bsr((2, 2))
G, L, V = (-D).to_sparse_csr().requires_grad_(), torch.ones(300, 300).to_sparse_csr(), torch.arange(300.0)
Y, Z = X.clone().requires_grad_(), V[:, None] * torch.arange(4.0)
calls = [
    lambda: B @ X, lambda: B @ X[:, 0], lambda: torch.addmm(X, B, X, alpha=2),
    lambda: torch.mm(B, X, out=torch.empty(8, 2)), lambda: torch.addmv(X[:, 1], B, X[:, 0], beta=3),
    lambda: (A @ A).to_dense(), lambda: (A @ A.to_sparse_csc()).to_dense(), lambda: (C @ C).to_dense(),
    lambda: torch.addmm(A, A, A).to_dense(),
    lambda: X.t() @ C, lambda: F.linear(X.t(), C), lambda: X[:, 0] @ C,
    lambda: torch.autograd.grad(torch.sparse.mm(A, Y, "mean").pow(2).sum(), Y)[0],
    lambda: torch.autograd.grad(torch.sparse.mm(A, Y, "amin").sum(), Y)[0],
    lambda: torch.autograd.grad(torch.sparse.mm(G, X).sum(), G)[0].to_dense(),
    lambda: torch.sparse.mm(L, Z, "mean"), lambda: torch.addmm(Z[:1], L, Z, beta=-1, alpha=2),
    lambda: torch.addmm(torch.zeros(1), L, V[:, None].expand(300, 256), beta=2),
    lambda: torch.mm(L, Z, out=torch.empty(300, 4)), lambda: torch.addmv(V, L, V, out=torch.empty(300)),
]
for at, call in enumerate(calls):
    stock = call()
    with asp.override():
        ours = call()
    torch.testing.assert_close(ours, stock, rtol=1e-5, atol=1e-5)
    assert ours.stride() == stock.stride() and not extension._loaded, at
"""
    done = run_with_torch(code)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_products_of_planned_structures_are_scaled_and_added(monkeypatch, index_dtype):
    """Check sums, results in `out` and means of structures that belong to the executor."""
    planned = []
    multiply = extension.KnownIndices.multiply
    monkeypatch.setattr(extension.KnownIndices, "multiply", lambda *given: planned.append(given) or multiply(*given))
    n, m = 700, 200
    D = dense(n, n, dtype=torch.float64, density=0.6)
    A, X, base = (
        compressed(D, torch.sparse_csr, index_dtype),
        numbers(n, m, dtype=torch.float64),
        numbers(n, m).double(),
    )
    want = D @ X
    while not planned:
        assert_close(A @ X, want)
    out = torch.empty(m, n, dtype=torch.float64).t().contiguous()
    counts = (D != 0).sum(1).clamp(min=1)[:, None]
    for got, right in (
        (lambda: torch.addmm(base, A, X, beta=0.5, alpha=2), 0.5 * base + 2 * want),
        (lambda: torch.addmm(base[0], A, X, alpha=0), base[0].expand(n, m)),
        (lambda: torch.addmm(base, A, X, beta=0), want),
        (lambda: torch.mm(A, X, out=out), want),
        (lambda: torch.addmm(out, A, X, out=out), 2 * want),
        (lambda: torch.sparse.mm(A, X, "mean"), want / counts),
        (lambda: torch.sparse.mm(A, X, "sum"), want),
    ):
        before = len(planned)
        assert_close(got(), right)
        assert len(planned) == before + 1


def test_products_of_malformed_sparse_matrices_are_refused():
    for layout in (torch.sparse_csr, torch.sparse_csc):
        A, B = compressed(dense(6, 6), torch.sparse_csr), compressed(dense(6, 6), layout)
        (B.col_indices if layout is torch.sparse_csr else B.row_indices)()[0] = 1000
        for left, right in ((A, B), (B, A)):
            with pytest.raises(ValueError, match="outside the"):
                left @ right
