"""Tests of rows that end within a vector: the lanes behind them fall on later rows of the same range or are masked."""

from __future__ import annotations

import numpy as np
import pytest
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE

from tests.native.runtime_cases import Reference, assert_product, forced, isas, needs_runtime, patterns, spoken, values

pytestmark = needs_runtime

GUARD = 64
"""Values before and behind each result, which no kernel may change."""
NAMES = (
    "rows of at most 2", "rows of at most 8", "short and long", "one dense row", "identical_rows", "two long rows",
    "many rows of at most 4", "mostly empty rows", "many rows of at most 20",
)  # fmt: skip
WIDTHS = (2, 3, 5, 7, 9, 15, 17, 31)


def guarded(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return random values and an array of `shape` in the middle of them."""
    size = int(np.prod(shape))
    everything = values(rng, size + 2 * GUARD, dtype)
    return everything, everything[GUARD : GUARD + size].reshape(shape)


def assert_kept(everything: np.ndarray, before: np.ndarray) -> None:
    """Check that no value around the result has changed."""
    np.testing.assert_array_equal(everything[:GUARD], before[:GUARD])
    np.testing.assert_array_equal(everything[-GUARD:], before[-GUARD:])


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_change_nothing_around_the_result(isa, name, dtype):
    rng, pattern = np.random.default_rng(5), patterns()[name]
    A, csr = spoken(pattern, dtype, "int32")
    for columns in WIDTHS:
        B = values(rng, (A.shape[1], columns), dtype)
        wanted = Reference(A, B)
        for threads in (1, 3):
            for flags in (0, FLAG_ACCUMULATE):
                everything, C = guarded(rng, (A.shape[0], columns), dtype)
                before = everything.copy()
                with forced(isa):
                    runtime_api.matmul(csr, A.shape, B, C, threads=threads, flags=flags)
                added_to = before[GUARD:-GUARD].reshape(C.shape) if flags else None
                wanted.check(C, added_to=added_to)
                assert_kept(everything, before)


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_between_rows_of_the_result_are_kept(isa, dtype):
    rng, pattern = np.random.default_rng(6), patterns()["many rows of at most 4"]
    A, csr = spoken(pattern, dtype, "int32")
    for columns in WIDTHS:
        B = rng.standard_normal((A.shape[1], columns)).astype(dtype)
        everything = rng.standard_normal((A.shape[0], columns + 3)).astype(dtype)
        before = everything.copy()
        with forced(isa):
            runtime_api.matmul(csr, A.shape, B, everything[:, 1 : columns + 1], threads=3)
        assert_product(everything[:, 1 : columns + 1].copy(), A, B)
        np.testing.assert_array_equal(everything[:, [0, -2, -1]], before[:, [0, -2, -1]])


def sampled(csr: tuple, X: np.ndarray, Y: np.ndarray, times: np.ndarray, out: np.ndarray, threads: int) -> None:
    """Fill `out` with `times` multiplied by the products of rows of X and Y at the matrix's entries."""
    indptr, indices, _ = csr
    pointer = runtime_api.pointer
    status = runtime_api.lib.asp_sddmm_scaled(
        runtime_api.DTYPE_CODES[X.dtype.name], runtime_api.INDEX_CODES[indices.dtype.name], len(X), len(Y),
        *map(pointer, (indptr, indices, X)), X.shape[1], pointer(Y), Y.shape[1], X.shape[1], pointer(times),
        pointer(out), threads, 0,
    )  # fmt: skip
    assert status == 0


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sampled_products_may_replace_the_values(isa, name, dtype):
    """A result in the place of the values equals one in memory of its own, and nothing around either changes."""
    rng, pattern = np.random.default_rng(7), patterns()[name]
    A, csr = spoken(pattern, dtype, "int32")
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    for columns in (1, *WIDTHS):
        X, Y = (rng.standard_normal((n, columns)).astype(dtype) for n in A.shape)
        wanted = A.data * np.einsum("pk,pk->p", X[rows].astype("f8"), Y[A.indices].astype("f8"))
        for threads in (1, 3):
            found = []
            for is_in_place in (False, True):
                everything, out = guarded(rng, A.data.shape, dtype)
                if is_in_place:
                    out[:] = A.data
                before = everything.copy()
                with forced(isa):
                    sampled(csr, X, Y, out if is_in_place else A.data, out, threads)
                assert_kept(everything, before)
                found.append(out)
            np.testing.assert_array_equal(*found)
            scale = np.abs(A.data) * np.einsum("pk,pk->p", np.abs(X[rows]), np.abs(Y[A.indices]))
            bound = (columns + 8) * np.finfo(dtype).eps * scale.astype("f8")
            assert np.all(np.abs(found[0] - wanted) <= bound)
