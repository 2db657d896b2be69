"""Laws of the formats besides csr and csc: SciPy's classes, except that results and conversions are our classes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.arrays.plain import NAMES
from autosparse.light.formats import OF_SCIPYS, OTHERS
from tests.covering import in_turn

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
VALUES = np.array([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 4.0], [0.0, 5.0, 6.0, 0.0], [0.0, 0.0, 0.0, 7.0]])

RESULTS: dict[str, Any] = {
    "T": lambda A: A.T,
    "transpose": lambda A: A.transpose(copy=True),
    "copy": lambda A: A.copy(),
    "reshape": lambda A: A.reshape(2, 8),
    "astype": lambda A: A.astype("c8"),
    "conj": lambda A: A.astype("c8").conj(),
    "neg": lambda A: A.tocoo() * -1,
    "scaled": lambda A: 2 * A * 3,
    "sum": lambda A: A + A,
    "difference": lambda A: A - A.T,
    "sum with rows": lambda A: A + A.tocsr(),
    "rows and it": lambda A: A.tocsr() - A,
    "product": lambda A: A @ A,
    "product with rows": lambda A: A @ A.tocsr(),
    "product with columns": lambda A: A @ A.tocsc(),
    "rows times it": lambda A: A.tocsr() @ A,
    "multiply": lambda A: A.multiply(A),
    "maximum": lambda A: A.maximum(A.T),
    "power": lambda A: A.power(2),
    "power of a matrix": lambda A: A.tocsr() ** 2,
    "unequal": lambda A: A != A.T,
    "greater": lambda A: A > 2,
    **{f"to{fmt}": lambda A, fmt=fmt: getattr(A, f"to{fmt}")() for fmt in FORMATS},
    **{f"asformat {fmt}": lambda A, fmt=fmt: A.asformat(fmt) for fmt in FORMATS},
}


@pytest.mark.parametrize("kind", OTHERS)
def test_the_class_derives_from_scipys(kind: Any) -> None:
    theirs = getattr(sps, kind.__name__)
    assert getattr(asp, kind.__name__) is kind
    assert issubclass(kind, theirs)
    assert (kind.__module__, kind(VALUES).__module__) == ("autosparse", theirs(VALUES).__module__)
    assert kind.__doc__ == theirs.__doc__
    assert kind.__qualname__ == theirs.__qualname__
    found_by_pickle = {"__slotnames__"}  # set where an object of the class was pickled before
    assert set(dir(kind)) - set(dir(theirs)) <= {"_plain_class", "__annotations__", "__slots__"} | found_by_pickle


@pytest.mark.parametrize("kind", OTHERS)
def test_copies_and_pickles_keep_class_and_entries(kind: Any) -> None:
    A = kind(VALUES)
    made = [copy.copy(A), copy.deepcopy(A), A.copy()]
    made += [pickle.loads(pickle.dumps(A, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for one in made:
        assert type(one) is kind
        np.testing.assert_array_equal(one.toarray(), VALUES)
        assert one.tocsr().__class__ in OF_SCIPYS.values()


@pytest.mark.parametrize("kind", OTHERS)
def test_objects_made_without_a_constructor_and_subclasses_work(kind: Any) -> None:
    made = kind.__new__(kind)
    vars(made).update(vars(kind(VALUES)))
    np.testing.assert_array_equal((made @ made).toarray(), VALUES @ VALUES)
    own = type("Own", (kind,), {"__module__": __name__})
    np.testing.assert_array_equal((own(VALUES) @ made).toarray(), VALUES @ VALUES)
    assert own(VALUES).T.tocsr().__class__ in OF_SCIPYS.values()
    assert own.__module__ == own(VALUES).__module__ == __name__


@in_turn("operation", "kind", first=RESULTS, second=OTHERS, label=str)
def test_results_equal_scipys_and_are_ours(operation: str, kind: Any) -> None:
    expected, found = (RESULTS[operation](one(VALUES)) for one in (kind._plain_class, kind))
    assert type(found) is OF_SCIPYS[type(expected)]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.toarray(), expected.toarray())
    for name in NAMES:
        if hasattr(expected, name) and expected.format != "lil":
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("kind", OTHERS)
def test_a_matrix_comes_back_from_every_format(kind: Any) -> None:
    A = asp.csr(kind(VALUES))
    for fmt in FORMATS:
        back = A.asformat(fmt).asformat(kind._plain_class((1, 1)).format).asformat("csr")
        assert type(back) is type(A)
        np.testing.assert_array_equal(back.toarray(), VALUES)


def test_without_files_conversions_give_scipys_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may have lost its files (by chroot) before it first needs the module of the other formats."""
    A = asp.csr(VALUES)
    monkeypatch.setitem(__import__("sys").modules, "autosparse.light.formats", None)
    monkeypatch.delattr("autosparse.light.formats")
    assert type(A.todia()) is sps.dia_array
    assert type(A.tolil()) is sps.lil_array


@pytest.mark.parametrize("kind", [asp.csr_array, asp.csc_array, asp.csr_matrix])
@pytest.mark.parametrize("convert", ["tocoo", "todok", "todia", "tolil", "tobsr", "nonzero"])
def test_conversions_leave_out_spare_room(kind: Any, convert: str) -> None:
    """SciPy's method leaves the rows of elements behind the last entry uninitialised, so any error may follow."""
    whole = kind(VALUES)
    spare = kind(VALUES.shape)
    spare.data, spare.indptr = np.append(whole.data, np.full(900, 9.0)), whole.indptr
    spare.indices = np.append(whole.indices, np.full(900, 3, whole.indices.dtype))
    found, wanted = getattr(spare, convert)(), getattr(whole, convert)()
    if convert == "nonzero":
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_array_equal(found.toarray(), VALUES)
        assert found.nnz == wanted.nnz
    assert len(spare.data) == whole.nnz + 900, "a conversion leaves A as it was"
