"""Tests of panels of B: the results are SciPy's, with the same bits for any alignment of B and concurrent callers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from autosparse._native import runtime_api

from tests.native.hooks import forced_choice
from tests.native.runtime_cases import DTYPES, assert_product, forced, isas, needs_runtime, spoken, values, with_lengths

pytestmark = needs_runtime


@pytest.fixture(autouse=True, params=[True, False], ids=["copies", "no copies"])
def copies(request):
    """Force copies of B into panels wherever some processor prefers them, or almost nowhere."""
    with forced_choice("copies", request.param):
        yield


READS = 90  # reads per row of B: above the number for which a copy pays off


def often_read(n_rows, n_cols, dtype, seed=5):
    rng = np.random.default_rng(seed)
    return spoken(with_lengths(np.full(n_rows, READS * n_cols // n_rows), n_cols, rng), dtype, "int32")


def placed(B, offset_bytes, gap=0):
    """Return a copy of B that begins `offset_bytes` after a cache line, with `gap` elements between its rows."""
    rows, columns = B.shape
    n_bytes = rows * (columns + gap) * B.itemsize
    memory = np.full(n_bytes + 128, 0xFF, np.uint8)  # NaN outside B
    start = -memory.ctypes.data % 64 + offset_bytes
    whole = memory[start : start + n_bytes].view(B.dtype).reshape(rows, columns + gap)
    whole[:, :columns] = B
    return whole[:, :columns]


def product(csr, shape, B, threads=2):
    out = np.full((shape[0], B.shape[1]), np.nan, B.dtype)
    return runtime_api.matmul(csr, shape, B, out, transposed=False, threads=threads, flags=0)


NARROW = [(dtype, 70, columns) for dtype in DTYPES for columns in (7, 32, 33, 300)]
SEVERAL_PANELS = [("float32", 6000, 100), ("float64", 4500, 60), ("complex64", 4500, 50)]


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize(("dtype", "n_cols", "columns"), NARROW + SEVERAL_PANELS)
def test_bits_do_not_depend_on_where_b_lies(dtype, n_cols, columns, isa):
    A, csr = often_read(400, n_cols, dtype)
    B = values(np.random.default_rng(6), (n_cols, columns), dtype)
    item = B.itemsize
    with forced(isa):
        aligned = product(csr, A.shape, placed(B, 0))
        assert_product(aligned, A, B)
        for offset, gap, threads in ((16, 0, 2), (item, 0, 1), (32, 3, 3), (0, 5, 2)):
            moved = product(csr, A.shape, placed(B, offset - offset % item, gap), threads)
            np.testing.assert_array_equal(moved, aligned)


def test_threads_that_find_the_copy_taken_do_without():
    A, csr = often_read(500, 300, "float32")
    dense = [placed(values(np.random.default_rng(seed), (300, 64), "float32"), 16) for seed in range(8)]
    alone = [product(csr, A.shape, B) for B in dense]
    with ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            for got, want in zip(threads.map(lambda B: product(csr, A.shape, B), dense), alone, strict=True):
                np.testing.assert_array_equal(got, want)
