"""Tests of sums, differences and elementwise products of two matrices on all threads, against SciPy."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse import light
from autosparse.arrays import sums
from autosparse.light import native, sparse_results
from tests.arrays.test_selected_rows import KINDS, ours, same
from tests.native.hooks import on_several_threads

SHAPES = [(300, 200), (5, 4000), (3000, 7), (1, 1)]
OPERATIONS = [
    operator.add,
    operator.sub,
    lambda A, B: A.multiply(B),
    lambda A, B: B - A,
    lambda A, B: A - A,
    lambda A, B: A + A,
    lambda A, B: A.multiply(B * 0 + A),
    lambda A, B: A + A.copy(),
]


@pytest.fixture(autouse=True, params=["runtime", "loop", "one pattern"])
def _own_sums(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the C runtime merge small matrices too, in several ranges, or the library call SciPy's loop itself."""
    assert light.complete()
    monkeypatch.setattr(light, "SELECTIONS", 0)
    monkeypatch.setattr(sums.sums, "FROM_ENTRIES", 0 if request.param == "runtime" else 1 << 60)
    monkeypatch.setattr(sums.sums, "COMPARED_FROM", 0 if request.param == "one pattern" else 1 << 60)
    with on_several_threads(), asp.options(threads=3):
        yield


def made(kind: Any, shape: tuple[int, int], dtype: str, seed: int, *, is_special: bool = False) -> Any:
    """Return a matrix in canonical format with small numbers, zeros among them, so that sums cancel."""
    rng = np.random.default_rng(seed)
    n = shape[0] * shape[1] // 8 + 1
    rows, columns = (rng.integers(0, extent, n) for extent in shape)
    m = kind(sps.coo_array((rng.integers(-3, 4, n).astype(dtype), (rows, columns)), shape=shape))
    m.sum_duplicates()
    if is_special:
        m.data[::7], m.data[::11], m.data[::5] = np.nan, np.inf, -0.0
    return m


def with_index(m: Any, index: Any) -> Any:
    return type(m)((m.data, m.indices.astype(index), m.indptr.astype(index)), shape=m.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_results_have_scipys_bits(kind: Any, dtype: str, index: Any) -> None:
    for shape in SHAPES:
        for is_special in (False, np.dtype(dtype).kind in "fc"):
            pair = [with_index(made(kind, shape, dtype, seed, is_special=is_special), index) for seed in (1, 2)]
            A, B = map(ours, pair)
            for operation in OPERATIONS:
                same(operation(A, B), operation(*pair), type(A))


def test_results_are_merged_without_scipys_method(monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = (ours(made(sps.csr_array, SHAPES[0], "float64", seed)) for seed in (1, 2))
    assert sums.merged(A, B, "_plus_") is not None
    assert sums.merged(A, B.T.T.astype("float32"), "_plus_") is None
    assert sums.merged(A, B, "_maximum_") is None
    monkeypatch.setattr(sparse_results, "MAX_SUM_BYTES", 0)
    assert sums.merged(A, B, "_plus_") is not None


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
@pytest.mark.parametrize("name", sums.sums.LOOPS)
@pytest.mark.parametrize("threads", [1, 2])
def test_scipys_loop_computes_long_sums_on_one_thread(name: str, threads: int) -> None:
    """On one thread merging takes longer. Both leave the results in parts of arrays, or in arrays of their own."""
    pair = [
        (one.indptr, one.indices, one.data) for one in (made(sps.csr_array, SHAPES[0], "float64", n) for n in (1, 2))
    ]
    found = native.sum_of(name, pair, np.empty, threads)
    assert (found is None) is (threads == 1)
    by_loop = sums.sums.by_loop(name, SHAPES[0][1], *pair)
    for one, same_array in zip(found or by_loop, by_loop, strict=True):
        np.testing.assert_array_equal(one, same_array)


def test_long_results_of_scipys_loop_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums.sums, "FROM_ENTRIES", 1)
    A = made(sps.csr_array, SHAPES[0], "float64", 1)
    arrays = A.indptr, A.indices, np.abs(A.data) + 1
    assert sums.sums.by_loop("_plus_", SHAPES[0][1], arrays, arrays)[1].base.size == 2 * A.nnz
    few = arrays[0], arrays[1], np.where(np.arange(A.nnz) < 9, 1.0, 0.0)
    assert sums.sums.by_loop("_elmul_", SHAPES[0][1], few, arrays)[1].base is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64", "int8"])
def test_matrices_of_one_pattern_need_no_merging(monkeypatch: pytest.MonkeyPatch, kind: Any, dtype: str) -> None:
    """Check results without zeros, which are computed from the values alone."""
    m = with_index(made(kind, SHAPES[0], dtype, 1), np.int32)
    m.data[:] = np.arange(m.nnz) % 31 + 70  # sums and products of bytes wrap around
    if np.dtype(dtype).kind in "fc":
        m.data[::7], m.data[::11] = np.nan, np.finfo(dtype).max
    n = m.copy()
    n.data[:] = m.data[::-1] + 50
    monkeypatch.setattr(sums.sums, "COMPARED_FROM", 0)
    pair = [(one.indptr, one.indices, one.data) for one in (m, n)]
    assert sums.sums.of_one_pattern("_plus_", *pair, np.empty) is not None
    for operation in (operator.add, operator.sub, lambda A, B: A.multiply(B)):
        same(operation(ours(m), ours(n)), operation(m, n), type(ours(m)))
    other = n.indices.copy()
    other[3:5] = other[4:2:-1]
    assert sums.sums.of_one_pattern("_plus_", pair[0], (n.indptr, other, n.data), np.empty) is None
    assert sums.sums.of_one_pattern("_plus_", *[(n.indptr, other, n.data)] * 2, np.empty) is None
    assert sums.sums.of_one_pattern("_minus_", pair[0], pair[0], np.empty) is None


@pytest.mark.parametrize("is_left", [True, False])
def test_duplicates_and_unsorted_indices_are_left_to_scipy(is_left: bool) -> None:
    m = made(sps.csr_array, SHAPES[0], "float64", 1)
    for indices in (m.indices[::-1].copy(), m.indices // 2):
        other = sps.csr_array((m.data, indices, m.indptr), shape=m.shape)
        pair = (m, other) if is_left else (other, m)
        A, B = map(asp.csr, pair)
        for operation in OPERATIONS:
            same(operation(A, B), operation(*pair), asp.csr_array)


def test_results_own_their_arrays_and_leave_those_of_the_operands() -> None:
    m = made(sps.csr_array, SHAPES[0], "float64", 1)
    A = asp.csr(m)
    A @ np.ones(200), A._cell.validate()
    rows, C = A._cell.rows, A + A
    assert rows is not None
    assert A._cell.rows is rows
    C.data[:] = 0.0
    np.testing.assert_array_equal(A.toarray(), m.toarray())
    assert C.owns_arrays


def test_indices_out_of_bounds_are_not_merged() -> None:
    A = asp.csr(made(sps.csr_array, SHAPES[0], "float64", 1))
    A.indptr[5:] = 10**6
    with pytest.raises(ValueError, match="ind"):
        A + A


class Named(asp.csr_array):
    """Subclass of a user."""


def test_subclasses_keep_their_class() -> None:
    m = made(sps.csr_array, SHAPES[0], "float64", 1)
    same(Named(m) + Named(m), m + m, Named)
    same(asp.csr(m) + m, m + m, asp.csr_array)


UNARY = [
    lambda A: A * 2, lambda A: -A, abs, lambda A: A.astype("float32"), lambda A: A.conj(), lambda A: A.sqrt(),
    lambda A: A / 3.0, lambda A: A * np.float32(3), lambda A: A.power(2), lambda A: A.real, lambda A: A.sign(),
    lambda A: A.astype("int32"), lambda A: A * 1j, lambda A: 2 * A,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_values_have_scipys_bits(kind: Any, is_exact: bool) -> None:
    m = made(kind, SHAPES[0], "float64", 1)
    if not is_exact:  # spare room behind the entries
        m.data, m.indices = np.append(m.data, [7.0] * 9), np.append(m.indices, [0] * 9).astype(m.indices.dtype)
    for operation in UNARY:
        found = operation(ours(m) if is_exact else getattr(asp, kind.__name__)(m))
        wanted = operation(m)
        same(found, wanted, type(found))
        x = np.ones(m.shape[1])
        np.testing.assert_allclose(found @ x, wanted @ x, rtol=1e-5, atol=1e-5)


def test_other_values_leave_the_structure_checked() -> None:
    A = asp.csr(made(sps.csr_array, SHAPES[0], "float64", 1))
    A @ np.ones(200), A._cell.validate()
    B = A * 2
    assert A._cell._checked
    assert B._cell._checked
    B.indices[3] = 10**6
    with pytest.raises(ValueError, match="ind"):
        B @ np.ones(200)
    shared = asp.csr(made(sps.csr_array, SHAPES[0], "float64", 1), copy=False)
    shared @ np.ones(200)
    assert not (shared * 2)._cell._checked


def test_real_parts_share_the_values_as_scipys_do() -> None:
    m = made(sps.csr_array, SHAPES[0], "float64", 1)
    A = asp.csr(m)
    A.real.data[0] = m.real.data[0] = 99.0
    assert A.data[0] == m.data[0]
