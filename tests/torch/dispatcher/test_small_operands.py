"""Tests of the builtin for small products: it gives PyTorch's answer, or declines and the usual path computes."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip  (torch first: the line above skips where it is missing)
from autosparse.torch.dispatcher import small_operands  # isort: skip
from autosparse._native import runtime_api  # isort: skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse"),  # PyTorch says once that its sparse tensors are beta
    pytest.mark.skipif(not runtime_api.available, reason="the builtin is part of the C runtime"),
]

REAL = (torch.float32, torch.float64)
LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo)
FOUND = small_operands.matrix, small_operands.vector


@pytest.fixture(autouse=True)
def asked(builtin):
    builtin(yes=True)


def stored(D, layout, index_dtype=torch.int64):
    return D.to_sparse_coo() if layout == torch.sparse_coo else compressed(D, layout, index_dtype)


def bases(shape, dtype):
    """Yield tensors that broadcast to `shape`, and None."""
    whole = numbers(*shape, dtype=dtype, seed=5)
    yield from (None, whole, whole[..., :1], numbers(1, dtype=dtype), torch.tensor(0.5, dtype=dtype))
    if len(shape) == 2:
        yield from (whole[:1], numbers(shape[1], dtype=dtype), numbers(*shape[::-1], dtype=dtype).t())


def test_the_builtin_is_found_in_this_pytorch():
    """Check that this installation has the builtin, without which the tests below would show nothing."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("the builtin is looked for through /proc/self/mem")
    assert small_operands.none not in FOUND


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("index_dtype", INDICES, ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (1, 9), (9, 1), (40, 30)], ids=str)
def test_the_builtin_equals_pytorchs_addmm(layout, dtype, index_dtype, shape):
    D = dense(*shape, dtype=dtype)
    A, wide = stored(D, layout, index_dtype), numbers(shape[1], 6, dtype=dtype)
    rights = wide, wide[:, 1:4], wide[:, ::2], wide[:, :1], wide[:, 1], wide[:1, 0].expand(shape[1], 3)
    for B in (*rights, numbers(3, shape[1], dtype=dtype).t(), torch.nn.Parameter(wide).detach()):
        call, product = FOUND[B.dim() == 1], D @ B
        for base in bases(product.shape, dtype):
            for beta, alpha in ((1, 1), (0, 1), (0.5, -2), (True, 0)):
                want = alpha * product + (0 if base is None else beta * base)
                got = call(A, B, base, beta, alpha, None)
                assert got is not None
                assert_close(got, want)
                assert got.is_contiguous()
                out = numbers(product.shape[0], 9, dtype=dtype)[:, : want.shape[1]] if B.dim() == 2 else got * 0
                assert call(A, B, base, beta, alpha, out) is out
                assert_close(out, want)


def test_out_may_be_what_is_read():
    D, B = dense(6, 6), numbers(6, 6)
    A = stored(D, torch.sparse_csr)
    C = numbers(6, 6, seed=3)
    assert small_operands.matrix(A, B, C, 1, 1, C.t()) is None  # a result's rows must be contiguous
    for out, base in ((C, C), (C[:, :6], C.t()), (B, None)):
        want = D @ B + (0 if base is None else base)
        assert small_operands.matrix(A, B, base, 1, 1, out) is out
        assert_close(out, want)
    square = stored(torch.ones(4, 4), torch.sparse_csr)
    values = square.values().view(4, 4)
    want = torch.ones(4, 4) @ values
    assert small_operands.matrix(square, values, None, 0, 1, values) is values
    assert_close(values, want)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_other_operands_are_left_alone(layout):
    D, B, x = dense(6, 5), numbers(5, 3), numbers(5)
    A = stored(D, layout)

    class Ours(torch.Tensor):
        pass

    others = {
        "B of another length": (A, numbers(4, 3), None),
        "B of another dtype": (A, B.double(), None),
        "B a vector": (A, x, None),
        "B complex": (A, B.to(torch.complex64), None),
        "B negated lazily": (A, torch._neg_view(B), None),
        "B of zeros that are nowhere": (A, torch._efficientzerotensor(5, 3), None),
        "B of somebody's class": (A, B.as_subclass(Ours), None),
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
        "many multiplications": (stored(torch.ones(64, 5), torch.sparse_coo), numbers(5, 64), None),
        "many by columns": (stored(torch.ones(64, 5), layout), numbers(64, 5).t(), None),
    }
    for name, (left, right, base) in others.items():
        assert small_operands.matrix(left, right, base, 1, 1, None) is None, name
    C = numbers(6, 4)
    for out in (C, C[:, 0], C[:, :3].double(), numbers(3, 6).t(), C[:, :1].expand(6, 3), C[:, :3].numpy()):
        kept = torch.as_tensor(out).clone()
        assert small_operands.matrix(A, B, None, 0, 1, out) is None
        assert torch.equal(torch.as_tensor(out), kept)
    for number in (1j, "1", None, 1 << 2000):
        assert small_operands.matrix(A, B, None, 0, number, None) is None
    assert small_operands.vector(A, B, None, 0, 1, None) is None
    assert small_operands.matrix(A, B) is None


def test_blocks_batches_and_hybrids_are_left_alone():
    D = torch.ones(4, 4)
    B = numbers(4, 2)
    batch = torch.stack([D, D])
    hybrid = torch.ones(4, 4, 2).to_sparse(2)
    for A in (D.to_sparse_bsr((2, 2)), D.to_sparse_bsc((2, 2)), batch.to_sparse_csr(), hybrid, batch.to_sparse()):
        assert small_operands.matrix(A, B, None, 0, 1, None) is None


def test_an_index_without_a_place_is_refused():
    at = torch.tensor([[0, 1], [0, 7]])
    A = torch.sparse_coo_tensor(at, torch.ones(2), (2, 2), check_invariants=False)
    assert small_operands.matrix(A, numbers(2, 2), None, 0, 1, None) is None
    out = torch.zeros(2, 2)
    assert small_operands.matrix(A, numbers(2, 2), None, 0, 1, out) is None
    assert not out.any()


def test_uncoalesced_entries_add_up():
    at = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 2]])
    A = torch.sparse_coo_tensor(at, torch.tensor([1.0, 2.0, 3.0, 4.0]), (2, 3))
    B = numbers(3, 2)
    assert_close(small_operands.matrix(A, B, None, 0, 1, None), A.to_dense() @ B)


def test_values_are_read_live():
    D, x = dense(6, 5), numbers(5)
    A = stored(D, torch.sparse_csr)
    before = small_operands.vector(A, x, None, 0, 1, None)
    A.values().mul_(3)
    assert_close(small_operands.vector(A, x, None, 0, 1, None), 3 * before)
    A.data = stored(dense(6, 5, seed=9), torch.sparse_csr)
    assert_close(small_operands.vector(A, x, None, 0, 1, None), A.to_dense() @ x)


def test_the_builtin_keeps_no_objects_alive():
    A, B, out = stored(dense(6, 5), torch.sparse_csr), numbers(5, 3), numbers(6, 3)
    for _ in range(3):  # objects that are made once
        small_operands.matrix(A, B, out, 0.5, 2, None)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        small_operands.matrix(A, B, out, 0.5, 2, None)
        small_operands.matrix(A, B, out, 0.5, 2, out)
        small_operands.matrix(A, B.double(), None, 0, 1, None)
    assert len(gc.get_objects()) - before < 50


def test_a_default_dtype_does_not_leak_into_results():
    A, B = stored(dense(6, 5), torch.sparse_csr), numbers(5, 3)
    torch.set_default_dtype(torch.float64)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            assert small_operands.matrix(A.to(dtype), B.to(dtype), None, 0, 1, None).dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert small_operands.matrix(A, B, None, 0, 1, None).dtype == torch.float32


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_gradients_pass_through_small_products(layout):
    D, base = dense(6, 5, dtype=torch.float64), numbers(6, 3, dtype=torch.float64).requires_grad_()
    A, B = stored(D, layout), numbers(5, 3, dtype=torch.float64).requires_grad_()
    with asp.override():
        assert torch.autograd.gradcheck(lambda right, left: torch.addmm(left, A, right, beta=0.5, alpha=2), (B, base))


@pytest.mark.parametrize("tiny", [0, 1 << 13])
def test_a_matrix_times_a_vector_is_no_mm(builtin, tiny_product, tiny):
    tiny_product(tiny)
    A, x = stored(dense(6, 5), torch.sparse_csr), numbers(5)
    with pytest.raises(IndexError) as theirs:
        torch.mm(A, x)
    for yes in (True, False):
        builtin(yes=yes)
        with asp.override(), pytest.raises(IndexError) as ours:
            torch.mm(A, x)
        assert str(ours.value) == str(theirs.value)


def test_no_builtin_without_readable_process_memory(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(small_operands.os, "open", refuse)
    assert small_operands._find() == (small_operands.none, small_operands.none)


def test_no_builtin_for_an_unknown_object_layout(monkeypatch):
    monkeypatch.setattr(
        small_operands, "_compressed", lambda: iter([(torch.eye(3).to_sparse_csr(), [torch.ones(2)] * 3)])
    )
    assert small_operands._find() == (small_operands.none, small_operands.none)
