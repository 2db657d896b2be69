"""Tests of torch tensors in functions of the library, and of its arrays in torch: mttkrp, files, copies, `asp.csr`."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

from tests.torch.samples import assert_close, compressed, dense, numbers, torch

import autosparse  # isort: skip
import autosparse.torch as asp  # isort: skip
from autosparse.errors import InputError, InputTypeError, ShapeError, StructureError  # isort: skip
from autosparse.torch.structure import IndexArrays  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*[Bb]eta")


def cube(dtype=torch.float32):
    """Return a tensor of shape (4, 5, 6) with a third of its entries."""
    generator = torch.Generator().manual_seed(3)
    D = torch.randn(4, 5, 6, dtype=dtype, generator=generator)
    return D * (torch.rand(4, 5, 6, generator=generator) < 0.3)


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_mttkrp_of_torch_tensors_on_a_cpu(mode, dtype):
    D, factors = cube(dtype), [numbers(n, 7, dtype=dtype, seed=n) for n in (4, 5, 6)]
    T = D.to_sparse()
    left, right = (n for n in range(3) if n != mode)
    text = f"abc,{'abc'[left]}z,{'abc'[right]}z->{'abc'[mode]}z"
    want = torch.einsum(text, D, factors[left], factors[right])
    for given in (factors, [f.numpy() if n == left else f for n, f in enumerate(factors)]):
        got = autosparse.mttkrp(T, given, mode)
        assert isinstance(got, torch.Tensor)
        assert_close(got, want)
    T._values().mul_(2)  # values are read at every call
    out = torch.empty_like(want)
    assert autosparse.mttkrp(T, factors, mode, out=out) is out
    assert_close(out, 2 * want)
    doubled = torch.sparse_coo_tensor(torch.cat([T._indices()] * 2, 1), torch.cat([T._values()] * 2), T.shape)
    assert_close(autosparse.mttkrp(doubled, factors, mode), 4 * want)
    T._indices()[:, 0] = 0  # coordinates are read at every call too
    want = torch.einsum(text, T.to_dense(), factors[left], factors[right])
    assert_close(autosparse.mttkrp(T, factors, mode), want)


def test_mttkrp_of_torch_has_gradients_on_a_cpu():
    D = cube(torch.float64)
    T = D.to_sparse()
    leaves = [
        T.values().clone().requires_grad_(),
        *(numbers(n, 3, dtype=torch.float64).requires_grad_() for n in (5, 6)),
    ]

    def product(values, B, C):
        return autosparse.mttkrp(torch.sparse_coo_tensor(T.indices(), values, T.shape).coalesce(), [None, B, C], 0)

    assert torch.autograd.gradcheck(product, leaves)


def test_mttkrp_of_torch_says_what_does_not_fit():
    T, factors = cube().to_sparse(), [numbers(n, 3) for n in (4, 5, 6)]
    with pytest.raises(InputTypeError, match="COO"):
        autosparse.mttkrp(cube(), factors, 0)
    with pytest.raises(ShapeError):
        autosparse.mttkrp(T, factors[:2], 0)
    with pytest.raises(ShapeError):
        autosparse.mttkrp(T, [f.requires_grad_() for f in factors[:2]], 0)
    with pytest.raises(ShapeError):
        autosparse.mttkrp(T, [None, numbers(4, 3), numbers(6, 3)], 0)
    with pytest.raises(ShapeError, match="out"):
        autosparse.mttkrp(T, factors, 0, out=torch.empty(4, 4))
    outside = torch.sparse_coo_tensor([[9], [0], [0]], [1.0], (4, 5, 6), check_invariants=False)
    with pytest.raises(StructureError):
        autosparse.mttkrp(outside, [f.detach() for f in factors], 0)


def test_torch_load_accepts_our_matrices():
    D = dense(5, 4)
    A = asp.csr(compressed(D))
    for matrix in (A, A.T):
        file = io.BytesIO()
        torch.save({"A": matrix, "x": [matrix.T]}, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
        assert_close(loaded["A"].to_torch().to_dense(), matrix.to_torch().to_dense())
        assert loaded["x"][0].rows is loaded["A"].rows


def test_loaded_structures_are_validated():
    A = asp.csr(compressed(dense(5, 4)))
    crow, col = A.rows.arrays
    made_again = A.__reduce__()[0]
    for given in ((crow, col + 4, 5, 4), (crow + 1, col, 5, 4), (crow, col, 6, 4)):
        with pytest.raises(StructureError):
            IndexArrays(*given)
    for given in ((crow, col, 5, 2**70), (crow, col, 5, "4"), (crow, [0], 5, 4), (None, col, 5, 4)):
        with pytest.raises((InputError, InputTypeError)):
            IndexArrays(*given)
    with pytest.raises(InputTypeError):
        made_again(crow, A.values, False)
    with pytest.raises(ShapeError):
        made_again(A.rows, A.values[:-1], False)


def test_copies_of_matrices_share_nothing_and_keep_gradients():
    leaf = compressed(dense(5, 4)).requires_grad_()
    A = asp.csr(leaf)
    both = copy.deepcopy([A, A.T])
    assert both[0].rows is both[1].rows
    assert both[0].values is both[1].values
    assert both[0].values.is_leaf
    assert both[0].requires_grad
    (both[0] @ torch.ones(4)).sum().backward()
    assert both[0].values.grad is not None
    assert leaf.grad is None
    with torch.no_grad():
        both[0].values.zero_()
    assert A.values.any()


MALFORMED = {
    "starts beyond": ([0, 1, 5], [0], (2, 2)),
    "starts fall": ([0, 2, 1], [0, 1], (2, 2)),
    "negative": ([0, 1, 2], [0, -5], (2, 2)),
    "beyond": ([0, 1, 2], [0, 7], (2, 2)),
    "huge": ([0, 10**8, 2], [0, 1], (2, 2)),
    "no columns": ([0, 1, 2], [0, 0], (2, 0)),
    "too few starts": ([0, 1], [0], (2, 2)),
}


def malformed(name, layout, index_dtype=torch.int64):
    starts, indices, shape = MALFORMED[name]
    shape = shape[::-1] if layout is torch.sparse_csc else shape
    starts, indices = (torch.tensor(one, dtype=index_dtype) for one in (starts, indices))
    values = torch.ones(len(indices))
    return torch.sparse_compressed_tensor(starts, indices, values, shape, layout=layout, check_invariants=False)


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize("make", [autosparse.csr, autosparse.csc, asp.csr], ids=["csr", "csc", "torch.csr"])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_tensors_make_no_matrix_that_multiplies(name, make, layout):
    def product():
        A = make(malformed(name, layout))
        return A @ (torch.ones(A.shape[1]) if make is asp.csr else np.ones(A.shape[1], np.float32))

    with pytest.raises(StructureError):
        product()


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc, torch.sparse_coo, torch.strided], ids=str)
def test_csr_of_a_tensor_keeps_gradients(layout):
    D = dense(5, 4)
    leaf = (D.clone() if layout is torch.strided else D.to_sparse(layout=layout)).requires_grad_()
    A = autosparse.csr(leaf)
    assert isinstance(A, asp.Csr)
    if layout is not torch.sparse_csc:  # PyTorch cannot accumulate gradients of this layout
        (A @ torch.ones(4)).sum().backward()
        assert_close(leaf.grad.to_dense() * (D != 0), (D != 0).float())
    assert A.requires_grad
    assert autosparse.csr(leaf, dtype=np.float64).dtype is torch.float64
    assert autosparse.csr(leaf, copy=True).requires_grad
    with pytest.raises(ShapeError):
        autosparse.csr(leaf, shape=(4, 5))
    for without in (autosparse.csr(leaf, gradients=False), autosparse.csr(leaf.detach())):
        assert isinstance(without, autosparse.csr_array)
        assert np.allclose(without @ np.ones(4, np.float32), D.numpy() @ np.ones(4, np.float32))
    asked = autosparse.csr(leaf.detach(), gradients=True)
    assert isinstance(asked, asp.Csr)
    assert not asked.requires_grad
