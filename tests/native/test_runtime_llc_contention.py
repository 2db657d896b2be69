"""Tests of streaming stores and far prefetching, which AMD processors use for large operands, on small operands."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.covering import covering
from tests.native.hooks import forced_choice
from tests.native.runtime_cases import (
    DTYPES,
    INDEX_DTYPES,
    Reference,
    forced,
    isas,
    needs_runtime,
    patterns,
    spoken,
    values,
)

pytestmark = needs_runtime

LINE = 64
PATTERNS = patterns()
COLUMNS = (2, 8, 16, 17, 31, 32, 64, 100, 130, 256, 272)


PLACES = ((0, 0, 0), (16, 16, 0), (32, 16, FLAG_ACCUMULATE), (48, 32, 0))
"""Bytes from a cache line to B and to the result, and flags of a product."""
WAYS = {"zen4": 1, "zen5": 2}


def contention(way):
    """Force the choice of kernels for operands that exceed the last-level cache of one of these processors."""
    return forced_choice("llc_contention", (WAYS | {"roomy": 0})[way])


def placed(shape, dtype, late):
    """Return (array, memory, start): an array of `shape`, `late` bytes after a cache line, and its memory."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(n_bytes + 4 * LINE, 255, np.uint8)
    start = -memory.ctypes.data % LINE + LINE + late
    return memory[start : start + n_bytes].view(dtype).reshape(shape), memory, start


@covering(isa=isas(), dtype=DTYPES, name=PATTERNS, index_dtype=INDEX_DTYPES, way=WAYS)
def test_the_answer_is_scipys_and_memory_beside_it_is_not_touched(isa, dtype, name, index_dtype, way, pytestconfig):
    """Check every number of columns; without --full at some of four places each, which other cases complete.

    That is at two places, and where there are many rows at one, and at most 130 columns.
    """
    place, is_full = list(PATTERNS).index(name), pytestconfig.getoption("--full")
    A, csr = spoken(PATTERNS[name], dtype, index_dtype)
    is_large = A.shape[0] > 8000 and not is_full
    period = 4 if is_large else 2
    for at, columns in enumerate(COLUMNS[: -2 if is_large else None]):
        rng = np.random.default_rng(at)
        given, added = values(rng, (A.shape[1], columns), dtype), values(rng, (A.shape[0], columns), dtype)
        wanted = Reference(A, given)
        for turn, (late_b, late_c, flags) in enumerate(PLACES):
            if (turn + at + place) % period and not is_full:
                continue
            B, *_ = placed(given.shape, dtype, late_b)
            out, memory, start = placed(added.shape, dtype, late_c)
            B[...], out[...] = given, added
            with forced(isa), contention(way):
                runtime_api.matmul(csr, A.shape, B, out, threads=1 + at % 3, flags=flags)
            wanted.check(out, added_to=added if flags else None)
            assert (memory[:start] == 255).all()
            assert (memory[start + out.nbytes :] == 255).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("way", WAYS)
def test_the_bits_are_those_of_operands_that_fit(way, isa, dtype):
    A, csr = spoken(PATTERNS["rows of at most 40"], dtype, "int32")
    for columns in COLUMNS:
        B = values(np.random.default_rng(columns), (A.shape[1], columns), dtype)
        found = []
        for chosen in (way, "roomy"):
            out = np.full((A.shape[0], columns), np.nan, dtype)
            with forced(isa), contention(chosen):
                runtime_api.matmul(csr, A.shape, B, out, threads=2, flags=0)
            found.append(out)
        np.testing.assert_array_equal(*found)


@covering(isa=isas(), dtype=["float32", "float64"], name=PATTERNS, way=WAYS)
def test_sampled_products_are_numpys(isa, dtype, name, way, pytestconfig):
    """Check four widths with either index dtype; without --full each width with one, and with the other elsewhere."""
    place, is_full = list(PATTERNS).index(name), pytestconfig.getoption("--full")
    rng = np.random.default_rng(3)
    for wide, index_dtype in enumerate(("int32", "int64")):
        A, (indptr, indices, data) = spoken(PATTERNS[name], dtype, index_dtype)
        (n, m), nnz = A.shape, int(indptr[-1])
        rows = np.repeat(np.arange(n), np.diff(indptr))
        for at, K in enumerate((64, 128, 130, 256)):
            if (at + place + wide) % 2 and not is_full:
                continue
            X, Y, out = values(rng, (n, K), dtype), values(rng, (m, K), dtype), np.full(nnz + 8, 7, dtype)
            with forced(isa), contention(way):
                status = runtime_api.lib.asp_sddmm_at(
                    dtype == "float64", index_dtype == "int64", n, m, indptr.ctypes.data, indices.ctypes.data, nnz,
                    X.ctypes.data, K, Y.ctypes.data, 1, K, K, 2.0, 0.5, data.ctypes.data, out.ctypes.data, 0, 2,
                )  # fmt: skip
            assert status == 0
            want = 2 * (X @ Y.T)[rows, indices[:nnz]] + 0.5 * data[:nnz]  # rows of X for each entry take much memory
            bound = 1e-5 if dtype == "float32" else 1e-13
            np.testing.assert_allclose(out[:nnz], want, rtol=0, atol=bound * K * (1 + abs(want).max(initial=0)))
            assert (out[nnz:] == 7).all()
