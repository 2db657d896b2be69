"""Tests of A^T B on several threads: no two write to one cache line of C, and every method gives the product."""

from __future__ import annotations

import concurrent.futures
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.runtime_api import DTYPE_CODES, FLAG_ACCUMULATE, FLAG_DETERMINISTIC

from tests.covering import covering
from tests.native.hooks import forced_choice, hook, shared_jobs
from tests.native.runtime_cases import Reference, assert_product, forced, isas, needs_runtime, patterns, spoken, values

pytestmark = needs_runtime

LINE = 64
MAX_CUTS = 257
WAYS = {"chosen": -1, "transposed": 0, "parts": 1, "columns": 2, "tiles": 3}
PATTERNS = patterns()


def cuts_of(dtype: str, address: int, ld: int, columns: int, threads: int) -> list[int]:
    """Return the columns where threads that add to C are separated; [] when each has private memory."""
    cuts = runtime_api.ffi.new(f"int64_t[{MAX_CUTS}]")
    n = hook("asp_csr_t_cuts")(DTYPE_CODES[dtype], address, ld, columns, threads, cuts)
    return list(cuts[0 : n + 1]) if n else []


@pytest.mark.parametrize("dtype", DTYPE_CODES)
def test_no_two_threads_write_to_one_line_wherever_the_result_begins(dtype: str) -> None:
    item = np.dtype(dtype).itemsize
    n_cut = 0
    widths = (16, 17, 24, 32, 64, 100, 256, 300)
    for columns, late, threads in itertools.product(widths, range(0, LINE, item), (1, 2, 3, 8)):
        for ld in (columns, columns + LINE // item, columns + 1):
            cuts = cuts_of(dtype, (1 << 20) + late, ld, columns, threads)
            if not cuts:
                continue
            n_cut += len(cuts) > 2
            assert cuts[0] == 0
            assert cuts[-1] == columns
            assert all(first < last for first, last in itertools.pairwise(cuts))
            for row, cut in itertools.product(range(3), cuts[1:-1]):
                assert (late + (row * ld + cut) * item) % LINE == 0, (columns, late, threads, ld)
    assert n_cut, "where rows of C are whole lines, columns are cut"


@covering(name=PATTERNS, isa=isas(), way=WAYS)
def test_every_way_gives_the_product_wherever_the_result_begins(name: str, isa: str, way: str) -> None:
    A, csr = spoken(PATTERNS[name], "float64", "int32")
    rng = np.random.default_rng(5)
    with forced(isa):
        for columns, late, threads in ((16, 16, 2), (24, 0, 3), (33, 8, 2), (64, 48, 4), (40, 0, 1)):
            B = values(rng, (A.shape[0], columns), "float64")
            before = values(rng, (A.shape[1], columns), "float64")
            wanted = Reference(A.T, B)
            for flags in (0, FLAG_ACCUMULATE):
                memory = np.full(before.size + 4 * LINE // 8, 7.0)
                start = (-memory.ctypes.data % LINE + LINE + late) // 8
                out = memory[start : start + before.size].reshape(before.shape)
                out[:] = before
                with forced_choice("t_way", WAYS[way]):
                    runtime_api.matmul(csr, A.shape, B, out, transposed=True, threads=threads, flags=flags)
                wanted.check(out, added_to=before if flags else None)
                assert (memory[:start] == 7).all()
                assert (memory[start + before.size :] == 7).all()


def test_indices_of_a_transposed_copy_are_aligned_behind_an_odd_number_of_values() -> None:
    """Sanitizers report 64-bit indices at an address that is no multiple of 8."""
    rng = np.random.default_rng(8)
    A = sp.csr_array(np.tri(9, 9, dtype="float32"))
    assert A.nnz % 2
    csr = A.indptr.astype("int64"), A.indices.astype("int64"), A.data
    B, out = values(rng, (9, 24), "float32"), np.empty((9, 24), "float32")
    with forced_choice("t_way", WAYS["transposed"]):
        runtime_api.matmul(csr, A.shape, B, out, transposed=True)
    assert_product(out, A.T, B)


@pytest.mark.parametrize("columns", [16, 24, 48])
def test_deterministic_results_depend_on_neither_threads_nor_alignment(columns: int) -> None:
    rng = np.random.default_rng(6)
    A = sp.random_array((40_000, 12), density=0.25, format="csr", random_state=rng)
    csr, B = (A.indptr, A.indices, A.data), rng.standard_normal((A.shape[0], columns))
    wanted = None
    for threads, late in itertools.product((1, 2, 3), (0, 16, 56)):
        memory = np.empty(A.shape[1] * columns + 2 * LINE // 8)
        start = (-memory.ctypes.data % LINE + late) // 8
        out = memory[start : start + A.shape[1] * columns].reshape(-1, columns)
        runtime_api.matmul(csr, A.shape, B, out, transposed=True, threads=threads, flags=FLAG_DETERMINISTIC)
        wanted = out.copy() if wanted is None else wanted
        np.testing.assert_array_equal(out, wanted)
    np.testing.assert_allclose(wanted, A.T @ B, rtol=1e-10, atol=1e-10)


@covering(mean=[0.5, 1, 3, 8, 20, 60], columns=[1, 3, 64, 65, 3000], dtype=DTYPE_CODES, index=["int32", "int64"])
def test_vectors_are_multiplied_whatever_the_lengths_of_rows(mean: float, columns: int, dtype: str, index: str) -> None:
    """Cover rows of mixed and of equal lengths, and one longer than the product buffer; sums are exact."""
    rng = np.random.default_rng(7)
    for lengths in (rng.poisson(mean, 3000), np.full(3000, max(1, int(mean)))):
        lengths[rng.integers(3000)] = 2500
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
        indices = rng.integers(0, columns, indptr[-1]).astype(index)
        csr = indptr, indices, rng.integers(-4, 5, indptr[-1]).astype(dtype)
        x = rng.integers(-4, 5, (3000, 1)).astype(dtype)
        expected = np.zeros((columns, 1), dtype)
        np.add.at(expected, indices, csr[2][:, None] * np.repeat(x, lengths, axis=0))
        for threads, flags in itertools.product((1, 2, 5), (0, FLAG_ACCUMULATE, FLAG_DETERMINISTIC)):
            out = np.full((columns, 1), 3, dtype)
            runtime_api.matmul(csr, (3000, columns), x, out, transposed=True, threads=threads, flags=flags)
            np.testing.assert_array_equal(out, expected + 3 * (flags == FLAG_ACCUMULATE))


@pytest.mark.parametrize("columns", [1, 16])
def test_parts_clear_and_add_no_more_than_their_rows_touch(columns: int) -> None:
    """Cover a band, leading empty rows, threads without entries, and rows of C that no entry refers to."""
    n = 4000
    band = sp.diags_array([np.arange(1.0, n + 1)] * 40, offsets=range(40), shape=(n, n), format="csr")
    gaps = band.copy()
    gaps.data[gaps.indices % 3 == 0] = 0
    gaps.eliminate_zeros()
    half = sp.vstack([sp.csr_array((n, n)), band[n // 2 :]]).tocsr()
    for A in (band, gaps, half):
        csr = A.indptr.astype("i4"), A.indices.astype("i4"), A.data
        B = np.random.default_rng(3).integers(-4, 5, (A.shape[0], columns)).astype("f8")
        for threads in (1, 2, 3, 7):
            out = np.full((n, columns), np.nan)
            runtime_api.matmul(csr, A.shape, B, out, transposed=True, threads=threads, flags=0)
            np.testing.assert_array_equal(out, A.T @ B)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("where", ["anywhere", "in a band", "in a band but for a few", "anywhere but for both ends"])
def test_rows_that_parts_touch_contain_all_entries(where: str, columns: int) -> None:
    """Check parts whose sampled indices span the rows of C, and parts with single entries far from all others."""
    rng = np.random.default_rng(4)
    n, n_entries = 3_000, 60_000
    rows, wanted = np.sort(rng.integers(0, n, n_entries)), rng.integers(0, n, n_entries)
    if where.startswith("in a band"):
        wanted = np.clip(rows + rng.integers(-20, 20, n_entries), 0, n - 1)
    if where.endswith("a few"):
        wanted[[n_entries - 7, 12]] = 0, n - 1
    if where.endswith("ends"):
        wanted[wanted < n // 20], wanted[wanted > n - n // 20] = n // 2, n // 2
        wanted[[n_entries - 5, 33]] = 0, n - 1
    A = sp.csr_array(sp.coo_array((rng.standard_normal(n_entries), (rows, wanted.astype(np.int32))), shape=(n, n)))
    B = rng.standard_normal((n, columns))
    for threads in (2, 3, 8):
        out = np.full((n, columns), np.nan)
        with forced_choice("helpers", 1), forced_choice("t_way", WAYS["parts"]):
            runtime_api.matmul((A.indptr, A.indices, A.data), A.shape, B, out, transposed=True, threads=threads)
        np.testing.assert_allclose(out, A.T @ B, rtol=1e-9, atol=1e-9)


def test_two_parts_are_one_job_with_the_same_bits_each_time() -> None:
    """Check that the thread that computed the private sums adds them, in no second job, whichever part ends last."""
    A = sp.random_array((60_000, 9_000), density=0.001, format="csr", random_state=np.random.default_rng(2))
    csr, x = (A.indptr, A.indices, A.data), np.random.default_rng(3).standard_normal((A.shape[0], 1))
    wanted = None
    with forced_choice("helpers", 1):
        before = shared_jobs()
        for _ in range(50):
            out = np.empty((A.shape[1], 1))
            runtime_api.matmul(csr, A.shape, x, out, transposed=True, threads=2)
            wanted = out if wanted is None else wanted
            np.testing.assert_array_equal(out, wanted)
        assert shared_jobs() - before <= 50
    np.testing.assert_allclose(wanted, A.T @ x, rtol=1e-10, atol=1e-10)


def test_threads_and_sizes_take_turns_with_the_kept_sums() -> None:
    """Check products that need less, more, and more than the kept memory, from several threads at once."""
    rng = np.random.default_rng(1)
    made = [sp.random_array((50_000, n), density=1e5 / 5e4 / n, format="csr", random_state=rng) for n in (900, 20_000)]
    made.append(sp.random_array((50_000, 150_000), density=5e-5, format="csr", random_state=rng))
    cases = [(A, x, A.T @ x) for A in made for x in [rng.standard_normal((A.shape[0], 1))]]

    def multiply(_: int) -> None:
        for A, x, wanted in cases:
            out = np.empty(wanted.shape)
            runtime_api.matmul((A.indptr, A.indices, A.data), A.shape, x, out, transposed=True, threads=2)
            np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-9)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(multiply, range(40)))
