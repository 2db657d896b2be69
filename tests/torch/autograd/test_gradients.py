"""Gradients equal finite differences and PyTorch's own, to the values, the dense operands, and once more."""

from __future__ import annotations

import resource

import pytest

from tests.torch.world import assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from torch.autograd import gradcheck, gradgradcheck  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
DOUBLE = (torch.float64, torch.complex128)


def leaves(*shapes, dtype):
    return [numbers(*shape, dtype=dtype, seed=place).requires_grad_() for place, shape in enumerate(shapes)]


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
def test_products_of_csr_have_both_derivatives(dtype):
    A = asp.csr(compressed(dense(6, 5, dtype=dtype)))
    v, X, Y, x = leaves((A.nnz,), (5, 3), (6, 3), (5,), dtype=dtype)
    for function, arguments in (
        (lambda v, X: asp.spmm(A.with_values(v), X), (v, X)),
        (lambda v, x: A.with_values(v) @ x, (v, x)),
        (lambda v, Y: A.with_values(v).T @ Y, (v, Y)),
        (lambda v, Y: Y.t() @ A.with_values(v), (v, Y)),
        (lambda v, X: asp.spmm(A.with_values(v), X, "mean"), (v, X)),
        (lambda v, X, Y: asp.sddmm(A.with_values(v), Y, X.t()).values, (v, X, Y)),
        (lambda v, X, Y: asp.sddmm(A.with_values(v).T, X, Y.t()).values, (v, X, Y)),
    ):
        assert gradcheck(function, arguments)
        assert gradgradcheck(function, arguments)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_extremes_have_the_gradient_of_the_winner(reduce):
    A = asp.csr(compressed(dense(6, 5, dtype=torch.float64)))
    v, X = leaves((A.nnz,), (5, 3), dtype=torch.float64)
    assert gradcheck(lambda v, X: asp.spmm(A.with_values(v), X, reduce), (v, X))


@pytest.mark.parametrize("heads", [None, 1, 2, 3])
def test_softmax_and_attention_have_gradients(heads):
    A = asp.csr(compressed(dense(6, 5, dtype=torch.float64)))
    h = () if heads is None else (heads,)
    s, Q, K, V, q, k = leaves(
        (A.nnz, *h), (6, *h, 3), (5, *h, 3), (5, *h, 4), (6, *h), (5, *h), dtype=torch.float64
    )  # fmt: skip
    assert gradcheck(lambda s: asp.edge_softmax(A, s), (s,))
    assert gradcheck(lambda Q, K, V: asp.attention(A, Q, K, V), (Q, K, V))
    assert gradcheck(lambda q, k, V: asp.gat(A, q, k, V), (q, k, V))


@pytest.mark.parametrize("dtype", DOUBLE, ids=str)
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
def test_overridden_products_pass_gradcheck(layout, dtype):
    A = compressed(dense(5, 4, dtype=dtype), layout)
    X, y, x = leaves((4, 3), (5,), (4,), dtype=dtype)
    with asp.override(), counted() as calls:
        assert gradcheck(lambda X: A @ X, (X,))
        assert gradgradcheck(lambda X: A @ X, (X,))
        assert gradcheck(lambda X: torch.sparse.mm(A, X), (X,))
        assert gradcheck(lambda y, x: torch.addmv(y, A, x, alpha=2, beta=3), (y, x))
        assert gradcheck(lambda X: X.t() @ A.t(), (X,))
    assert calls


def gradients(A, X, ours, product):
    a, x = A.detach().clone().requires_grad_(), X.clone().requires_grad_()
    with asp.override(**({} if ours is True else {"sparse_gradients": True})) if ours else torch.enable_grad():
        product(a, x).square().sum().backward()
    return a.grad, x.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_gradient_of_sparse_mm_stays_sparse_and_is_pytorchs(dtype):
    A, X = compressed(dense(30, 20, dtype=dtype)), numbers(20, 7, dtype=dtype)

    def product(a, x):
        y = torch.sparse.mm(a, x)
        return torch.view_as_real(y) if dtype.is_complex else y

    (da, dx), (da_ours, dx_ours) = gradients(A, X, False, product), gradients(A, X, True, product)
    assert da_ours.layout == torch.sparse_csr
    assert_close(da_ours.values(), da.values())
    assert_close(dx_ours, dx)


def test_switch_keeps_gradients_of_matmul_sparse():
    A, X = compressed(dense(30, 20)), numbers(20, 7)
    (da, dx), (da_ours, dx_ours) = gradients(A, X, False, torch.mm), gradients(A, X, "sparse", torch.mm)
    assert da.layout == torch.strided
    assert da_ours.layout == torch.sparse_csr
    mask = compressed(dense(30, 20)).to_dense() != 0
    assert_close(da_ours.to_dense(), da * mask)
    assert_close(dx_ours, dx)
    with asp.override(sparse_gradients=True):  # dense products, and sparse ones without a gradient, as ever
        B = numbers(6, 6).requires_grad_()
        (B @ B).sum().backward()
        want = torch.ones(6, 6) @ B.detach().t() + B.detach().t() @ torch.ones(6, 6)
        assert_close(B.grad, want)
        assert_close(A @ X, A.to_dense() @ X)


def test_sparse_gradients_need_no_dense_matrix():
    """n × n would be 1.6 GB here; the kept gradient has as many numbers as A."""
    n = 20_000
    crow, col = torch.arange(n + 1), torch.arange(n)
    A = torch.sparse_csr_tensor(crow, col, torch.ones(n), (n, n)).requires_grad_()
    X = numbers(n, 4)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with asp.override(sparse_gradients=True):
        (A @ X).sum().backward()
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    assert_close(A.grad.values(), X.sum(1))
    assert grown_mb < 800


def test_gradients_reach_values_through_the_constructor():
    D = dense(12, 9)
    A = compressed(D)
    v = A.values().clone().requires_grad_()
    X = numbers(9, 4).requires_grad_()
    with asp.override():
        S = torch.sparse_csr_tensor(A.crow_indices(), A.col_indices(), v, A.shape)
        torch.sparse.mm(S, X).sum().backward()
    ones = torch.ones(12, 4)
    rows = torch.repeat_interleave(torch.arange(12), A.crow_indices().diff())
    assert_close(v.grad, (ones @ X.detach().t())[rows, A.col_indices()])
    assert_close(X.grad, D.t() @ ones)


def test_gradient_to_a_sparse_leaf_through_spmm():
    A = compressed(dense(12, 9)).requires_grad_()
    X = numbers(9, 4)
    asp.spmm(A, X).sum().backward()
    assert A.grad.layout == torch.sparse_csr
    rows = torch.repeat_interleave(torch.arange(12), A.crow_indices().diff())
    assert_close(A.grad.values(), (torch.ones(12, 4) @ X.t())[rows, A.col_indices()])


def test_retained_graph_and_partial_gradients():
    A = asp.csr(compressed(dense(12, 9)))
    v, X = A.values.clone().requires_grad_(), numbers(9, 4).requires_grad_()
    y = asp.spmm(A.with_values(v), X)
    first = torch.autograd.grad(y.sum(), X, retain_graph=True)[0]
    again, d_v = torch.autograd.grad(y.sum(), (X, v))
    assert_close(again, first)
    assert d_v.shape == v.shape
    assert not asp.spmm(A, X.detach()).requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_has_gradients(dtype):
    A = asp.csr(compressed(dense(12, 9))).to(dtype)
    v, X = A.values.clone().requires_grad_(), numbers(9, 4).to(dtype).requires_grad_()
    for reduce in ("sum", "mean", "max", "min"):
        y = asp.spmm(A.with_values(v), X, reduce)
        assert y.dtype == dtype
        d_v, d_X = torch.autograd.grad(y.sum(), (v, X))
        assert d_v.dtype == d_X.dtype == dtype
        w, Z = (t.detach().float().requires_grad_() for t in (v, X))
        want = torch.autograd.grad(asp.spmm(A.with_values(w), Z, reduce).sum(), (w, Z))
        assert_close(d_v, want[0].to(dtype))
        assert_close(d_X, want[1].to(dtype))
