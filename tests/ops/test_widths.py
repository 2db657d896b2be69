"""Tests of products of every width against SciPy: `A @ B`, `A.T @ B`, SDDMM and MTTKRP, on every instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from tests.native.hooks import forced_choice, on_several_threads

WIDTHS = (*range(1, 41), 50, 64, 100, 130)
SAMPLE = (1, 2, 3, 5, 7, 10, 17, 33, 130)
DTYPES = ("float32", "float64")
LEVELS = range(runtime_api.lib.asp_best_isa() + 1 if runtime_api.available else 1)
pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


@pytest.fixture(params=LEVELS)
def isa(request: Any) -> Any:
    """Run the test with each instruction set of this processor."""
    runtime_api.lib.asp_force_isa(request.param)
    yield request.param
    runtime_api.lib.asp_force_isa(-1)


def widths(full: tuple[int, ...] = WIDTHS, sample: tuple[int, ...] = SAMPLE) -> list[Any]:
    """Return the sampled widths, and the others marked `full`."""
    return [*sample, *(pytest.param(w, marks=pytest.mark.full) for w in full if w not in sample)]


def patterns() -> dict[str, Any]:
    """Return matrices with rows of different lengths: empty, short, long, and three identical ones after each other."""
    rng = np.random.default_rng(3)
    ragged = sps.random_array((90, 70), density=0.08, format="lil", random_state=rng)
    ragged[3:9, :] = 0
    ragged[40, :] = 1.0
    nodes = sps.random_array((40, 30), density=0.2, random_state=rng)
    return {
        "ragged": ragged.tocsr(),
        "identical rows": sps.kron(nodes, np.ones((3, 1))).tocsr(),
        "one column": sps.random_array((200, 1), density=0.5, format="csr", random_state=rng),
        "without entries": sps.csr_array((5, 4)),
    }


PATTERNS = patterns()


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    """Return normal numbers of this dtype, with imaginary parts if it is complex."""
    real, imaginary = rng.standard_normal(shape), rng.standard_normal(shape)
    return (real + 1j * imaginary if np.dtype(dtype).kind == "c" else real).astype(dtype)


def matrix(name: str, dtype: str, index: str = "int32") -> Any:
    """Return a pattern as csr_array with values drawn anew."""
    rng, A = np.random.default_rng(5), sps.csr_array(PATTERNS[name])
    values = rng.standard_normal(A.nnz).astype(dtype)
    return sps.csr_array((values, A.indices.astype(index), A.indptr.astype(index)), shape=A.shape)


def assert_product(C: Any, A: Any, B: Any) -> None:
    """Check ``C = A @ B`` within (n + 4) eps times the sum of magnitudes of each row's n entries."""
    wide, columns = A.astype(np.float64), B.astype(np.float64)
    allowed = (np.diff(A.indptr)[:, None] + 4) * np.finfo(C.dtype).eps * (abs(wide) @ np.abs(columns))
    assert C.dtype == A.dtype
    assert np.all(np.abs(C - wide @ columns) <= allowed)


@contextmanager
def untuned() -> Iterator[None]:
    """Use default kernels, on several threads even for small operands."""
    with asp.options(effort="off", threads=2), on_several_threads():
        yield


@pytest.mark.parametrize("width", widths())
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PATTERNS)
def test_products_of_every_width_equal_scipy(name: str, dtype: str, width: int, isa: int) -> None:
    rng = np.random.default_rng(width)
    for index in ("int32", "int64"):
        M = matrix(name, dtype, index)
        A = asp.csr(M, copy=True)
        B, D = (rng.standard_normal((n, width)).astype(dtype) for n in (M.shape[1], M.shape[0]))
        with untuned():
            C = A @ B
            assert_product(C, M, B)
            assert_product(A.T @ D, M.T.tocsr(), D)
        for threads in (1, 3):
            with asp.options(effort="off", threads=threads), on_several_threads():
                assert np.array_equal(A @ B, C), "the same bits for any number of threads"


@pytest.mark.parametrize("width", widths())
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_of_every_width_stay_within_their_rows(dtype: str, width: int, isa: int) -> None:
    """Kernels for narrow or partial vectors must not write beyond the columns of a result in a wider array."""
    M = matrix("ragged", dtype)
    A, rng = asp.csr(M, copy=True), np.random.default_rng(width)
    for transposed in (False, True):
        op, ours = (M.T.tocsr(), A.T) if transposed else (M, A)
        room = np.full((op.shape[0], width + 9), 7.0, dtype)
        B = rng.standard_normal((op.shape[1], width)).astype(dtype)
        with untuned():
            asp.matmul(ours, B, out=room[:, 4 : width + 4])
        assert_product(room[:, 4 : width + 4], op, B)
        assert np.all(room[:, :4] == 7)
        assert np.all(room[:, width + 4 :] == 7)


@pytest.mark.parametrize("width", widths())
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinite_values_reach_only_their_own_results(dtype: str, width: int, isa: int) -> None:
    """Lanes that are no columns, and entries that are no entries, must not multiply an infinite value by zero."""
    M = matrix("ragged", dtype)
    column = int(M.indices[M.indptr[40] - 1])
    B = np.ones((M.shape[1], width), dtype)
    B[column] = np.inf
    reached = np.zeros(M.shape[0], bool)
    reached[M.tocsc()[:, [column]].indices] = True
    with untuned():
        C = asp.csr(M, copy=True) @ B
        S = asp.sddmm(asp.csr(M, copy=True), np.ones((M.shape[0], width), dtype), B.T)
    assert np.all(np.isfinite(C[~reached]))
    assert not np.any(np.isfinite(C[reached]))
    assert np.array_equal(np.isfinite(S.data), M.indices != column)


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_rows_of_every_short_length_depend_on_their_own_entries_alone(columns: int, dtype: str, isa: int) -> None:
    lengths = [*range(35), 0, 1, 2, 3]
    rng, indptr = np.random.default_rng(columns), np.cumsum([0, *lengths])
    used = np.arange(1, 40)  # not the first row of B: a kernel may load it for entries that are missing
    columns_of = np.concatenate([np.sort(rng.choice(used, n, replace=False)) for n in lengths])
    values, room = (drawn(rng, shape, dtype) for shape in (columns_of.shape, (40, columns + 3)))
    room[0], B = np.nan, room[:, 1 : columns + 1]
    for index in ("int32", "int64"):
        M = sps.csr_array((values, columns_of, indptr), shape=(len(lengths), 40))
        M.indices, M.indptr = M.indices.astype(index), M.indptr.astype(index)
        with untuned():
            found = []
            for gathers in (0, 1):
                with forced_choice("gathers", gathers):
                    found += [asp.csr(M, copy=True) @ B]
            below = [asp.csr(M[row : row + 1], copy=True) @ B for row in range(len(lengths))]
            infinite, column = B.copy(), columns_of[indptr[20] - 1]
            infinite[column] = np.inf
            C = asp.csr(M, copy=True) @ infinite
        wanted, size = M.astype(complex) @ B.astype(complex), abs(M).astype(float) @ np.abs(B).astype(float)
        assert np.all(np.abs(found[0] - wanted) <= 80 * np.finfo(dtype).eps * size)
        if columns == 2:
            assert np.array_equal(*found), "the same bits with and without gather instructions"
        if columns > 1 or np.dtype(dtype).kind == "c":
            assert np.array_equal(np.concatenate(below), found[0]), "the same bits in a matrix of one row"
        reached = M.astype(bool).tocsc()[:, [column]].toarray()[:, 0]
        assert np.array_equal(~np.isfinite(C).all(axis=1), reached)


@pytest.mark.parametrize("width", widths())
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PATTERNS)
def test_sampled_products_of_every_width_equal_numpy(name: str, dtype: str, width: int, isa: int) -> None:
    rng = np.random.default_rng(width)
    for index in ("int32", "int64"):
        M = matrix(name, dtype, index)
        X, Y = (rng.standard_normal((n, width)).astype(dtype) for n in M.shape)
        A = asp.csr(M, copy=True)
        with untuned():
            S = asp.sddmm(A, X, Y.T)
        rows = np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))
        x, y, a = (part.astype(np.float64) for part in (X[rows], Y[M.indices], M.data))
        allowed = (width + 4) * np.finfo(dtype).eps * np.abs(a) * np.sum(np.abs(x * y), axis=1)
        assert np.all(np.abs(S.data - a * np.sum(x * y, axis=1)) <= allowed)
        with asp.options(effort="off", threads=1):
            assert np.array_equal(asp.sddmm(A, X, Y.T).data, S.data), "the same bits for any number of threads"


@pytest.mark.parametrize("width", widths())
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40, 9, 8), (12, 5, 6, 7), (7, 4, 5, 3, 6)], ids=str)
def test_mttkrp_of_every_rank_equals_numpy(shape: tuple[int, ...], dtype: str, width: int, isa: int) -> None:
    rng = np.random.default_rng(width)
    coords = np.stack([rng.integers(0, n, 300) for n in shape])
    T = asp.tensor(coords, rng.standard_normal(300).astype(dtype), shape)
    factors = [rng.standard_normal((n, width)).astype(dtype) for n in shape]
    for mode in range(len(shape)):
        products, sizes = T.values.astype(np.float64)[:, None], np.abs(T.values)[:, None]
        for n, factor in enumerate(factors):
            if n != mode:
                products = products * factor[T.coords[n]].astype(np.float64)
                sizes = sizes * np.abs(factor[T.coords[n]])
        wanted, size = np.zeros((shape[mode], width)), np.zeros((shape[mode], width))
        np.add.at(wanted, T.coords[mode], products)
        np.add.at(size, T.coords[mode], sizes)
        room = np.full((shape[mode], width + 9), 7.0, dtype)
        with untuned():
            asp.mttkrp(T, factors, mode, out=room[:, 4 : width + 4])
        assert np.all(np.abs(room[:, 4 : width + 4] - wanted) <= 4 * (300 + len(shape)) * np.finfo(dtype).eps * size)
        assert np.all(room[:, :4] == 7)
        assert np.all(room[:, width + 4 :] == 7)
