"""Tests of the constructors' fast path: it accepts, refuses and shares the same as SciPy's constructors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import assume, given
from hypothesis import strategies as st

import autosparse as asp
from tests.scipy_versions import HAS_FLAT_CSC

CLASSES = [
    (asp.csr_array, sps.csr_array),
    (asp.csc_array, sps.csc_array),
    (asp.csr_matrix, sps.csr_matrix),
    (asp.csc_matrix, sps.csc_matrix),
]
DTYPES = [np.float64, np.float32, np.float16, np.longdouble, np.complex64, np.int64, np.int8, np.bool_, ">f8", object]


def outcome(make: Any) -> Any:
    """Return the matrix that `make` makes, or the type and message of its exception."""
    try:
        made = make()
    except (ValueError, TypeError, IndexError, OverflowError) as err:
        return type(err), str(err)
    return made


def arrays(made: Any) -> list[np.ndarray]:
    return [made.indptr, made.indices, made.data]


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Draw (data, indices, indptr) that fit a shape or miss it slightly, with room behind the last entry."""
    n_major, n_minor = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    lengths = draw(st.lists(st.integers(0, 3), min_size=n_major, max_size=n_major)) if n_minor else [0] * n_major
    nnz = sum(lengths)
    room = draw(st.sampled_from([0, 0, 1, 2, 50]))
    index = draw(st.sampled_from([np.int32, np.int64, np.int16, np.uint32, np.float64]))
    other = draw(st.sampled_from([index, index, index, np.int64]))
    start, last = draw(st.sampled_from([(0, 0)] * 6 + [(1, 0), (0, -1), (0, 99), (0, -99)]))
    starts = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    starts[0], starts[-1] = start or starts[0], max(starts[-1] + last, -1)
    indptr = starts.astype(index)
    indices = draw(st.lists(st.integers(0, max(n_minor - 1, 0)), min_size=nnz + room, max_size=nnz + room))
    values = np.arange(nnz + room + draw(st.sampled_from([0] * 5 + [1]))) + 1
    data = values.astype(draw(st.sampled_from(DTYPES)))
    if draw(st.booleans()):
        data = np.ascontiguousarray(np.stack([data, data], 1))[:, 0]  # a strided view: every second value
    lost = draw(st.sampled_from([0] * 5 + [1]))
    shape = draw(st.sampled_from([(n_major, n_minor)] * 4 + [None, (n_major + 1, n_minor), (-1, 2), (n_major,)]))
    return {
        "arg1": (data, np.array(indices).astype(other), indptr[lost:]),
        "shape": shape,
        "dtype": draw(st.sampled_from([None, None, data.dtype, np.float64, "f4"])),
        "copy": draw(st.sampled_from([False, False, True])),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@given(given_=arguments())
def test_three_arrays_are_converted_as_by_scipy(ours: Any, theirs: Any, given_: dict[str, Any]) -> None:
    assume(not (HAS_FLAT_CSC and ours is asp.csc_array and given_["shape"] and len(given_["shape"]) == 1))
    wanted, found = outcome(lambda: theirs(**given_)), outcome(lambda: ours(**given_))
    if isinstance(wanted, tuple):
        assert found == wanted
        return
    assert type(found) is ours
    assert found.shape == wanted.shape
    assert type(found.shape[0]) is int
    assert getattr(found, "maxprint", None) == getattr(wanted, "maxprint", None)  # not every SciPy has it
    for mine, expected, source in zip(arrays(found), arrays(wanted), reversed(given_["arg1"]), strict=True):
        assert mine.dtype == expected.dtype
        assert mine.tolist() == expected.tolist()
        assert np.shares_memory(mine, source) == np.shares_memory(expected, source)


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("kind", ["ours", "theirs", "other"])
def test_a_matrix_of_the_class_is_taken_over_its_arrays(ours: Any, theirs: Any, kind: str) -> None:
    other = sps.csc_matrix if ours._transposed else sps.csr_matrix
    source = {"ours": ours, "theirs": theirs, "other": other}[kind](np.diag([1.0, 2.0, 3.0]))
    made = ours(source)
    assert made._cell is not getattr(source, "_cell", None)
    for mine, expected in zip(arrays(made), arrays(source), strict=True):
        assert mine is expected
    x = np.arange(3.0)
    assert (made @ x).tolist() == [0.0, 2.0, 6.0]
    source.data[1] = 9.0
    source.indices[2] = 0
    assert (made @ x).tolist() == ([6.0, 9.0, 0.0] if ours._transposed else [0.0, 9.0, 0.0])


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_a_matrix_that_was_broken_is_refused_as_scipy_refuses_it(ours: Any, theirs: Any) -> None:
    for field, value in {"indptr": [1, 1, 2, 3], "indices": [0, 1], "data": [1.0]}.items():
        source = ours(np.diag([1.0, 2.0, 3.0]))
        plain = theirs(np.diag([1.0, 2.0, 3.0]))
        for broken in (source, plain):
            setattr(broken, field, np.array(value, dtype=getattr(plain, field).dtype))
        assert outcome(lambda a=source: ours(a)) == outcome(lambda a=plain: theirs(a))  # type: ignore[misc]


WRITTEN: dict[str, tuple[str, Any]] = {
    "a row less": ("indptr", [0, 1, 2, 2]), "a short indptr": ("indptr", [0, 1, 3]),
    "a late start": ("indptr", [1, 1, 2, 3]), "few values": ("data", [1.0, 2.0]),
    "many values": ("data", [1.0, 2.0, 3.0, 4.0]), "few indices": ("indices", [0, 1]),
    "a column of values": ("data", [[1.0], [2.0], [3.0]]),
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("written", [*WRITTEN, "a list of values", "a list of indices"])
def test_a_transpose_is_made_of_arrays_as_scipy_makes_it(ours: Any, theirs: Any, written: str) -> None:
    """Arrays that were written or replaced before `A.T` must be cut, converted or refused as by SciPy."""
    found = []
    for kind in (ours, theirs):
        A = kind(np.diag([1.0, 2.0, 3.0]))
        if written.startswith("a list"):
            field = written.rsplit(" ", 1)[1].replace("values", "data")
            setattr(A, field, getattr(A, field).tolist())
        else:
            field, value = WRITTEN[written]
            setattr(A, field, np.array(value, dtype=getattr(A, field).dtype))
        found.append(outcome(lambda A=A: A.T))  # type: ignore[misc]
    mine, expected = found
    if isinstance(expected, tuple):
        assert issubclass(mine[0], expected[0])
        assert mine[1]
        return
    for one, other in zip(arrays(mine), arrays(expected), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (mine.max(), mine.count_nonzero(), mine.tocoo().sum()) == (
        expected.max(), expected.count_nonzero(), expected.tocoo().sum()
    )  # fmt: skip
    assert (mine @ np.ones(3)).tolist() == (expected @ np.ones(3)).tolist()


@pytest.mark.parametrize("nnz", [3, 49, 50, 99])
def test_room_behind_the_last_entry_is_cut_off_and_much_of_it_given_back(nnz: int) -> None:
    data, indices, indptr = np.arange(100.0), np.zeros(100, np.int32), np.array([0, 1, nnz], np.int32)
    A = asp.csr_array((data, indices, indptr), shape=(2, 5))
    assert A.data.size == A.indices.size == nnz
    assert np.shares_memory(A.data, data) == (nnz >= 50)
    assert (A @ np.ones(5)).tolist() == [0.0, nnz * (nnz - 1) / 2]


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
def test_deep_copies_share_nothing_and_keep_what_was_set(ours: Any, theirs: Any) -> None:
    A = ours(np.diag([1.0, 2.0]))
    A.note, A.itself = ["kept"], A
    B = copy.deepcopy(A)
    assert type(B) is ours
    assert B.itself is B
    assert B.note == ["kept"]
    assert B.note is not A.note
    assert not any(map(np.shares_memory, arrays(A), arrays(B)))
    both = copy.deepcopy([A, A])
    assert both[0] is both[1]
    assert pickle.loads(pickle.dumps(theirs(A))).toarray().tolist() == B.toarray().tolist()


def _unaligned(array: np.ndarray) -> np.ndarray:
    room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype)
    room[:] = array
    return room


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("which", range(3))
def test_arrays_that_are_not_aligned_are_copied_as_by_scipy(ours: Any, theirs: Any, which: int) -> None:
    given_ = [np.array([1.0, 2.0]), np.array([0, 1], np.int32), np.array([0, 1, 2], np.int32)]
    given_[which] = _unaligned(given_[which])
    found, wanted = (kind(tuple(given_), shape=(2, 2)) for kind in (ours, theirs))
    for mine, expected, source in zip(arrays(found), arrays(wanted), reversed(given_), strict=True):
        assert mine.flags.aligned == expected.flags.aligned
        assert np.shares_memory(mine, source) == np.shares_memory(expected, source)


# what makes a matrix of another, which holds small parts of large arrays
MADE_OF_PARTS = {
    "constructor": lambda A: type(A)(A), "arrays": lambda A: type(A)((A.data, A.indices, A.indptr), shape=A.shape),
    "transpose": lambda A: A.T, "prune": lambda A: A.prune() or A,
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), CLASSES)
@pytest.mark.parametrize("made", MADE_OF_PARTS)
@pytest.mark.parametrize("room", [4, 6, 20])
def test_small_parts_of_large_arrays_are_copied_as_by_scipy(ours: Any, theirs: Any, made: str, room: int) -> None:
    shared = []
    for kind in (ours, theirs):
        data, indices = np.arange(1.0, room + 1), np.zeros(room, np.int32)
        A = kind((2, 2))
        A.indptr, A.indices, A.data = np.array([0, 1, 2], np.int32), indices[:2], data[:2]
        B = MADE_OF_PARTS[made](A)
        shared.append((np.shares_memory(B.data, data), np.shares_memory(B.indices, indices)))
    assert shared[0] == shared[1]
