"""Tests of gradients of values and dense operands, also of second order, against finite differences and PyTorch."""

from __future__ import annotations

import resource

import pytest

from tests.torch.samples import assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse import einsum  # isort: skip
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # isort: skip
from torch.nn.functional import leaky_relu  # isort: skip
from torch.utils.checkpoint import checkpoint  # isort: skip

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
    for check in (gradcheck, gradgradcheck):
        assert check(lambda v, X: asp.spmm(A.with_values(v), X, reduce), (v, X))


@pytest.mark.parametrize("heads", [None, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 3)), 2])
def test_softmax_and_attention_have_gradients(heads, pytestconfig):
    """Compare derivatives with differences: in all directions with --full, otherwise in random ones."""
    how = {"fast_mode": not pytestconfig.getoption("--full")}
    A = asp.csr(compressed(dense(6, 5, dtype=torch.float64)))
    h = () if heads is None else (heads,)
    s, Q, K, V, q, k = leaves(
        (A.nnz, *h), (6, *h, 3), (5, *h, 3), (5, *h, 4), (6, *h), (5, *h), dtype=torch.float64
    )  # fmt: skip
    for check in (gradcheck, gradgradcheck):
        assert check(lambda s: asp.edge_softmax(A, s), (s,), **how)
        assert check(lambda Q, K, V: asp.attention(A, Q, K, V), (Q, K, V), **how)
        assert check(lambda q, k, V: asp.gat(A, q, k, V), (q, k, V), **how)


def whole_attention(present, scores, V):
    """Return attention over the entries that are present, by dense operations."""
    return torch.softmax(scores.masked_fill(~present, -torch.inf), 1) @ V


def test_penalties_on_gradients_are_those_of_dense_operations():
    """Check operands computed from one another, with gaps between rows, and losses with a constant gradient."""
    present = (dense(6, 6, dtype=torch.float64) != 0) | torch.eye(6, dtype=torch.bool)
    A = asp.csr(present.double().to_sparse_csr())
    (both,) = leaves((6, 8), dtype=torch.float64)
    pairs = {
        "attention": (
            lambda q, V: asp.attention(A, q, 2 * q, V, scale=1.0), lambda q, V: whole_attention(present, 2 * q @ q.T, V)
        ),
        "gat": (
            lambda q, V: asp.gat(A, q[:, 0], q[:, 1] ** 2, V),
            lambda q, V: whole_attention(present, leaky_relu(q[:, :1] + q[:, 1] ** 2, 0.2), V),
        ),
        "max": (
            lambda q, V: asp.spmm(A, q * V, "max"),
            lambda q, V: torch.where(present[:, :, None], (q * V)[None], -torch.inf).amax(1),
        ),
    }  # fmt: skip
    for name, (ours, theirs) in pairs.items():
        for loss in (torch.sum, lambda y: y.square().sum()):
            found = []
            for product in (ours, theirs):
                (g,) = torch.autograd.grad(loss(product(both[:, ::2], both[:, 1::2])), both, create_graph=True)
                found += torch.autograd.grad((g.square() + both * g).sum(), both)
            torch.testing.assert_close(*found, msg=lambda said, name=name: f"{name}: {said}")


def test_einsum_tells_that_its_gradient_has_none():
    (X,) = leaves((5, 3), dtype=torch.float64)
    (g,) = torch.autograd.grad(einsum("ij,jk->ik", compressed(dense(6, 5)).double(), X**2).sum(), X, create_graph=True)
    with pytest.raises(RuntimeError, match="einsum has first derivatives only"):
        torch.autograd.grad(g.sum(), X)


def test_forward_mode_follows_products_and_refuses_the_rest():
    """Check that tangents of products equal those of dense products, and that none is missing."""
    D = dense(6, 5, dtype=torch.float64)
    A = asp.csr(compressed(D))
    v, X, d_v, d_X = (numbers(*shape, dtype=torch.float64, seed=n) for n, shape in enumerate(2 * ((A.nnz,), (5, 3))))
    row, col = A.to_torch().to_sparse_coo().indices()

    def whole(v):
        return torch.zeros(6, 5, dtype=v.dtype).index_put((row, col), v)

    lengths = (D != 0).sum(1).clamp(min=1)[:, None]
    pairs = [
        (lambda v, X: A.with_values(v) @ X, lambda v, X: whole(v) @ X),
        (lambda v, X: X.T @ A.with_values(v).T, lambda v, X: X.T @ whole(v).T),
        (lambda v, X: asp.spmm(A.with_values(v), X, "mean"), lambda v, X: whole(v) @ X / lengths),
        (lambda v, X: asp.sddmm(A.with_values(v), X[[0, 1, 2, 3, 4, 0]], X.T).values,
         lambda v, X: v * (X[[0, 1, 2, 3, 4, 0]] @ X.T)[row, col]),
    ]  # fmt: skip
    with forward_ad.dual_level():
        for tangents in ((d_v, d_X), (d_v, None), (None, d_X)):
            given = [
                one if t is None else forward_ad.make_dual(one, t) for one, t in zip((v, X), tangents, strict=True)
            ]
            for ours, theirs in pairs:
                found, wanted = (forward_ad.unpack_dual(product(*given)) for product in (ours, theirs))
                torch.testing.assert_close(found.primal, wanted.primal)
                torch.testing.assert_close(found.tangent, wanted.tangent)
        s, Q = forward_ad.make_dual(v, d_v), forward_ad.make_dual(X, d_X)
        for refused in (
            lambda: asp.edge_softmax(A, s), lambda: asp.spmm(A, Q, "max"), lambda: asp.attention(A, Q[[0] * 6], Q, X)
        ):  # fmt: skip
            with pytest.raises(NotImplementedError, match="jvp"):
                refused()


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
    with asp.override(sparse_gradients=True):  # dense products, and sparse ones without a gradient, work as before
        B = numbers(6, 6).requires_grad_()
        (B @ B).sum().backward()
        want = torch.ones(6, 6) @ B.detach().t() + B.detach().t() @ torch.ones(6, 6)
        assert_close(B.grad, want)
        assert_close(A @ X, A.to_dense() @ X)


def test_sparse_gradients_need_no_dense_matrix():
    """Check peak memory: a dense n × n gradient would take 1.6 GB here, while the sparse one has A's entries only."""
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


def fused(A):
    """Return functions of (n, k) features that are each computed in one pass."""
    return {
        "softmax": lambda X: asp.edge_softmax(A, X.flatten()[: A.nnz]),
        "max": lambda X: asp.spmm(A, X, "max"),
        "attention": lambda X: asp.attention(A, X, 2 * X, X),
        "gat": lambda X: asp.gat(A, X[:, 0], X[:, 1], X),
    }


@pytest.mark.parametrize("name", ["softmax", "max", "attention", "gat"])
def test_a_checkpoint_makes_operands_anew_and_tangents_go_through_gradients(name):
    """Check forward over reverse mode: only the incoming gradient has a tangent."""
    function = fused(asp.csr(torch.ones(6, 6).double().to_sparse_csr()))[name]
    (X,) = leaves((6, 6), dtype=torch.float64)
    (wanted,) = torch.autograd.grad(function(X).square().sum(), X)
    (found,) = torch.autograd.grad(checkpoint(function, X, use_reentrant=False).square().sum(), X)
    torch.testing.assert_close(found, wanted)
    y = function(X)
    w, t = numbers(*y.shape, dtype=torch.float64, seed=1), numbers(*y.shape, dtype=torch.float64, seed=2)
    (along,) = torch.autograd.grad(y, X, t)  # gradients are linear in w
    with forward_ad.dual_level():
        (g,) = torch.autograd.grad(function(X), X, forward_ad.make_dual(w, t))
        torch.testing.assert_close(forward_ad.unpack_dual(g).tangent, along)
        assert not g.requires_grad


def test_rows_without_entries_do_not_meet_infinite_features():
    A = asp.csr(torch.tensor([[1.0, 1.0], [0.0, 0.0]]).to_sparse_csr())
    v, X = torch.ones(2, requires_grad=True), torch.tensor([[1.0, 2.0], [-torch.inf, 3.0]])
    found = [torch.autograd.grad(asp.spmm(A.with_values(v), X, "max").sum(), v, create_graph=one)[0] for one in (0, 1)]
    assert found[0].tolist() == found[1].tolist() == [1.0, 3.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("sparse_gradients", [False, True], ids=["dense", "sparse"])
def test_half_precision_has_gradients_under_the_override(dtype, sparse_gradients):
    D = dense(30, 40).to(dtype)
    for k in (0, 8):
        B, up = numbers(40, k).to(dtype), numbers(30, k, seed=5).to(dtype)
        for product in (lambda A, B: A @ B, torch.sparse.mm, lambda A, B: A.t() @ (A @ B)):
            results = []
            for kind in (torch.float32, dtype):
                A, X = compressed(D.to(kind)).requires_grad_(), B.detach().clone().to(kind).requires_grad_()
                with asp.override(sparse_gradients=sparse_gradients):
                    Y = product(A, X)
                    Y.backward(up.to(kind) if Y.shape == up.shape else Y.detach())
                results.append((Y.detach(), A.grad.to_dense() * (D != 0), X.grad))
            for want, got in zip(*results, strict=True):
                assert got.dtype is dtype
                assert (got.float() - want).norm() <= 0.03 * want.norm()
