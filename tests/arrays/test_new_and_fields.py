"""Tests of matrices made without SciPy's constructor, and of ``vars(A)``, which writes to the matrix."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from scipy.sparse._data import _data_matrix

import autosparse as asp
from tests.scipy_versions import VERSION

CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
PLAIN = sps.random_array((10, 8), density=0.3, random_state=np.random.default_rng(0), format="csr")

USES: dict[str, Callable[[Any], Any]] = {
    "A @ x": lambda A: A @ np.ones(8),
    "A @ X": lambda A: A @ np.ones((8, 3)),
    "A.T @ y": lambda A: A.T @ np.ones(10),
    "y @ A": lambda A: np.ones(10) @ A,
    "A.T @ A": lambda A: (A.T @ A).toarray(),
    "tocsc": lambda A: A.tocsc().toarray(),
    "tocsr": lambda A: A.tocsr().toarray(),
    "toarray": lambda A: A.toarray(),
    "sum": lambda A: np.asarray(A.sum(axis=0)),
}


def by_new(library: Any, name: str) -> Any:
    kind, m = getattr(library, name), getattr(sps, name)(PLAIN)
    A = kind.__new__(kind)
    _data_matrix.__init__(A, *([(0,)] if VERSION >= (1, 14) else []))
    A.data, A.indices, A.indptr = m.data, m.indices, m.indptr
    A._shape = (10, 8)
    return A


def by_subclass(library: Any, name: str) -> Any:
    class Fast(getattr(library, name)):  # type: ignore[misc]
        def __init__(self, data: Any, indices: Any, indptr: Any, shape: Any) -> None:
            self.data, self.indices, self.indptr, self._shape, self.maxprint = data, indices, indptr, shape, 50

    m = getattr(sps, name)(PLAIN)
    return Fast(m.data, m.indices, m.indptr, (10, 8))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("make", [by_new, by_subclass])
@pytest.mark.parametrize("use", USES)
def test_matrices_without_a_constructor_do_what_scipys_do(make: Any, name: str, use: str) -> None:
    try:
        wanted = USES[use](make(sps, name))
    except TypeError:  # SciPy calls the constructor of a subclass with one argument
        return
    found = make(asp, name)
    np.testing.assert_allclose(USES[use](found), wanted)
    np.testing.assert_allclose(USES[use](found), wanted)  # again, with what the first use left behind


@pytest.mark.parametrize("name", CLASSES)
def test_matrices_made_by_new_see_writes_and_can_be_copied(name: str) -> None:
    A = by_new(asp, name)
    for twin in (copy.copy(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        np.testing.assert_array_equal(twin.toarray(), PLAIN.toarray())
    before = A @ np.ones(8)
    A.data *= 2
    np.testing.assert_allclose(A @ np.ones(8), 2 * before)
    assert type(A._cell).__name__ == "Operand"


@pytest.mark.parametrize("name", CLASSES)
def test_writes_to_vars_change_the_matrix(name: str) -> None:
    A = getattr(asp, name)(PLAIN)
    x = np.ones(8)
    before = A @ x
    vars(A)["note"] = "kept"
    assert A.note == "kept"
    assert pickle.loads(pickle.dumps(A)).note == "kept"
    vars(A)["data"] = 3 * A.data
    np.testing.assert_allclose(A @ x, 3 * before)
    vars(A).update(other=1)
    assert vars(A).pop("other") == 1
    assert not hasattr(A, "other")
    assert vars(A).setdefault("note", "new") == "kept"
    with pytest.raises(TypeError, match="cannot delete data"):
        del vars(A)["data"]


@pytest.mark.parametrize("name", CLASSES)
def test_a_matrix_can_be_filled_in_through_vars(name: str) -> None:
    kind = getattr(asp, name)
    A = object.__new__(kind)
    vars(A).update(vars(getattr(sps, name)(PLAIN)))
    np.testing.assert_allclose(A @ np.ones(8), PLAIN @ np.ones(8))


def test_vars_is_a_dict_that_holds_what_scipys_holds() -> None:
    A, m = asp.csr_array(PLAIN), sps.csr_array(PLAIN)
    assert isinstance(vars(A), dict)
    assert vars(A).keys() == vars(m).keys()
    assert type(copy.copy(vars(A))) is type(copy.deepcopy(vars(A))) is type(pickle.loads(pickle.dumps(vars(A)))) is dict
