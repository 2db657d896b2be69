"""Tests of operands whose arrays were written or malformed: einsum checks entries and does not rely on flags."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.errors import AutosparseError, StructureError
from tests.scipy_versions import IS_RECENT

EXPRESSIONS = (
    "ij,ij->ij",
    "ij,ij->i",
    "ij,ij->",
    "ij,ji->",
    "ij,jk->ik",
    "ij,kj->ik",
    "ij,jk,ki->",
    "ij->i",
    "ij->j",
    "ij->ji",
)


@pytest.fixture(params=[False, True], ids=["first call", "kernel"])
def call(request):
    """Return `einsum` as first calls run it, or as kernels run it."""
    if request.param:
        request.getfixturevalue("kernels_at_once")
    return lambda *arguments, **given: as_dense(asp.einsum(*arguments, **given))


def as_dense(result):
    for name in ("toarray", "todense"):
        if hasattr(result, name):
            return np.asarray(getattr(result, name)())
    return np.asarray(result)


def matrix(seed, shape=(30, 30)):
    return sps.random_array(shape, density=0.2, format="csr", random_state=np.random.default_rng(seed))


def relabelled(cls):
    """Return a matrix whose flag says canonical although its columns were renamed in place."""
    A = cls(matrix(1))
    assert A.has_canonical_format
    A.indices[:] = np.random.default_rng(2).permutation(30)[A.indices]
    return A


def repeated(cls):
    """Return a matrix with all entries in one place, whose flag says that entries are distinct."""
    A = cls(sps.csr_array(sps.eye_array(30, format="csr")))
    assert A.has_canonical_format
    A.indices = np.repeat(np.int32([3]), 30)
    A.indptr = np.int32([0, *[30] * 30])
    return A


@pytest.mark.parametrize("made", [relabelled, repeated])
@pytest.mark.parametrize("cls", [sps.csr_array, sps.csr_matrix, asp.csr])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_flags_of_sorted_and_distinct_entries_are_verified(call, expression, cls, made):
    A = made(cls)
    operands = [A] * len(expression.split("->")[0].split(","))
    wanted = np.einsum(expression, *[A.toarray()] * len(operands))
    np.testing.assert_allclose(call(expression, *operands), wanted)


def csr(indptr, indices, shape, cls=sps.csr_array):
    made = cls(shape)
    made.data = np.ones(len(indices))
    made.indices, made.indptr = np.asarray(indices, np.int32), np.asarray(indptr, np.int32)
    return made


def coo(rows, cols, shape):
    made = sps.coo_array(shape)
    made.data = np.ones(len(rows))
    made.coords = (np.asarray(rows), np.asarray(cols))
    return made


def bsr():
    made = sps.bsr_array(np.ones((4, 4)), blocksize=(2, 2))
    made.indices = np.array([0, 900_000, 0, 1], np.int32)
    return made


MALFORMED = {
    "column beyond": lambda: csr([0, 2, 3, 3, 3], [0, 1, 7], (4, 4)),
    "column far beyond": lambda: csr([0, 2, 3, 3, 3], [0, 1, 900_000_000], (4, 4)),
    "negative column": lambda: csr([0, 2, 3, 3, 3], [0, 1, -3], (4, 4)),
    "falling starts": lambda: csr([0, 3, 1, 3, 3], [0, 1, 2], (4, 4)),
    "starts beyond": lambda: csr([0, 1, 2, 3, 900_000], [0, 1, 2], (4, 4)),
    "starts below": lambda: csr([-1, 1, 2, 3, 3], [0, 1, 2], (4, 4)),
    "too few starts": lambda: csr([0, 1], [0, 1, 2], (4, 4)),
    "columns, row beyond": lambda: csr([0, 2, 3, 3, 3], [0, 1, 7], (4, 4), sps.csc_array),
    "row beyond": lambda: coo([0, 9], [0, 1], (4, 4)),
    "negative row": lambda: coo([0, -1], [0, 1], (4, 4)),
    "rows of another length": lambda: coo([0], [0, 1], (4, 4)),
    "block beyond": bsr,
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_malformed_operands_raise_our_error(call, expression, name):
    operands = [MALFORMED[name]()] * len(expression.split("->")[0].split(","))
    with pytest.raises(StructureError):
        call(expression, *operands)
    with pytest.raises(StructureError):
        call(expression, *operands, format="dense")


@pytest.mark.parametrize("fmt", ["csr", "csc", "bsr"])
def test_entries_behind_the_last_start_are_no_entries(call, fmt):
    A = sps.csr_array(np.arange(16.0).reshape(4, 4)).asformat(fmt)
    A.indptr = A.indptr.copy()
    A.indptr[-1] -= 1
    n = A.indptr[-1]
    wanted = type(A)((A.data[:n], A.indices[:n], A.indptr), shape=A.shape).toarray()
    np.testing.assert_allclose(call("ij->i", A), wanted.sum(axis=1))
    np.testing.assert_allclose(call("ij,j->ij", A, np.ones(4)), wanted)


@pytest.mark.parametrize("text", ["ij,j->ij", "ij,j,i->", "ij,jk->ijk", "ij,jk->ik"])
@pytest.mark.parametrize("index", [7, 900_000_000, -3])
def test_malformed_operands_beside_dense_ones_raise_our_error(call, text, index):
    bad = csr([0, 2, 3], [0, 1, index], (2, 5))
    dense = {"ij,j->ij": (np.ones(5),), "ij,j,i->": (np.ones(5), np.ones(2))}.get(text, (np.ones((5, 2)),))
    for A in (bad, asp.csr(bad)):
        with pytest.raises(StructureError):
            call(text, A, *dense)


@pytest.mark.skipif(not IS_RECENT, reason="this SciPy has no coo arrays of three dimensions")
def test_a_coo_array_of_three_dimensions_is_checked(call):
    made = sps.coo_array((np.ones(2), ([0, 1], [0, 1], [0, 1])), shape=(3, 3, 3))
    assert call("ijk->", made) == 2
    made.coords = (np.array([0, 1]), np.array([0, 1]), np.array([0, 3_000_000]))
    for text, others in (("ijk->", ()), ("ijk,k->ij", (np.ones(3),)), ("ikl,kj,lj->ij", (np.ones((3, 2)),) * 2)):
        with pytest.raises(StructureError):
            call(text, made, *others)


@pytest.mark.parametrize("dtype", [np.uint32, np.int16, np.uint8])
def test_index_arrays_of_any_integers_are_taken(call, dtype):
    A, B = matrix(1), matrix(2)
    odd = A.copy()
    odd.indices, odd.indptr = odd.indices.astype(dtype), odd.indptr.astype(dtype)
    for expression in ("ij,ij->ij", "ij,jk->ik", "ij,ij->i"):
        wanted = np.einsum(expression, A.toarray(), B.toarray())
        np.testing.assert_allclose(call(expression, odd, B), wanted)


def torch_malformed(torch):
    """Yield malformed tensors, which torch's constructors accept without check_invariants."""
    values = torch.ones(3, dtype=torch.float64)
    starts, minor = torch.tensor([0, 2, 3, 3, 3]), torch.tensor([0, 1, 900_000])
    yield torch.sparse_csr_tensor(starts, minor, values, (4, 4), check_invariants=False)
    yield torch.sparse_csc_tensor(starts, minor, values, (4, 4), check_invariants=False)
    falling = torch.tensor([0, 3, 1, 3, 3])
    yield torch.sparse_csr_tensor(falling, torch.tensor([0, 1, 2]), values, (4, 4), check_invariants=False)
    coords = torch.tensor([[0, 1, 2], [0, 1, 900_000]])
    yield torch.sparse_coo_tensor(coords, values, (4, 4), check_invariants=False)


@pytest.mark.parametrize("n", range(4))
def test_malformed_torch_operands_raise_our_error(n):
    torch = pytest.importorskip("torch")
    bad = list(torch_malformed(torch))[n]
    for text, others in (("ij,jk->ik", (torch.ones(4, 2, dtype=torch.float64),)), ("ij->i", ()), ("ij,ij->ij", (bad,))):
        with pytest.raises(AutosparseError):
            asp.einsum(text, bad, *others)
