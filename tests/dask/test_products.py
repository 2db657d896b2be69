"""Tests of Dask arrays of blocks: they give SciPy's results for the whole matrix."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sps

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")

import autosparse as asp  # noqa: E402
from autosparse.errors import EinsumError, InputError, InputTypeError, ShapeError  # noqa: E402
from tests.covering import in_turn  # noqa: E402
from tests.scipy_versions import IS_RECENT  # noqa: E402

m = sps.random_array((300, 200), density=0.05, random_state=np.random.default_rng(1), format="csr")
m2 = sps.random_array((200, 150), density=0.05, random_state=np.random.default_rng(2), format="csr")
dense = m.toarray()
x, y = np.random.default_rng(3).standard_normal((2, 300))
x = x[:200]
B = np.random.default_rng(4).standard_normal((200, 8))

CHUNKS = ("balanced", (100, 120, 80), (70, (120, 80)))


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(params=CHUNKS, ids=str)
def A(request):
    return asp.dask.from_csr(m, request.param, n_blocks=4 if request.param == "balanced" else None)


def equal(found, wanted):
    found = found.compute() if isinstance(found, da.Array) else found
    found, wanted = (one.toarray() if sps.issparse(one) else np.asarray(one) for one in (found, wanted))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_products_of_blocks_are_the_product(A):
    equal(A @ x, m @ x)
    equal(A @ B, m @ B)
    equal(A.T @ y, m.T @ y)
    equal(y @ A, y @ m)
    equal(A @ da.from_array(x, chunks=33), m @ x)
    equal(da.tensordot(A, B, axes=1), m @ B)


def test_dense_operands_are_cut_as_blocks_are_and_blocks_are_not(A, monkeypatch):
    sliced = []
    cut = asp.dask.csr_block.__getitem__

    def noticed(one, key):
        # skips the empty block that Dask keeps as `_meta`
        if isinstance(key, tuple) and key[0] is not Ellipsis and one.nnz:
            sliced.append(key)
        return cut(one, key)

    monkeypatch.setattr(asp.dask.csr_block, "__getitem__", noticed)
    A = A.persist()
    equal(A @ da.from_array(x, chunks=33), m @ x)
    equal(A.T @ da.from_array(y, chunks=7), m.T @ y)
    equal(da.from_array(y, chunks=7) @ A, y @ m)
    equal(A.dot(da.from_array(B, chunks=(9, 3))), m @ B)
    assert sliced == []
    equal(pickle.loads(pickle.dumps(A)) @ x, m @ x)
    with pytest.raises(ValueError, match="do not add up"):
        A @ da.ones(7, chunks=2)


@pytest.mark.parametrize("most", [1024, 1])
@pytest.mark.parametrize("operand", [x, B], ids=["vector", "columns"])
def test_parts_of_a_dense_operand_are_joined_where_they_are_used(operand, most, monkeypatch):
    monkeypatch.setattr(asp.dask.collection, "MAX_EDGES", most)
    A = asp.dask.from_csr(m, n_blocks=4)
    parts = da.from_array(operand, chunks=33)
    product = A @ parts
    equal(product, m @ operand)
    added = set(product.dask.layers) - set(A.dask.layers) - set(parts.dask.layers)
    assert (len(added) == 1) is (most > 1), "one task for each block, unless parts times blocks are many"


def test_sparse_products_stay_sparse(A):
    C = A @ asp.dask.from_csr(m2, chunks=50)
    assert isinstance(C._meta, asp.dask.csr_block)
    assert isinstance(C.compute(), asp.csr_array)
    equal(C, m @ m2)
    equal(A @ A.T, m @ m.T)


def test_slices_and_parts(A):
    equal(A[10:100, 5:50], m[10:100, 5:50])
    equal(A[[3, 200, 7]], m[[3, 200, 7]])
    equal(A[::7], m[::7])
    equal(A.rechunk((60, 40)), m)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions(A, axis):
    equal(A.sum(axis=axis), dense.sum(axis=axis))
    equal(A.mean(axis=axis), dense.mean(axis=axis))
    equal(A.max(axis=axis), dense.max(axis=axis))
    equal(A.min(axis=axis), dense.min(axis=axis))
    equal(A.sum(axis=axis, keepdims=True), dense.sum(axis=axis, keepdims=True))


UNEVEN = (((4, 9), 9), ((5, 0, 8), (4, 5)), ((0, 13), (2, 0, 7)), ((13,), 9))
OPERATIONS = {
    "A @ x": lambda A, x, B, S: A @ x,
    "A @ B": lambda A, x, B, S: A @ B,
    "A @ S": lambda A, x, B, S: A @ S,
    "A.T @ y": lambda A, x, B, S: A.T @ np.resize(x, 13),
    "y @ A": lambda A, x, B, S: np.resize(x, 13) @ A,
    "C @ A": lambda A, x, B, S: np.resize(B, (3, 13)) @ A,
    "A @ A.T": lambda A, x, B, S: A @ A.T,
    "A.T @ A": lambda A, x, B, S: A.T @ A,
    "A.dot": lambda A, x, B, S: A.dot(B),
    "A.T": lambda A, x, B, S: A.T,
    "A + A": lambda A, x, B, S: A + A,
    "A - A": lambda A, x, B, S: A - A,
    "-A": lambda A, x, B, S: -A,
    "abs": lambda A, x, B, S: abs(A),
    "2 * A": lambda A, x, B, S: 2 * A,
    "A * 2.5": lambda A, x, B, S: A * 2.5,
    "A * A": lambda A, x, B, S: A * A,
    "A / 2": lambda A, x, B, S: A / 2,
    "A ** 2": lambda A, x, B, S: A**2,
    "A != 0": lambda A, x, B, S: A != 0,
    "(A + A)[1:] @ x": lambda A, x, B, S: (A + A)[1:] @ x,
    "conj": lambda A, x, B, S: A.conj(),
    "real": lambda A, x, B, S: A.real,
    "astype": lambda A, x, B, S: A.astype(np.complex128),
    "A[2:7]": lambda A, x, B, S: A[2:7],
    "A[:, 1:4]": lambda A, x, B, S: A[:, 1:4],
    "A[::2]": lambda A, x, B, S: A[::2],
    "A[list]": lambda A, x, B, S: A[[1, 3, 12]],
    "A[mask]": lambda A, x, B, S: A[np.arange(13) % 3 == 0],
    "A[:, mask]": lambda A, x, B, S: A[:, np.arange(9) % 2 == 0],
    "A[3, 4]": lambda A, x, B, S: A[3, 4],
    "trace": lambda A, x, B, S: A.trace(),
    **{
        f"{name}, axis {axis}": lambda A, x, B, S, name=name, axis=axis: getattr(A, name)(axis=axis)
        for name in ("sum", "mean", "max", "min", "argmax", "argmin")
        for axis in (None, 0, 1)
        # older SciPy gives extremes along an axis two dimensions
        if IS_RECENT or axis is None or name in ("sum", "mean")
    },
}
if IS_RECENT:
    OPERATIONS |= {"A[3]": lambda A, x, B, S: A[3], "A[:, 2]": lambda A, x, B, S: A[:, 2]}
DTYPES = ("bool", "int8", "int32", "float32", "float64", "complex64")


def small(dtype, shape):
    """Return whole numbers, many of them zero: sums are exact in any order, and extremes are not unique."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(-2, 3, shape) * (rng.random(shape) < 0.6)
    return (numbers * (1 + 0.5j) if np.dtype(dtype).kind == "c" else numbers).astype(dtype)


@in_turn("dtype", "chunks", first=DTYPES, second=UNEVEN)
def test_values_and_dtypes_are_those_of_scipy_whatever_the_chunks(dtype, chunks):
    """Cases include bools, whose sums are no bools, and blocks without rows, without columns and without entries."""
    whole = sps.csr_array(small(dtype, (13, 9)))
    operands = small(dtype, 9), small(dtype, (9, 3)), sps.csr_array(small(dtype, (9, 5)))
    blocks = asp.dask.from_csr(whole, chunks)
    with np.errstate(all="ignore"):
        for name, operation in OPERATIONS.items():
            try:
                wanted = operation(whole, *operands)
            except NotImplementedError as err:
                with pytest.raises(NotImplementedError, match=str(err)[:20]):
                    operation(blocks, *operands)
                continue
            lazy = operation(blocks, *operands)
            found = lazy.compute()
            found, wanted = (one.toarray() if sps.issparse(one) else np.asarray(one) for one in (found, wanted))
            what = f"{name}: {found!r}, SciPy has {wanted!r}"
            assert found.shape == wanted.shape == lazy.shape, what
            assert found.dtype == wanted.dtype == lazy.dtype, f"{what}, Dask said {lazy.dtype}"
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6, err_msg=what)


def test_joined_arrays_have_the_dtype_of_stacked_ones():
    one, other = (sps.csr_array(small(dtype, (13, 9))) for dtype in ("float32", "complex64"))
    blocks = [asp.dask.from_csr(part, ((5, 0, 8), (4, 5))) for part in (one, other)]
    for axis, stack in ((0, sps.vstack), (1, sps.hstack)):
        found, wanted = da.concatenate(blocks, axis=axis), stack([one, other])
        equal(found, wanted)
        assert found.dtype == found.compute().dtype == wanted.dtype


def test_arithmetic(A):
    equal(2 * A - A / 3, 2 * dense - dense / 3)
    equal(A * A, dense * dense)
    equal(abs(-A), abs(dense))
    equal(A * A.sum(axis=1, keepdims=True), dense * dense.sum(axis=1, keepdims=True))
    equal(da.sqrt(A), np.sqrt(dense))
    equal(A.astype(np.float32), dense.astype(np.float32))


def test_concatenate_and_map_blocks(A):
    twice = da.concatenate([A, A])
    assert isinstance(twice._meta, asp.dask.csr_block)
    equal(twice @ x, np.concatenate([m @ x, m @ x]))
    equal(da.concatenate([A, A], axis=1), np.hstack([dense, dense]))
    equal(A.map_blocks(lambda one: asp.dask.block(one.multiply(3).tocoo())) @ x, 3 * (m @ x))


def test_empty_arrays_that_are_cut_in_different_ways_are_joined():
    """Dask makes dense blocks where it changes the chunks of an array without rows."""
    empty = sps.csr_array((0, 5))
    A, B = (asp.dask.from_csr(empty, chunks=((0,), columns)) for columns in ((5,), (2, 3)))
    assert da.concatenate([A, B]).compute().shape == (0, 5)


def test_persisted_power_iteration():
    square = sps.random_array((200, 200), density=0.1, random_state=np.random.default_rng(5), format="csr")
    A = asp.dask.from_csr(square, n_blocks=4).persist()
    v, w = da.ones(200, chunks=(A.chunks[0],)), np.ones(200)
    for _ in range(5):
        v, w = A @ v, square @ w
        v, w = (v / da.sqrt((v * v).sum())).persist(), w / np.linalg.norm(w)
    equal(v, w)


def test_sampled_and_contracted_blocks(A):
    X, Y = np.random.default_rng(6).standard_normal((2, 300, 5))
    Y = Y[:200].T
    equal(asp.dask.sddmm(A, X, Y), m.multiply(X @ Y))
    equal(asp.dask.einsum("ij,ij->ij", A, A), m * m)
    equal(asp.dask.einsum("ij,jk->ik", A.rechunk((70, -1)), B), m @ B)


@pytest.mark.parametrize("name", ["min_plus", "max_plus", "max_times", "or_and"])
def test_semirings_of_blocks_are_those_of_the_whole(A, name):
    X, positive = np.abs(B), abs(m)
    P = abs(A).rechunk((70, -1))
    for text, own, same in (("ij,jk->ik", (P, X), (positive, X)), ("ij,ij->ij", (P, P), (positive, positive))):
        wanted = asp.einsum(text, *same, semiring=name)
        lazy = asp.dask.einsum(text, *own, semiring=name)
        assert lazy.dtype == wanted.dtype
        for found in (lazy.compute(), asp.einsum(text, *own, semiring=name)):
            equal(found, wanted)
    with pytest.raises(EinsumError, match="unknown semiring"):
        asp.dask.einsum("ij,jk->ik", P, X, semiring="plus_min")


def test_einsum_of_dask_arrays_is_that_of_their_values(A):
    X = da.from_array(B, chunks=50)
    equal(asp.einsum("ij,jk->ik", A, X), m @ B)
    equal(asp.einsum("ij,jk + ik -> ik", m, X, m @ B), 2 * (m @ B))
    equal(asp.einsum("ij,jk->ik", A, X, dtype="float64"), m @ B)


def test_operations_that_need_communication_are_refused_with_a_hint():
    A = asp.dask.from_csr(m, n_blocks=4)
    with pytest.raises(EinsumError, match="rechunk"):
        asp.dask.einsum("ij,ik->jk", A, np.ones((300, 2)))
    with pytest.raises(ShapeError):
        asp.dask.sddmm(A, np.ones((300, 5)), np.ones((4, 200)))
    with pytest.raises(InputTypeError, match="from_csr"):
        asp.dask.sddmm(m, np.ones((300, 5)), np.ones((5, 200)))


def test_chunks_that_do_not_fit_are_refused():
    for chunks in ((100, 100), (400,), "equal"):
        with pytest.raises(InputError):
            asp.dask.from_csr(m, chunks)
    with pytest.raises(InputError, match="chunks say"):
        asp.dask.from_blocks(lambda i, j: m, ((300, 300), (100,)), dtype=float).compute()


def test_balanced_chunks_hold_as_many_entries():
    skewed = sps.csr_array(np.tril(np.ones((400, 400))))
    chunks = asp.dask.balanced_chunks(skewed.indptr, 8)
    assert sum(chunks) == 400
    assert len(chunks) == 8
    entries = np.diff(skewed.indptr[np.concatenate(([0], np.cumsum(chunks)))])
    assert entries.max() <= skewed.nnz / 8 + 400
    assert asp.dask.balanced_chunks(np.zeros(5, int), 3) == (4,)
    assert asp.dask.balanced_chunks(np.zeros(1, int), 3) == (0,)


def test_blocks_made_where_they_are_computed():
    made = asp.dask.from_blocks(lambda i, j: m[100 * i : 100 * i + 100], ((100, 100, 100), (200,)), dtype=m.dtype)
    equal(made @ x, m @ x)


def test_a_pickle_keeps_hashes_and_plans(tmp_path):
    with asp.options(cache_dir=tmp_path / "here"):
        here = asp.dask.block(asp.csr(m, copy=True))
        assert not here.tune("matmul", columns=8, effort="measure", budget_s=1e6).remembered
        text = pickle.dumps(here, protocol=5)
        assert not pickle.loads(pickle.dumps(asp.dask.block(m)))._cell.known_hashes
    with asp.options(cache_dir=tmp_path / "there"):
        there = pickle.loads(text)
        assert there._cell.known_hashes == here._cell.known_hashes
        assert there.tune("matmul", columns=8, effort="measure", budget_s=1e6).remembered
    equal(there, m)
    there.indices[:2] = there.indices[1::-1]  # the write must be noticed although the pickled hashes were accepted
    equal(there @ B, sps.csr_array((there.data, there.indices, there.indptr), shape=m.shape) @ B)
    equal(copy.deepcopy(there.T) @ y, there.T @ y)


def test_blocks_do_not_keep_the_matrix():
    A = asp.dask.from_csr(m, n_blocks=4)
    one = A.blocks[1].compute()
    assert one.nbytes < asp.csr(m).data.nbytes
    assert one.data.base is None
