"""Tests of `data`, `indices` and `indptr`: attributes whose reads and assignments the operand records.

Each test runs with Python properties and with the descriptors of the extension module.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

import autosparse
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.arrays.plain import NAMES, watched
from autosparse.operands.csr import Operand

N = 12
KINDS = ("python", "runtime")


@pytest.fixture(params=KINDS, autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Choose how attributes are watched: by properties, or by the descriptors of the runtime where it has them."""
    is_native = not isinstance(vars(AutoSparseMatrix)["data"], property)
    if request.param == "runtime" and not is_native:
        pytest.skip("no descriptors here: the extension module was not built")
    if request.param == "python":
        for field, name in enumerate(NAMES):
            monkeypatch.setattr(AutoSparseMatrix, name, watched(field))
    return str(request.param)


def plain(fmt: str = "csr", seed: int = 0) -> Any:
    m = sps.random(N, N, 0.4, format=fmt, random_state=np.random.RandomState(seed))
    return getattr(sps, f"{fmt}_array")(m)


def ours(fmt: str = "csr") -> Any:
    return getattr(autosparse, fmt)(plain(fmt).copy())


def test_compiled_descriptors_are_available() -> None:
    assert python_objects.make_field is not None, "on CPython with a GIL and the C runtime there is a fast way"


def nothing(A: Any) -> None:
    """Do nothing: a step that leaves every array unread."""


def multiplied(A: Any) -> None:
    A @ np.ones(N)


def looked_at(A: Any) -> None:
    A._cell.refresh()


def exported(A: Any) -> None:
    assert A.data is A.data
    assert A.indices is A.indices
    assert A.indptr is A.indptr


def transposed(A: Any) -> None:
    A.T @ np.ones(N)


BEFORE = (nothing, multiplied, looked_at, exported, transposed)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize(
    "before", [*itertools.permutations(BEFORE, 2)], ids=lambda steps: "-".join(f.__name__ for f in steps)
)
def test_an_array_put_in_place_is_seen_by_the_next_product(before: Any, fmt: str) -> None:
    A, m, x = ours(fmt), plain(fmt), np.linspace(1, 2, N)
    other = plain(fmt, seed=1)
    for step in before:
        step(A)
    for name in ("data", "indices", "indptr"):
        setattr(A, name, getattr(other, name).copy())
    np.testing.assert_allclose(A @ x, other @ x)
    np.testing.assert_allclose(A.T @ x, other.T @ x)
    A.data = m.data[: other.nnz].copy() if m.nnz >= other.nnz else np.resize(m.data, other.nnz)
    other.data = A.data.copy()
    np.testing.assert_allclose(A @ x, other @ x)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("before", BEFORE)
def test_handing_out_is_noted_whoever_looked_before(before: Any, fmt: str) -> None:
    A = ours(fmt)
    before(A)
    operand = A._cell
    operand.refresh()
    versions = operand.values_version, operand.structure_version
    for _ in range(2):  # the second time the operand may have recorded it already
        A.data[0] += 1
    operand.refresh()
    assert operand.values_version > versions[0]
    assert operand.structure_version == versions[1]
    A.indices[:2] = A.indices[:2][::-1].copy()
    operand.refresh()
    assert operand.structure_version > versions[1]


def test_an_array_put_into_one_of_two_transposes_is_only_its_own() -> None:
    A, x = ours(), np.ones(N)
    B = A.T
    A.data = A.data * 2
    np.testing.assert_allclose(A @ x, 2 * (plain() @ x))
    np.testing.assert_allclose(B @ x, plain().T @ x)


@pytest.mark.parametrize("name", NAMES)
def test_misused_descriptors_raise_and_do_not_crash(name: str) -> None:
    A = ours()
    with pytest.raises(AttributeError):
        delattr(A, name)
    with pytest.raises(AttributeError):
        getattr(object.__new__(autosparse.csr_array), name)
    descriptor = vars(AutoSparseMatrix)[name]
    assert "next product" in descriptor.__doc__
    if not isinstance(descriptor, property):
        with pytest.raises(TypeError):
            descriptor.__get__(object(), object)
        with pytest.raises(TypeError):
            descriptor.__set__(object(), 3)
    assert getattr(A, name) is not None
    setattr(A, name, None)
    assert getattr(A, name) is None


def test_an_object_without_an_operand_takes_arrays() -> None:
    A, m = object.__new__(autosparse.csr_array), plain()
    A.data, A.indices, A.indptr = m.data, m.indices, m.indptr
    assert A.data is m.data
    assert isinstance(A._cell, Operand)


def test_constructor_arrays_are_returned_by_the_attributes() -> None:
    m = plain()
    A = autosparse.csr_array((m.data, m.indices, m.indptr), shape=m.shape)
    assert (A.data is m.data, A.indices is m.indices, A.indptr is m.indptr) == (True, True, True)
    A.__init__(A)
    np.testing.assert_array_equal(A.toarray(), m.toarray())


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("name", ["array", "matrix"])
def test_csr_of_a_compressed_matrix_shares_its_arrays(fmt: str, name: str) -> None:
    m = getattr(sps, f"{fmt}_{name}")(plain(fmt))
    A = getattr(autosparse, fmt)(m, copy=False)
    expected = getattr(sps, f"{fmt}_{name}")(m)
    assert type(A) is getattr(autosparse, f"{fmt}_{name}")
    assert all(getattr(A, field) is getattr(m, field) for field in NAMES)
    assert A.shape == m.shape
    assert {key: type(value) for key, value in vars(A).items()} == {key: type(v) for key, v in vars(expected).items()}
    m.data[0] = 7
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))


def longer(m: Any) -> None:
    m.data, m.indices = np.append(m.data, 1.0), np.append(m.indices, 0).astype(m.indices.dtype)


SPOILT = {
    "room behind the last entry": longer,
    "indptr too short": lambda m: setattr(m, "indptr", m.indptr[:-1]),
    "first pointer": lambda m: m.indptr.__setitem__(0, 1),
    "data too short": lambda m: setattr(m, "data", m.data[:-1]),
    "data of two dimensions": lambda m: setattr(m, "data", m.data[:, None]),
    "other index types": lambda m: setattr(m, "indptr", m.indptr.astype(np.int64)),
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_csr_of_an_odd_compressed_matrix_is_what_the_constructor_says(spoil: str) -> None:
    m = plain()
    SPOILT[spoil](m)
    results = []
    for make in (autosparse.csr, autosparse.csr_array):
        try:
            A = make(m)
            results.append((A.toarray().tolist(), A.indices.dtype, A.indices.size, A.data.size))
        except ValueError as err:
            results.append(str(err).split("\n", 1)[0])
    assert results[0] == results[1]


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda A: pickle.loads(pickle.dumps(A))])
@pytest.mark.parametrize("name", ["csr_array", "csc_matrix"])
def test_copies_are_what_scipy_copies(clone: Any, name: str) -> None:
    m = getattr(sps, name)(plain())
    A = getattr(autosparse, name)(m)
    A.note = m.note = ["kept"]
    twin, theirs = clone(A), clone(m)
    assert type(twin) is type(A)
    assert (twin.data is A.data) == (theirs.data is m.data)
    assert (twin.note is A.note) == (theirs.note is m.note)
    assert vars(twin).keys() == vars(theirs).keys()
    twin.data = twin.data * 2
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))
    np.testing.assert_allclose(twin @ np.ones(N), 2 * (m @ np.ones(N)))


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_prune_is_scipys(fmt: str) -> None:
    A, m = ours(fmt), plain(fmt)
    before = A.data
    A.prune()
    assert A.data is before, "nothing to cut"
    for one in (A, m):
        longer(one)
        one.prune()
    assert A.data.size == m.data.size == m.nnz
    assert A.indices.size == m.nnz
    for one in (A, m):
        one.indices = one.indices[:-1]
    for one in (A, m):
        with pytest.raises(ValueError, match="indices array has fewer than nnz"):
            one.prune()


def test_values_are_freed_last() -> None:
    if python_objects.make_field is None:
        pytest.skip("no descriptors here: the extension module was not built")
    freed: list[str] = []
    A = ours("csr").copy()
    for name in NAMES:
        weakref.finalize(getattr(A, name), freed.append, name)
    del A
    assert freed == ["indices", "indptr", "data"]


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_an_array_that_is_assigned_to_itself_changes_nothing(fmt: str) -> None:
    A, m = ours(fmt).copy(), plain(fmt)
    T, x = A.T, np.ones(N)
    for name in NAMES:
        getattr(A, name)
        setattr(A, name, getattr(A, name))
    for one in (A, m):
        one *= 2.0
        one.data *= 2.0
    np.testing.assert_allclose(A @ x, m @ x)
    np.testing.assert_allclose(T @ x, m.T @ x)
    A *= 3.0
    np.testing.assert_allclose(A @ x, 3.0 * (m @ x))
    np.testing.assert_allclose(T @ x, 3.0 * (m.T @ x))
