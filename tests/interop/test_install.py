"""Tests of `install`: calls of SciPy and scikit-learn return our matrices while it is active, and not afterwards."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse import csgraph

import autosparse as asp
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.interop.installing import PATCHED

TEXTS = ["a sparse matrix", "is a matrix", "with few entries", "and many zeros"]
PLAIN = sps.random_array((12, 12), density=0.3, random_state=np.random.default_rng(0), format="csr")
LINES = np.random.default_rng(1).random((12, 3))


def tf_idf() -> Any:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    return text.TfidfVectorizer().fit_transform(TEXTS)


def union() -> Any:
    pipeline, text = (pytest.importorskip(f"sklearn.{one}") for one in ("pipeline", "feature_extraction.text"))
    return pipeline.FeatureUnion([("a", text.CountVectorizer()), ("b", text.TfidfVectorizer())]).fit_transform(TEXTS)


def columns() -> Any:
    compose, preprocessing = (pytest.importorskip(f"sklearn.{one}") for one in ("compose", "preprocessing"))
    made = compose.ColumnTransformer([("a", preprocessing.OneHotEncoder(), [0])], sparse_threshold=1.0)
    return made.fit_transform(np.array([[1], [2], [1], [3]]))


def polynomials() -> Any:
    return pytest.importorskip("sklearn.preprocessing").PolynomialFeatures(2).fit_transform(asp.csr(PLAIN))


def neighbours() -> Any:
    return pytest.importorskip("sklearn.neighbors").kneighbors_graph(LINES, 3)


def saved() -> Any:
    file = io.BytesIO()
    sps.save_npz(file, PLAIN)
    file.seek(0)
    return sps.load_npz(file)


EVERYDAY: dict[str, Callable[[], Any]] = {
    "TfidfVectorizer": tf_idf,
    "FeatureUnion": union,
    "ColumnTransformer": columns,
    "PolynomialFeatures": polynomials,
    "kneighbors_graph": neighbours,
    "load_npz": saved,
    "plain + A": lambda: PLAIN + asp.csr(PLAIN),
    "plain - A of other formats": lambda: PLAIN.tocoo() - asp.csr(PLAIN),
    "eye - A": lambda: sps.eye_array(12) - asp.csr(PLAIN),
    "diags @ A": lambda: sps.diags_array(np.ones(12)) @ asp.csr(PLAIN),
    "A @ plain": lambda: asp.csr(PLAIN) @ PLAIN,
    "plain @ A": lambda: PLAIN @ asp.csr(PLAIN),
    "vstack": lambda: sps.vstack([PLAIN, PLAIN]),
    "hstack": lambda: sps.hstack([PLAIN.tocsc(), PLAIN.tocsc()], format="csc"),
    "block_array": lambda: sps.block_array([[PLAIN, None], [None, PLAIN]], format="csr"),
    "kron": lambda: sps.kron(PLAIN, sps.eye_array(2), format="csr"),
    "lil and back": lambda: asp.csr(PLAIN).tolil().tocsr(),
    "dok and back": lambda: asp.csr(PLAIN).todok().tocsc(),
    "random_array": lambda: sps.random_array((5, 5), density=0.5, format="csr"),
    "minimum_spanning_tree": lambda: csgraph.minimum_spanning_tree(sps.csr_array(PLAIN.toarray())),
    "tril": lambda: sps.tril(PLAIN, format="csr"),
    "the constructor": lambda: sps.csr_array(np.eye(3)),
    "an array for a matrix": lambda: sps.csr_matrix(PLAIN),
    "copy": lambda: PLAIN.copy(),
    "a slice": lambda: PLAIN[2:5],
    "coo to csr": lambda: PLAIN.tocoo().tocsr(),
}


@pytest.fixture
def installed() -> Iterator[None]:
    with asp.install():
        yield


@pytest.mark.parametrize("name", EVERYDAY)
def test_everyday_calls_return_ours_and_the_same_numbers(name: str, installed: None) -> None:
    found = EVERYDAY[name]()
    assert isinstance(found, AutoSparseMatrix), type(found)
    asp.uninstall()
    wanted = EVERYDAY[name]()
    if name != "random_array":
        np.testing.assert_allclose(found.toarray(), wanted.toarray(), rtol=1e-14)
    assert found.shape == wanted.shape
    assert found.format == wanted.format


@pytest.mark.parametrize("plain", PATCHED, ids=lambda kind: kind.__name__)
def test_constructors_share_memory_as_scipys_do(plain: type, installed: None) -> None:
    data, indices, indptr = np.array([1.0, 2.0]), np.array([0, 1], np.int32), np.array([0, 1, 2], np.int32)
    A: Any = plain((data, indices, indptr), shape=(2, 2))
    assert A.data is data
    assert A.indices is indices
    assert A.indptr is indptr
    assert np.shares_memory(plain(A).data, data)
    assert not np.shares_memory(plain(A, copy=True).data, data)


def test_afterwards_everything_is_scipys_again() -> None:
    before = {kind: type(kind) for kind in PATCHED}
    with asp.install():
        assert type(sps.csr_array((2, 2))) is asp.csr_array
    assert {kind: type(kind) for kind in PATCHED} == before
    for kind in PATCHED:
        assert type(kind((2, 2))) is kind
        assert type(kind(PLAIN).tocsr().T.tocsc()).__module__.startswith("scipy.sparse")


def test_blocks_and_calls_nest() -> None:
    with asp.install():
        with asp.install():
            pass
        assert type(sps.csr_array((2, 2))) is asp.csr_array
        asp.install()
    assert type(sps.csr_array((2, 2))) is asp.csr_array
    asp.uninstall()
    assert type(sps.csr_array((2, 2))) is sps.csr_array
    asp.uninstall()


def test_a_block_ends_where_an_exception_leaves_it() -> None:
    with pytest.raises(ZeroDivisionError), asp.install():
        _ = 1 // 0
    assert type(sps.csr_array((2, 2))) is sps.csr_array


def test_iterations_yield_rows(installed: None) -> None:
    assert [row.shape for row in sps.csr_array(PLAIN)] == [row.shape for row in PLAIN]


def test_plain_objects_and_subclasses_keep_their_classes(installed: None) -> None:
    class Own(sps.csr_array):
        pass

    assert type(Own(np.eye(2))) is Own
    assert type(pickle.loads(pickle.dumps(PLAIN))) is sps.csr_array
    assert type(asp.csr(PLAIN).base) is sps.csr_array
    assert isinstance(PLAIN, sps.csr_array)
    assert isinstance(sps.csr_array((2, 2)), sps.csr_array)


@pytest.mark.parametrize("name", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_operators_with_a_plain_left_operand_are_ours_without_install(name: str) -> None:
    plain, ours = getattr(sps, name)(PLAIN), getattr(asp, name)(PLAIN)
    for operate in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a @ b):
        found, wanted = operate(plain, ours), operate(plain, plain)
        assert type(found) is type(ours)
        np.testing.assert_array_equal(found.toarray(), wanted.toarray())


WITHOUT_METACLASS = """
import copy, pickle, numpy as np, scipy.sparse as sps, autosparse as asp
from autosparse.interop import installing
plain = sps.csr_array(np.eye(3))
installing.redirect(metaclass=type)  # Python refuses it, as it refuses every metaclass where SciPy has none
A = sps.csr_array(np.eye(3), dtype=np.float32)
assert type(A) is asp.csr_array and A.dtype == np.float32 and type(sps.eye_array(3).tocsc()) is asp.csc_array
assert type(asp.csr_matrix(A)) is asp.csr_matrix and type(A.base) is sps.csr_array
assert {type(pickle.loads(pickle.dumps(plain))), type(copy.deepcopy(plain))} == {sps.csr_array}
installing.restore()
assert type(sps.csr_array(np.eye(3), dtype=np.float32)) is sps.csr_array and type(asp.csr_array(A)) is asp.csr_array
"""


def test_where_scipy_has_no_metaclass_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_METACLASS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
