"""Tests of ownership for tensors of any order, and of how `explain` reports who owns a matrix's arrays."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

import autosparse
from tests.arrays.holders import big, counts_known, large

# -- tensors of any order


def test_tensors_own_their_values() -> None:
    values = np.array([2.0, 3.0])
    T = autosparse.tensor([[0, 1], [1, 0]], values)
    shared = autosparse.tensor([[0, 1], [1, 0]], values, copy=False)
    assert T.owns_arrays
    assert not shared.owns_arrays
    values[:] = 0
    assert T.values.tolist() == [2, 3]
    assert shared.values is values
    coo = sps.coo_array((values, ([0, 1], [1, 0])))
    assert not np.shares_memory(autosparse.tensor(coo).values, values)
    assert autosparse.tensor([[0]], [1.0]).owns_arrays


def test_a_tensor_of_ours_shares_its_plans_until_one_is_given_other_values() -> None:
    T = autosparse.tensor([[0, 1, 1], [1, 0, 1], [0, 0, 1]], [1.0, 2.0, 3.0])
    again = autosparse.tensor(T)
    assert again._unfolding(0) is T._unfolding(0)
    T.values[0] = 5
    assert again.values[0] == 5
    again.values = np.zeros(3)
    assert T.values.tolist() == [5, 2, 3]
    factors = [None, np.ones((2, 1)), np.ones((2, 1))]
    assert autosparse.mttkrp(again, factors, 0).sum() == 0
    assert autosparse.mttkrp(T, factors, 0).sum() == 10
    assert not np.shares_memory(autosparse.tensor(T, copy=True).values, T.values)


@pytest.mark.parametrize("protocol", [2, 5])
def test_unpickled_tensors_are_over_the_arrays_of_the_pickle(protocol: int) -> None:
    rng = np.random.default_rng(0)
    T = autosparse.tensor(rng.integers(0, 50, (3, 2000)), rng.random(2000), (50, 50, 50))
    again = pickle.loads(pickle.dumps(T, protocol))
    np.testing.assert_array_equal(again.todense(), T.todense())
    assert again._entries.coords.base is not None, "the coordinates were copied"
    assert again._entries.peek().base is not None, "the values were copied"


def test_a_pickle_whose_coordinates_are_out_of_bounds_is_refused() -> None:
    from autosparse.arrays.sparse_tensor import _unpickled

    with pytest.raises(autosparse.AutosparseError):
        _unpickled(np.array([[0, 9]], np.int32), np.ones(2), (3,))


# -- explain


@counts_known
def test_explain_says_whose_arrays_they_are_and_names_all_three_parts() -> None:
    m = large()
    text = str(autosparse.csr(m).explain())
    assert "owned, copied from the caller's by the constructor" in text
    assert "products do not check for writes" in text
    for part in ("caller's arrays", "own arrays", "packed copies"):
        assert part in text
    shared = str(autosparse.csr(m, copy=False).explain())
    assert "shared with the caller" in shared
    assert "checks them for writes" in shared
    assert "frozen=True" in shared
    assert "frozen: declared read-only by the caller" in str(autosparse.csr(m, copy=False, frozen=True).explain())
    A = autosparse.csr(m)
    kept = A.data
    assert "delete references to the arrays that were read" in str(A.explain())
    del kept
    T = autosparse.tensor([[0, 1], [1, 0]], [2.0, 3.0])
    assert "own arrays" in str(T.explain())


def test_a_matrix_that_is_written_to_a_stream_and_read_again_is_the_same() -> None:
    A, stream = autosparse.csr(big()), io.BytesIO()
    pickle.dump(A, stream)
    stream.seek(0)
    np.testing.assert_array_equal(pickle.load(stream).toarray(), A.toarray())


@pytest.mark.skipif(python_objects.small_product is None, reason="this interpreter has no fast call for small products")
def test_dtype_objects_of_pickles_are_known_to_the_runtime_and_other_byte_orders_are_not() -> None:
    A = pickle.loads(pickle.dumps(autosparse.csr(big()), 5))
    x = pickle.loads(pickle.dumps(np.arange(60.0)))
    assert A.data.dtype is not np.dtype(float)
    expected = big() @ x
    np.testing.assert_allclose(A @ x, expected)
    assert A._cell.n_small_products == 1
    m = big()
    for values, indices in ((">f8", "i4"), ("f8", ">i4")):
        arrays = (m.data.astype(values), m.indices.astype(indices), m.indptr.astype(indices))
        B = autosparse.csr_array(m)
        B.data, B.indices, B.indptr = arrays
        np.testing.assert_allclose(B @ x, expected)
        assert B._cell.n_small_products == 0
    C = autosparse.csr(m)
    np.testing.assert_allclose(C @ x.astype(">f8"), expected)
    assert C._cell.n_small_products == 1  # of x in the native byte order
