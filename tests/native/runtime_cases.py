"""Patterns, dense operands and the error bound shared by the tests of the C runtime."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api

from tests.native.hooks import on_several_threads

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

DTYPES = tuple(runtime_api.DTYPE_CODES)
INDEX_DTYPES = tuple(runtime_api.INDEX_CODES)
N_NORMALS = 1_000_003
"""Number of random values that dense operands repeat; a prime, so that no two rows of an operand are equal."""


def isas() -> list[str]:
    """Return the instruction sets of this CPU."""
    if not runtime_api.available:
        return []
    return [name for name, level in runtime_api.ISA_LEVELS.items() if level <= runtime_api.lib.asp_best_isa()]


@contextmanager
def forced(isa: str, *, cautious: bool = False) -> Iterator[None]:
    """Use kernels of one instruction set in the block; unless `cautious`, also force helper threads for small jobs."""
    runtime_api.lib.asp_force_isa(runtime_api.ISA_LEVELS[isa])
    try:
        with nullcontext() if cautious else on_several_threads():
            yield
    finally:
        runtime_api.lib.asp_force_isa(-1)


@functools.cache
def _normals(dtype: str) -> np.ndarray:
    """Return a block of normally distributed numbers, twice, so that a piece may begin anywhere in the first half."""
    return np.tile(np.random.default_rng(0).standard_normal(N_NORMALS).astype(dtype), 2)


def values(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Return numbers from a random place of a block of normally distributed ones: drawing them takes longer."""
    x = np.empty(shape, dtype)
    for part in (x.real, x.imag) if np.iscomplexobj(x) else (x,):
        start = int(rng.integers(N_NORMALS))
        part[...] = np.resize(_normals(part.dtype.name)[start : start + min(x.size, N_NORMALS)], shape)
    return x


def with_lengths(lengths: np.ndarray, n_cols: int, rng: np.random.Generator) -> sp.csr_matrix:
    """Return a matrix with rows of the given lengths and random columns: unsorted, with duplicates."""
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = rng.integers(0, max(n_cols, 1), indptr[-1], dtype=np.int32)
    return sp.csr_matrix((np.ones(indptr[-1]), indices, indptr), shape=(len(lengths), n_cols))


def with_identical_rows(rng: np.random.Generator, n_cols: int) -> sp.csr_matrix:
    """Return a matrix with groups of one to seven rows that have the same columns.

    Rows have 1 to 45 entries, unsorted. Other rows equal their predecessor only in their length and all columns but
    the last.
    """
    rows: list[np.ndarray] = []
    for n in (1, 3, 4, 5, 6, 7, 8, 21, 45):
        for n_rows in (3, 2, 4, 7, 1):
            rows += n_rows * [rng.integers(0, n_cols, n)]
            rows.append(np.append(rows[-1][:-1], rng.integers(0, n_cols, 1)))
        rows.append(np.empty(0, int))
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return sp.csr_matrix((np.ones(indptr[-1]), np.concatenate(rows), indptr), shape=(len(rows), n_cols))


def _runs_of_equal_rows() -> np.ndarray:
    """Return lengths of enough rows that kernels look for groups of equal ones; some runs end within a group."""
    lengths = np.repeat([0, 1, 2, 3, 4, 5, 6, 7, 8, 13, 2], [224, 250, 240, 208, 230, 256, 240, 210, 200, 180, 101])
    lengths[[500, 1001, 1002, 1800]] = 9
    return lengths


def patterns() -> dict[str, sp.csr_matrix]:
    """Return small matrices by name, one for each layout of rows that kernels distinguish."""
    rng = np.random.default_rng(20)
    one_dense_row = with_lengths(np.where(np.arange(40) == 17, 30_000, 3), 900, rng)
    return {
        "empty": sp.csr_matrix((5, 7)),
        "no rows": sp.csr_matrix((0, 7)),
        "no columns": sp.csr_matrix((7, 0)),
        "one entry": sp.csr_matrix(([1.0], ([0], [0])), shape=(1, 1)),
        "rows of at most 2": with_lengths(rng.integers(0, 3, 100), 60, rng),
        "rows of at most 4": with_lengths(rng.integers(0, 5, 100), 60, rng),
        "rows of at most 8": with_lengths(rng.integers(0, 9, 100), 60, rng),
        "rows of at most 40": with_lengths(rng.integers(0, 41, 150), 60, rng),
        "short and long": with_lengths(np.where(rng.random(100) < 0.1, 300, 2), 500, rng),
        "wide": with_lengths(rng.integers(0, 6, 37), 4000, rng),
        "tall": with_lengths(rng.integers(0, 6, 3000), 11, rng),
        "one dense row": one_dense_row,
        "identical_rows": with_identical_rows(rng, 67),
        "long identical rows": with_lengths(np.array([9000, 3]), 500, rng)[[0, 0, 0, 1, 1, 1]],
        "two long rows": with_lengths(np.array([2, 40_000, 0, 40_001, 1]), 300, rng),
        "equal rows": with_lengths(np.repeat([1, 2, 3, 5, 8, 19, 24, 25], 37), 60, rng),
        "few deviating rows": with_lengths(np.where(np.arange(300) % 13 == 5, 4, 6), 60, rng),
        "many rows of at most 2": with_lengths(rng.integers(0, 3, 9000), 60, rng),
        "many rows of at most 4": with_lengths(rng.integers(0, 5, 6000), 60, rng),
        "mostly empty rows, few columns": with_lengths(rng.integers(0, 9, 24_000) // 7, 40, rng),
        "mostly empty rows": with_lengths(rng.integers(0, 9, 20_000) // 7, 300, rng),
        "many rows of at most 20": with_lengths(rng.integers(0, 21, 1600), 60, rng),
        "runs of equal rows": with_lengths(_runs_of_equal_rows(), 60, rng),
        "many rows of 9, few longer": with_lengths(np.where(np.arange(2400) % 400 == 5, 57, 9), 60, rng),
    }


def spoken(pattern: sp.csr_matrix, dtype: str, index_dtype: str, *, seed: int = 1) -> tuple[sp.csr_matrix, tuple]:
    """Return the pattern with values: as a SciPy matrix, and as (indptr, indices, data) with spare room at the end."""
    rng = np.random.default_rng(seed)
    data = values(rng, pattern.nnz, dtype)
    data[rng.random(pattern.nnz) < 0.05] = 0  # explicit zeros
    spare = 5
    indices = np.concatenate([pattern.indices, np.full(spare, 2**31 - 1)]).astype(index_dtype)
    csr = (pattern.indptr.astype(index_dtype), indices, np.concatenate([data, np.full(spare, np.nan, dtype)]))
    return sp.csr_matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape), csr


def error_bound(A: Any, B: np.ndarray, dtype: str) -> np.ndarray:
    """Return the rounding error allowed in A @ B, 2 (terms + 8) eps |A| |B|, for any order of summation."""
    terms = int(np.diff(sp.csr_matrix(A).indptr).max(initial=0))
    eps = float(np.finfo(np.dtype(dtype)).eps)
    # not abs(A): SciPy would first add up A's duplicates, in place
    magnitude = type(A)((np.abs(A.data).astype(np.float64), A.indices, A.indptr), shape=A.shape)
    bound: np.ndarray = (magnitude @ np.abs(B).astype(np.float64)) * eps * 2 * (terms + 8)
    return bound


class Reference:
    """SciPy's A @ B and the rounding error allowed in it, for several results; A is a SciPy matrix of their dtype."""

    def __init__(self, A: Any, B: np.ndarray) -> None:
        self.wanted, self.bound = A @ B, error_bound(A, B, str(B.dtype))

    def check(self, got: np.ndarray, *, added_to: np.ndarray | None = None) -> None:
        """Check that `got` equals A @ B (+ added_to) up to rounding."""
        wanted, bound = self.wanted, self.bound
        if added_to is not None:
            wanted = wanted + added_to
            bound = bound + 4 * np.finfo(got.dtype).eps * np.abs(wanted)
        assert got.shape == wanted.shape
        assert got.dtype == wanted.dtype
        error = np.abs(got - wanted)
        assert np.all(error <= bound), float(np.max(error - bound, initial=0))


def assert_product(got: np.ndarray, A: Any, B: np.ndarray, *, added_to: np.ndarray | None = None) -> None:
    """Check that `got` equals A @ B (+ added_to) up to rounding; A is a SciPy matrix of the same dtype."""
    Reference(A, B).check(got, added_to=added_to)
