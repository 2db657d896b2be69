"""Tests that SciPy accepts the four matrix classes as its own: shapes, pickles, copies, metadata, results."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse import csgraph

import autosparse
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.operands.csr import Operand

CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")


def make(name: str, shape: tuple[int, int] = (6, 6), seed: int = 0) -> tuple[Any, Any]:
    m = sps.random(*shape, 0.4, format="csr", random_state=np.random.RandomState(seed))
    return getattr(autosparse, name)(m.copy()), getattr(sps, name)(m.copy())


# operation -> (function, whether the result stays in the family)
STAYS = {
    "A + A": lambda A: A + A,
    "A - A": lambda A: A - A,
    "A @ A": lambda A: A @ A,
    "A.T": lambda A: A.T,
    "A.T.T": lambda A: A.T.T,
    "abs": abs,
    "-A": lambda A: -A,
    "A / 2": lambda A: A / 2,
    "A * 2": lambda A: A * 2,
    "A > 0.5": lambda A: A > 0.5,
    "astype": lambda A: A.astype("f4"),
    "rows": lambda A: A[1:4],
    "columns": lambda A: A[:, [0, 2]],
    "sqrt": lambda A: A.sqrt(),
    "np.sin": np.sin,
    "power": lambda A: A.power(2),
    "maximum": lambda A: A.maximum(A.T.asformat(A.format)),
    "conj": lambda A: A.conj(),
    "conj of complex": lambda A: (A * 1j).conj(),
    "real": lambda A: A.real,
    "copy": lambda A: A.copy(),
    "tocsr": lambda A: A.tocsr(),
    "tocsc": lambda A: A.tocsc(),
    "asformat": lambda A: A.asformat("csr"),
    "sorted_indices": lambda A: A.sorted_indices(),
    "multiply": lambda A: A.multiply(A),
    "by coordinates to rows": lambda A: A.tocoo().tocsr(),
    "by coordinates to columns": lambda A: A.tocoo().copy().tocsc(),
    "asformat of coordinates": lambda A: A.asformat("coo").T.astype("f4").asformat("csr"),
    "sum of coordinates": lambda A: A.tocoo() + A.tocoo(),
    "csgraph's Laplacian": lambda A: csgraph.laplacian(A.maximum(A.T.asformat(A.format))).tocsr(),
}
LEAVES = {
    "hstack": lambda A: sps.hstack([A, A]),
}
OTHER_FORMATS = {
    "tolil": lambda A: A.tolil(),
    "todia": lambda A: A.todia(),
    "todok": lambda A: A.todok(),
    "tobsr": lambda A: A.tobsr(),
    "pickled coordinates": lambda A: pickle.loads(pickle.dumps(A.tocoo(), protocol=5)),
    "deep copy of coordinates": lambda A: copy.deepcopy(A.tocoo()),
    "tocoo": lambda A: A.tocoo(),
    "copy": lambda A: A.tocoo().copy(),
    "transpose": lambda A: A.tocoo().T,
    "reshape": lambda A: A.reshape(4, 9),
}
OURS = {"base", "explain", "owns_arrays", "to_scipy", "tune"}
"""Public names that the classes of autosparse add to SciPy's."""
SAME_IN_BOTH = {
    "repr": repr,
    "str": str,
    "shape": lambda A: A.shape,
    "dtype": lambda A: A.dtype,
    "nnz": lambda A: A.nnz,
    "size": lambda A: A.size,
    "ndim": lambda A: A.ndim,
    "format": lambda A: A.format,
    "getnnz per row": lambda A: A.count_nonzero(),
    "issparse": sps.issparse,
    "isspmatrix": sps.isspmatrix,
    "isspmatrix_csr": sps.isspmatrix_csr,
    "isspmatrix_csc": sps.isspmatrix_csc,
    "is an array": lambda A: isinstance(A, sps.sparray),
    "class name": lambda A: type(A).__name__,
    "trace": lambda A: A.trace(),
    "sum": lambda A: np.asarray(A.sum(axis=0)).tolist(),
    "max": lambda A: A.max(),
    "diagonal": lambda A: A.diagonal().tolist(),
    "attributes": lambda A: sorted(A.__dict__),
    "flags": lambda A: (A.has_sorted_indices, A.has_canonical_format),
    "flags after a product": lambda A: (A @ np.ones(6), A.has_sorted_indices, A.has_canonical_format)[1:],
    "public names": lambda A: {n for n in dir(A) if not n.startswith("_")} - OURS,
}


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("operation", STAYS)
def test_operations_that_stay_in_the_family(name: str, operation: str) -> None:
    ours, theirs = (STAYS[operation](A) for A in make(name))
    assert type(ours) is getattr(autosparse, type(theirs).__name__)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray())
    assert ours.indices.dtype == theirs.indices.dtype
    x = np.ones(ours.shape[1], ours.dtype)
    np.testing.assert_allclose(ours @ x, theirs @ x, atol=1e-14)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("operation", LEAVES)
def test_operations_that_leave_it_give_scipys_class(name: str, operation: str) -> None:
    ours, theirs = (LEAVES[operation](A) for A in make(name))
    assert type(ours) is type(theirs)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray())


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("operation", OTHER_FORMATS)
def test_results_of_other_formats_are_scipys_except_for_their_conversions(name: str, operation: str) -> None:
    ours, theirs = (OTHER_FORMATS[operation](A) for A in make(name))
    assert isinstance(ours, type(theirs))
    assert type(ours) is getattr(autosparse, type(theirs).__name__)
    assert type(ours.tocsr()) is getattr(autosparse, type(theirs.tocsr()).__name__)
    assert vars(ours).keys() == vars(theirs).keys()
    assert repr(ours) == repr(theirs)
    assert type(ours).__name__ == type(theirs).__name__
    np.testing.assert_array_equal(ours.toarray(), theirs.toarray())
    if ours.format == "coo":
        np.testing.assert_array_equal(ours.row, theirs.row)
    np.testing.assert_array_equal(ours @ np.ones(ours.shape[1]), theirs @ np.ones(ours.shape[1]))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("question", SAME_IN_BOTH)
def test_scipy_and_ours_answer_alike(name: str, question: str) -> None:
    ours, theirs = (SAME_IN_BOTH[question](A) for A in make(name))
    assert ours == theirs


@pytest.mark.parametrize("name", CLASSES)
def test_truth_length_and_hash_are_refused_as_in_scipy(name: str) -> None:
    ours, theirs = make(name)
    for ask in (bool, len, hash):
        with pytest.raises((TypeError, ValueError)) as expected:
            ask(theirs)
        with pytest.raises(expected.type) as got:
            ask(ours)
        assert str(got.value) == str(expected.value)


@pytest.mark.parametrize("name", CLASSES)
def test_the_transpose_shares_arrays_and_operand(name: str) -> None:
    ours, theirs = make(name, (5, 7))
    T = ours.T
    assert T._cell is ours._cell
    assert T.T._cell is ours._cell
    assert np.shares_memory(T.data, ours.data)
    assert vars(T).keys() == vars(theirs.T).keys()
    np.testing.assert_allclose(T.toarray(), theirs.T.toarray())
    assert not np.shares_memory(ours.transpose(copy=True).data, ours.data)
    with pytest.raises(ValueError, match="do not support an 'axes' parameter"):
        ours.transpose(axes=(0, 1))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_transpose_has_scipys_index_dtype(name: str, index: type) -> None:
    for A in (ours_theirs := make(name)):
        A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    ours, theirs = ours_theirs
    assert ours.T.indices.dtype == theirs.T.indices.dtype
    assert np.shares_memory(ours.T.indices, ours.indices) == np.shares_memory(theirs.T.indices, theirs.indices)


@pytest.mark.parametrize("name", CLASSES)
def test_new_arrays_for_one_of_two_transposes_leave_the_other_alone(name: str) -> None:
    ours, theirs = make(name)
    for A in (ours, theirs):
        T = A.T
        T.data = np.arange(1.0, T.nnz + 1)
        A.kept = T.toarray()
    np.testing.assert_allclose(ours.kept, theirs.kept)
    np.testing.assert_allclose(ours @ np.ones(6), theirs @ np.ones(6))
    T = ours.T
    del T
    identity = id(ours._cell)
    ours.data = ours.data * 2
    assert id(ours._cell) == identity, "nobody shares the operand any more: what is known about it stays"


@pytest.mark.parametrize("name", CLASSES)
def test_resizing_one_of_two_transposes_leaves_the_shape_of_the_other_alone(name: str) -> None:
    ours, theirs = make(name, (5, 7))
    results = []
    for A in (ours, theirs):
        T = A.T
        A.resize(5, 9)
        results.append((A @ np.ones(9), T @ np.ones(5), A.shape, T.shape))
        A.resize(3, 4)
        results[-1] += (A @ np.ones(4), A.shape)
    for mine, expected in zip(*results, strict=True):
        np.testing.assert_allclose(mine, expected)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("failure", ["read-only", "no memory", "interrupted"])
def test_a_resize_that_fails_leaves_the_matrix_as_it_was(
    name: str, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, m = make(name, (40, 30))
    smaller, x = (25, 20), np.arange(30.0)
    error = {"read-only": ValueError, "no memory": MemoryError, "interrupted": KeyboardInterrupt}[failure]
    wanted = m @ x

    def fail(*args: object, **kwargs: object) -> None:
        raise error

    np.testing.assert_allclose(A @ x, wanted)
    arrays = A.indptr, A.indices, A.data
    if failure == "read-only":
        A.indptr.flags.writeable = False  # SciPy has cut the indices and values when it writes to the row starts
    else:
        monkeypatch.setattr(np, "cumsum", fail)  # the row starts are zero by then
    with pytest.raises(error):
        A.resize(*smaller)
    monkeypatch.undo()
    assert A.shape == (40, 30)
    assert all(now is before for now, before in zip((A.indptr, A.indices, A.data), arrays, strict=True))
    np.testing.assert_array_equal(A.toarray(), m.toarray())
    np.testing.assert_allclose(A @ x, wanted)
    np.testing.assert_array_equal((A + A).toarray(), (m + m).toarray())


@pytest.mark.parametrize("name", ["csr_matrix", "csc_matrix"])
def test_setting_the_shape_of_a_matrix(name: str) -> None:
    ours, theirs = make(name, (4, 6))
    for A in (ours, theirs):
        A @ np.ones(6)
        A.shape = (8, 3)
    assert type(ours) is getattr(autosparse, name)
    assert vars(ours).keys() == vars(theirs).keys()
    np.testing.assert_allclose(ours @ np.ones(3), theirs @ np.ones(3))
    ours.set_shape((8, 3))
    assert ours.get_shape() == (8, 3)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_carry_the_matrix_and_nothing_else(name: str, protocol: int) -> None:
    ours, theirs = make(name, (50, 60))
    plain = len(pickle.dumps(theirs, protocol))
    product = ours @ np.ones(60)
    ours._cell.dispatcher = object  # an object that a pickle must not contain
    text = pickle.dumps(ours, protocol)
    assert len(text) < plain + 50
    back = pickle.loads(text)
    assert type(back) is type(ours)
    assert back._cell.dispatcher is None
    np.testing.assert_array_equal(back @ np.ones(60), product)


def test_a_pickle_loads_in_a_fresh_process() -> None:
    text = pickle.dumps(make("csc_matrix")[0])
    program = "import pickle, sys; print(type(pickle.load(sys.stdin.buffer)))"
    run = subprocess.run([sys.executable, "-c", program], input=text, capture_output=True, check=True)
    assert run.stdout.decode().strip() == "<class 'autosparse.csc_matrix'>"


@pytest.mark.parametrize("name", CLASSES)
def test_copies_share_what_scipys_copies_share(name: str) -> None:
    for how in (copy.copy, copy.deepcopy, lambda A: A.copy(), lambda A: type(A)(A), lambda A: type(A)(A, copy=True)):
        shared = []
        for A in make(name):
            B = how(A)
            shared.append(np.shares_memory(A.data, B.data))
            assert type(B) is type(A)
            B.data[0] += 1
            np.testing.assert_allclose(B @ np.ones(6), B.toarray() @ np.ones(6))
        assert shared[0] == shared[1]
    ours = make(name)[0]
    ours._cell.dispatcher = object()
    assert all(how(ours)._cell.dispatcher is None for how in (copy.copy, copy.deepcopy, lambda A: A.copy()))


@pytest.mark.parametrize("name", CLASSES)
def test_reading_metadata_hands_nothing_out(name: str) -> None:
    ours, _ = make(name)
    ours @ np.ones(6)
    rows = ours._cell.rows
    _ = ours.dtype, ours.nnz, ours.shape, ours.size, ours.ndim, ours.format, repr(ours), ours.T, ours.T.T.nnz
    assert ours._cell.rows is rows
    _ = ours.data
    assert ours._cell.rows is None


@pytest.mark.parametrize("name", CLASSES)
def test_base_is_plain_scipy_over_the_same_memory(name: str) -> None:
    ours, theirs = make(name)
    for plain in (ours.base, ours.to_scipy()):
        assert type(plain) is type(theirs)
        assert np.shares_memory(plain.data, ours.data)
        plain.data[:] = 1
    np.testing.assert_allclose(ours @ np.ones(6), ours.toarray().sum(axis=1))


@pytest.mark.parametrize("name", CLASSES)
def test_values_seen_through_another_dtype(name: str) -> None:
    ours, theirs = make(name)
    for A in (ours, theirs):
        A.data = A.data.astype("f4")
        A.dtype = np.int32
    assert ours.dtype == theirs.dtype == np.int32
    np.testing.assert_array_equal(ours @ np.ones(6, np.int32), theirs @ np.ones(6, np.int32))


@pytest.mark.parametrize("name", CLASSES)
def test_saved_files_are_scipys(name: str, tmp_path: Any) -> None:
    ours, theirs = make(name)
    files = []
    for A in (ours, theirs):
        file = io.BytesIO()
        sps.save_npz(file, A)
        file.seek(0)
        files.append(sps.load_npz(file))
    assert type(files[0]) is type(files[1])
    assert (files[0] != files[1]).nnz == 0


def test_operands_of_garbage_go_away() -> None:
    import gc
    import weakref

    A = make("csr_array")[0]
    A @ np.ones(6)
    reference = weakref.ref(A._cell)
    assert isinstance(reference(), Operand)
    del A
    gc.collect()
    assert reference() is None


def test_signatures_are_documented() -> None:
    for name in CLASSES:
        cls = getattr(autosparse, name)
        assert cls.__module__ == "autosparse"
        assert cls.__doc__ == getattr(sps, name).__doc__
        parameters = inspect.signature(cls.__init__).parameters
        assert list(parameters)[:5] == ["self", "arg1", "shape", "dtype", "copy"]


def test_an_interrupt_behind_scipys_resize_leaves_the_matrix_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    A = autosparse.csr(sps.random_array((30, 20), density=0.2, format="csr", random_state=np.random.default_rng(0)))
    expected, finish = A.toarray(), AutoSparseMatrix._finish

    def interrupted(made: AutoSparseMatrix) -> None:
        monkeypatch.setattr(AutoSparseMatrix, "_finish", finish)
        raise KeyboardInterrupt

    monkeypatch.setattr(AutoSparseMatrix, "_finish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        A.resize(40, 10)
    assert A.shape == (30, 20)
    np.testing.assert_array_equal(A.toarray(), expected)
    np.testing.assert_allclose(A @ np.ones(20), expected.sum(axis=1))
