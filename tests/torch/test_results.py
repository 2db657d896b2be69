"""Tests of large results in recycled pages, as tensors that PyTorch may use in any way."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from autosparse import config
from tests.torch.samples import assert_close, compressed, dense, numbers, torch

import autosparse.torch as asp  # isort: skip
from autosparse.torch import native, results, thresholds  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:.*profil")
SHAPE = (300, 200)  # 240 kB of float32


@pytest.fixture(autouse=True)
def empty_pool():
    results.forget()
    yield
    results.forget()


def product():
    """Return a result of `SHAPE` and its expected value."""
    D, B = dense(300, 100), numbers(100, 200)
    with asp.override():
        return compressed(D) @ B, D @ B


def test_memory_serves_again_when_no_tensor_is_left():
    assert SHAPE[0] * SHAPE[1] * 4 >= thresholds.POOLED_BYTES
    first, _ = product()
    place = first.data_ptr()
    second, want = product()
    assert second.data_ptr() != place
    del first
    third, _ = product()
    assert third.data_ptr() == place
    assert_close(third, want)
    assert_close(second, want)


@pytest.mark.parametrize(
    "keep",
    [
        lambda Y: Y[3:5],
        lambda Y: Y.numpy()[::2],
        lambda Y: Y.untyped_storage(),
        lambda Y: Y.detach(),
        lambda Y: torch.utils.dlpack.to_dlpack(Y),
        lambda Y: Y * torch.ones(SHAPE, requires_grad=True),  # saved for the backward pass
    ],
    ids=["view", "array", "storage", "detached", "capsule", "graph"],
)
def test_referenced_memory_is_not_reused(keep):
    Y, _ = product()
    place, kept = Y.data_ptr(), keep(Y)
    del Y
    gc.collect()
    others = [product()[0] for _ in range(3)]
    assert place not in {one.data_ptr() for one in others}
    del kept


def test_results_can_be_resized_as_distributed_training_does():
    for _ in range(2):
        Y, want = product()
        Y.resize_(310, 210)
        assert_close(Y.view(-1)[: want.numel()].view(SHAPE), want)
        Y, want = product()
        storage = Y.untyped_storage()
        n_bytes = storage.nbytes()
        assert n_bytes == want.numel() * 4
        storage.resize_(0)
        others = [product() for _ in range(3)]
        storage.resize_(n_bytes)
        Y.copy_(want)
        for other, right in others:
            assert_close(other, right)
        assert_close(Y, want)


def test_operands_of_planned_products_can_be_resized_too():
    D = dense(300, 300)
    A, B, X = compressed(D), numbers(300, 100), numbers(300, 3000)
    with asp.override():
        for _ in range(9):
            Y = A @ B
        torch.sparse.sampled_addmm(A, X, X.t())
    for tensor in (Y, B, X):
        assert tensor.untyped_storage().resizable()


def test_results_are_memory_of_the_profiler():
    product()
    with torch.profiler.profile(profile_memory=True) as profile:
        Y, want = product()
    assert any(event.self_cpu_memory_usage >= want.numel() * 4 for event in profile.key_averages())
    assert_close(Y, want)


def test_the_pool_is_bounded_and_can_be_turned_off():
    with config.options(output_pool_bytes=0):
        product()
    assert not results._pool
    with config.options(output_pool_bytes=600_000):
        kept = [product()[0] for _ in range(5)]
        assert results._held_bytes() <= 600_000
    del kept
    kept = [results.empty((50_000 + n,), torch.float32) for n in range(3 * results.MAX_STORAGES)]
    assert sum(map(len, results._pool.values())) <= results.MAX_STORAGES
    assert len({one.data_ptr() for one in kept}) == len(kept)


def test_index_arrays_leave_the_pool():
    """Check that pages of index arrays are not reused while a structure is known by their addresses."""
    n = 40_000
    memory = results.empty((n, 2), torch.float32)
    col = memory.view(torch.int64).view(-1)
    col.copy_(torch.arange(n))
    A = torch.sparse_csr_tensor(torch.arange(n + 1), col, torch.ones(n), (n, n))
    with asp.override():
        for _ in range(8):
            A @ numbers(n)
    place = memory.data_ptr()
    del A, col, memory
    assert all(storage.data_ptr() != place for storages in results._pool.values() for storage in storages)


def test_threads_do_not_share_results():
    wrong = []

    def many(value):
        for _ in range(300):
            mine = results.empty(SHAPE, torch.float32).fill_(value)
            if not bool((mine == value).all()):
                wrong.append(value)

    threads = [threading.Thread(target=many, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_does_not_grow_with_the_number_of_blocks():
    D, X = dense(300, 300), numbers(300, 200)
    A = compressed(D)
    places = set()
    for _ in range(50):
        with asp.override():
            Y = A @ X
        places.add(Y.data_ptr())
        X = torch.relu(Y) * 0.5 + 0.1
    assert len(places) <= 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float16])
@pytest.mark.parametrize("shape", [(3_000, 40), (7, 5), (1, 4), (4, 1), (0, 3)])
def test_dense_operands_by_columns_are_copied_by_rows(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    """Pages of large copies, like those of results, are reused: fresh ones take longer than the copy."""
    n, m = shape
    wide = torch.randn(2 * n + 1, 2 * m + 1, dtype=torch.float32).to(dtype)
    for operand in (torch.randn(m, n).to(dtype).t(), wide[: 2 * n : 2, 1 : 2 * m + 1 : 2]):
        results.forget()
        rows = native.rows_of(operand)
        assert rows.shape == operand.shape
        assert torch.equal(rows, operand)
        assert min(n, m) <= 1 or rows.stride() == (m, 1)
        is_large = rows.nbytes >= thresholds.POOLED_BYTES and dtype is not torch.float16
        assert list(results._pool) == ([rows.nbytes] if is_large else [])


GROWTH = """
import ctypes
import torch
from autosparse.torch import results

class Info(ctypes.Structure):
    _fields_ = [(str(i), ctypes.c_size_t) for i in range(10)]  # 0: size of the heap, 4: of other blocks

libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    raise SystemExit("no mallinfo2")
libc.mallinfo2.restype = Info
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

def taken():
    info = libc.mallinfo2()
    return getattr(info, "0") + getattr(info, "4")

torch.empty(3 << 20), results.empty((results.MERGED_BYTES,), torch.uint8)  # malloc keeps blocks from here on
kept, before = torch.empty(1 << 20), taken()
for _ in range(6):
    for size in range(24, 121, 16):
        [libc.malloc(size) for _ in range(7)]  # small blocks that live as long as the process
    for _ in range(10):
        kept = torch.empty(1 << 20)
        results.empty((results.MERGED_BYTES,), torch.uint8)
print((taken() - before) // kept.nbytes)
"""


def test_places_of_freed_tensors_are_used_again():
    """Two tensors of this size live at a time; without merging, the heap grows by 40 of them."""
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=False, timeout=300)
    if "no mallinfo2" in done.stderr:
        pytest.skip("the C library does not tell the size of its heap")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20
