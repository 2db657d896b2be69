"""Tests that PyTorch's sparse products under the override give PyTorch's answers, whatever computes them."""

from __future__ import annotations

import itertools

import pytest

from autosparse import config, notices
from tests.torch.samples import INDICES, VALUES, assert_close, compressed, counted, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse._native import runtime_api  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")  # PyTorch says once that its sparse tensors are beta

LAYOUTS = (torch.sparse_csr, torch.sparse_csc)
SHAPES = ((5, 7), (1, 9), (9, 1), (0, 4), (4, 0), (40, 30))


@pytest.fixture(autouse=True)
def switched_off():
    """Uninstall the override after every test."""
    yield
    while asp.installed():
        asp.uninstall()


def operations(A, D, dtype):
    """Yield (name, PyTorch's answer from dense D, call on sparse A)."""
    n, m = D.shape
    B, x, C = numbers(m, 3, dtype=dtype), numbers(m, dtype=dtype), numbers(n, 3, dtype=dtype, seed=2)
    y, X = numbers(n, dtype=dtype, seed=3), numbers(4, n, dtype=dtype, seed=4)
    alpha, beta = (0.5 - 1j, 2 + 0.5j) if dtype.is_complex else (0.5, -2.0)
    yield "matmul", D @ B, lambda: A @ B
    yield "matmul column-major", D @ B, lambda: A @ B.t().contiguous().t()
    yield "matmul of part", D @ B[:, :2], lambda: A @ B[:, :2]
    yield "matmul of every second", D @ B[:, ::2], lambda: A @ B[:, ::2]
    yield "matmul broadcast", D @ x[:, None].expand(m, 5), lambda: A @ x[:, None].expand(m, 5)
    yield "mv", D @ x, lambda: A @ x
    yield "mv strided", D @ B[:, 1], lambda: torch.mv(A, B[:, 1])
    yield "addmm", alpha * (D @ B) + beta * C, lambda: torch.addmm(C, A, B, alpha=alpha, beta=beta)
    yield "addmm row", (D @ B) + C[:1], lambda: torch.addmm(C[:1], A, B)
    yield "addmv", alpha * (D @ x) + beta * y, lambda: torch.addmv(y, A, x, alpha=alpha, beta=beta)
    yield "dense @ sparse", X @ D, lambda: X @ A
    yield "sparse.mm", D @ B, lambda: torch.sparse.mm(A, B)
    yield "transpose", D.t() @ C, lambda: A.t() @ C
    yield "conj", D @ B.conj(), lambda: A @ B.conj()


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_products_are_pytorchs(layout, dtype, index_dtype):
    for shape in SHAPES:
        D = dense(*shape, dtype=dtype)
        A = compressed(D, layout, index_dtype)
        with asp.override(), counted() as calls:
            for name, want, call in operations(A, D, dtype):
                got = call()
                assert_close(got, want), name
                assert got.is_contiguous(), name
        assert len(calls) >= 14  # every one of them was ours


@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_products_of_coordinate_tensors_are_pytorchs(dtype):
    for shape in SHAPES:
        D = dense(*shape, dtype=dtype)
        n, m = shape
        B, C = numbers(m, 3, dtype=dtype), numbers(n, 3, dtype=dtype)
        A = D.to_sparse_coo().coalesce()
        doubled = torch.sparse_coo_tensor(torch.cat([A.indices()] * 2, 1), torch.cat([A.values()] * 2), shape)
        with asp.override(), counted() as calls:
            assert_close(A @ B, D @ B)
            assert_close(torch.sparse.mm(A, B), D @ B)
            assert_close(A.t() @ C, D.t() @ C)
            assert_close(torch.addmm(C, A, B, alpha=2, beta=-1), 2 * (D @ B) - C)
            assert_close(doubled @ B, 2 * (D @ B))  # sorted neither by rows nor by columns
            n_ours = len(calls)
            assert_close((A @ A.t()).to_dense(), D @ D.t())
        assert n_ours == 5
    leaf, B = D.to_sparse_coo().requires_grad_(), B.clone().requires_grad_()
    with asp.override():
        torch.sparse.mm(leaf, B).abs().sum().backward()
    got = leaf.grad, B.grad
    leaf.grad = B.grad = None
    torch.sparse.mm(leaf, B).abs().sum().backward()
    assert_close(got[0].to_dense(), leaf.grad.to_dense())
    assert_close(got[1], B.grad)


def test_out_takes_what_fits_and_the_rest_is_pytorchs():
    D = dense(6, 5)
    A, B = compressed(D), numbers(5, 3)
    with asp.override():
        for out in (torch.full((6, 3), torch.nan), torch.full((3, 6), torch.nan).t()):
            assert torch.mm(A, B, out=out) is out
            assert_close(out.contiguous(), D @ B)
        square, E = numbers(5, 5), dense(5, 5)
        want = E @ square
        torch.mm(compressed(E), square, out=square)  # the operand is overwritten
        assert_close(square, want)
        base = numbers(6, 3)
        want = base + D @ B
        assert_close(torch.addmm(base, A, B, out=base), want)
        y = numbers(6)
        want = 2 * (D @ B[:, 0]) + y
        assert_close(y.addmv_(A, B[:, 0], alpha=2), want)


def test_beta_zero_does_not_read_and_beta_one_does():
    A, B = compressed(dense(4, 4)), numbers(4, 2)
    with asp.override():
        nans = torch.full((4, 2), torch.nan)
        assert torch.isfinite(torch.addmm(nans, A, B, beta=0)).all()
        assert torch.isnan(torch.addmm(nans, A, B)).all()


def test_explicit_zeros_meet_infinity_and_implicit_ones_do_not():
    A = torch.sparse_csr_tensor([0, 1, 1], [1], [0.0], (2, 3))
    with asp.override():
        B = torch.full((3, 2), torch.inf)
        got = A @ B
    assert torch.isnan(got[0]).all()
    assert (got[1] == 0).all()


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_sampled_addmm_is_pytorchs(dtype, index_dtype):
    for shape, width in itertools.product(SHAPES, (1, 3, 20)):
        A = compressed(dense(*shape, dtype=dtype), index_dtype=index_dtype)
        X, Y = numbers(shape[0], width, dtype=dtype), numbers(width, shape[1], dtype=dtype)
        alpha, beta = (0.5 - 1j, 2 + 0.5j) if dtype.is_complex else (0.5, -2.0)
        for side in (Y, Y.t().contiguous().t()):
            want = torch.sparse.sampled_addmm(A, X, side, alpha=alpha, beta=beta)
            with asp.override(), counted() as calls:
                got = torch.sparse.sampled_addmm(A, X, side, alpha=alpha, beta=beta)
            assert calls in (["sddmm"], ["sample"])
            assert got.layout == torch.sparse_csr
            assert got.crow_indices().dtype == got.col_indices().dtype == want.col_indices().dtype
            assert_close(got.values(), want.values())
            assert torch.equal(got.crow_indices(), want.crow_indices())
            assert torch.equal(got.col_indices(), want.col_indices())
            assert got.col_indices().data_ptr() != A.col_indices().data_ptr() or A._nnz() == 0
    with asp.override():
        A, before = A.clone(), A.clone()
        torch.sparse.sampled_addmm(A, X, Y, out=A)
    assert_close(A.values(), torch.sparse.sampled_addmm(before, X, Y).values())


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("width", [5, 16, 64])
def test_sampled_addmm_of_many_entries_copies_every_index(index_dtype, width):
    A = compressed(dense(700, 900, density=0.1), index_dtype=index_dtype)  # several ranges for each thread
    A.values()[::7] = torch.nan  # PyTorch computes 0 * nan
    X, Y = numbers(700, width), numbers(900, width).t()
    for beta in (0.0, 0.5):
        want = torch.sparse.sampled_addmm(A, X, Y, beta=beta)
        with asp.override():
            got = torch.sparse.sampled_addmm(A, X, Y, beta=beta)
        assert torch.equal(got.crow_indices(), want.crow_indices())
        assert torch.equal(got.col_indices(), want.col_indices())
        assert_close(got.values(), want.values())


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_reductions_and_their_gradients_are_pytorchs(reduce, index_dtype):
    for dtype, shape in itertools.product((torch.float32, torch.float64), ((5, 7), (40, 30), (3, 0))):
        A, B = compressed(dense(*shape, dtype=dtype), index_dtype=index_dtype), numbers(shape[1], 9, dtype=dtype)
        results = []
        for ours in (False, True):
            a, b = A.detach().clone().requires_grad_(), B.clone().requires_grad_()
            if ours:
                asp.install()
            got = torch.sparse.mm(a, b, reduce)
            got.backward(numbers(shape[0], 9, dtype=dtype, seed=5))
            results.append((got.detach(), a.grad.values(), b.grad))
        asp.uninstall()
        for want, got in zip(*results, strict=True):
            assert_close(got, want)


def test_reductions_of_columns_are_refused_whatever_their_size(builtin):
    builtin(yes=True)
    C = dense(3, 4, dtype=torch.float64).to_sparse_csc()
    with asp.override():
        for columns in (2, 4000):
            with pytest.raises(RuntimeError, match="SparseCsr"):
                torch.sparse.mm(C, torch.ones(4, columns, dtype=torch.float64), "sum")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_rounded_once(dtype):
    D = dense(30, 40, dtype=torch.float32).to(dtype)
    A, B = compressed(D), numbers(40, 8).to(dtype)
    with pytest.raises(RuntimeError):
        A @ B
    with asp.override():
        assert torch.equal(A @ B, (compressed(D.float()) @ B.float()).to(dtype))
        assert torch.equal(A.t() @ (A @ B), (compressed(D.float()).t() @ (A @ B).float()).to(dtype))


def test_cases_of_pytorch_stay_pytorchs():
    """Compare answers and error messages for layouts, dtypes and shapes that autosparse does not compute."""
    D, B = dense(4, 4), numbers(4, 4)
    A = compressed(D)
    batch = torch.stack([D, D]).to_sparse_csr()
    hybrid = torch.sparse_csr_tensor([0, 1, 2, 2, 2], [0, 1], numbers(2, 3), (4, 4, 3))
    calls = (
        lambda: compressed(D) @ numbers(5, 2),
        lambda: A @ B.double(),
        lambda: A.to(torch.int32) @ B.int(),
        lambda: D.to_sparse_bsr((2, 2)) @ B,
        lambda: D.to_sparse_bsc((2, 2)) @ B,
        lambda: (A @ A).to_dense(),
        lambda: batch @ B,
        lambda: A @ torch.stack([B, B]),
        lambda: hybrid @ B,
        lambda: torch.addmm(A, A, A).to_dense(),
        lambda: torch.addmm(numbers(3, 3), A, B),
        lambda: torch.sparse.sampled_addmm(A, B, numbers(3, 4)),
        lambda: torch.sparse.sampled_addmm(compressed(D, torch.sparse_csc), B, B),
        lambda: torch.sparse.mm(A, B, "prod"),
        lambda: torch.mv(A, numbers(3)),
        lambda: A @ torch.empty(4, 4, device="meta"),
        lambda: torch.mm(A, B, out=torch.empty(4, 4, dtype=torch.float64)),
        lambda: torch.mm(A, B, out=torch.empty(0)),
        lambda: torch.mm(A, B, out=torch.empty(5, 5)),
        lambda: torch.mv(A, B[0], out=torch.empty(0)),
        lambda: torch.addmm(B, A, B, out=torch.empty(0)),
    )
    for place, call in enumerate(calls):
        outcomes = []
        for ours in (False, True):
            if ours:
                asp.install()
            try:
                outcomes.append(call())
            except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        asp.uninstall()
        theirs, ours = outcomes
        assert type(theirs) is type(ours), f"case {place}: {theirs} != {ours}"
        if isinstance(theirs, str):
            # First lines only: PyTorch goes on to list registered kernels by file, ours among them.
            assert ours.split("\n")[0].split("CPU: registered")[0] == theirs.split("\n")[0].split("CPU: registered")[0]
        else:
            assert_close(ours, theirs)


def test_nesting_exceptions_and_what_is_left():
    D = dense(5, 5)
    A, B = compressed(D), numbers(5, 2)

    def n_ours():
        with counted() as calls:
            assert_close(A @ B, D @ B)
        return len(calls)

    assert n_ours() == 0
    with asp.override():
        with asp.override():
            assert n_ours() == 1
        assert n_ours() == 1
        with pytest.raises(KeyError), asp.override():
            raise KeyError
        assert n_ours() == 1
    assert n_ours() == 0
    asp.uninstall()  # one call too many
    assert n_ours() == 0
    asp.install()
    asp.install(sparse_gradients=True)
    asp.uninstall()
    assert n_ours() == 1
    asp.uninstall()
    assert n_ours() == 0
    assert not asp.installed()


def test_dense_products_and_other_tensors_are_not_touched():
    with asp.override(), counted() as calls:
        B = numbers(6, 6)
        assert_close(B @ B, torch.einsum("ij,jk->ik", B, B))
    assert calls == []


def test_without_the_runtime_pytorch_computes_and_one_warning_says_so(monkeypatch):
    monkeypatch.setattr(runtime_api, "available", False)
    notices.forget_warnings()
    A, B = compressed(dense(5, 5)), numbers(5, 2)
    asp.uninstall()  # removes kernels that other tests have registered
    with pytest.warns(notices.FallbackWarning, match="no C runtime"):
        asp.install()
    with counted() as calls:
        A @ B
    assert calls == []
    asp.uninstall()


def test_large_products_take_the_executor_and_stay_right_while_it_tunes():
    D = dense(400, 300, density=0.1)
    A, B = compressed(D), numbers(300, 64)
    with asp.override(), config.options(overhead=1.0, effort="estimate"):
        for _ in range(30):
            assert_close(A @ B, D @ B)
            assert_close(A.t() @ (A @ B), D.t() @ (D @ B))


def test_deterministic_mode_gives_the_same_bits():
    A, B = compressed(dense(300, 200, density=0.2)), numbers(200, 33)
    n_threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    try:
        with asp.override():
            first = A @ B
            assert all(torch.equal(A @ B, first) for _ in range(5))
            torch.set_num_threads(1)
            assert torch.equal(A @ B, first)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(n_threads)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("is_asked", [False, True], ids=["Python", "builtin"])
def test_tiny_products_equal_pytorchs(layout, dtype, is_asked, builtin):
    """Compare answers and errors of tiny products, and operands that are overwritten while they are read."""
    builtin(yes=is_asked)
    D = dense(9, 9, dtype=dtype)
    A = D.to_sparse() if layout is torch.sparse_coo else compressed(D, layout)
    B, x, scales = numbers(9, 4, dtype=dtype), numbers(9, dtype=dtype), {"beta": 0.5, "alpha": -2.0}
    base, out, y = numbers(9, 4, dtype=dtype), torch.empty(9, 4, dtype=dtype), torch.empty(9, dtype=dtype)
    calls = [
        lambda: A @ B, lambda: A @ x, lambda: B.t() @ A, lambda: torch.sparse.mm(A, B), lambda: torch.mv(A, x),
        lambda: torch.addmm(base, A, B, **scales), lambda: torch.addmm(base[:, :1], A, B),
        lambda: torch.mm(A, B, out=out), lambda: torch.nn.functional.linear(x, A),
        lambda: torch.addmm(base, A, B, out=out), lambda: torch.addmv(x, A, x, **scales), lambda: torch.mv(A, x, out=y),
        lambda: torch.sparse.sampled_addmm(A, B, B.t()), lambda: torch.sparse.mm(A, B, "amax"), lambda: A @ A,
        lambda: A @ B[1:], lambda: A @ torch.ones(9, 4, dtype=torch.int8), lambda: torch.addmm(base[1:], A, B),
        lambda: torch.mm(A, B, out=torch.empty(0, dtype=torch.int64)),
    ]  # fmt: skip
    if layout is not torch.sparse_coo:  # PyTorch refuses this
        calls.append(lambda: torch.addmm(base.t(), B.t(), A))
    for number, call in enumerate(calls):
        results = []
        for ours in (False, True):
            if ours:
                asp.install()
            try:
                result = call()
                results.append((result.to_dense() if result.layout is not torch.strided else result).clone())
            except (RuntimeError, IndexError) as error:
                results.append(str(error).split("\n", 1)[0])
        asp.uninstall()
        want, got = results
        if isinstance(want, str):
            assert got == want, number
        else:
            assert_close(got, want)
    with asp.override():
        z, C = x.clone(), base.clone()
        if layout is not torch.sparse_coo:  # PyTorch has no such operator
            assert_close(torch.addmv(z, A, z, out=z), x + D @ x)
        assert_close(torch.addmm(C, A, B, out=C), base + D @ B)
