"""Tests of tensors with the conjugate, the negative or the zero bit set.

PyTorch resolves these bits before most kernels run, but not before `mm`. Operands that a kernel hands on must be
resolved.
"""

from __future__ import annotations

import pytest

from tests.torch.samples import assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*beta")
BITS = ("conj", "neg", "zero")
LAYOUTS = (torch.sparse_csr, torch.sparse_csc, torch.sparse_coo, torch.sparse_bsr)
OTHER_TYPES = (torch.float32, torch.complex128)
TYPED = [
    pytest.param(
        layout, dtype, id=f"{layout}-{dtype}", marks=[pytest.mark.full] * (dtype is OTHER_TYPES[1 - place % 2])
    )
    for place, layout in enumerate(LAYOUTS)
    for dtype in (torch.complex64, *OTHER_TYPES)
]
"""Layouts and types: without --full each layout has complex64, which all bits exist for, and one other type."""
N, M, K = 8, 6, 3
WAYS = ("the builtin", "ours")


def flagged(x, bit):
    """Return `x` with the given bit on the same memory; None where there is no such tensor."""
    if bit == "conj":
        return x.conj() if x.is_complex() else None
    return torch._neg_view(x) if bit == "neg" else torch._efficientzerotensor(x.shape, dtype=x.dtype)


def solid(x):
    return torch.zeros(x.shape, dtype=x.dtype) if x._is_zerotensor() else x.resolve_conj().resolve_neg().clone()


def stored(D, layout):
    if layout is torch.sparse_coo:
        return D.to_sparse_coo()
    return D.to_sparse_bsr((2, 2)) if layout is torch.sparse_bsr else compressed(D, layout)


@pytest.fixture(params=WAYS)
def way(request, builtin):
    """Select what computes small products: a builtin, or our kernels in Python."""
    builtin(yes=request.param == "the builtin")
    return request.param


OPERATORS = {
    "mm": (lambda A, b: torch.mm(A, b), ((M, K),)),
    "t mm": (lambda A, b: A.t() @ b, ((N, K),)),
    "dense mm": (lambda A, b: b @ A, ((K, N),)),
    "mv": (lambda A, x: A @ x, ((M,),)),
    "t mv": (lambda A, x: A.t() @ x, ((N,),)),
    "sparse.mm": (lambda A, b: torch.sparse.mm(A, b), ((M, K),)),
    "addmm": (lambda A, c, b: torch.addmm(c, A, b), ((N, K), (M, K))),
    "scaled addmm": (lambda A, c, b: torch.addmm(c, A, b, beta=2, alpha=3), ((N, K), (M, K))),
    "broadcast addmm": (lambda A, c, b: torch.addmm(c, A, b), ((K,), (M, K))),
    "sparse.addmm": (lambda A, c, b: torch.sparse.addmm(c, A, b, beta=2), ((N, K), (M, K))),
    "addmm_": (lambda A, c, b: c.clone().addmm_(A, b, beta=0.5), ((N, K), (M, K))),
    "addmv": (lambda A, c, x: torch.addmv(c, A, x, beta=2), ((N,), (M,))),
    "sampled": (lambda A, x, y: torch.sparse.sampled_addmm(A, x, y, beta=0.5), ((N, K), (K, M))),
    "linear": (lambda A, x: torch.nn.functional.linear(x, A.t()), ((K, N),)),
}
OUT = {
    "mm": (lambda A, b, out: torch.mm(A, b, out=out), ((M, K), (N, K))),
    "matmul": (lambda A, b, out: torch.matmul(A, b, out=out), ((M, K), (N, K))),
    "addmm": (lambda A, c, b, out: torch.addmm(c, A, b, beta=2, out=out), ((N, K), (M, K), (N, K))),
    "addmm_": (lambda A, b, out: out.addmm_(A, b, beta=0.5), ((M, K), (N, K))),
    "mv": (lambda A, x, out: torch.mv(A, x, out=out), ((M,), (N,))),
    "addmv": (lambda A, c, x, out: torch.addmv(c, A, x, alpha=3, out=out), ((N,), (M,), (N,))),
}


def whole(result):
    return result if result.layout is torch.strided else result.to_dense()


def agree(call, D, layout, operands, at, bit):
    """Check that the override computes what dense operands without bits give, wherever it accepts such operands."""
    if (odd := flagged(operands[at], bit)) is None:
        return
    args, A = [*operands[:at], odd, *operands[at + 1 :]], stored(D, layout)
    if call is OPERATORS["sampled"][0]:
        want = (0.5 * D + solid(args[0]) @ solid(args[1])) * (D != 0)
    else:
        want = call(D, *map(solid, args))
    try:
        call(A, *map(solid, args))
    except (RuntimeError, NotImplementedError):
        return
    assert_close(whole(call(A, *args)).resolve_conj().resolve_neg(), want)


@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize(("layout", "dtype"), TYPED)
def test_flagged_operands_equal_resolved_ones(way, bit, layout, dtype):
    D = dense(N, M, dtype=dtype)
    with asp.override():
        for call, shapes in OPERATORS.values():
            operands = [numbers(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
            for at in range(len(operands)):
                agree(call, D, layout, operands, at, bit)


@pytest.mark.parametrize("bit", ["conj", "neg"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_flagged_out_tensors_receive_the_result(way, bit, layout, dtype):
    D = dense(N, M, dtype=dtype)
    with asp.override():
        for call, shapes in OUT.values():
            operands = [numbers(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]
            for at in range(len(operands)):
                agree(call, D, layout, operands, at, bit)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
@pytest.mark.parametrize("bit", ["neg", "zero"])
def test_reductions_of_flagged_operands_equal_resolved_ones(way, reduce, bit):
    A, b = compressed(dense(N, M)), flagged(numbers(M, K), bit)
    want = torch.sparse.mm(A, solid(b), reduce)
    with asp.override():
        assert_close(torch.sparse.mm(A, b, reduce), want)


FUNCTIONS = {
    "spmm": (lambda A, v, X: asp.spmm(A.with_values(v), X), ((None,), (M, K))),
    "spmv": (lambda A, v, x: A.with_values(v) @ x, ((None,), (M,))),
    "t spmm": (lambda A, v, X: A.with_values(v).T @ X, ((None,), (N, K))),
    "mean": (lambda A, v, X: asp.spmm(A.with_values(v), X, "mean"), ((None,), (M, K))),
    "max": (lambda A, v, X: asp.spmm(A.with_values(v), X, "max"), ((None,), (M, K))),
    "sddmm": (lambda A, v, X, Y: asp.sddmm(A.with_values(v), X, Y).values, ((None,), (N, K), (K, M))),
    "softmax": (asp.edge_softmax, ((None, 2),)),
    "attention": (asp.attention, ((N, 2, 4), (M, 2, 4), (M, 2, 5))),
    "gat": (asp.gat, ((N, 2), (M, 2), (M, 2, 5))),
}
REAL_ONLY = ("max", "softmax", "attention", "gat")


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_our_functions_and_their_gradients_accept_flagged_tensors(name, bit, dtype):
    """Check the bit in every operand and in the incoming gradient, where a zero tensor was a null pointer."""
    if dtype.is_complex and name in REAL_ONLY:
        return
    call, shapes = FUNCTIONS[name]
    A = asp.csr(dense(N, M, dtype=dtype))
    full = [tuple(A.nnz if n is None else n for n in shape) for shape in shapes]
    operands = [numbers(*shape, dtype=dtype, seed=7 + len(shape)) for shape in full]
    for at, operand in enumerate(operands):
        if (odd := flagged(operand, bit)) is None:
            return
        args = [*operands[:at], odd, *operands[at + 1 :]]
        assert_close(call(A, *args), call(A, *map(solid, args)))
    leaves = [operand.clone().requires_grad_() for operand in operands]
    result = call(A, *leaves)
    grad = flagged(numbers(*result.shape, dtype=dtype), bit)
    got = torch.autograd.grad(result, leaves, grad, retain_graph=True)
    for ours, want in zip(got, torch.autograd.grad(result, leaves, solid(grad)), strict=True):
        assert_close(ours.resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg())


@pytest.mark.parametrize("sparse_gradients", [False, True])
@pytest.mark.parametrize("bit", BITS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_coo], ids=str)
def test_gradients_under_the_override_accept_flagged_tensors(way, sparse_gradients, bit, dtype, layout):
    D, b = dense(N, M, dtype=dtype), numbers(M, K, dtype=dtype)
    grad = flagged(numbers(N, K, dtype=dtype, seed=4), bit)
    if grad is None:
        return
    G = solid(grad)
    A, leaf = stored(D, layout).requires_grad_(), b.clone().requires_grad_()
    with asp.override(sparse_gradients=sparse_gradients):
        result = A @ leaf
        d_A, d_b = torch.autograd.grad(result, (A, leaf), grad)
        odd = A.detach() @ flagged(b, bit)
    assert_close(odd, D @ solid(flagged(b, bit)))
    assert_close(d_b.resolve_conj(), D.mH @ G)
    want, got = G @ b.mH, d_A.detach().clone() if d_A.layout is torch.strided else d_A.detach().to_dense().clone()
    assert_close(got * (D != 0), want * (D != 0))


def test_small_products_with_a_conjugated_operand(builtin):
    """Check as in a user's process."""
    builtin(yes=True)
    A = dense(50, 40, dtype=torch.complex128)
    X, Y = numbers(40, 3, dtype=torch.complex128), numbers(50, 3, dtype=torch.complex128)
    S = A.to_sparse_coo()
    with asp.override():
        assert_close(S @ X.conj(), A @ X.conj().resolve_conj())
        assert_close(S.t() @ Y.conj(), A.t() @ Y.conj().resolve_conj())
