"""Tests of results in recycled pages: they own their elements, share nothing while alive, and the pool is bounded."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from autosparse._native import memory
from hypothesis import given
from hypothesis import strategies as st

from autosparse import config, csr
from tests.native.hooks import hook, kept_pages
from tests.native.runtime_cases import needs_runtime

pytestmark = needs_runtime

F4 = np.dtype(np.float32)
BIG = (1 << 20, 2)  # 8 MiB of float32
ROOM = 64 << 20


def handler_name(array):
    """Return the name of the allocator of an array's memory."""
    multiarray = sys.modules.get("numpy._core.multiarray") or sys.modules["numpy.core.multiarray"]
    return multiarray.get_handler_name(array)


@pytest.fixture(autouse=True)
def pool_of_known_size():
    with config.options(output_pool_bytes=0):
        drain()
    with config.options(output_pool_bytes=ROOM):
        yield
    with config.options(output_pool_bytes=0):
        drain()


def drain() -> None:
    """Apply the current limit to the pool; with the limit 0 nothing is kept."""
    gc.collect()
    memory.empty_output(BIG, F4)
    assert memory._allocate is not None, "the extension module should have been built"


@pytest.mark.parametrize("n_bytes", [memory.VECTOR_FROM_BYTES, 3 * memory.VECTOR_FROM_BYTES + 4, 1 << 17, 1 << 20])
def test_vectors_begin_on_a_cache_line_and_own_their_elements(n_bytes: int) -> None:
    held = [memory.empty_vector((n_bytes // 4,), F4) for _ in range(5)]
    for array in held:
        assert array.flags.owndata
        assert array.ctypes.data % 64 == 0
    assert len({array.ctypes.data for array in held}) == len(held)


def test_large_results_own_aligned_writable_memory_of_our_allocator():
    array = memory.empty_output(BIG, F4)
    assert array.flags.owndata
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert array.shape == BIG
    assert array.dtype == F4
    assert array.ctypes.data % 64 == 0
    assert handler_name(array) == "autosparse_output"
    assert handler_name(np.empty(BIG)) == "default_allocator"  # not ours


def test_freed_pages_are_reused():
    array = memory.empty_output(BIG, F4)
    address = array.ctypes.data
    del array
    assert kept_pages()["n_kept"] == 1
    again = memory.empty_output(BIG, F4)
    assert again.ctypes.data == address
    assert kept_pages()["n_kept"] == 0


def test_freed_pages_serve_results_down_to_half_their_size():
    address = memory.empty_output((1 << 21,), F4).ctypes.data  # made and freed
    half = memory.empty_output((1 << 20,), F4)
    assert half.ctypes.data == address
    del half
    memory.empty_output((1 << 18,), F4)  # would hold eight times its bytes
    assert kept_pages()["n_kept"] == 2


def test_the_smallest_freed_pages_that_suffice_are_reused():
    sizes = [1 << 21, 3 << 19, 7 << 18, 1 << 20]
    arrays = [memory.empty_output((n,), F4) for n in sizes]
    addresses = [array.ctypes.data for array in arrays]
    arrays.clear()
    assert memory.empty_output((5 << 18,), F4).ctypes.data == addresses[1]


def test_sparse_products_with_fewer_entries_each_time_reuse_pages():
    patterns = [scipy.sparse.random_array((2_000, 2_000), density=k / 2_000, random_state=k) for k in (40, 36, 33)]
    for n_done, pattern in enumerate(patterns):
        before = kept_pages()["n_reused"]
        csr(pattern.tocsr()) @ csr(pattern.tocsr())  # made and freed
        assert n_done == 0 or kept_pages()["n_reused"] >= before + 2  # indices and values


def test_sparse_products_whose_blocks_grow_reuse_pages():
    """The first rows promise few entries, because many multiplications have the same place, and the last have many."""
    rng = np.random.default_rng(0)
    lengths = np.repeat([200, 20], [500, 3_500])
    columns = np.concatenate([rng.integers(0, 500, 500 * 200), rng.integers(500, 4_000, 3_500 * 20)])
    indptr = np.concatenate([[0], lengths.cumsum()])
    A = csr(scipy.sparse.csr_array((np.ones(columns.size, F4), columns, indptr), shape=(4_000, 4_000)))
    kept = []
    with config.options(threads=1):
        for _ in range(6):
            A @ A  # made and freed
            kept.append(kept_pages()["kept_bytes"])
    assert max(kept) < 2 * kept[0]


@pytest.mark.parametrize("shape", [(0,), (3, 0), (), (100,), BIG])
def test_any_shape(shape):
    array = memory.empty_output(shape, F4)
    array[...] = 1
    assert array.shape == shape
    assert array.flags.owndata


def test_the_pool_is_bounded_and_forgets_the_oldest():
    arrays = [memory.empty_output(BIG, F4) for _ in range(12)]  # 96 MiB
    addresses = [array.ctypes.data for array in arrays]
    while arrays:
        del arrays[0]
        assert kept_pages()["kept_bytes"] <= ROOM
    kept = kept_pages()["n_kept"]
    assert 0 < kept < 12
    young = {memory.empty_output(BIG, F4).ctypes.data for _ in range(1)}
    assert young <= set(addresses[-kept:])


def test_turning_the_pool_off_frees_what_it_kept():
    memory.empty_output(BIG, F4)  # made and freed
    assert kept_pages()["n_kept"] == 1
    with config.options(output_pool_bytes=0):
        array = memory.empty_output(BIG, F4)
        assert kept_pages()["n_kept"] == 0
        del array
        assert kept_pages()["n_kept"] == 0


def test_results_larger_than_the_pool_are_freed():
    with config.options(output_pool_bytes=4 << 20):
        memory.empty_output(BIG, F4)  # made and freed
        assert kept_pages()["n_kept"] == 0


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1 << 18, 1 << 20)), max_size=40))
def test_live_results_never_share_memory(steps):
    alive: dict[int, np.ndarray] = {}
    for slot, n in steps:
        alive.pop(slot, None)
        alive[slot] = memory.empty_output((n,), F4)
        alive[slot].fill(slot)
        for other, array in alive.items():
            assert array[0] == array[-1] == array[array.size // 2] == other


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_freed_results_return_their_pages_while_a_neighbour_is_alive():
    """Results below 2 MiB are cut from areas of huge pages; an area is unmapped after its last result."""
    with config.options(output_pool_bytes=1):
        arrays = [memory.empty_output((1 << 18,), F4) for _ in range(64)]
        for mark, array in enumerate(arrays):
            array.fill(mark)
        full = resident_bytes()
        kept = arrays[5::16]
        arrays.clear()
        assert full - resident_bytes() > 48 << 20
        assert [array[[0, -1]].tolist() for array in kept] == [[mark, mark] for mark in (5, 21, 37, 53)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@given(st.integers(2 << 20, 1 << 27))
def test_the_last_huge_page_of_a_result_adds_at_most_an_eighth(n_bytes: int) -> None:
    """The first write to a huge page that lies wholly in the mapping fills all of it."""
    huge, page, header = 2 << 20, os.sysconf("SC_PAGE_SIZE"), 64
    used, mapped = n_bytes + header, hook("asp_output_mapped")(n_bytes)
    end = -(-used // huge) * huge
    assert mapped >= used
    if end <= mapped:
        assert end - used <= used / 8 + page


def resident_bytes():
    """Return the bytes of physical memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_resize_keeps_the_elements():
    array = memory.empty_output((1 << 19,), F4)
    array[:] = np.arange(array.size, dtype=np.float32)
    for n in (1 << 21, 1 << 19, 10, 1 << 20):
        before = array[: min(n, array.size)].copy()
        array.resize(n, refcheck=False)
        assert np.array_equal(array[: before.size], before)


def test_many_threads_allocate_hand_over_and_free():
    shelf: list[np.ndarray] = []
    failures: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        with config.options(output_pool_bytes=ROOM):
            for turn in range(150):
                array = memory.empty_output((int(rng.integers(1 << 18, 1 << 19)),), F4)
                mark = seed * 1000 + turn
                array[[0, -1]] = mark
                shelf.append(array)
                other = shelf.pop(0)  # freed by a thread that did not allocate it
                if other[0] != other[-1] or array[0] != mark:
                    failures.append(mark)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures
    shelf.clear()
    assert kept_pages()["kept_bytes"] <= ROOM


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")  # Python 3.12 warns of fork
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_while_other_threads_allocate():
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            memory.empty_output((1 << 19,), F4)

    worker = threading.Thread(target=churn)
    worker.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                array = memory.empty_output(BIG, F4)
                array.fill(2)
                os._exit(0 if array[-1, 1] == 2 else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        worker.join()


def test_without_handlers_numpy_serves(monkeypatch):
    monkeypatch.setattr(memory, "_allocate", None)
    array = memory.empty_output(BIG, F4)
    assert array.flags.owndata
    assert handler_name(array) == "default_allocator"
    assert kept_pages()["n_kept"] == 0


LIMITED = """
import resource
import numpy as np
from autosparse._native import memory
from autosparse import config

config.reload_options()
with config.options(output_pool_bytes=1 << 28):
    float32 = np.dtype(np.float32)
    held = [memory.empty_output((1 << 20,), float32) for _ in range(16)]
    del held
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20),) * 2)
    print(memory.empty_output((1 << 23,), float32).nbytes)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system has no /proc")
def test_kept_pages_are_given_up_for_a_result_that_has_no_room_beside_them() -> None:
    """Check a result of 32 MiB after results of 4 MiB, which are too small for it, in an address space with 4 MiB."""
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    assert done.stdout == f"{32 << 20}\n", done.stderr


BESIDE = """
import ctypes
from pathlib import Path
import numpy as np
from autosparse._native import memory

result = memory.empty_output((12 << 20,), np.dtype(np.uint8))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
address = libc.malloc(20 << 20)
(heap,) = (line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]"))
low, high = (int(bound, 16) for bound in heap.split()[0].split("-"))
print(low <= address < high)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not Path("/proc/self/maps").exists(),
    reason="this system has no /proc or another C library than glibc",
)
def test_arrays_beside_results_come_from_the_heap_which_keeps_their_pages() -> None:
    done = subprocess.run([sys.executable, "-c", BESIDE], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr
