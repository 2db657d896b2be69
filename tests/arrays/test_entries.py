"""Tests of matrices that are made of entries by coordinates, of dense arrays, or of a shape, against SciPy's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from tests.scipy_versions import HAS_FLAT_CSC

KINDS = ["csr_array", "csc_array", "csr_matrix", "csc_matrix"]
SHAPES = [(6, 9), (9, 6), (1, 5), (5, 1), (1, 1)]


def facts(made: Any) -> Any:
    """Return the class and the state of a matrix."""
    state = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in vars(made).items()}
    return type(made).__name__, made.shape, [part.dtype for part in (made.data, made.indices, made.indptr)], state


def outcome(library: Any, kind: str, args: tuple[Any, ...], how: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return facts(getattr(library, kind)(*args, **how))
        except (ValueError, TypeError, IndexError) as error:
            return type(error), str(error)


def same(kind: str, *args: Any, **how: Any) -> None:
    assert outcome(asp, kind, args, how) == outcome(sps, kind, args, how), (args, how)


@pytest.mark.parametrize("n", [0, 1, 20])
@pytest.mark.parametrize("index", [np.int32, np.int64, np.uint32, np.int16, np.float64])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "int8", "bool", "float16", ">f8"])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_by_coordinates_are_scipys(kind: str, dtype: str, index: type, n: int) -> None:
    rng = np.random.default_rng(n)
    for shape in SHAPES:
        rows, cols = (rng.integers(0, extent, n).astype(index) for extent in shape)
        values = rng.integers(-3, 4, n).astype(dtype)
        entries = values, (rows, cols)
        same(kind, entries, shape=shape)
        same(kind, entries, shape)
        same(kind, (values, [rows, cols]), shape=shape)
        same(kind, (values, np.array([rows, cols])), shape=shape)
        same(kind, entries)
        same(kind, entries, shape=list(shape))
        same(kind, entries, shape=shape, dtype=np.dtype("float64"))
        same(kind, entries, shape=shape, copy=True)
        same(kind, (values, (rows, cols[:-1])), shape=shape)
        same(kind, (values[:-1], (rows, cols)), shape=shape)
        same(kind, (values, (rows[::2], cols[::2])), shape=shape)
        same(kind, (values[::2], (rows[::2], cols[::2])), shape=shape)


@pytest.mark.parametrize("wrong", [-1, 6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", KINDS)
def test_coordinates_out_of_bounds_are_refused_as_by_scipy(kind: str, index: type, wrong: int) -> None:
    good, bad = np.array([0, 1, 2], index), np.array([0, wrong, 2], index)
    for coords in [(good, bad), (bad, good)]:
        same(kind, (np.ones(3), coords), shape=(6, 6))
    with pytest.raises(ValueError, match="index"):
        getattr(asp, kind)((np.ones(3), (good, bad)), shape=(6, 6))


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_are_added_in_scipys_order(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 5, 500, np.int32), rng.integers(0, 4, 500, np.int32)
    same(kind, (rng.random(500).astype("float32"), (rows, cols)), shape=(5, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_the_callers_arrays_are_not_changed_or_shared(kind: str) -> None:
    values, rows, cols = np.array([2.0, 1.0, 5.0]), np.array([1, 0, 1], np.int32), np.array([2, 1, 0], np.int32)
    before = [part.copy() for part in (values, rows, cols)]
    A = getattr(asp, kind)((values, (rows, cols)), shape=(2, 3))
    A.data[:], A.indices[:] = 0.0, 0
    for part, old in zip((values, rows, cols), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex64", "int64", "bool", "float16", ">f4"])
@pytest.mark.parametrize("kind", KINDS)
def test_dense_arrays_are_scipys(kind: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape in [*SHAPES, (0, 4), (4, 0)]:
        dense = rng.integers(-1, 2, shape).astype(dtype)
        for given in (dense, np.asfortranarray(dense), dense[::-1], dense.T, dense[:, :0], dense.tolist(), dense[:1]):
            same(kind, given)
        same(kind, dense, dtype=np.dtype("float64"))
        same(kind, dense, shape=shape)
        same(kind, dense, copy=True)


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_negative_zero_are_scipys(kind: str) -> None:
    dense = np.array([[np.nan, -0.0, 1.0], [0.0, -np.inf, np.nan]])
    for given in (dense, np.asfortranarray(dense)):
        A, m = (getattr(library, kind)(given) for library in (asp, sps))
        np.testing.assert_array_equal(A.data, m.data)
        np.testing.assert_array_equal(A.indices, m.indices)


@pytest.mark.parametrize("kind", KINDS)
def test_empty_matrices_are_scipys(kind: str) -> None:
    for shape in [(3, 4), (0, 4), (0, 0), (3, -1), (np.int64(3), 4), (True, 4), (3.0, 4), (3,)]:
        if shape == (3,) and kind == "csc_array" and HAS_FLAT_CSC:
            continue
        same(kind, shape)
        same(kind, shape, dtype="float32")
        same(kind, shape, shape=(3, 4))


@pytest.mark.parametrize("make", [asp.csr, asp.csc])
def test_products_after_construction(make: Any) -> None:
    rng = np.random.default_rng(0)
    coords = tuple(rng.integers(0, 30, 200, np.int32) for _ in range(2))
    values, x = rng.integers(1, 9, 200).astype(float), np.arange(30.0)
    expected = sps.csr_array((values, coords), shape=(30, 30))
    for given in [(values, coords), expected.toarray(), expected.toarray(order="F")]:
        A = make(given, shape=(30, 30)) if isinstance(given, tuple) else make(given)
        np.testing.assert_array_equal(A @ x, expected @ x)
        assert A.owns_arrays
