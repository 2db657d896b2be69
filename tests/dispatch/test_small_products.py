"""Tests of small products, which run before a dispatch state exists: SciPy's answers and checked structures."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import python_objects

import autosparse as asp
from autosparse.dispatch import executor
from autosparse.errors import StructureError
from autosparse.operands.csr import FIRST, NOT_SMALL_NS, SMALL_AT_FIRST, SMALL_PRODUCT
from tests.covering import covering
from tests.tuning.forcing import close, dense, force, make, schedule_of, state_of

pytestmark = pytest.mark.skipif(
    python_objects.small_product is None, reason="needs the C runtime, on CPython with a GIL"
)


@pytest.fixture
def served(monkeypatch):
    """Return a list that records of each product whether `small_product` computed it."""
    seen = []
    original = executor.small_product

    def noted(*args, **kwargs):
        C = original(*args, **kwargs)
        seen.append(C is not None)
        args[0].small_product_ns = 1  # resets the measured time, so that a slow machine does not leave this path
        return C

    monkeypatch.setattr(executor, "small_product", noted)
    return seen


@pytest.mark.parametrize("columns", [None, 1, 3, 40])
@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products_are_those_of_scipy(columns, fmt, dtype, index, served):
    plain = make(57, 91, dtype=dtype, fmt=fmt)
    plain.indices, plain.indptr = plain.indices.astype(index), plain.indptr.astype(index)
    A = (asp.csr if fmt == "csr" else asp.csc)(plain, copy=True)
    for one, reference in ((A, plain), (A.T, plain.T)):
        B = dense(reference, columns or 1)
        B = B if columns else B[:, 0].copy()
        for _ in range(3):
            close(one @ B, reference @ B)
    x = np.linspace(1, 2, 57).astype(dtype)
    close(x @ A, x @ plain)
    assert served == [True] * 7
    assert A._cell.n_small_products == 7
    assert A._cell.dispatcher is None


@pytest.mark.parametrize("other", ["float64", "float32", "int64", ">f8"])
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_operands_that_convert_to_the_matrix_s_dtype_are_small_products_too(other, fmt, served):
    plain = make(57, 91, dtype="complex128", fmt=fmt)
    A = getattr(asp, fmt)(plain, copy=True)
    for B in (np.arange(91, dtype=other), np.asfortranarray(np.arange(182).reshape(91, 2).astype(other))):
        close(A @ B, plain @ B)
    assert served == [True] * 2
    assert A._cell.dispatcher is None
    with pytest.raises(ValueError, match="mismatch"):
        A @ np.ones(90, other)


ODD = {
    "other order": lambda B: np.asfortranarray(B),
    "every other row": lambda B: np.repeat(B, 2, axis=0)[::2],
    "another dtype": lambda B: B.astype("f4"),
    "integers": lambda B: (10 * B).astype("i8"),
    "complex": lambda B: B + 1j,
    "big-endian": lambda B: B.astype(">f8"),
    "no columns": lambda B: B[:, :0],
    "a matrix": np.asmatrix,
    "read-only": lambda B: np.broadcast_to(B[:, :1], B.shape),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("shape", [(30, 20), (1, 1), (0, 5), (5, 0)])
def test_odd_dense_operands_are_as_ever(odd, shape):
    plain = sps.random_array(shape, density=0.3, random_state=np.random.default_rng(0), format="csr")
    B = ODD[odd](np.random.default_rng(1).standard_normal((shape[1], 4)))
    C, expected = asp.csr(plain) @ B, plain @ B
    assert (type(C), C.dtype, C.shape) == (type(expected), expected.dtype, expected.shape)
    close(np.asarray(C), np.asarray(expected))


LAYOUTS = {
    "every second": lambda B: np.repeat(np.repeat(B, 2, axis=0), 2, axis=1)[::2, ::2],
    "backwards": lambda B: B[::-1, ::-1].copy()[::-1, ::-1],
    "rows backwards": lambda B: B[::-1].copy()[::-1],
    "Fortran order": np.asfortranarray,
    "a window": lambda B: np.hstack([B, B])[:, : B.shape[1]],
    "one row repeated": lambda B: np.broadcast_to(B[:1], B.shape),
    "one column repeated": lambda B: np.broadcast_to(B[:, :1], B.shape),
}


@covering(columns=[None, 1, 2, 17], dtype=["float32", "float64", "complex64", "complex128"], layout=LAYOUTS)
def test_dense_operands_of_any_layout_are_read(columns, dtype, layout, served):
    """Compute by the path of small products and by that of large ones."""
    plain = make(40, 60, dtype=dtype)
    A, before = asp.csr(plain, copy=True), None
    for one, reference in ((A, plain), (A.T, plain.T)):
        B = LAYOUTS[layout](dense(reference, columns or 2))
        B = B if columns else B[:, 0]
        before = B.copy()
        close(one @ B, reference @ B)
        close(B.T @ one.T, B.T @ reference.T)
        np.testing.assert_array_equal(B, before)
        close(executor.matmul(one._cell, B, transposed=one is not A), reference @ B)
    assert served.count(True) >= 1
    assert served[0]


@pytest.mark.parametrize("B", [np.ones(19), np.ones((19, 2)), np.ones((2, 20)), np.ones((20, 1, 1)), np.float64(2)])
def test_operands_that_do_not_fit_raise_as_ever(B):
    plain = sps.random_array((30, 20), density=0.3, random_state=np.random.default_rng(0), format="csr")
    for A in (plain, asp.csr(plain)):
        with pytest.raises(ValueError, match=r"mismatch|[Ss]calar|dimension"):
            A @ B


@pytest.mark.parametrize("bad", [20, -1, 2**31 - 1])
def test_the_first_product_checks_the_structure(bad):
    plain = sps.random_array((30, 20), density=0.3, random_state=np.random.default_rng(0), format="csr")
    plain.indices[3] = bad
    for A in (asp.csr(plain), asp.csr_array((plain.data, plain.indices, plain.indptr), shape=plain.shape)):
        for product in (lambda A: A @ np.ones(20), lambda A: A.T @ np.ones(30), lambda A: np.ones(30) @ A):
            with pytest.raises(StructureError):
                product(A)


@pytest.mark.parametrize("name", ["indices", "indptr"])
def test_a_structure_written_between_is_checked(name):
    A = asp.csr(make(30, 20))
    for _ in range(2):
        A @ np.ones(20, "f4")
    getattr(A, name)[4] = 10**6
    with pytest.raises(StructureError):
        A @ np.ones(20, "f4")


def test_large_products_and_told_ones_are_thought_of_at_once(served):
    A = asp.csr(sps.eye_array(SMALL_AT_FIRST, format="csr"))
    A @ np.ones(SMALL_AT_FIRST)
    B = asp.csr(make(30, 20))
    with asp.options(runs=1000):
        B @ np.ones(20, "f4")
    assert served == [False, False]
    assert A._cell.n_small_products == B._cell.n_small_products == 0
    assert A._cell.dispatcher is not None
    assert B._cell.dispatcher is not None


@pytest.mark.parametrize(
    ("dtype", "columns", "is_small"), [("f4", 5, True), ("f8", 4, True), ("f8", 3, False), ("c8", 4, False)]
)
def test_the_limit_is_doubled_for_four_real_columns(dtype, columns, is_small, served):
    m = make(SMALL_PRODUCT // columns, 20, dtype=dtype)
    A, B = asp.csr(m), dense(m, columns)
    for _ in range(FIRST + 1):
        close(A @ B, m @ B)
    assert served == [True] * FIRST + [is_small]


def test_after_some_time_there_is_a_slot_that_has_counted_all(served):
    A = asp.csr(make(30, 20))
    x = np.ones(20, "f4")
    for _ in range(3):
        A @ x
    A._cell.small_product_ns = NOT_SMALL_NS
    A @ x
    state = state_of(A)
    assert served == [True] * 3
    assert state.n_calls == 4
    assert state.product_ns >= NOT_SMALL_NS
    A @ x
    assert state.n_calls == 5
    assert served == [True] * 3


def test_a_tuned_kernel_serves_though_something_was_written(served):
    plain = make(40, 60)
    A, x = asp.csr(plain, copy=True), np.ones(60, "f4")
    A @ x
    with asp.options(extra_memory=1000.0):
        force(A, schedule_of("blocks", 1))
        before = state_of(A).n_tuned
        for _ in range(8):
            A.data[0] = plain.data[0] = 7
            close(A @ x, plain @ x)
        assert state_of(A).n_tuned > before
    assert served == [True]


def test_the_sums_are_those_of_any_number_of_threads():
    plain = make(200, 300, dtype="float64")
    x = np.random.default_rng(0).standard_normal(300)
    A, B = asp.csr(plain, copy=True), asp.csr(plain, copy=True)
    B._cell.small_product_ns = NOT_SMALL_NS
    for deterministic in (False, True):
        with asp.options(deterministic=deterministic):
            np.testing.assert_array_equal(A @ x, B @ x)
