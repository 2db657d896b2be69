"""Tests that gradients through `einsum` equal torch's own for dense tensors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction.expressions.semirings import SEMIRINGS
from autosparse.errors import EinsumError
from tests.einsum.test_semantics import array

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*[Ss]parse.*", "ignore:einsum")


CASES = (
    *(("ij,jk->ik", "coo"), ("ij,i->", "csr"), ("ij,jk,ik->", "coo"), ("ij,ik,kj->ij", "csr")),
    *(pytest.param(one, "coo", marks=pytest.mark.full) for one in ("ij,jk,kl->il", "ij,j->i", "ij,kl->ij")),
)


@pytest.mark.parametrize(("expression", "layout"), CASES)
def test_gradients_are_torchs(expression, layout):
    letters = expression.split("->")[0].split(",")
    arrays = [array(n + 3, (4,) * len(one)) for n, one in enumerate(letters)]
    ours, theirs = [], []
    for n, one in enumerate(arrays):
        dense = torch.from_numpy(one)
        theirs.append(dense.clone().requires_grad_())
        sparse = dense.to_sparse_coo() if layout == "coo" else dense.to_sparse_csr() if one.ndim == 2 else dense
        ours.append((sparse if n == 0 else dense.clone()).requires_grad_())
    weights = torch.from_numpy(np.asarray(array(9, tuple(4 for _ in expression.split("->")[1]), density=1.1)))
    wanted = torch.einsum(expression, *theirs)
    found = asp.einsum(expression, *ours)
    torch.testing.assert_close(found, wanted)
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    for mine, his in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(mine.grad, his.grad)
    kept = arrays[0] != 0
    np.testing.assert_allclose(ours[0].grad.to_dense().numpy()[kept], theirs[0].grad.numpy()[kept])


def test_a_real_operand_beside_a_complex_one_has_a_real_gradient():
    S, X = array(1, (4, 5)) * (1 + 2j), torch.from_numpy(array(2, (5, 3))).requires_grad_()
    (found,) = torch.autograd.grad(asp.einsum("ij,jk->ik", sps.csr_array(S), X).abs().sum(), X)
    (wanted,) = torch.autograd.grad((torch.from_numpy(S) @ X.to(torch.complex128)).abs().sum(), X)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("expression", ["ii,ij->j", "iij,jk->k"])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_repeated_indices_have_torchs_gradients(expression, is_sparse):
    letters = expression.split("->")[0].split(",")
    arrays = [torch.from_numpy(array(n, (4,) * len(one), density=0.6)) for n, one in enumerate(letters)]
    theirs = [one.clone().requires_grad_() for one in arrays]
    ours = [arrays[0].to_sparse_coo() if is_sparse else arrays[0].clone(), arrays[1].to_sparse_coo()]
    ours = [one.requires_grad_() for one in ours]
    wanted, found = torch.einsum(expression, *theirs), asp.einsum(expression, *ours)
    torch.testing.assert_close(found, wanted)
    (wanted**2).sum().backward()
    (found**2).sum().backward()
    for one, mine, his in zip(arrays, ours, theirs, strict=True):
        grad = mine.grad.to_dense() if mine.grad.is_sparse else mine.grad
        kept = (one != 0) if mine.is_sparse else torch.ones_like(one, dtype=torch.bool)
        torch.testing.assert_close(grad[kept], his.grad[kept])


def test_unsupported_arguments_with_torch_tensors_are_refused():
    X = torch.eye(3, dtype=torch.float64, requires_grad=True)
    A = torch.eye(3, dtype=torch.float64).to_sparse_coo()
    with pytest.raises(ValueError, match="dense tensor"):
        asp.einsum("ij,jk->ik", X, A, format="csr")
    with pytest.raises(ValueError, match="operands provided"):
        asp.einsum("ij->i", X, A)


def test_numbers_and_sums_of_everything_beside_torch_tensors():
    A = torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    S = A.to_sparse_coo().requires_grad_()
    found = asp.einsum("ij,->", S, 2.0)
    assert found == 12.0
    assert asp.einsum("ij->", S) == 6.0
    found.backward()
    torch.testing.assert_close(S.grad.to_dense(), 2.0 * (A != 0).double())


def test_types_that_numpy_lacks_are_refused():
    A = torch.eye(3, dtype=torch.float32).to_sparse_coo()
    wanted = r"(?s)Given: dtype torch.bfloat16.*Hint: convert operands to one of float16, float32"
    with pytest.raises(TypeError, match=wanted):
        asp.einsum("ij,jk->ik", A, torch.eye(3, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match=r"(?s)dense tensor of their dtype.*dtype=.*Hint"):
        asp.einsum("ij,jk->ik", A, A, dtype=float)


@pytest.mark.parametrize("name", [name for name in SEMIRINGS if name != "plus_times"])
@pytest.mark.parametrize("layout", ["strided", "coo", "csr"])
def test_semirings_of_tensors_are_those_of_arrays(name: str, layout: str) -> None:
    values = np.abs(np.asarray(array(3, (5, 5)))).astype(np.float32)
    A, x = torch.from_numpy(values), torch.arange(5.0)
    own = A if layout == "strided" else A.to_sparse_coo() if layout == "coo" else A.to_sparse_csr()
    same = values if layout == "strided" else sps.csr_array(values)
    for text, given, arrays in (
        ("ij,jk->ik", (own, own), (same, same)),
        ("ij,j->i", (own, x), (same, x.numpy())),
        ("ij,j->i", (own, same @ x.numpy()), (same, same @ x.numpy())),
        ("ik + ij,jk -> ik", (own, own, own), (same, same, same)),
        ("ii->i", (own,), (same,)),
    ):
        found = asp.einsum(text, *given, semiring=name)
        wanted = asp.einsum(text, *arrays, semiring=name, format="dense")
        assert isinstance(found, torch.Tensor)
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert found.numpy().dtype == wanted.dtype


def test_semirings_of_tensors_have_no_gradients() -> None:
    A = torch.eye(3).to_sparse_coo()
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(EinsumError, match=r"(?s)min_plus.*no gradients.*Hint: .*detach"):
        asp.einsum("ij,j->i", A, x, semiring="min_plus")
    with torch.no_grad():
        np.testing.assert_array_equal(asp.einsum("ij,j->i", A, x, semiring="min_plus"), [2, 2, 2])
    with pytest.raises(EinsumError, match="unknown semiring"):
        asp.einsum("ij,j->i", A, x.detach(), semiring="plus_min")
    with pytest.raises(EinsumError, match=r"(?s)dense tensor.*format='csr'"):
        asp.einsum("ij->ij", A, semiring="min_plus", format="csr")
