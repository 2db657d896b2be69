"""Tests of owned and shared memory: read-only maps, bytes, pickles, frozen arrays, too little memory."""

from __future__ import annotations

import mmap
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import memory, runtime_api

import autosparse
from autosparse.errors import RoomError, StructureError
from autosparse.operands import room
from tests.arrays.holders import Looks, N, big, bytes_of, counts_known, large, over_bytes, plain

# -- memory that cannot be written


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    m = plain()
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(m, name))
    arrays = tuple(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr"))
    return sps.csr_array(arrays, shape=m.shape), tmp_path / "data.npy"


def test_a_read_only_map_stays_a_map_and_is_looked_at(mapped: tuple[Any, Path], looks: Looks) -> None:
    m, path = mapped
    A = autosparse.csr(m)
    assert np.shares_memory(A.data, m.data)
    assert not A.owns_arrays
    assert looks.of_the_second(A) == 1
    values = np.load(path, mmap_mode="r+")
    values[:] = 3
    values.flush()
    A._cell.refresh()
    assert A._cell.values_version == 1
    assert not np.shares_memory(autosparse.csr(m, copy=True).data, m.data)


def test_a_map_that_can_be_written_is_copied(tmp_path: Path) -> None:
    m = plain()
    for mode in ("r+", "c"):
        values = np.memmap(tmp_path / f"{mode[0]}", dtype=float, mode="w+", shape=m.nnz)
        values[:] = m.data
        values.flush()
        mapped = np.memmap(tmp_path / f"{mode[0]}", dtype=float, mode=mode, shape=m.nnz)
        A = autosparse.csr((mapped, m.indices, m.indptr), shape=m.shape)
        mapped[:] = 0
        np.testing.assert_array_equal(A.toarray(), m.toarray())


@counts_known
def test_bytes_are_not_copied_and_need_no_look(looks: Looks) -> None:
    m = over_bytes(plain())
    A = autosparse.csr(m)
    assert A.data is m.data
    assert A.owns_arrays
    assert looks.of_the_second(A) == 0
    _ = A._cell.pattern, A.data.sum(), A.indices.sum()
    assert looks.of_the_second(A) == 0
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))


@pytest.mark.parametrize(
    "lend",
    [
        lambda a: np.frombuffer(memoryview(bytearray(a.tobytes())).toreadonly(), a.dtype),
        lambda a: read_only_view(a.copy()),
        lambda a: read_only(a.copy()),
    ],
)
def test_read_only_views_of_writable_memory_are_copied(lend: Any) -> None:
    m = plain()
    m.data = lend(m.data)
    assert not m.data.flags.writeable
    assert not np.shares_memory(autosparse.csr(m).data, m.data)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def read_only_view(array: Any) -> Any:
    return read_only(array[:])


def test_anonymous_maps() -> None:
    m = plain()
    raw = mmap.mmap(-1, m.data.nbytes)
    values = np.frombuffer(raw, float)
    values[:] = m.data
    A = autosparse.csr((values, m.indices, m.indptr), shape=m.shape)
    raw[:8] = bytes(8)
    np.testing.assert_array_equal(A.toarray(), m.toarray())


# -- pickles


@counts_known
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_an_unpickled_matrix_owns_its_arrays_and_needs_no_look(protocol: int, looks: Looks) -> None:
    m = big()
    A = pickle.loads(pickle.dumps(autosparse.csr(m), protocol))
    assert A.owns_arrays
    assert looks.of_the_second(A) == 0
    A.data[0] = 42
    m.data[0] = 42
    np.testing.assert_allclose(A @ np.ones(60), m @ np.ones(60))
    assert looks.of_the_second(A) == 0
    kept = A.data
    assert looks.of_the_second(A) == 1
    beneath = kept.base
    del kept
    assert looks.of_the_second(A) == 1
    del beneath
    assert looks.of_the_second(A) == 0


@counts_known
def test_the_buffer_below_an_unpickled_array_is_checked_for_aliases(looks: Looks) -> None:
    A = pickle.loads(pickle.dumps(autosparse.csr(big()), 5))
    assert looks.of_the_second(A) == 0
    beneath = A.data.base.base
    assert type(beneath) is memoryview
    other = beneath[8:]  # shares the buffer without holding an array or memoryview of the matrix
    del beneath
    assert looks.of_the_second(A) == 1
    before = A._cell.values_version
    other[:8] = bytes(8)
    A._cell.refresh()
    assert A._cell.values_version == before + 1
    assert A.data[1] == 0
    del other
    assert looks.of_the_second(A) == 0


@counts_known
def test_an_index_written_beneath_is_checked_before_a_kernel_follows_it() -> None:
    A = pickle.loads(pickle.dumps(autosparse.csr(big()), 5))
    A @ np.ones(60)
    beneath = A.indices.base.base[:]
    A @ np.ones(60)
    beneath[:4] = np.int32(1 << 30).tobytes()
    with pytest.raises(autosparse.AutosparseError):
        A @ np.ones(60)


def test_buffers_out_of_band_stay_shared() -> None:
    m, buffers = big(), []
    text = pickle.dumps(autosparse.csr(m), 5, buffer_callback=buffers.append)
    lent = [bytearray(buffer.raw()) for buffer in buffers]
    views = [memoryview(one) for one in lent]
    del lent
    A = pickle.loads(text, buffers=views)
    A._cell.refresh()
    values = next(view for view in views if view.nbytes == m.data.nbytes)
    values[:8] = bytes(8)
    A._cell.refresh()
    assert A._cell.values_version == 1
    assert A.data[0] == 0


def test_matrices_loaded_from_files_own_their_arrays(tmp_path: Path) -> None:
    import scipy.io

    m = plain()
    sps.save_npz(tmp_path / "m.npz", m)
    np.savez(tmp_path / "parts.npz", data=m.data, indices=m.indices, indptr=m.indptr, shape=m.shape)
    scipy.io.mmwrite(tmp_path / "m.mtx", m)
    for name in ("m.npz", "parts.npz", "m.mtx"):
        A = autosparse.csr(tmp_path / name)
        assert A._cell.copied_bytes == 0
        assert A.owns_arrays
        np.testing.assert_allclose(A.toarray(), m.toarray())


# -- frozen


def test_frozen_arrays_are_shared_read_only_and_never_looked_at(looks: Looks) -> None:
    m = plain()
    A = autosparse.csr(m, copy=False, frozen=True)
    assert np.shares_memory(A.data, m.data)
    for name in ("data", "indices", "indptr"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(A, name)[0] = 1
    assert m.data.flags.writeable
    assert looks.of_the_second(A) == looks.n == 0
    _ = A._cell.pattern, A.data.sum(), A.T.data
    A._cell.refresh()
    assert A._cell.n_looks == 0
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))
    np.testing.assert_allclose(A.T @ np.ones(N), m.T @ np.ones(N))
    assert not A.owns_arrays or A._cell.is_alone
    A.tune(effort="estimate")
    np.testing.assert_allclose(A @ np.ones(N), m @ np.ones(N))


def test_assigning_an_array_ends_frozen_sharing(looks: Looks) -> None:
    m = plain()
    A = autosparse.csr(m, copy=False, frozen=True)
    A._cell.refresh()
    values = m.data + 1
    A.data = values
    A._cell.refresh()
    before = A._cell.values_version
    values[0] = 17
    A._cell.refresh()
    assert A._cell.values_version == before + 1
    np.testing.assert_array_equal(A.data, values)
    assert not A._cell.frozen


def test_freezing_our_matrix_leaves_the_original_writable() -> None:
    A = autosparse.csr(plain())
    B = autosparse.csr(A, copy=False, frozen=True)
    assert B._cell is not A._cell
    A.data[0] = 3
    assert not B.data.flags.writeable
    assert A.data.flags.writeable


# -- too little memory


def test_a_copy_that_does_not_fit_is_refused_before_anything_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    m = large()
    n_bytes = bytes_of(m)
    monkeypatch.setattr(memory, "ALL_THREADS_FROM_BYTES", n_bytes // 2)  # smaller arrays are copied without a check
    monkeypatch.setattr(room, "CHECKED_FROM_BYTES", n_bytes // 2)
    monkeypatch.setattr(room, "available_bytes", lambda: n_bytes - 1)
    message = f"(?s){n_bytes:,} bytes, and {n_bytes - 1:,} bytes are available.*Hint: copy=False"
    with pytest.raises(RoomError, match=message):  # loads modules, which take memory
        autosparse.csr(m)
    tracemalloc.start()
    try:
        for make in (autosparse.csr, lambda one: autosparse.csr((one.data, one.indices, one.indptr))):
            with pytest.raises(RoomError, match=message) as error:
                make(m)
            assert isinstance(error.value, MemoryError)
        assert tracemalloc.get_traced_memory()[1] < n_bytes // 4
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(autosparse.csr(m, copy=False) @ np.ones(1000), m @ np.ones(1000))
    monkeypatch.setattr(room, "available_bytes", lambda: n_bytes)
    assert autosparse.csr(m).owns_arrays


LIMITED = """
import resource, numpy as np, scipy.sparse as sps, autosparse as asp
n = 20_000_000
m = sps.csr_array((np.zeros(n), np.zeros(n, np.int32), np.array([0, n], np.int32)), shape=(1, 1))
asp.csr(sps.eye_array(3, format="csr")) @ np.ones(3)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
try:
    asp.csr(m)
except MemoryError as error:
    assert type(error).__name__ == "RoomError" and "240,000,008 bytes" in str(error), error
    print(asp.csr(m, copy=False).nnz)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_the_limit_on_the_address_space_is_known() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", LIMITED], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "20000000", run.stderr


def test_available_memory_is_what_the_system_says() -> None:
    available = room.available_bytes()
    assert available is None or available > 0


def test_control_groups_bound_what_is_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text("1000\n")
    (group.parent / "memory.current").write_text("600\n")
    (group.parent / "memory.stat").write_text("anon 100\ninactive_file 50\nactive_file 7\n")
    assert room._left_in(tmp_path, "/a/b", "memory.max", "memory.current") == [457]
    assert room._left_in(tmp_path, "/", "memory.max", "memory.current") == []
    monkeypatch.setattr(room, "_lines", lambda path: [])
    assert room._of_system() is None
    assert room._of_groups() is None


# -- the behaviour up to version 0.2


def test_the_setting_share_is_the_behaviour_up_to_version_0_2(monkeypatch: pytest.MonkeyPatch) -> None:
    m, values = plain(), np.ones(2)
    with autosparse.options(share=True):
        A = autosparse.csr(m)
        assert A.data is m.data
        assert autosparse.tensor([[0, 1]], values).values is values
        assert not np.shares_memory(autosparse.csr(m, copy=True).data, m.data)
    assert not np.shares_memory(autosparse.csr(m).data, m.data)
    monkeypatch.setenv("AUTOSPARSE_SHARE", "1")
    from autosparse import config

    config.reload_options()
    try:
        assert autosparse.csr(m).data is m.data
    finally:
        monkeypatch.delenv("AUTOSPARSE_SHARE")
        config.reload_options()


# -- structures of copied arrays


@pytest.mark.parametrize("index_dtype", ["i4", "i8"])
def test_structures_of_large_matrices_are_checked_once(index_dtype: str) -> None:
    """The threads that copy 1 MiB or more also check; a faulty structure raises where it would without the copy."""
    m = sps.random_array((20_000, 9_000), density=1e-3, format="csr", random_state=np.random.default_rng(0))
    data, indices, indptr = m.data, m.indices.astype(index_dtype), m.indptr.astype(index_dtype)
    for A in (autosparse.csr((data, indices, indptr), shape=m.shape), autosparse.csr(m)):
        assert A._cell._checked or not runtime_api.available
        np.testing.assert_allclose(A @ np.ones(9_000), m @ np.ones(9_000))
    faulty = indices.copy()
    faulty[100_000] = 9_000
    for copy in (None, False, True):
        with pytest.raises(StructureError, match="indices must be < 9000"):
            autosparse.csr((data, faulty, indptr), shape=m.shape, copy=copy)
    m.indices[100_000] = 9_000
    A = autosparse.csr(m)
    with pytest.raises(StructureError, match="indices must be < 9000"):
        A @ np.ones(9_000)
