"""Tests of lengths and indices that do not fit: they are refused before native code reads them.

Reads beyond an array often have no visible effect. So the tests expect an exception, not a crash.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.sparse

from autosparse.errors import AutosparseError, InputError, InputTypeError, ShapeError, StructureError
from tests.torch.samples import INDICES, assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse.torch.structure import IndexArrays  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")
FAR = 10**9


def refused(kind, call, words):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, AutosparseError)
    assert "Hint:" in str(caught.value)


@pytest.mark.parametrize("shape", [(0,), (1,), (4,), (6,), (5, 1), (5, 2), (1, 5), ()], ids=str)
def test_values_of_another_length_are_refused(shape):
    """Check values of a wrong length for five entries: in `with_values`, as an argument, and as an attribute."""
    edges = torch.tensor([[0, 0, 1, 2, 2], [0, 1, 2, 0, 1]])
    A, values, X = asp.csr(edges), torch.ones(shape), numbers(3, 4)
    S = A.to_torch()
    for call in (
        lambda: A.with_values(values),
        lambda: A.T.with_values(values),
        lambda: asp.Csr(A.rows, values),
        lambda: asp.csr(edges, values),
        lambda: asp.csr(A, values),
        lambda: asp.csr(S, values),
        lambda: asp.csr(S.to_sparse_coo(), values),
        lambda: asp.csr(S.to_dense(), values),
        lambda: asp.csr(scipy.sparse.csr_array(S.to_dense().numpy()), values),
    ):
        refused(ShapeError, call, "one for each")
    replaced = asp.csr(edges)
    replaced.values = values
    for call in (
        lambda: replaced @ X,
        lambda: X.t() @ replaced,
        lambda: asp.spmm(replaced, X, "max"),
        lambda: asp.sddmm(replaced, X, X.t()),
        replaced.to_torch,
    ):
        refused(ShapeError, call, "one for each")
    assert asp.edge_softmax(replaced, torch.ones(5)).shape == (5,), "the structure has five entries all the same"
    assert replaced.nnz == 5


def test_values_of_another_length_are_neither_tuned_for_nor_explained():
    A = asp.csr(dense(4, 3))
    A.values = torch.ones(1)
    for call in (lambda: A.tune(4, effort="estimate"), lambda: A.explain(4)):
        refused(ShapeError, call, "one for each")


def test_values_that_are_no_numbers_in_memory_are_refused():
    A = asp.csr(dense(4, 3))
    refused(InputTypeError, lambda: A.with_values([1.0] * A.nnz), "list")
    refused(InputTypeError, lambda: asp.csr(torch.zeros(2, 1, dtype=torch.int64), 1.0), "float")
    refused(InputError, lambda: A.with_values(torch.empty(A.nnz, device="meta")), "meta")
    refused(InputError, lambda: A.with_values(torch.ones(A.nnz).to_sparse()), "sparse")


@pytest.mark.parametrize("dtype", INDICES, ids=str)
@pytest.mark.parametrize("at", [(0, 1), (1, 1), (0, 0), (1, 2)], ids=str)
@pytest.mark.parametrize("id_", [3, FAR, -1, -FAR])
def test_edges_outside_the_shape_are_refused(dtype, at, id_):
    edges = torch.tensor([[0, 1, 2], [2, 0, 1]], dtype=dtype)
    edges[at] = id_
    words = "must be" if id_ > 0 else "must be >= 0"
    refused(StructureError, lambda: asp.csr(edges, shape=(3, 3)), words)
    refused(StructureError, lambda: asp.csr(edges, numbers(3), (3, 3)), words)
    if id_ < 0:
        refused(StructureError, lambda: asp.csr(edges), words)


NO_SHAPES = ((3,), (3, 3, 3), 3, (-1, 3), (3, -1), (3.0, 3), "33", (2**70, 3), (3, None))


@pytest.mark.parametrize("shape", NO_SHAPES, ids=str)
def test_shapes_that_are_none_are_refused(shape):
    edges = torch.tensor([[0, 1, 2], [2, 0, 1]])
    with pytest.raises(AutosparseError, match="shape") as caught:
        asp.csr(edges, shape=shape)
    assert isinstance(caught.value, TypeError | ValueError)


def test_a_shape_beside_a_matrix_must_be_its_own():
    D = dense(4, 3)
    assert asp.csr(D, shape=(4, 3)).shape == (4, 3)
    refused(ShapeError, lambda: asp.csr(D.to_sparse_csr(), shape=(4, 4)), "shape")


def test_values_beside_a_matrix_are_taken():
    """Check that values given for a torch tensor are used, which were ignored once."""
    S, X = compressed(dense(4, 3)), numbers(3, 2)
    want = torch.sparse_csr_tensor(S.crow_indices(), S.col_indices(), torch.ones(S._nnz()), S.shape).to_dense() @ X
    assert_close(asp.csr(S, torch.ones(S._nnz())) @ X, want)


def broken(layout, crow, col, shape, *, n_values=None):
    values = torch.ones(len(col) if n_values is None else n_values)
    return torch.sparse_compressed_tensor(
        torch.tensor(crow), torch.tensor(col, dtype=torch.int64), values, shape, layout=layout, check_invariants=False
    )


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc], ids=str)
@pytest.mark.parametrize(
    ("crow", "col", "n_values"),
    [
        ([0, 1, 2], [0, 3], 2), ([0, 1, 2], [0, -1], 2), ([0, 1, 2], [FAR, 0], 2), ([0, 2, 1], [0, 1], 2),
        ([0, 1, 9], [0, 1], 2), ([1, 1, 2], [0, 1], 2), ([-9, 1, 2], [0, 1], 2), ([0, 1, 1], [0, 1], 2),
        ([0, 1], [0], 1), ([0, 1, 2, 2], [0, 1], 2), ([0], [], 0), ([0, 1, 2], [0, 1], 1), ([0, 1, 2], [0, 1], 0),
        ([0, 1, 2], [0, 1], 9),
    ],
)  # fmt: skip
def test_compressed_tensors_that_pytorch_did_not_check_are_refused(layout, crow, col, n_values):
    shape = (2, 3) if layout is torch.sparse_csr else (3, 2)
    S = broken(layout, crow, col, shape, n_values=n_values)
    refused((StructureError, ShapeError), lambda: asp.csr(S), None)
    refused((StructureError, ShapeError), lambda: asp.spmm(S, numbers(shape[1], 4)), None)


OUTSIDE = ([[0, 9], [0, 1]], [[0, 1], [0, FAR]], [[-1, 0], [0, 1]], [[0, 1], [-FAR, 1]])


@pytest.mark.parametrize("indices", OUTSIDE, ids=str)
@pytest.mark.parametrize("is_coalesced", [False, True])
def test_coordinates_outside_the_shape_are_refused(indices, is_coalesced):
    S = torch.sparse_coo_tensor(
        torch.tensor(indices), torch.ones(2), (2, 3), check_invariants=False, is_coalesced=is_coalesced
    )
    refused(StructureError, lambda: asp.csr(S), "must be")
    with asp.override(), pytest.raises(RuntimeError, match="index out of"):
        S @ numbers(3, 4)


def test_coordinates_that_only_claim_to_be_sorted_do_no_harm():
    """Check duplicates that are marked as coalesced, in a matrix large enough for our kernels.

    PyTorch returns wrong results, but must not write out of bounds.
    """
    n = 3000
    rows = torch.randint(n, (4, n), generator=torch.Generator().manual_seed(3)).flatten()
    at = torch.stack([rows, torch.arange(n).repeat(4)])
    S = torch.sparse_coo_tensor(at, torch.ones(4 * n), (n, n), check_invariants=False, is_coalesced=True)
    with asp.override():
        assert (S @ numbers(n, 40)).shape == (n, 40)
    with contextlib.suppress(AutosparseError):
        assert asp.csr(S).shape == (n, n)


def test_blocks_that_pytorch_did_not_check_are_refused():
    D = torch.ones(4, 4).to_sparse_bsr((2, 2))
    col = D.col_indices().clone()
    col[0] = FAR
    S = torch.sparse_bsr_tensor(D.crow_indices(), col, D.values(), (4, 4), check_invariants=False)
    with pytest.raises(AutosparseError, match="not valid"):
        asp.csr(S)


def test_index_arrays_are_checked_where_they_are_kept():
    crow, col = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
    for arrays in (
        (crow.to(torch.int16), col.to(torch.int16)), (crow, col.int()), (crow.double(), col.double()), (crow[:2], col),
        (crow[None], col), (crow, col[None]), (torch.tensor([0, 9, 1, 9, 2])[::2], col),
        (crow, torch.tensor([0, 9, 1])[::2]),
        (torch.tensor(0), col), (crow.to("meta"), col.to("meta")),
    ):  # fmt: skip
        refused((InputError, StructureError), lambda arrays=arrays: IndexArrays(*arrays, 2, 3), None)
    assert IndexArrays(crow, col, 2, 3).structure.nnz == 2


@pytest.mark.parametrize("write", [-1, 3, FAR])
def test_indices_written_after_the_first_look_are_checked_again(write):
    S = compressed(torch.ones(3, 3))
    A, X = asp.csr(S), numbers(3, 4)
    assert_close(A @ X, torch.ones(3, 3) @ X)
    S.col_indices()[2] = write
    for call in (lambda: A @ X, lambda: asp.spmm(A, X, "max"), lambda: asp.edge_softmax(A, torch.ones(9))):
        refused(StructureError, call, "not valid")


def test_index_arrays_and_values_resized_after_the_first_look_are_checked_again():
    A, X = asp.csr(torch.ones(3, 3)), numbers(3, 4)
    A @ X
    A.rows.col.resize_(2)
    refused((StructureError, ShapeError), lambda: A @ X, None)
    B = asp.csr(torch.ones(3, 3))
    B @ X
    B.values.data = torch.ones(1)
    refused(ShapeError, lambda: B @ X, "one for each")


def test_scipys_room_at_the_end_of_its_arrays_is_left_out():
    """Check arrays longer than indptr says, which SciPy allows."""
    D = dense(5, 4, dtype=torch.float64)
    M = scipy.sparse.csr_array(D.numpy())
    n = M.nnz
    M.indices, M.data = np.append(M.indices, [FAR] * 3).astype(np.int32), np.append(M.data, [np.nan] * 3)
    A = asp.csr(M)
    assert A.nnz == n
    assert_close(A @ torch.eye(4, dtype=torch.float64), D)
    M.indices[0] = FAR
    refused(StructureError, lambda: asp.csr(M), "not valid")


def test_arrays_written_by_numpy_are_looked_at_where_a_matrix_is_made_again():
    M = scipy.sparse.csr_array(np.ones((4, 4)))
    kept, G = asp.csr(M), numbers(4, 2, dtype=torch.float64)
    assert_close(kept.T @ G, torch.ones(4, 4, dtype=torch.float64) @ G)
    kept.rows.structure.transposed()
    M.indices[:4] = [1, 0, 0, 1]
    A = asp.csr(M)
    want = torch.from_numpy(M.toarray())
    assert_close(A @ G, want @ G)
    assert_close(A.to_torch().t().to_dense(), want.t())
    turned = A.rows.structure.transposed()
    assert turned.tensors[0].tolist() == [0, *torch.from_numpy(M.indices).bincount().cumsum(0).tolist()]
    M.indices[0] = FAR
    refused(StructureError, lambda: asp.csr(M), "not valid")


def test_large_products_of_the_override_look_at_a_structure_once():
    """Check an index out of bounds in a compressed tensor, which PyTorch follows."""
    n = 600
    S = compressed(dense(n, n, 0.5))
    col = S.col_indices().clone()
    col[77] = FAR
    A = torch.sparse_csr_tensor(S.crow_indices(), col, S.values(), (n, n), check_invariants=False)
    with asp.override():
        refused(StructureError, lambda: A @ numbers(n, 64), "not valid")
        arrays = S.crow_indices(), S.col_indices(), S.values()[:9]
        short = torch.sparse_csr_tensor(*arrays, (n, n), check_invariants=False)
        refused(StructureError, lambda: short @ numbers(n, 64), "9 values")
