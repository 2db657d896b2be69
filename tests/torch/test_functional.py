"""Tests of spmm, sddmm, edge_softmax, attention, gat and `Csr`: results, accepted operands, errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from autosparse.errors import AutosparseError, DtypeError, InputError, InputTypeError, OptionError, ShapeError
from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
COMPLEX = torch.complex64
SHAPES = ((6, 5), (1, 9), (9, 1), (0, 4), (4, 0), (60, 50))


def entries(A):
    """Return (rows, columns) of a `Csr`'s entries."""
    rows = torch.repeat_interleave(torch.arange(A.rows.n_rows), A.rows.crow.long().diff())
    return rows, A.rows.col.long()


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_spmm_reduces_the_entries_of_each_row(reduce, index_dtype):
    for shape in SHAPES:
        D = dense(*shape)
        X = numbers(shape[1], 10)
        want = torch.zeros(shape[0], 10)
        for i in range(shape[0]):
            products = D[i, D[i] != 0, None] * X[D[i] != 0]
            if len(products):
                kinds = {"sum": products.sum, "mean": products.mean, "max": products.amax, "min": products.amin}
                want[i] = kinds[reduce](0)
        A = asp.csr(compressed(D, index_dtype=index_dtype))
        assert_close(asp.spmm(A, X, reduce=reduce), want)
        assert_close(asp.spmm(A, X[:, 0], reduce=reduce), want[:, 0])
        assert_close(asp.spmm(compressed(D), X, reduce=reduce), want)


def test_csr_of_every_kind_of_matrix_is_that_matrix():
    D = dense(8, 6)
    X = numbers(6, 3)
    coo = D.to_sparse_coo()
    doubled = torch.sparse_coo_tensor(torch.cat([coo.indices(), coo.indices()], 1), coo.values().repeat(2), D.shape)
    flat = scipy.sparse.csr_array(D.numpy())
    for obj, want in (
        (compressed(D), D), (compressed(D, torch.sparse_csc), D), (coo, D), (doubled, 2 * D), (D, D),
        (D.to_sparse_bsr((2, 2)), D), (flat, D), (flat.tocoo(), D), (scipy.sparse.csc_matrix(flat), D),
        (asp.csr(D), D),
    ):  # fmt: skip
        A = asp.csr(obj)
        assert A.shape == D.shape
        assert_close(A @ X, want @ X)
        assert_close(A.T @ numbers(8, 3), want.t() @ numbers(8, 3))
        assert_close(numbers(2, 8) @ A, numbers(2, 8) @ want)
        assert_close(A.to_torch().to_dense(), want)


def test_csr_shares_memory_with_compressed_tensors():
    S = compressed(dense(8, 6))
    A = asp.csr(S)
    assert A.values.data_ptr() == S.values().data_ptr()
    assert A.rows.col.data_ptr() == S.col_indices().data_ptr()
    assert A.T.T.shape == A.shape
    assert A.T.to_torch().layout == torch.sparse_csc
    assert "8 x 6" in repr(A)
    assert "requires_grad=True" in repr(A.with_values(A.values.clone().requires_grad_()))


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_csr_of_an_edge_index_as_graph_libraries_keep_it(index_dtype):
    edges = torch.tensor([[3, 0, 0, 2, 3], [0, 1, 2, 2, 1]], dtype=index_dtype)
    weights = torch.arange(1.0, 6.0)
    D = torch.zeros(4, 4)
    D[edges[0].long(), edges[1].long()] = weights
    assert_close(asp.csr(edges, weights) @ torch.eye(4), D)
    A = asp.csr(edges, shape=(5, 7))
    assert A.shape == (5, 7)
    assert A.rows.crow.dtype == index_dtype
    assert_close(asp.spmm(A, torch.ones(7)), torch.tensor([2.0, 0, 1, 2, 0]))
    assert_close(asp.csr(torch.empty(2, 0, dtype=index_dtype)) @ torch.empty(0, 3), torch.empty(0, 3))


def test_torch_functions_take_a_csr():
    D, X = dense(8, 6), numbers(6, 3)
    A = asp.csr(D)
    assert_close(torch.mm(A, X), D @ X)
    assert_close(torch.matmul(A, X), D @ X)
    assert_close(torch.mv(A, X[:, 0]), D @ X[:, 0])
    assert_close(torch.sparse.mm(A, X), D @ X)
    assert_close(torch.sparse.mm(A, X, "amax"), asp.spmm(A, X, "max"))
    assert_close(torch.matmul(numbers(2, 8), A), numbers(2, 8) @ D)
    assert_close(numbers(8) @ A, numbers(8) @ D)
    with pytest.raises(TypeError):
        torch.sin(A)


def test_sums_and_linear_layers_of_torch_take_a_csr():
    D, X, bias = dense(7, 5, dtype=torch.float64), numbers(5, 3, dtype=torch.float64), numbers(7, 1).double()[:, 0]
    A, C = asp.csr(D.to_sparse_csr()), numbers(7, 3, dtype=torch.float64)
    X.requires_grad_()
    for arguments in ({}, {"beta": 0.5, "alpha": -2}, {"beta": True, "alpha": True}):
        for base in (C, C[:1], C[0]):
            assert_close(torch.addmm(base, A, X, **arguments), torch.addmm(base, D, X, **arguments))
        assert_close(torch.addmv(bias, A, X[:, 0], **arguments), torch.addmv(bias, D, X[:, 0], **arguments))
    assert_close(torch.sparse.addmm(C, A, X, alpha=2.0), torch.addmm(C, D, X, alpha=2.0))
    assert_close(torch.addmm(C * torch.nan, A, X, beta=0), D @ X)
    with pytest.raises(RuntimeError, match="expand"):
        torch.addmm(C.expand(2, 7, 3), A, X)
    with pytest.raises(TypeError):
        torch.addmm(A, D, numbers(5, 5, dtype=torch.float64))
    linear = torch.nn.functional.linear
    for rows in (X.t(), X[:, 0], X.t().expand(2, 3, 5)):
        assert_close(linear(rows, A), linear(rows, D))
        assert_close(linear(rows, A, bias), linear(rows, D, bias))
    (gradient,) = torch.autograd.grad(linear(X.t(), A, bias).sum(), X)
    assert_close(gradient, D.t() @ torch.ones_like(C))


def test_sddmm_is_a_times_the_sampled_product():
    for shape in SHAPES:
        D, X, Y = dense(*shape), numbers(shape[0], 7), numbers(7, shape[1])
        A = asp.csr(compressed(D))
        assert_close(asp.sddmm(A, X, Y).to_torch().to_dense(), D * (X @ Y))
        assert_close(asp.sddmm(A.T, Y.t(), X.t()).to_torch().to_dense(), (D * (X @ Y)).t())


@pytest.mark.parametrize("heads", [None, 1, 3, 4])
def test_edge_softmax_sums_to_one_in_each_row(heads):
    for shape in SHAPES:
        A = asp.csr(compressed(dense(*shape)))
        scores = numbers(A.nnz, *(() if heads is None else (heads,)))
        rows, _ = entries(A)
        got = asp.edge_softmax(A, scores)
        powers = scores.exp()
        sums = torch.zeros(shape[0], *scores.shape[1:]).index_add(0, rows, powers)
        assert_close(got, powers / sums[rows])


@pytest.mark.parametrize("heads", [None, 1, 3])
def test_attention_is_sddmm_softmax_spmm(heads):
    h = () if heads is None else (heads,)
    for n, m in SHAPES:
        A = asp.csr(compressed(dense(n, m)))
        Q, K, V = numbers(n, *h, 8), numbers(m, *h, 8), numbers(m, *h, 5)
        q, k = numbers(n, *h, seed=8), numbers(m, *h, seed=9)
        rows, cols = entries(A)
        dots = (Q[rows] * K[cols]).sum(-1) / 8**0.5
        sums = torch.nn.functional.leaky_relu(q[rows] + k[cols], 0.2)
        for scores, got in ((dots, asp.attention(A, Q, K, V)), (sums, asp.gat(A, q, k, V))):
            alpha = asp.edge_softmax(A, scores)
            want = torch.zeros(n, *h, 5).index_add(0, rows, alpha[..., None] * V[cols])
            assert_close(got, want)
    assert_close(
        asp.attention(A, Q, K, V, scale=0.0),
        asp.spmm(A.with_values(torch.ones(A.nnz)), V.flatten(1), "mean").view_as(got),
    )


@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("features", [0, 3])
def test_empty_tensors_have_results_and_gradients(heads, features):
    """Check tensors without heads or columns: such shapes led to a division by zero and to an impossible reshape."""
    A = asp.csr(dense(6, 5))
    leaves = [
        numbers(*shape, heads, *last).requires_grad_()
        for shape, last in (((6,), (4,)), ((5,), (4,)), ((5,), (features,)))
    ]
    scores = numbers(A.nnz, heads).requires_grad_()
    q, k, V = (leaf.detach().requires_grad_() for leaf in (leaves[0][..., 0], leaves[1][..., 0], leaves[2]))
    for result, shape, inputs in (
        (asp.attention(A, *leaves), (6, heads, features), leaves),
        (asp.gat(A, q, k, V), (6, heads, features), (q, k, V)),
        (asp.edge_softmax(A, scores), (A.nnz, heads), (scores,)),
    ):
        assert result.shape == shape
        for leaf, grad in zip(inputs, torch.autograd.grad(result.sum(), inputs), strict=True):
            assert grad.shape == leaf.shape
            assert torch.isfinite(grad).all()
    for reduce in ("sum", "mean", "max", "min"):
        assert asp.spmm(A, numbers(5, 0), reduce).shape == (6, 0)


def test_complex_gradients_of_a_compressed_tensor():
    """Check a matrix whose values are a view that PyTorch cannot conjugate."""
    D, X, Y = (numbers(*shape, dtype=COMPLEX, seed=8) for shape in ((6, 5), (6, 3), (3, 5)))
    for call in (lambda S, Y: asp.spmm(S, Y.t()), lambda S, Y: asp.sddmm(S, X, Y).values):
        grads = []
        for kept in (compressed(D), asp.csr(compressed(D)).with_values(D.flatten().clone())):
            leaf = Y.clone().requires_grad_()
            result = call(kept, leaf)
            grads.append(torch.autograd.grad(result, leaf, torch.ones_like(result))[0])
        assert_close(*grads)


def test_mistakes_are_told_with_facts_and_a_hint():
    A = asp.csr(dense(4, 3))
    X = numbers(3, 2)
    mistakes = (
        (ShapeError, lambda: A @ numbers(4, 2), r"\(4, 3\)"),
        (ShapeError, lambda: asp.spmm(A, numbers(3, 2, 2)), "dimension mismatch"),
        (ShapeError, lambda: asp.sddmm(A, X, X), "sddmm"),
        (ShapeError, lambda: asp.edge_softmax(A, numbers(A.nnz + 1)), "one for each entry"),
        (ShapeError, lambda: asp.attention(A, X, X, X), r"Q \(n, H, D\)"),
        (ShapeError, lambda: asp.gat(A, X, X, X), r"target \(n, H\)"),
        (ShapeError, lambda: A @ X[0, 0], "0 rows"),
        (ShapeError, lambda: A.explain(numbers(4, 2)), "needs 3 rows"),
        (ShapeError, lambda: asp.attention(A, X[:, 0], X[:, 0], X[:, 0]), r"V \(3,\)"),
        (ShapeError, lambda: asp.attention(A, numbers(4, 0), numbers(3, 0), X), "D of 1 or more"),
        (ShapeError, lambda: asp.attention(A, numbers(4, 0), numbers(3, 0), X, scale=1.0), "D of 1 or more"),
        (ShapeError, lambda: asp.attention(A, numbers(4, 1, 2), numbers(3, 1, 2), numbers(3, 1, 2, 5)), "V"),
        (ShapeError, lambda: asp.gat(A, numbers(4), numbers(3), numbers(3)), r"V \(3,\)"),
        (ShapeError, lambda: asp.gat(A, numbers(4, 1), numbers(3, 1), numbers(3, 1, 2, 5)), "V"),
        (DtypeError, lambda: asp.attention(A, *(numbers(k, 2, dtype=COMPLEX) for k in (4, 3, 3))), "complex64"),
        (DtypeError, lambda: asp.gat(A, *(numbers(*k, dtype=COMPLEX) for k in ((4,), (3,), (3, 2)))), "complex64"),
        (DtypeError, lambda: asp.edge_softmax(A, numbers(A.nnz, dtype=COMPLEX)), "complex64"),
        (DtypeError, lambda: asp.spmm(A.to(COMPLEX), X.to(COMPLEX), "max"), "complex64"),
        (InputTypeError, lambda: A @ X.numpy(), "ndarray"),
        (InputTypeError, lambda: np.ones((2, 4), np.float32) @ A, "ndarray"),
        (InputTypeError, lambda: A @ A, "Csr"),
        (InputError, lambda: A @ X.to_sparse(), "sparse_coo"),
        (DtypeError, lambda: A @ X.double(), "float64"),
        (DtypeError, lambda: A @ X.int(), "int32"),
        (OptionError, lambda: asp.spmm(A, X, reduce="median"), "median"),
        (InputError, lambda: asp.spmm(A.T, numbers(4, 2), reduce="max"), "transposed"),
        (InputError, lambda: asp.csr(torch.zeros(2, 3, 4)), "two dimensions"),
        (InputError, lambda: asp.csr(torch.zeros(2, 3, 4).to_sparse_csr()), "two dimensions"),
        (InputTypeError, lambda: asp.csr([[1.0]]), "list"),
        (InputTypeError, lambda: asp.csr(np.eye(3)), "ndarray"),
    )
    for kind, call, words in mistakes:
        with pytest.raises(kind, match=words) as caught:
            call()
        assert isinstance(caught.value, AutosparseError)
        assert "Hint:" in str(caught.value)


class Wrapped(torch.Tensor):
    """Tensor around another one without memory of its own, as torch_geometric.EdgeIndex."""

    @staticmethod
    def __new__(cls, inner):
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        wrapper.inner = inner
        return wrapper

    def as_tensor(self):
        return self.inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        plain = [a.inner if isinstance(a, cls) else a for a in args]
        result = function(*plain, **(kwargs or {}))
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_tensors_without_memory_are_unwrapped_or_refused():
    edges = torch.tensor([[0, 0, 2], [1, 2, 0]])
    X = numbers(3, 2)
    assert_close(asp.csr(Wrapped(edges)) @ X, asp.csr(edges) @ X)
    for call in (
        lambda: asp.csr(edges) @ Wrapped(X),
        lambda: asp.csr(edges) @ torch.empty(3, 2, device="meta"),
        lambda: asp.csr(torch.empty(3, 3, device="meta")),
    ):
        with pytest.raises(InputError, match="Hint:"):
            call()


def test_broken_structures_are_refused_before_anything_is_written_by_them():
    crow, col = torch.tensor([0, 1, 2]), torch.tensor([0, 7])
    S = torch.sparse_csr_tensor(crow, col, torch.ones(2), (2, 3), check_invariants=False)
    with pytest.raises(ValueError, match="not valid"):
        asp.gat(S, numbers(2, 1), numbers(3, 1), numbers(3, 1, 4).requires_grad_()).sum().backward()


def test_tuning_and_explaining_a_csr():
    D, X = dense(300, 200, 0.1), numbers(200, 64)
    A = asp.csr(compressed(D))
    for matrix, want, right in ((A, D, X), (A.T, D.t(), numbers(300, 64))):
        plan = matrix.tune(columns=64, effort="estimate", budget_s=5.0)
        assert plan.why
        assert_close(matrix @ right, want @ right)
        assert str(matrix.explain(right)) == str(matrix.explain(64))
        matrix.values.mul_(-1)
        assert_close(matrix @ right, -want @ right)
        matrix.values.mul_(-1)
