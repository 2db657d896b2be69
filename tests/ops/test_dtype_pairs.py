"""Products of every pair of dtypes: integers and booleans equal SciPy's to the bit, other values up to rounding."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.dispatch import pairs
from autosparse.errors import StructureError
from tests.covering import covering

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
DTYPES = ("?", *INTEGERS, "f4", "f8", "c8", "c16")
PAIRS = list(itertools.product(DTYPES, DTYPES))
IDS = [f"{a}-{b}" for a, b in PAIRS]
RNG = np.random.default_rng(7)
SHAPE = (300, 170)


def values(dtype, shape):
    """Return values that use the whole range of an integer dtype, so that sums wrap around."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    if dtype.kind in "iu":
        bounds = np.iinfo(dtype)
        return RNG.integers(bounds.min, bounds.max, shape, dtype=dtype, endpoint=True)
    real = RNG.standard_normal(shape)
    return (real + 1j * RNG.standard_normal(shape) if dtype.kind == "c" else real).astype(dtype)


def matrix(dtype, *, shape=SHAPE, density=0.2, fmt="csr", index="i4"):
    """Return a SciPy matrix with rows of many lengths, an empty and a full one among them, and duplicate entries."""
    pattern = RNG.random(shape) < density * 2 * np.linspace(0, 1, shape[0])[:, None]
    pattern[0], pattern[-1] = False, True
    rows, columns = np.nonzero(pattern)
    columns[1::5] = columns[::5][: columns[1::5].size] * (rows[1::5] == rows[::5][: columns[1::5].size])
    indptr = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(index)
    made = sps.csr_array((values(dtype, rows.size), columns.astype(index), indptr), shape=shape)
    made.indptr, made.indices = indptr, columns.astype(index)
    return made if fmt == "csr" else sps.csc_array((made.data, made.indices, made.indptr), shape=shape[::-1])


def check(C, wanted, scale=1.0):
    """Check value and dtype of a product; `scale` is that of the sums of absolute values."""
    assert C.dtype == wanted.dtype
    assert C.shape == wanted.shape
    if wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(C, wanted)
    else:
        eps = np.finfo(wanted.dtype).eps
        np.testing.assert_allclose(C, wanted, rtol=200 * eps, atol=200 * eps * scale)


def largest(M, B):
    """Return a bound of the sums of absolute values of a product."""
    with np.errstate(over="ignore"):
        return float(np.max(abs(M.astype("c16")).astype("f8") @ np.abs(B.astype("c16")), initial=0.0))


@pytest.fixture(autouse=True)
def _any_size(monkeypatch):
    """Let our kernels compute products of any size."""
    monkeypatch.setattr(pairs, "MIN_WORK", 1)


@pytest.fixture
def ours(monkeypatch):
    """Fail where SciPy computes a product."""
    multiply = pairs.multiply

    def counted(*args, **kwargs):
        C = multiply(*args, **kwargs)
        assert C is not None, "SciPy would compute this product"
        return C

    monkeypatch.setattr(pairs, "multiply", counted)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=IDS)
def test_every_pair_equals_scipy(a, b, ours):
    M = matrix(a)
    A = asp.csr(M, copy=True)
    for columns in ((), (3,), (33,)):
        X, Y = values(b, (SHAPE[1], *columns)), values(b, (SHAPE[0], *columns))
        check(A @ X, M @ X, largest(M, X))
        check(A.T @ Y, M.T @ Y, largest(M.T, Y))
    Z = values(b, (5, SHAPE[0]))
    check(Z @ A, Z @ M, largest(M.T, Z.T))
    check(Z[0] @ A, Z[0] @ M, largest(M.T, Z[0]))


@covering(fmt=["csr", "csc"], index=["i4", "i8"], a=["?", "i1", "u2", "i4", "u8", "f4", "c16"], b=["i8", "f8", "c8"])
def test_layouts_equal_scipy(fmt, index, a, b):
    M = matrix(a, fmt=fmt, index=index)
    A = (asp.csr if fmt == "csr" else asp.csc)(M, copy=True)
    assert A.indices.dtype == index
    for n in (1, 8, 130):
        X = values(b, (M.shape[1], 2 * n))
        for B in (
            np.asfortranarray(X[:, :n]),
            X[:, :n],
            X[:, ::2],
            X[::-1, :n],
            X[:, 0],
            np.ascontiguousarray(X[:, 0]),
        ):
            check(A @ B, M @ B, largest(M, B))
        Y = values(b, (n, M.shape[0]))
        check(Y @ A, Y @ M, largest(M.T, Y.T))


@pytest.mark.parametrize("width", [*range(1, 20), 31, 32, 33, 63, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8"])
def test_every_width_of_integers(dtype, width, ours):
    M = matrix(dtype)
    A, X, Y = asp.csr(M, copy=True), values(dtype, (SHAPE[1], width)), values(dtype, (SHAPE[0], width))
    check(A @ X, M @ X)
    check(A.T @ Y, M.T @ Y)


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("pair", ["? ?", "i1 i1", "u2 i2", "i4 f4", "i8 i8", "f4 c16"])
def test_instruction_sets(pair, isa, ours):
    a, b = pair.split()
    M = matrix(a)
    A, X, Y = asp.csr(M, copy=True), values(b, (SHAPE[1], 13)), values(b, (SHAPE[0], 13))
    with asp.options(isa=isa):
        check(A @ X, M @ X, largest(M, X))
        check(A.T @ Y, M.T @ Y, largest(M.T, Y))
        check(A @ X[:, 0], M @ X[:, 0], largest(M, X[:, :1]))


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("dtype", ["?", *INTEGERS])
@pytest.mark.parametrize("index", ["i4", "i8"])
def test_vectors_of_integers_with_few_and_many_entries_per_row(isa, dtype, index, ours):
    """Check both loops for vectors, which have few (below `LONG_ENOUGH`) and many entries per row."""
    for density in (0.02, 0.1, 0.3):
        M = matrix(dtype, density=density, index=index)
        A, x = asp.csr(M, copy=True), values(dtype, SHAPE[1])
        with asp.options(isa=isa):
            check(A @ x, M @ x)


@pytest.mark.parametrize("pair", ["i8 i8", "? ?", "i2 i2", "i4 f8", "f4 f8", "f8 c16", "f8 f4", "i8 u2", "c16 ?"])
def test_any_number_of_threads_gives_the_same_bits(pair, ours):
    """Rows longer than a block of converted values and than the share of a thread are divided."""
    a, b = pair.split()
    M = matrix(a, shape=(300, 40_000), density=0.006)
    long = sps.csr_array(values(a, (3, 40_000)))
    M = sps.vstack([M[:150], long, M[150:]], format="csr")
    A = asp.csr(M, copy=True)
    for columns in ((), (1,), (6,)):
        X, Y = values(b, (M.shape[1], *columns)), values(b, (M.shape[0], *columns))
        found = []
        for threads in (1, 2, 3, 5):
            with asp.options(threads=threads, deterministic=True):
                found.append((A @ X, A.T @ Y))
        for C, D in found:
            np.testing.assert_array_equal(C, found[0][0])
            np.testing.assert_array_equal(D, found[0][1])
        check(found[0][0], M @ X, largest(M, X))
        check(found[0][1], M.T @ Y, largest(M.T, Y))


@pytest.mark.parametrize(
    ("pair", "threads", "is_own"),
    [("f8 f4", 2, True), ("f8 f4", 4, True), ("f8 f4", 1, False), ("f8 f4", 5, False), ("f8 f8", 2, False),
     ("f8 c8", 2, False)],
)  # fmt: skip
def test_few_threads_convert_a_vector_each_for_itself(pair, threads, is_own, ours, monkeypatch):
    found, compute = [], pairs._by_own_copies
    monkeypatch.setattr(pairs, "_by_own_copies", lambda *args: found.append(compute(*args)) or found[-1])
    a, b = pair.split()
    M, x = matrix(a, shape=(600, 400)), values(b, 400)
    A = asp.csr(M, copy=True)
    with asp.options(threads=threads):
        check(pairs.multiply(A._cell, x, transposed=False), M @ x, largest(M, x))
        assert [one is not None for one in found] == [is_own]
        for strange in (values(b, 800)[::2], values(b, (400, 1)), values(b, 400).astype(np.dtype(b).newbyteorder())):
            check(A @ strange, M @ strange, largest(M, x))
        sparse = sps.csr_array((M.data[:3], M.indices[:3] * 0, [0, 3]), shape=(1, 40_000))
        wide = values(b, 40_000)
        check(asp.csr(sparse, copy=True) @ wide, sparse @ wide, largest(sparse, wide))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [None, 1, 3])
@pytest.mark.parametrize(("a", "b"), [("f8", "c16"), ("f4", "c8"), ("i4", "c16"), ("?", "c8")])
def test_parts_that_are_not_finite_go_where_scipy_sends_them(a, b, columns, transposed, ours):
    M = matrix(a)
    M.data[::3] = 0
    A = asp.csr(M)
    if transposed:
        M, A = M.T, A.T
    shape = (M.shape[1],) if columns is None else (M.shape[1], columns)
    infinite, missing = float("inf"), float("nan")
    for value in (infinite, complex(0, infinite), complex(-infinite, 1), missing, complex(1, missing)):
        B = values(b, shape)
        B[5] = value
        with np.errstate(invalid="ignore"):
            C, wanted = A @ B, M @ B
        for mine, theirs in ((C.real, wanted.real), (C.imag, wanted.imag)):
            assert np.array_equal(np.isnan(mine), np.isnan(theirs))
            assert np.array_equal(np.isposinf(mine), np.isposinf(theirs))
            assert np.array_equal(np.isneginf(mine), np.isneginf(theirs))


@pytest.mark.parametrize(("a", "b"), [("f8", "c16"), ("i2", "c8"), ("c8", "c16"), ("c8", "f8"), ("f4", "f8")])
def test_only_a_complex_operand_of_a_real_matrix_is_computed_as_real_columns(a, b, ours, monkeypatch):
    M, widths = matrix(a), []
    kernel = pairs._lib.asp_csr_mm_widened

    class Recording:
        def __getattr__(self, name):
            return getattr(runtime_api.lib, name)

        def asp_csr_mm_widened(self, *arguments):
            widths.append(arguments[-3])  # columns of the product
            return kernel(*arguments)

    monkeypatch.setattr(pairs, "_lib", Recording())
    B = values(b, (M.shape[1], 3))
    check(asp.csr(M) @ B, M @ B, largest(M, B))
    is_mixed = np.dtype(b).kind == "c" and np.dtype(a).kind != "c"
    assert widths == ([6] if is_mixed else [3])


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (4, 7)])
def test_empty_matrices(shape):
    M = sps.csr_array(shape, dtype="i4")
    A = asp.csr(M, copy=True)
    for B in (np.ones(shape[1], "f4"), np.ones((shape[1], 3), "i8"), np.ones((shape[1], 0), "u1")):
        check(A @ B, M @ B)


def test_small_products_are_computed_by_scipys_loops(monkeypatch):
    monkeypatch.undo()
    M = matrix("i4")
    A, X = asp.csr(M, copy=True), values("f8", (SHAPE[1], 40))
    assert M.nnz < pairs.MIN_WORK < M.nnz * 40
    by_scipy, calls = pairs._by_scipy, []
    monkeypatch.setattr(pairs, "_by_scipy", lambda *args, **kwargs: calls.append(args) or by_scipy(*args, **kwargs))
    for B, is_small in ((X[:, 0].copy(), True), (X, False)):
        calls.clear()
        check(A @ B, M @ B, largest(M, B))
        assert bool(calls) == is_small


@pytest.mark.parametrize(
    "pair", ["? ?", "? f4", "i1 i1", "i1 i8", "u8 ?", "u8 f4", "f4 i8", "f4 c16", "c8 i8", "c8 c16"]
)
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_small_products_have_scipys_bits(monkeypatch, fmt, pair):
    """Products that SciPy's loops compute have SciPy's order of additions, for any layout of B."""
    a, b = pair.split()
    monkeypatch.setattr(pairs, "MIN_WORK", 1 << 40)
    M = matrix(a, fmt=fmt)
    A = (asp.csr if fmt == "csr" else asp.csc)(M, copy=True)
    X, Y = values(b, (M.shape[1], 8)), values(b, (M.shape[0], 8))
    for B in (X, X[:, :1], X[:, 0], X[::-1, ::2], np.asfortranarray(X), X[:, :0]):
        C, wanted = A @ B, M @ B
        assert C.dtype == wanted.dtype
        np.testing.assert_array_equal(C, wanted)
    np.testing.assert_array_equal(A.T @ Y, M.T @ Y)
    np.testing.assert_array_equal(Y.T @ A, Y.T @ M)


def test_true_may_be_any_byte(ours):
    M = matrix("u1")
    M = sps.csr_array((M.data.view(bool), M.indices, M.indptr), shape=M.shape)
    A, X = asp.csr(M, copy=True), values("u1", (SHAPE[1], 9)).view(bool)
    np.testing.assert_array_equal((A @ X).view("u1"), (M @ X).view("u1"))
    np.testing.assert_array_equal((A @ X[:, 0].copy()).view("u1"), (M @ X[:, 0]).view("u1"))
    check(A @ X.astype("f4"), M @ X.astype("f4"), 200.0)


def test_other_dtypes_are_left_to_scipy():
    M = matrix("i4")
    A = asp.csr(M, copy=True)
    X = values("f8", (SHAPE[1], 4))
    check(A @ X.astype(np.longdouble), M @ X.astype(np.longdouble), 1e12)
    check(A @ X.astype(">f8"), M @ X.astype(">f8"), largest(M, X))
    swapped = sps.csr_array((M.data.astype(">i4"), M.indices, M.indptr), shape=M.shape)
    check(asp.csr(swapped) @ X, M @ X, largest(M, X))


def test_writes_are_seen_by_the_next_product(ours):
    M = matrix("i8")
    A, x = asp.csr(M, copy=True), values("i8", SHAPE[1])
    before = A @ x
    A.data[:] *= 3
    np.testing.assert_array_equal(A @ x, 3 * before)
    A.indices[:] = 0
    M = sps.csr_array((A.data, np.zeros_like(M.indices), M.indptr), shape=SHAPE)
    np.testing.assert_array_equal(A @ x, M @ x)


@pytest.mark.parametrize("field", ["indices", "indptr"])
def test_structures_out_of_bounds_are_refused(field):
    A, x = asp.csr(matrix("i8"), copy=True), values("i8", SHAPE[1])
    assert (A @ x).size == SHAPE[0]
    getattr(A, field)[10] = 1 << 30
    with pytest.raises(StructureError):
        A @ x


@pytest.mark.parametrize(("a", "b"), [("i4", "f8"), ("?", "f4"), ("f4", "f8"), ("f8", "c16"), ("i8", "i8")])
def test_the_matrix_is_not_converted_as_a_whole(a, b, ours):
    M = matrix(a, shape=(500, 4000), density=0.4)
    A, x, y = asp.csr(M, copy=True), values(b, 4000), values(b, 500)
    A @ x, A.T @ y  # imports
    tracemalloc.start()
    try:
        A @ x, A.T @ y
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < M.data.nbytes / 2 + 20 * 4500
