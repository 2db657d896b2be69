"""Tests of the guard that notices writes: when it hashes arrays, and how it handles an invalid structure."""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse.errors import StructureError
from autosparse.operands import mutation_guard
from autosparse.operands.csr import Operand
from autosparse.operands.watch import CLEANS, INVALIDATED
from autosparse.operands.watched import FIELDS

counts_known = pytest.mark.skipif(
    mutation_guard.calibrated_counts() is None, reason="no reference counts to trust here"
)


def matrix(n: int = 30, fmt: str = "csr") -> Any:
    m = sps.random(n, n, 0.3, format=fmt, random_state=np.random.RandomState(0))
    arrays = (m.data.copy(), m.indices.copy(), m.indptr.copy())
    return getattr(autosparse, f"{fmt}_array")(arrays, shape=m.shape)


def versions(operand: Operand) -> tuple[int, int]:
    operand.refresh()
    return operand.values_version, operand.structure_version


def is_exposed(operand: Operand) -> bool:
    """Return whether an array can be reached from outside, so that each `refresh` hashes it."""
    return not all(map(operand._is_alone, FIELDS))


def is_clean(operand: Operand) -> bool:
    """Return whether no array was exported since the last look, so that the next `refresh` need not look."""
    pairs = zip(INVALIDATED, CLEANS, strict=True)
    return all(getattr(operand, touch) is getattr(operand, clean) for touch, clean in pairs)


class CountHashes:
    """Counter of the arrays of an operand that Python and C hash."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, operand: Operand) -> None:
        self.n, self.operand = 0, operand
        right = mutation_guard._hasher()

        def counting(array: Any) -> Any:
            self.n += 1
            return right(array)

        monkeypatch.setattr(mutation_guard, "_hasher", lambda: counting)

    def count(self) -> int:
        watch = self.operand.watch
        return self.n + (sum(watch.n_looks_of) if watch is not None else 0)

    def during(self, call: Any) -> int:
        before = self.count()
        call()
        return self.count() - before


@counts_known
def test_untouched_operands_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    A = matrix()
    hashes = CountHashes(monkeypatch, A._cell)
    assert hashes.during(A._cell.refresh) == 3
    assert hashes.during(lambda: [A._cell.refresh() for _ in range(5)]) == 0
    _ = A.nnz, A.dtype, A.T, repr(A), A @ np.ones(30)
    assert hashes.during(A._cell.refresh) == 0


@counts_known
def test_exported_arrays_are_hashed_once_and_held_arrays_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    A = matrix()
    operand = A._cell
    before = versions(operand)
    hashes = CountHashes(monkeypatch, operand)
    for name in ("data", "indices", "indptr"):
        _ = getattr(A, name).sum()
        assert hashes.during(operand.refresh) == 1, f"a look at {name} and at nothing else"
        assert hashes.during(operand.refresh) == 0
    _ = A.indptr.sum(), A.data.sum()
    assert hashes.during(operand.refresh) == 2
    alias = A.data
    assert hashes.during(operand.refresh) == 1
    assert hashes.during(operand.refresh) == 1
    assert is_exposed(operand)
    del alias
    assert hashes.during(operand.refresh) == 1
    assert hashes.during(operand.refresh) == 0
    assert not is_exposed(operand)
    assert versions(operand) == before, "nothing was written"


@counts_known
@pytest.mark.parametrize(
    "keep",
    [
        lambda a: a,
        lambda a: a[1:],
        lambda a: a.reshape(1, -1),
        memoryview,
        lambda a: np.frombuffer(a, np.uint8),
        lambda a: a.ctypes,
        lambda a: iter(a),
        lambda a: a.flat,
        lambda a: a.view(np.uint8),
        lambda a: lambda: a,
        lambda a: [[a]],
        weakref.ref,
        np.asfortranarray,
        lambda a: np.broadcast_to(a, (3, a.size)),
        lambda a: a.__array_interface__ and a,
    ],
)
@pytest.mark.parametrize("name", ["data", "indices", "indptr"])
def test_any_reference_to_the_memory_marks_the_operand_as_exposed(keep: Any, name: str) -> None:
    A = matrix()
    operand = A._cell
    operand.refresh()
    assert is_clean(operand)
    kept = keep(getattr(A, name))
    operand.refresh()
    assert not is_clean(operand), "the next look must hash again"
    del kept
    operand.refresh()
    assert is_clean(operand)


@counts_known
def test_internal_references_do_not_count_as_aliases() -> None:
    A = matrix()
    operand = A._cell
    kept = [operand.pattern, operand.data, operand.indices, operand.indptr, A.T, A._cell]
    operand.refresh()
    operand.refresh()
    assert not is_exposed(operand)
    assert all(not array.flags.writeable for array in kept[1:4])
    A.data[0] = 7
    assert operand.data[0] == 7, "a lease is live"


@counts_known
def test_rebinding_one_array_leaves_leases_of_the_others() -> None:
    A = matrix()
    operand = A._cell
    pattern = operand.pattern
    A.data = A.data * 2
    operand.refresh()
    operand.refresh()
    assert not is_exposed(operand)
    assert operand.pattern is pattern


def test_versions_tell_values_from_structure() -> None:
    A = matrix()
    values, structure = versions(A._cell)
    A.data[3] += 1
    assert versions(A._cell) == (values + 1, structure)
    A.data[3] -= 0.0
    assert versions(A._cell) == (values + 1, structure), "same bytes, same version"
    A.indices[:2] = A.indices[:2][::-1]
    assert versions(A._cell)[1] > structure
    assert versions(A._cell)[0] == values + 1


def test_room_behind_the_last_entry_is_not_looked_at() -> None:
    m = matrix()
    n_stored = m.nnz
    A = autosparse.csr_array(
        (np.append(m.data, [1.0, 2.0]), np.append(m.indices, [0, 0]).astype("i4"), m.indptr), shape=m.shape
    )
    A.data, A.indices = np.append(m.data, [1.0, 2.0]), np.append(m.indices, [0, 0]).astype("i4")
    before = versions(A._cell)
    A.data[n_stored:] = 9
    assert versions(A._cell) == before
    assert A._cell.pattern.indices.size == n_stored
    np.testing.assert_allclose(A @ np.ones(30), m @ np.ones(30))


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_the_pattern_is_that_of_the_compressed_rows(fmt: str) -> None:
    A = autosparse.csc_array((5, 9)) if fmt == "csc" else autosparse.csr_array((9, 5))
    pattern = A._cell.pattern
    assert pattern.shape == (9, 5)
    A[1, 1] = 3.0
    assert A._cell.pattern.nnz == 1
    assert pattern.nnz == 0
    A.resize(5, 9) if fmt == "csr" else A.resize(9, 5)
    assert A._cell.pattern.shape == (5, 9)


OUT_OF_BOUNDS = {
    "index too large": (lambda A: A.indices.__setitem__(4, 30), r"^indices must be < 30\n.*30.*\n.*Hint: "),
    "index huge": (lambda A: A.indices.__setitem__(4, 2**31 - 1), r"^indices must be < 30\n.*2147483647.*\n.*Hint: "),
    "index negative": (lambda A: A.indices.__setitem__(4, -1), r"^indices must be >= 0\n.*-1.*\n.*Hint: "),
    "pointer falls": (lambda A: A.indptr.__setitem__(4, 0), r"^indptr must be a non-decreasing sequence\n.*\n.*Hint: "),
    "pointer too large": (
        lambda A: A.indptr.__setitem__(30, 10**6),
        r"^Last value of index pointer.*\n.*1000000.*\n.*Hint: ",
    ),
    "first pointer": (lambda A: A.indptr.__setitem__(0, 1), r"^index pointer should start with 0\n.*1.*\n.*Hint: "),
    "indptr too short": (
        lambda A: setattr(A, "indptr", A.indptr[:-1]),
        r"^index pointer size 30 should be 31\n.*\n.*Hint: ",
    ),
    "data too short": (lambda A: setattr(A, "data", A.data[:-1]), r"^Last value of index pointer.*\n.*\n.*Hint: "),
    "indices too short": (
        lambda A: setattr(A, "indices", A.indices[:5]),
        r"^Last value of index pointer.*\n.*5 .*\n.*Hint: ",
    ),
}


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("case", OUT_OF_BOUNDS)
def test_a_structure_out_of_bounds_raises_and_does_not_crash(fmt: str, case: str) -> None:
    spoil, message = OUT_OF_BOUNDS[case]
    A = matrix(fmt=fmt)
    x = np.ones(30)
    expected = A @ x
    arrays = A.data.copy(), A.indices.copy(), A.indptr.copy()
    A._cell.refresh()
    spoil(A)
    for product in (lambda: A @ x, lambda: A.T @ x, lambda: x @ A, lambda: A @ np.ones((30, 3)), A._cell.refresh):
        with pytest.raises(StructureError, match=message) as caught:
            product()
        assert isinstance(caught.value, ValueError)
    A.data, A.indices, A.indptr = arrays
    np.testing.assert_array_equal(A @ x, expected)
    A._cell.refresh()


def test_a_kept_alias_of_the_structure_is_checked_at_every_product() -> None:
    A = matrix()
    x = np.ones(30)
    indices = A.indices
    for _ in range(3):
        A @ x
    indices[0] = 2**31 - 1
    with pytest.raises(StructureError, match="indices must be < 30"):
        A @ x


def test_arrays_resized_in_place_are_read_where_they_are_now() -> None:
    A = matrix()
    expected = A @ np.ones(30)
    alias = A.data
    A @ np.ones(30)
    alias.resize(10**6, refcheck=False)
    junk = [np.full(A.nnz, np.nan) for _ in range(20)]
    np.testing.assert_array_equal(A @ np.ones(30), expected)
    assert junk


@pytest.mark.parametrize(
    "spoil",
    [
        lambda A: setattr(A, "data", np.repeat(A.data, 2)[::2]),
        lambda A: setattr(A, "data", A.data.astype(">f8")),
        lambda A: setattr(A, "indices", np.repeat(A.indices, 2)[::2]),
        lambda A: setattr(A, "indptr", A.indptr.astype("i8")),
        lambda A: setattr(A, "data", A.data.astype("i8")),
        lambda A: setattr(A, "data", A.data.astype("g")),
    ],
)
def test_arrays_that_are_not_for_our_kernels_are_left_to_scipy(spoil: Any) -> None:
    ours = matrix()
    theirs = ours.base.copy()
    for A in (ours, theirs):
        A @ np.ones(30)
        spoil(A)
    np.testing.assert_allclose(ours @ np.ones(30), theirs @ np.ones(30))
    np.testing.assert_allclose(ours.T @ np.ones((30, 2)), theirs.T @ np.ones((30, 2)))


def test_reference_counts_are_not_used_where_an_alias_does_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_guard.python_objects, "references", None)
    monkeypatch.setattr(mutation_guard, "_getrefcount", lambda array: 1)
    monkeypatch.setattr(mutation_guard, "reference_total", mutation_guard._reference_total)
    mutation_guard.calibrated_counts.cache_clear()
    mutation_guard._held_once_count.cache_clear()
    try:
        assert mutation_guard.calibrated_counts() is None
        A = matrix()
        A._cell.refresh()
        assert is_exposed(A._cell)
        assert not mutation_guard.is_held_once(A)
        before = versions(A._cell)
        assert versions(A._cell) == before
        A._cell._arrays[2][0] += 1  # bypasses every property
        assert versions(A._cell) == (before[0] + 1, before[1])
    finally:
        monkeypatch.undo()
        mutation_guard.calibrated_counts.cache_clear()
        mutation_guard._held_once_count.cache_clear()


def test_memory_of_others_is_hashed_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    m = matrix()
    np.save(tmp_path / "data.npy", m.data)
    mapped = np.load(tmp_path / "data.npy", mmap_mode="r+")
    A = autosparse.csr_array((mapped, m.indices, m.indptr), shape=m.shape)
    before = versions(A._cell)
    hashes = CountHashes(monkeypatch, A._cell)
    assert hashes.during(A._cell.refresh) == 3
    mapped[0] += 1
    assert versions(A._cell)[0] == before[0] + 1


def test_writes_of_other_threads_are_seen_by_the_next_look() -> None:
    A = matrix(60)
    operand = A._cell
    stop = threading.Event()
    lost: list[float] = []

    def reader() -> None:
        while not stop.is_set():
            operand.refresh()

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        known, copy = versions(operand), operand.data.copy()
        for value in range(300):
            A.data[value % 50] = value
            now = versions(operand)
            if now != known:
                known, copy = now, operand.data.copy()
            if not np.array_equal(copy, operand.data):
                lost.append(value)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not lost


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_products_go_on_in_a_forked_child() -> None:
    A = autosparse.csr_array(sps.random(3000, 3000, 0.02, format="csr", random_state=np.random.RandomState(0)))
    x = np.ones(3000)
    expected = A @ x
    child = os.fork()
    if child == 0:
        right = np.allclose(A @ x, expected)
        A.data[:] *= 2
        right = right and np.allclose(A @ x, 2 * expected)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(A @ x, expected)


def test_eight_threads_multiply_by_one_matrix() -> None:
    A = autosparse.csr_array(sps.random(2000, 2000, 0.01, format="csr", random_state=np.random.RandomState(0)))
    theirs = A.base.copy()
    rng = np.random.default_rng(0)
    B = rng.random((2000, 4))
    expected = {"v": theirs @ B[:, 0], "m": theirs @ B, "t": theirs.T @ B}
    wrong: list[str] = []

    def work() -> None:
        for _ in range(25):
            results = {"v": A @ B[:, 0], "m": A @ B, "t": A.T @ B}
            wrong.extend(name for name in results if not np.allclose(results[name], expected[name]))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work) for _ in range(8)]:
            done.result()
    assert not wrong


def test_no_thread_sees_partly_built_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    met: list[object] = []
    point = Operand._point

    def looking(operand: Operand, field: int) -> object:
        met.append(operand._known_rows)
        return point(operand, field)

    monkeypatch.setattr(Operand, "_point", looking)
    A = autosparse.csr_array(sps.random(2000, 2000, 0.01, format="csr", random_state=np.random.RandomState(0)))
    B = np.ones((2000, 4))
    np.testing.assert_allclose(A @ B, A.base @ B)
    assert met == [None, None, None]
