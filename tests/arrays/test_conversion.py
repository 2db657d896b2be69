"""Tests that conversion between csr and csc gives exactly SciPy's arrays for any number of threads."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from hypothesis import given

import autosparse
from tests.covering import covering
from tests.ops.test_spgemm import INTEGERS, on_several_threads, raw_csr

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours).__name__ == type(theirs).__name__
    assert isinstance(ours, getattr(autosparse, type(theirs).__name__))
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    for name in ("indptr", "indices", "data"):
        mine, wanted = getattr(ours, name), getattr(theirs, name)
        assert mine.dtype == wanted.dtype, name
        np.testing.assert_array_equal(mine, wanted)
    assert ours.has_sorted_indices == theirs.has_sorted_indices
    assert vars(ours).keys() == vars(theirs).keys()


@given(
    seed=st.integers(0, 2**31),
    shape=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    dtype=st.sampled_from(("float32", "float64", "complex64", "complex128", *INTEGERS, "bool", "longdouble")),
    index=st.sampled_from(("int32", "int64")),
    name=st.sampled_from(CLASSES),
)
def test_conversion_is_scipys(seed: int, shape: tuple[int, int], dtype: str, index: str, name: str) -> None:
    A = raw_csr(np.random.default_rng(seed), shape, 0.4, "float64", index).astype(dtype)
    compressed = (A.data, A.indices, A.indptr)
    shape = shape[::-1] if name.startswith("csc") else shape
    theirs = getattr(sps, name)(compressed, shape=shape)
    ours = getattr(autosparse, name)(compressed, shape=shape)
    for convert in ("tocsr", "tocsc"):
        assert_same(getattr(ours, convert)(), getattr(theirs, convert)())
        assert_same(getattr(ours.T, convert)(), getattr(theirs.T, convert)())
    assert_same(type(ours)(ours.T), type(theirs)(theirs.T))


@needs_runtime
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_large_conversion_on_threads(threads: int, index: str) -> None:
    rng = np.random.default_rng(7)
    A = raw_csr(rng, (3000, 900), 0.05, "float32", index)
    A.data = rng.standard_normal(A.nnz).astype("float32")
    with on_several_threads(), autosparse.options(threads=threads):
        ours = autosparse.csr_array(A).tocsc()
        assert_same(ours, A.tocsc())
        assert_same(ours.tocsr(), A.tocsc().tocsr())


def test_a_conversion_owns_its_arrays() -> None:
    A = autosparse.csr_array(raw_csr(np.random.default_rng(1), (30, 40), 0.2, "float64", "int32"))
    B = A.tocsc()
    before = B.toarray()
    A.data[:] = 7
    np.testing.assert_array_equal(B.toarray(), before)
    B.data[:] = 1
    x = np.random.default_rng(2).standard_normal(40)
    np.testing.assert_allclose(B @ x, sps.csc_array((B.data, B.indices, B.indptr), shape=B.shape) @ x)
    assert A.tocsr() is A
    assert B.tocsc(copy=True) is not B


@needs_runtime
def test_indices_out_of_bounds_raise() -> None:
    A = autosparse.csr_array(sps.eye_array(5, format="csr"))
    A.indices[2] = 99
    with pytest.raises(ValueError, match="99"):
        A.tocsc()


@covering(
    dtype=["bool", "int8", "uint64", "float32", "float64", "complex128"],
    shape=[(7, 5), (3, 8), (0, 3), (3, 0), (1, 1)],
    cls=["csr_array", "csc_array", "csr_matrix", "csc_matrix"],
)
def test_dense_results_are_those_of_scipy(cls, shape, dtype):
    """Compare dtype, order and class, for matrices with duplicates and room behind the last entry."""
    values = (np.random.default_rng(3).random(shape) > 0.4).astype(dtype)
    plain = getattr(sps, cls)(sps.coo_array(values))
    plain.data, plain.indices = np.append(plain.data, plain.data[:1]), np.append(plain.indices, plain.indices[:1])
    A = getattr(autosparse, cls)(plain, copy=True)
    for matrix in (plain, A):
        matrix.indices[: matrix.nnz // 2] = 0
    plain.prune()  # SciPy before 1.16 adds what lies behind the last entry to the sum of the last row
    for call in (
        lambda m: m.toarray(),
        lambda m: m.toarray(order="F"),
        lambda m: m.toarray(out=np.zeros(shape, m.dtype)),
        lambda m: m.diagonal(),
        lambda m: m.diagonal(1),
        lambda m: m.sum(),
        lambda m: m.sum(axis=0),
        lambda m: m.sum(axis=-1),
        lambda m: m.sum(dtype="complex64"),
    ):
        expected, found = call(plain), call(A)
        assert (type(found), found.dtype, found.shape) == (type(expected), expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
        if isinstance(found, np.ndarray):
            assert found.flags.c_contiguous == expected.flags.c_contiguous
            assert found.flags.f_contiguous == expected.flags.f_contiguous


def test_dense_results_hand_no_array_out():
    A = autosparse.csr(
        sps.random_array((40, 30), density=0.2, random_state=np.random.default_rng(0), format="csr"), copy=True
    )
    A._cell.validate()
    assert A._cell.rows is not None
    A.toarray(), A.diagonal(), A.sum()
    assert A._cell.rows is not None


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("lengths", ["short", "long", "mostly empty", "one row", "few", "none", "no rows"])
@pytest.mark.parametrize("name", ["csr_array", "csr_matrix", "csc_array"])
def test_matrices_in_coordinates_are_those_of_scipy(name: str, lengths: str, threads: int) -> None:
    """Compare values, dtypes, the flag of canonical order, and which arrays the result shares."""
    rng = np.random.default_rng(5)
    counts = {
        "short": rng.integers(0, 19, 3000),
        "long": rng.integers(0, 90, 900),
        "mostly empty": rng.integers(0, 60, 9000) * (rng.random(9000) < 0.03),
        "one row": np.array([0, 20_000, 0]),
        "few": np.array([2, 0, 3, 1]),
        "none": np.zeros(5, int),
        "no rows": np.zeros(0, int),
    }[lengths]
    indptr = np.concatenate(([0], counts.cumsum())).astype(np.int32)
    indices = rng.integers(0, 70, indptr[-1], dtype=np.int32)
    shape = (len(counts), 70) if name.startswith("csr") else (70, len(counts))
    entries = rng.standard_normal(indptr[-1]), indices, indptr
    theirs, ours = getattr(sps, name)(entries, shape=shape), getattr(autosparse, name)(entries, shape=shape)
    with on_several_threads(), autosparse.options(threads=threads):
        for found, expected in ((ours.tocoo(), theirs.tocoo()), (ours.tocoo(copy=True), theirs.tocoo(copy=True))):
            assert type(found).__name__ == type(expected).__name__
            for mine, wanted in zip((*found.coords, found.data), (*expected.coords, expected.data), strict=True):
                assert mine.dtype == wanted.dtype
                np.testing.assert_array_equal(mine, wanted)
            assert found.has_canonical_format == expected.has_canonical_format
            assert found.shape == expected.shape
            assert vars(found).keys() == vars(expected).keys()
            assert np.shares_memory(found.data, ours.data) == np.shares_memory(expected.data, theirs.data)


def test_values_written_to_coordinates_are_seen_by_the_matrix() -> None:
    m = sps.random_array((300, 300), density=0.1, random_state=np.random.default_rng(0), format="csr")
    A, x = autosparse.csr(m), np.ones(300)
    A @ x
    A.tocoo().data[:] = 2.0
    np.testing.assert_array_equal(A @ x, 2.0 * np.diff(m.indptr))
