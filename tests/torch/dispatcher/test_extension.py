"""Tests of the C++ module for PyTorch: it gives PyTorch's answer, or declines and the usual path computes."""

from __future__ import annotations

import gc
import threading

import pytest

from tests.processes import run_with_torch
from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch.dispatcher import extension, operators, reductions  # isort: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),  # PyTorch says once that its sparse tensors are beta
    pytest.mark.skipif(extension.library is None, reason="the C++ module for PyTorch is not built"),
]
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, OverflowError)

REAL = (torch.float32, torch.float64)
LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)


@pytest.fixture(autouse=True)
def asked(builtin):
    builtin(yes=True)
    with asp.override():
        yield


def matrix(A, B, base, beta, alpha, out):
    """Return alpha A B + beta base if the module computes it, in `out` if given; None if others do, or raise."""
    before = extension.library.n_computed()
    to = {} if out is None else {"out": out}
    try:
        if base is None:
            result = torch.mm(A, B, **to) if B.dim() == 2 else torch.mv(A, B, **to)
        else:
            result = (torch.addmm if B.dim() == 2 else torch.addmv)(base, A, B, beta=beta, alpha=alpha, **to)
    except REFUSALS:
        result = None
    return result if extension.library.n_computed() > before else None


def stored(D, layout, index_dtype=torch.int64):
    return D.to_sparse_coo() if layout == torch.sparse_coo else compressed(D, layout, index_dtype)


def bases(shape, dtype):
    """Yield tensors that broadcast to `shape`, and None."""
    whole = numbers(*shape, dtype=dtype, seed=5)
    yield from (None, whole, whole[..., :1], numbers(1, dtype=dtype), torch.tensor(0.5, dtype=dtype))
    if len(shape) == 2:
        yield from (whole[:1], numbers(shape[1], dtype=dtype), numbers(*shape[::-1], dtype=dtype).t())


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (1, 9), (9, 1), (40, 30)], ids=str)
def test_products_equal_pytorchs(layout, dtype, index_dtype, shape):
    D = dense(*shape, dtype=dtype)
    A, wide = stored(D, layout, index_dtype), numbers(shape[1], 6, dtype=dtype)
    rights = wide, wide[:, 1:4], wide[:, ::2], wide[:, :1], wide[:, 1], wide[:1, 0].expand(shape[1], 3)
    for B in (*rights, numbers(3, shape[1], dtype=dtype).t(), torch.nn.Parameter(wide).detach()):
        product = D @ B
        is_coo_vector = layout is torch.sparse_coo and B.dim() == 1  # PyTorch has no addmv of COO matrices
        for base in (None,) if is_coo_vector else bases(product.shape, dtype):
            for beta, alpha in ((1, 1), (0, 1), (0.5, -2), (True, 0)) if base is not None else ((0, 1),):
                want = alpha * product + (0 if base is None else beta * base)
                got = matrix(A, B, base, beta, alpha, None)
                assert got is not None
                assert_close(got, want)
                assert got.is_contiguous()
                if is_coo_vector:
                    continue
                out = numbers(product.shape[0], 9, dtype=dtype)[:, : want.shape[1]] if B.dim() == 2 else got * 0
                assert matrix(A, B, base, beta, alpha, out) is out
                assert_close(out, want)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_products_are_computed_without_python(layout, dtype):
    for n, k in ((5, 7), (300, 200)):  # below and above the size of products for which Python holds the settings
        D, wide = dense(n, k, dtype=dtype), numbers(k, 6, dtype=dtype)
        A = stored(D, layout)
        for B in (wide, wide[:, 1:4], numbers(3, k, dtype=dtype).t(), wide[:, 1], wide[:1, 0].expand(k, 3)):
            assert_close(matrix(A, B, None, 0, 1, None), D @ B)
            if layout is not torch.sparse_coo or B.dim() == 2:
                base, out = numbers(n, *B.shape[1:], dtype=dtype), torch.empty(n, *B.shape[1:], dtype=dtype)
                assert_close(matrix(A, B, base, 0, 1, None), D @ B)
                assert matrix(A, B, None, 0, 1, out) is out
                assert_close(out, D @ B)
        assert matrix(A, wide.conj(), None, 0, 1, None) is None


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_larger_operands_by_columns_are_copied(layout, dtype):
    n, k, m = 300, 2000, 40
    D, C = dense(n, k, dtype=dtype, density=0.01), numbers(n, m, dtype=dtype)
    A, wide = stored(D, layout), numbers(k, 2 * m, dtype=dtype)
    for B in (wide.t().contiguous().t()[:, :m], wide[:, ::2], wide[:, :1].expand(k, m), wide[:1, 0].expand(k)):
        want = D @ B
        assert_close(matrix(A, B, None, 0, 1, None), want)
        out = torch.empty(want.shape, dtype=dtype)
        if layout is not torch.sparse_coo or B.dim() == 2:
            assert matrix(A, B, None, 0, 1, out) is out
            assert_close(out, want)
            base = C if B.dim() == 2 else C[:, 0]
            assert_close(matrix(A, B, base, 0.5, 2, None), 2 * want + 0.5 * base)


def test_out_may_be_what_is_read():
    D, B = dense(6, 6), numbers(6, 6)
    A = stored(D, torch.sparse_csr)
    C = numbers(6, 6, seed=3)
    assert matrix(A, B, C, 1, 1, C.t()) is None  # a result's rows must be contiguous
    for out, base in ((C, C), (C[:, :6], C.t()), (B, None)):
        want = D @ B + (0 if base is None else base)
        assert matrix(A, B, base, 1, 1, out) is out
        assert_close(out, want)
    square = stored(torch.ones(4, 4), torch.sparse_csr)
    values = square.values().view(4, 4)
    want = torch.ones(4, 4) @ values
    assert matrix(square, values, None, 0, 1, values) is values
    assert_close(values, want)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_other_operands_are_left_alone(layout):
    D, B = dense(6, 5), numbers(5, 3)
    A = stored(D, layout)
    others = {
        "B of another length": (A, numbers(4, 3), None),
        "B of another dtype": (A, B.double(), None),
        "B complex": (A, B.to(torch.complex64), None),
        "B sparse": (A, stored(B, layout), None),
        "B on no device": (A, B.to("meta"), None),
        "B of three dimensions": (A, B[None], None),
        "A complex": (stored(D.to(torch.complex64), layout), B, None),
        "A of integers": (stored(D.int(), layout), B.int(), None),
        "A half": (stored(D.half(), layout), B.half(), None),
        "A dense": (D, B, None),
        "A no tensor": (D.numpy(), B, None),
        "base of another shape": (A, B, numbers(6, 4)),
        "base of too many dimensions": (A, B, numbers(1, 6, 3)),
        "base of another dtype": (A, B, numbers(6, 3).double()),
        "no columns": (A, B[:, :0], None),
        "many multiplications": (stored(torch.ones(64, 5), torch.sparse_coo), numbers(5, 1 << 12), None),
    }
    for name, (left, right, base) in others.items():
        assert matrix(left, right, base, 1, 1, None) is None, name
    for out in (numbers(6, 3).double(), numbers(3, 6).t(), numbers(6, 1).expand(6, 3), numbers(6, 3).numpy()):
        assert matrix(A, B, None, 0, 1, out) is None
    for number in (1j, "1", None, 1 << 2000):
        assert matrix(A, B, numbers(6, 3), 0, number, None) is None


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_lazy_operands_and_subclasses_give_pytorchs_answer(layout):
    class Ours(torch.Tensor):
        pass

    D, B = dense(6, 5), numbers(5, 3)
    A = stored(D, layout)
    for right in (torch._neg_view(B), torch._efficientzerotensor(5, 3), B.as_subclass(Ours)):
        got = A @ right
        assert isinstance(got, Ours) is isinstance(right, Ours)
        assert_close(got.as_subclass(torch.Tensor), D @ (right + 0).as_subclass(torch.Tensor))


def test_samples_equal_pytorchs():
    for dtype in REAL:
        for index_dtype in INDICES:
            D, X, Y = dense(9, 7, dtype=dtype), numbers(9, 4, dtype=dtype), numbers(7, 4, dtype=dtype)
            S, before = stored(D, torch.sparse_csr, index_dtype), extension.library.n_computed()
            for left, right in ((X, Y.t()), (X[:, :2], Y[:, ::2].t()), (X, Y.t().contiguous())):
                for beta, alpha in ((1, 1), (0.5, -2), (0, 3)):
                    want = (alpha * (left @ right) + beta * D) * (D != 0)
                    got = torch.sparse.sampled_addmm(S, left, right, beta=beta, alpha=alpha)
                    assert_close(got.to_dense(), want)
                    assert got.crow_indices().dtype == got.col_indices().dtype == torch.int64
                    assert got.col_indices().data_ptr() != S.col_indices().data_ptr()
            assert extension.library.n_computed() - before == 9
            assert_close(S.to_dense(), D)
            for left in (X.t().contiguous().t(), X[:1, :1].expand(9, 4), X[:, ::2].repeat(1, 2)):
                got = torch.sparse.sampled_addmm(S, left, Y.t(), beta=0)
                assert_close(got.to_dense(), (left @ Y.t()) * (D != 0))
            assert extension.library.n_computed() - before == 12


def test_samples_of_more_entries_follow_writes_to_indices():
    D, X, Y = dense(300, 200), numbers(300, 4), numbers(4, 200)
    S, before = stored(D, torch.sparse_csr), extension.library.n_computed()
    for _ in range(6):  # the structure is remembered meanwhile
        assert_close(torch.sparse.sampled_addmm(S, X, Y, beta=0).to_dense(), (X @ Y) * (D != 0))
    assert extension.library.n_computed() - before == 6
    S.col_indices()[3] = 10**6
    with pytest.raises(ValueError, match="outside the columns"):
        torch.sparse.sampled_addmm(S, X, Y)


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_small_reductions_do_not_enter_python(monkeypatch, index_dtype):
    monkeypatch.setattr(reductions, "entries_of", lambda A: pytest.fail("the kernel in Python was called"))
    for dtype in REAL:
        D, B = dense(30, 20, dtype=dtype), numbers(20, 5, dtype=dtype)
        A = stored(D, torch.sparse_csr, index_dtype)
        want = (D @ B) / (D != 0).sum(1).clamp(min=1)[:, None]
        assert_close(torch.sparse.mm(A, B, "mean"), want)
        products = torch.where((D != 0)[..., None], D[..., None] * B, -torch.inf).amax(1)
        assert_close(torch.sparse.mm(A, B, "amax"), products.nan_to_num(neginf=0))
    A.col_indices()[0] = 1000
    monkeypatch.undo()
    with pytest.raises(ValueError, match="outside the columns"):
        torch.sparse.mm(A, B, "amax")


@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
def test_small_products_with_a_sparse_matrix_on_the_right_do_not_enter_python(monkeypatch, index_dtype):
    monkeypatch.setattr(operators, "multiply", lambda a, b: pytest.fail("the kernel in Python was called"))
    for dtype in REAL:
        for n, (m, k) in ((3, (7, 5)), (40, (90, 60)), (1, (1, 4)), (0, (3, 2)), (2, (3, 0))):
            D, X, base = dense(m, k, dtype=dtype), numbers(n, k, dtype=dtype), numbers(m, dtype=dtype)
            A = stored(D, torch.sparse_csr, index_dtype)
            for left in (X, numbers(k, n, dtype=dtype).t(), numbers(n, k + 2, dtype=dtype)[:, :k]):
                got = torch.nn.functional.linear(left, A)
                assert_close(got, left @ D.t())
                assert got.stride() == (left @ D.t()).stride()
                assert_close(torch.nn.functional.linear(left, A, base), left @ D.t() + base)
    B = stored(dense(4, 5), torch.sparse_csc)
    B.row_indices()[0] = 4
    monkeypatch.undo()
    with pytest.raises(ValueError, match="outside the"):
        numbers(2, 4) @ B


def test_blocks_batches_and_hybrids_are_left_alone():
    D = torch.ones(4, 4)
    B = numbers(4, 2)
    batch = torch.stack([D, D])
    hybrid = torch.ones(4, 4, 2).to_sparse(2)
    for A in (D.to_sparse_bsr((2, 2)), D.to_sparse_bsc((2, 2)), batch.to_sparse_csr(), hybrid, batch.to_sparse()):
        assert matrix(A, B, None, 0, 1, None) is None


def test_integers_at_coordinates_do_not_enter_python(monkeypatch):
    X = torch.arange(12).view(4, 3)
    monkeypatch.setattr(operators, "multiply", lambda a, b: pytest.fail("the kernel in Python was called"))
    assert (torch.eye(4, dtype=X.dtype).to_sparse_coo() @ X).equal(X)


def test_an_index_without_a_place_is_refused():
    at = torch.tensor([[0, 1], [0, 7]])
    A = torch.sparse_coo_tensor(at, torch.ones(2), (2, 2), check_invariants=False)
    assert matrix(A, numbers(2, 2), None, 0, 1, None) is None
    assert matrix(A, numbers(2, 2), None, 0, 1, torch.zeros(2, 2)) is None


def test_uncoalesced_entries_add_up():
    at = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 2]])
    A = torch.sparse_coo_tensor(at, torch.tensor([1.0, 2.0, 3.0, 4.0]), (2, 3))
    B = numbers(3, 2)
    assert_close(matrix(A, B, None, 0, 1, None), A.to_dense() @ B)


def test_values_are_read_live():
    D, x = dense(6, 5), numbers(5)
    A = stored(D, torch.sparse_csr)
    before = matrix(A, x, None, 0, 1, None)
    A.values().mul_(3)
    assert_close(matrix(A, x, None, 0, 1, None), 3 * before)
    A.data = stored(dense(6, 5, seed=9), torch.sparse_csr)
    assert_close(matrix(A, x, None, 0, 1, None), A.to_dense() @ x)


def test_the_module_keeps_no_objects_alive():
    A, B, out = stored(dense(6, 5), torch.sparse_csr), numbers(5, 3), numbers(6, 3)
    for _ in range(3):  # objects that are made once
        matrix(A, B, out, 0.5, 2, None)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        matrix(A, B, out, 0.5, 2, None)
        matrix(A, B, out, 0.5, 2, out)
        matrix(A, B.double(), None, 0, 1, None)
    assert len(gc.get_objects()) - before < 50


def test_a_default_dtype_does_not_leak_into_results():
    A, B = stored(dense(6, 5), torch.sparse_csr), numbers(5, 3)
    torch.set_default_dtype(torch.float64)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            assert matrix(A.to(dtype), B.to(dtype), None, 0, 1, None).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert matrix(A, B, None, 0, 1, None).dtype == torch.float32


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradients_pass_through_small_products(layout):
    D, base = dense(6, 5, dtype=torch.float64), numbers(6, 3, dtype=torch.float64).requires_grad_()
    A, B = stored(D, layout), numbers(5, 3, dtype=torch.float64).requires_grad_()
    with asp.override():
        assert torch.autograd.gradcheck(lambda right, left: torch.addmm(left, A, right, beta=0.5, alpha=2), (B, base))


def test_only_products_outside_other_kernels_are_computed(builtin):
    """Check that PyTorch's kernel of a small product does not meet ours in the operators that it calls."""
    D, B = dense(6, 5, dtype=torch.complex64), numbers(5, 3, dtype=torch.complex64)
    A, before = stored(D, torch.sparse_csr), extension.library.n_computed()
    base = numbers(3, dtype=torch.complex64)
    for beta, alpha in ((1, 2), (2j, 1), (0, 1j)):
        assert_close(torch.addmm(base, A, B, beta=beta, alpha=alpha), alpha * (D @ B) + beta * base)
    assert extension.library.n_computed() == before


def test_kernels_in_python_are_registered_when_they_are_called():
    code = """
import torch, autosparse.torch as asp
from autosparse.torch.dispatcher import extension, fallback
A, X = torch.eye(8).to_sparse_csr(), torch.ones(8, 2)
with asp.override():
    A @ X, torch.addmm(X, A, X), A.to_sparse_coo() @ X
    assert not extension._loaded and not fallback.aten_fallbacks
    for _ in range(2):
        X.t() @ A
    assert list(extension._loaded) == [("mm", "SparseCsrCPU")] and not fallback.aten_fallbacks
    torch.mm(A.to_sparse_coo(), X, out=torch.empty(0))
print(sorted({key for _, key in extension._loaded}), "coo::mm.out" in fallback.aten_fallbacks)
"""
    done = run_with_torch(code)
    assert done.stdout.strip() == "['SparseCPU', 'SparseCsrCPU'] True", done.stderr


def test_threads_multiply_at_once():
    """Check concurrent products of one structure and of many, which share the module's table of structures."""
    n, wrong = 3000, []
    one, X = stored(torch.diag(torch.arange(1.0, n + 1)), torch.sparse_csr), numbers(n, 3)

    def multiply(seed):
        with asp.override():
            for turn in range(30):
                scale = torch.full((n,), float(seed + turn))
                own = torch.sparse_csr_tensor(torch.arange(n + 1), torch.arange(n), scale, (n, n))
                if not torch.equal(own @ X, scale[0] * X) or not torch.equal(one @ X, one.values()[:, None] * X):
                    wrong.append(turn)

    threads = [threading.Thread(target=multiply, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_matrix_times_a_vector_is_no_mm(builtin):
    A, x = stored(dense(6, 5), torch.sparse_csr), numbers(5)
    with pytest.raises(IndexError) as theirs:
        torch.mm(A, x)
    for yes in (True, False):
        builtin(yes=yes)
        with asp.override(), pytest.raises(IndexError) as ours:
            torch.mm(A, x)
        assert str(ours.value) == str(theirs.value)
