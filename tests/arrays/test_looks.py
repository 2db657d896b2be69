"""Tests of looks at arrays: which arrays and chunks of values they cover, and which writes they find."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import given, settings
from hypothesis import strategies as st

import autosparse
from autosparse.operands import mutation_guard, watch
from autosparse.operands.csr import Operand
from autosparse.operands.mutation_guard import CHUNK_BYTES, Print
from autosparse.operands.watched import FIELDS
from tests.tuning.forcing import force, schedule_of

watched = pytest.mark.skipif(watch.make is None, reason="no reference counts to trust here")
N = 400


def matrix(density: float = 0.3, dtype: str = "float64") -> Any:
    m = sps.random_array((N, N), density=density, format="csr", random_state=np.random.default_rng(0), dtype=dtype)
    return autosparse.csr(m.copy(), copy=True)


def versions(operand: Operand) -> tuple[int, int]:
    operand.refresh()
    return operand.values_version, operand.structure_version


def n_looked_at(operand: Operand) -> list[int]:
    """Return the number of looks by the C runtime at each of indptr, indices and data."""
    assert operand.watch is not None
    return list(operand.watch.n_looks_of)


@watched
@pytest.mark.parametrize(
    "read",
    [{"data"}, {"indptr"}, {"indices"}, {"data", "indptr"}, set()],
    ids=lambda read: " and ".join(sorted(read)) or "nothing",
)
def test_only_arrays_that_were_read_are_hashed(read: set[str]) -> None:
    A, x = matrix(), np.ones(N)
    operand = A._cell
    before = versions(operand)
    A @ x
    counts, n_looks = n_looked_at(operand), operand.n_looks
    for name in read:
        getattr(A, name)
    operand.refresh()
    got = [now - then for now, then in zip(n_looked_at(operand), counts, strict=True)]
    assert got == [int(name in read) for name in ("indptr", "indices", "data")]
    assert (operand.n_looks > n_looks) == bool(read)
    assert versions(operand) == before


@watched
def test_a_kept_array_is_looked_at_each_time_and_alone() -> None:
    A, x = matrix(), np.ones(N)
    operand, kept = A._cell, A.indptr
    A @ x
    operand.refresh()
    counts = n_looked_at(operand)
    for turn in range(1, 4):
        operand.refresh()
        assert [now - then for now, then in zip(n_looked_at(operand), counts, strict=True)] == [turn, 0, 0]
    del kept


def test_looks_are_counted_and_timed() -> None:
    A = matrix()
    operand = A._cell
    assert (operand.n_looks, operand.look_ns, operand.smoothed_look_ns, operand.total_look_ns) == (0, 0, 0, 0)
    operand.refresh()
    total = operand.total_look_ns
    assert operand.n_looks == 1
    assert operand.look_ns == operand.smoothed_look_ns == total > 0
    for _ in range(3):
        A.data.sum()
        operand.refresh()
    assert operand.n_looks == 4
    assert operand.total_look_ns > total
    operand.refresh()
    assert operand.n_looks == 4, "nothing was handed out"


@settings(max_examples=30)
@given(data=st.data())
def test_chunks_that_changed_since_a_version_are_known(data: st.DataObject) -> None:
    A = matrix()
    operand = A._cell
    operand.refresh()
    copies = [(operand.values_version, A.data.copy())]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.lists(st.integers(0, A.nnz - 1), max_size=2))
        if data.draw(st.integers(0, 9)) == 0:
            A.data = A.data + 1.0
        for one in at:
            A.data[one] += 1.0
        operand.refresh()
        copies.append((operand.values_version, A.data.copy()))
        for version, old in copies:
            ranges, new = operand.changed_since(version), A.data
            taken = np.zeros(new.size, bool)
            for begin, end in ranges if ranges is not None else [(0, new.size)]:
                taken[begin:end] = True
            assert np.array_equal(np.where(taken, new, old), new)
            if version == operand.values_version:
                assert not taken.any() or ranges is None


@watched
def test_a_chunk_that_changed_is_told_from_the_others() -> None:
    A = matrix()
    operand = A._cell
    version, _ = versions(operand)
    per_chunk = CHUNK_BYTES // 8
    A.data[per_chunk + 3] += 1
    assert versions(operand)[0] == version + 1
    assert operand.changed_since(version) == [(per_chunk, 2 * per_chunk)]
    assert operand.changed_since(version + 1) == []
    A.data[:] += 1
    assert versions(operand)[0] == version + 2
    assert operand.changed_since(version + 1) is None


def test_values_put_in_place_are_not_hashed_until_they_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    A = matrix()
    operand = A._cell
    version, structure = versions(operand)
    hashed: list[int] = []
    right = Print.of

    def counting(array: Any) -> Print:
        hashed.append(array.size)
        return right(array)

    monkeypatch.setattr(Print, "of", counting)
    for turn in range(1, 4):
        A.data = np.full(A.nnz, float(turn))
        assert versions(operand) == (version + turn, structure)
    if mutation_guard.calibrated_counts() is not None:
        assert not hashed
    before = operand.values_version
    A.data[0] = 17.0
    assert versions(operand)[0] > before
    before = operand.values_version
    assert versions(operand)[0] == before


@pytest.mark.parametrize("change", ["in place", "put"])
def test_packed_copies_take_what_changed(change: str) -> None:
    with autosparse.options(effort="measure", extra_memory=20.0):
        A, x = matrix(0.05, "float32"), np.random.default_rng(1).random(N).astype(np.float32)
        trial = force(A, schedule_of("slices", 1))
        theirs = A.to_scipy().copy()
        for turn in range(30):
            if change == "put":
                A.data = A.data * np.float32(1.01)
                theirs.data = theirs.data * np.float32(1.01)
            else:
                A.data[turn::7] += 1
                theirs.data[turn::7] += 1
            np.testing.assert_allclose(A @ x, theirs @ x, rtol=1e-4)
        copy = trial.packed_copy
        assert copy is not None
        assert copy.n_refreshes > 0
        assert copy.refresh_ns > 0
        assert copy.smoothed_refresh_ns > 0
        assert copy.n_bytes == copy.packed.nbytes


WRITER = """
import mmap, os, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    for _ in range(20):
        at = int(sys.stdin.readline())
        memory[at:at + 1] = bytes([memory[at] ^ 1])
        memory.flush()
        print("written", flush=True)
"""


def test_writes_of_another_process_are_seen(tmp_path: Any) -> None:
    m = sps.random_array((N, N), density=0.3, format="csr", random_state=np.random.default_rng(0))
    path = tmp_path / "values"
    path.write_bytes(m.data.tobytes())
    with open(path, "r+b") as file:
        shared = np.frombuffer(mmap.mmap(file.fileno(), 0))
    A = autosparse.csr_array((shared, m.indices, m.indptr), shape=m.shape)
    version, structure = versions(A._cell)
    other = subprocess.Popen(
        [sys.executable, "-c", WRITER, os.fspath(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    for turn in range(20):
        other.stdin.write(f"{8 * (turn * 997 % m.nnz)}\n")
        other.stdin.flush()
        assert other.stdout.readline() == "written\n"
        assert versions(A._cell) == (version + turn + 1, structure)
    other.stdin.close()
    other.stdout.close()
    assert other.wait() == 0


def test_writes_through_a_tensor_are_seen() -> None:
    torch = pytest.importorskip("torch")
    A, x = matrix(), np.ones(N)
    tensor = torch.from_numpy(A.data)
    version = versions(A._cell)[0]
    for turn in range(5):
        tensor[turn * 100] += 1
        assert versions(A._cell)[0] == version + turn + 1
    del tensor
    A @ x
    assert versions(A._cell)[0] == version + 5


@watched
def test_threads_that_look_while_one_writes_lose_nothing() -> None:
    A = matrix()
    operand = A._cell
    operand.refresh()
    stop = threading.Event()

    def reader() -> None:
        while not stop.is_set():
            _ = A.data, A.indptr
            operand.refresh()

    threads = [threading.Thread(target=reader) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        copy, known = A.data.copy(), versions(operand)[0]
        for turn in range(300):
            A.data[turn * 31 % A.nnz] += 1.0
            now = versions(operand)[0]
            if now != known:
                for begin, end in operand.changed_since(known) or [(0, A.nnz)]:
                    copy[begin:end] = operand.data[begin:end]
                known = now
            np.testing.assert_array_equal(copy, operand.data[: A.nnz])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(FIELDS) == 3
