"""Tests of unusual but legal programs on sparse tensors: with and without the override they do the same."""

from __future__ import annotations

import pytest

from tests.torch.samples import assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch.dispatcher import registration  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*[Oo]verrid")
LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)
SHAPES = ((7, 5, 3), (300, 200, 40))
"""Rows, columns, and columns of the dense operand: products of the C++ module, where there is one, and larger ones."""


@pytest.fixture(params=["module", "Python"])
def small_products(request, builtin):
    """Compute small products as in a user's process: by the C++ module, or without it."""
    builtin(yes=request.param == "module")


def stored(D, layout):
    return D.to_sparse_coo() if layout is torch.sparse_coo else compressed(D, layout)


def answer(call):
    """Return the result of `call`, or the type of the error that it raises."""
    try:
        return call()
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return type(error)


def assert_same(call):
    """Check that `call` gives the same inside a block of the override and outside."""
    want = answer(call)
    with asp.override():
        got = answer(call)
    if isinstance(want, torch.Tensor) and want.layout is torch.strided:
        assert isinstance(got, torch.Tensor), got
        assert_close(got, want)
    else:
        assert got is want or type(got) is type(want)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("beta", "alpha"), [(True, 2), (True, True), (False, 2.5), (1, float("-inf")), (float("inf"), 2), (2, 0)], ids=str
)
@pytest.mark.usefixtures("small_products")
def test_factors_of_sums_are_pytorchs(layout, shape, beta, alpha):
    n, m, k = shape
    D = dense(n, m, dtype=torch.float64)
    D[n // 2] = 0  # a row without entries: 0 · inf is NaN there, or no product at all
    A, B, C = stored(D, layout), numbers(m, k, dtype=torch.float64), numbers(n, k, dtype=torch.float64)
    assert_same(lambda: torch.addmm(C, A, B, beta=beta, alpha=alpha))
    assert_same(lambda: C.clone().addmm_(A, B, beta=beta, alpha=alpha))
    assert_same(lambda: torch.addmm(C, A, B, beta=beta, alpha=alpha, out=torch.empty_like(C)))
    assert_same(lambda: torch.addmv(C[:, 0], A, B[:, 0], beta=beta, alpha=alpha))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("alpha", [float("inf"), float("nan")], ids=str)
@pytest.mark.usefixtures("small_products")
def test_zeros_of_empty_sums_are_scaled_as_pytorch_scales_them(layout, alpha):
    """Check a matrix without entries, and a sampled product of no columns, where 0 · inf would be NaN."""
    A, B, C = stored(torch.zeros(5, 4), layout), numbers(4, 3), numbers(5, 3)
    for beta in (0, 0.5):
        assert_same(lambda beta=beta: torch.addmm(C, A, B, beta=beta, alpha=alpha))
        assert_same(lambda beta=beta: torch.addmm(C.t(), B.t(), A.t(), beta=beta, alpha=alpha))
        assert_same(lambda beta=beta: torch.addmm(C, A, B, beta=beta, alpha=alpha, out=torch.empty_like(C)))
        assert_same(lambda beta=beta: torch.addmv(C[:, 0], A, B[:, 0], beta=beta, alpha=alpha))
        S = stored(dense(5, 4), layout)
        assert_same(
            lambda beta=beta, S=S: torch.sparse.sampled_addmm(
                S, C[:, :0], B[:, :0].t(), beta=beta, alpha=alpha
            ).values()
        )


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.usefixtures("small_products")
def test_batches_and_matrices_of_rows_are_refused_as_pytorch_refuses_them(layout):
    D, B = dense(4, 6, dtype=torch.float64), numbers(6, 3, dtype=torch.float64)
    batch = stored(torch.stack([D, D]), layout) if layout is not torch.sparse_coo else D[None].to_sparse()
    for A in (batch, D[..., None].expand(4, 6, 2).to_sparse(2)):
        for call in (
            lambda A=A: A @ B,
            lambda A=A: A @ B[:, 0],
            lambda A=A: torch.mm(A, B),
            lambda A=A: torch.addmm(B[:4], A, B),
            lambda A=A: torch.addmv(B[:4, 0], A, B[:, 0]),
            lambda A=A: torch.sparse.mm(A, B),
            lambda A=A: torch.nn.functional.linear(B.t(), A),
            lambda A=A: torch.sparse.sampled_addmm(A, D, D),
        ):
            assert_same(call)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("sparse_gradients", [False, True])
def test_gradients_of_a_transpose_reach_the_matrix(layout, sparse_gradients):
    D, X = dense(7, 5, dtype=torch.float64), numbers(7, 3, dtype=torch.float64)
    leaves = stored(D, layout).requires_grad_(), D.clone().requires_grad_()
    for at, A in enumerate(leaves):
        with asp.override(sparse_gradients=sparse_gradients and at == 0):
            (A.t() @ X).pow(2).sum().backward()
    got, want = (leaf.grad.to_dense() for leaf in leaves)
    if not torch.equal((got != 0), (want != 0)):  # PyTorch's gradient is dense, or has only the matrix's entries
        want = want * (D != 0)
    assert_close(got, want)


@pytest.mark.skipif(not registration.extension.is_built(), reason="the C++ module for PyTorch is not built")
def test_kernels_of_the_module_have_types():
    """Check that a call outside every block packs no argument: our kernels have unboxed forms, as those of PyTorch."""
    with asp.override(sparse_gradients=True):
        pass
    for name, key in registration._replaced:
        lines = torch._C._dispatch_dump(f"aten::{name}").splitlines()
        ours = next(line for line in lines if line.startswith(key))  # the kernel that was registered last
        assert "autosparse" in ours
        assert "unboxed" in ours, (name, key)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.usefixtures("small_products")
def test_strides_of_results_are_pytorchs(layout, shape):
    n, m, k = shape
    A = stored(dense(n, m, dtype=torch.float64), layout)
    left, right = numbers(k, n, dtype=torch.float64), numbers(m, k, dtype=torch.float64)
    for call in (
        lambda: left @ A,
        lambda: left @ A.t().t(),
        lambda: A @ right,
        lambda: A.t() @ left.t(),
        lambda: torch.nn.functional.linear(right.t(), A),
    ):
        want = call()
        with asp.override():
            got = call()
        assert_close(got, want)
        assert got.stride() == want.stride()


def told(call, *given):
    """Return layout, shape and strides of the result of `call`, or the type and the message of its error."""
    try:
        found = call(*given)
    except (RuntimeError, ValueError, TypeError) as error:
        return type(error), str(error).split("\n", 1)[0]
    return found.layout, found.shape, found.stride() if found.layout is torch.strided else None


@pytest.mark.parametrize(
    "shape", [(5, 4, 3), (1, 4, 3), (5, 1, 3), (5, 4, 1), (1, 1, 1), (0, 4, 1), (5, 0, 3)], ids=str
)
@pytest.mark.usefixtures("small_products")
def test_strides_are_pytorchs_where_an_extent_is_0_or_1(shape):
    n, m, k = shape
    for layout, by_columns in ((one, two) for one in LAYOUTS for two in (False, True)):
        A, wide = stored(torch.ones(n, m, dtype=torch.float64), layout), torch.ones(2 * k, n, dtype=torch.float64)
        left = wide[:k].t().contiguous().t() if by_columns else wide[::2]
        for call in (
            lambda A, left: left @ A,
            lambda A, left: torch.nn.functional.linear(left, A.t()),
            lambda A, left: torch.nn.functional.linear(left, A.t(), left.new_ones(A.shape[1])),
            lambda A, left: A @ left.new_ones(A.shape[1], left.shape[0]),
            lambda A, left: A.t() @ left.t(),
        ):
            want = told(call, A, left)
            with asp.override():
                assert told(call, A, left) == want, (layout, by_columns)


@pytest.mark.parametrize("left", [None, *LAYOUTS], ids=str)
@pytest.mark.parametrize("right", [None, *LAYOUTS], ids=str)
@pytest.mark.usefixtures("small_products")
def test_every_combination_of_layouts_is_answered_or_refused_as_by_pytorch(left, right):
    def of(n, m, layout):
        return torch.ones(n, m) if layout is None else stored(torch.ones(n, m), layout)

    A, B = of(5, 4, left), of(4, 3, right)
    for result in (None, *LAYOUTS):
        C = of(5, 3, result)
        for call in (
            lambda C: torch.mm(A, B, out=C.clone()),
            lambda C: torch.addmm(C, A, B, beta=2, alpha=3),
            lambda C: torch.addmm(C, A, B, out=torch.empty(5, 3)),
            lambda C: C.clone().addmm_(A, B),
            lambda C: torch.sparse.addmm(C, A, B),
        ):
            want = told(call, C)
            with asp.override():
                assert told(call, C) == want, result
