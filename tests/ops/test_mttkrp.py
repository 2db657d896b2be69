"""Tests of `mttkrp` against `numpy.einsum`: every order, mode, rank and layout, coordinates unsorted and repeated."""

from __future__ import annotations

import pickle
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from hypothesis import given

import autosparse
from autosparse.ops import mttkrp as operation
from tests.native.hooks import on_several_threads
from tests.ops.test_sddmm import LAYOUTS

RANKS = (0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 32, 33, 64, 65, 100, 200)


@pytest.fixture(params=range(runtime_api.lib.asp_best_isa() + 1 if runtime_api.available else 1))
def isa(request: Any) -> Any:
    if not runtime_api.available:
        pytest.skip("the C runtime was not built")
    runtime_api.lib.asp_force_isa(request.param)
    yield request.param
    runtime_api.lib.asp_force_isa(-1)


def wanted(T: Any, factors: Any, mode: int, *, magnitude: bool = False) -> Any:
    """Return the result of `numpy.einsum` on the dense tensor in float64.

    With `magnitude`, values and factors are replaced by their absolute values.
    """
    letters = "abcdefg"[: T.ndim]
    others = [n for n in range(T.ndim) if n != mode]
    text = f"{letters},{','.join(letters[n] + 'z' for n in others)}->{letters[mode]}z"
    dense = np.zeros(T.shape)
    values = T.values.astype(float)
    np.add.at(dense, tuple(T.coords), np.abs(values) if magnitude else values)
    parts = [factors[n].astype(float) for n in others]
    return np.einsum(text, dense, *(map(np.abs, parts) if magnitude else parts), optimize=True)


def assert_right(M: Any, T: Any, factors: Any, mode: int) -> None:
    """Check shape and dtype of `M`, and its values within 4 (nnz + order) eps times the sum of magnitudes."""
    assert M.shape == (T.shape[mode], next(f for n, f in enumerate(factors) if n != mode).shape[1])
    assert M.dtype == np.result_type(T.dtype, *(f for n, f in enumerate(factors) if n != mode))
    eps = np.finfo(M.dtype).eps if M.dtype.kind == "f" else 0
    allowed = 4 * (T.nnz + T.ndim) * eps * wanted(T, factors, mode, magnitude=True)
    assert np.all(np.abs(M - wanted(T, factors, mode)) <= allowed)


def make(rng: Any, shape: Any, nnz: int, dtype: str, index: str = "int64") -> Any:
    """Return a random tensor: unsorted and repeated coordinates, small integers as values, some of them zero."""
    nnz = nnz if np.prod(shape) else 0
    coords = np.stack([rng.integers(0, max(n, 1), nnz) for n in shape]).astype(index)
    return autosparse.tensor(coords, rng.integers(-2, 3, nnz).astype(dtype), shape)


def factors_of(rng: Any, T: Any, rank: int, dtype: str) -> list[Any]:
    return [rng.standard_normal((n, rank)).astype(dtype) for n in T.shape]


@given(
    seed=st.integers(0, 2**31),
    shape=st.lists(st.integers(0, 8), min_size=2, max_size=5),
    nnz=st.sampled_from((0, 1, 5, 60, 300)),
    rank=st.sampled_from(RANKS),
    dtypes=st.tuples(*[st.sampled_from(("float32", "float64"))] * 2),
    index=st.sampled_from(("int32", "int64", "uint8")),
    layout=st.sampled_from(tuple(LAYOUTS)),
)
def test_product_is_einsums(seed: int, shape: Any, nnz: int, rank: int, dtypes: Any, index: str, layout: str) -> None:
    rng = np.random.default_rng(seed)
    T = make(rng, tuple(shape), nnz, dtypes[0], index)
    factors = [LAYOUTS[layout](factor) for factor in factors_of(rng, T, rank, dtypes[1])]
    for mode in range(-T.ndim, T.ndim):
        assert_right(autosparse.mttkrp(T, factors, mode), T, factors, mode % T.ndim)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_rank_on_every_instruction_set(isa: int, dtype: str) -> None:
    rng = np.random.default_rng(1)
    for shape in ((4, 30), (6, 5, 7), (3, 4, 5, 6)):
        T = make(rng, shape, 200, dtype)
        for rank in RANKS:
            factors = factors_of(rng, T, rank, dtype)
            for mode in range(T.ndim):
                assert_right(autosparse.mttkrp(T, factors, mode), T, factors, mode)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_that_hold_most_of_the_tensor_are_shared(threads: int, deterministic: bool) -> None:
    if not runtime_api.available:
        pytest.skip("the C runtime was not built")
    rng = np.random.default_rng(2)
    nnz = 30_000
    rows = np.where(rng.random(nnz) < 0.9, 3, rng.integers(0, 9, nnz))
    coords = np.stack([rows, rng.integers(0, 300, nnz), rng.integers(0, 400, nnz)])
    T = autosparse.tensor(coords, rng.standard_normal(nnz), (9, 300, 400))
    factors = factors_of(rng, T, 24, "float64")
    with on_several_threads(), autosparse.options(threads=threads, deterministic=deterministic, effort="off"):
        results = [autosparse.mttkrp(T, factors, 0) for _ in range(3)]
    with autosparse.options(threads=1, deterministic=True, effort="off"):
        alone = autosparse.mttkrp(T, factors, 0)
    for M in results:
        assert_right(M, T, factors, 0)
        assert not deterministic or np.array_equal(M, alone)


def test_levels_come_so_that_they_have_few_nodes() -> None:
    rng = np.random.default_rng(7)
    nnz, shape = 20_000, (300, 5, 400, 30)
    i = rng.integers(0, 300, nnz)
    # One short mode that varies in every row, one long mode determined by the row, one mode in between.
    coords = np.stack([i, rng.integers(0, 5, nnz), i * 7 % 400, (i + rng.integers(0, 2, nnz)) % 30]).astype(np.int32)
    pattern = autosparse.tensor(coords, np.ones(nnz), shape)._entries.pattern
    assert pattern.level_order(0) == (0, 2, 3, 1)
    assert pattern.level_order(0) == (0, 2, 3, 1)
    for mode in range(4):
        order = pattern.level_order(mode)
        assert (order[0], sorted(order)) == (mode, [0, 1, 2, 3])
    empty = autosparse.tensor(np.zeros((4, 0), np.int32), np.ones(0), shape)._entries.pattern
    assert empty.level_order(2) == (2, 1, 3, 0), "by extent where there is nothing to count"


def test_other_dtypes_are_numpys() -> None:
    rng = np.random.default_rng(3)
    coords = np.stack([rng.integers(0, 4, 20) for _ in range(3)])
    for values, factor in (("i4", "i4"), ("i8", "f4"), ("c8", "f4"), ("f8", "c16"), ("f4", "i8"), ("g", "f8")):
        T = autosparse.tensor(coords, rng.integers(0, 3, 20).astype(values), (4, 4, 4))
        factors = [rng.integers(0, 3, (4, 6)).astype(factor) for _ in range(3)]
        M = autosparse.mttkrp(T, factors, 1)
        assert M.dtype == np.result_type(T.dtype, factor)
        np.testing.assert_array_equal(M, operation.reference(T.coords, T.values, T.shape, factors, 1))
        np.testing.assert_array_equal(M, np.einsum("abc,az,cz->bz", T.todense(), factors[0], factors[2]))


def test_a_factor_of_the_mode_itself_is_not_looked_at() -> None:
    T = autosparse.tensor([[0, 1], [1, 0], [0, 0]], [2.0, 3.0], (2, 2, 1))
    B, C = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 10.0]])
    for own in (None, "nonsense", np.ones((7, 7))):
        np.testing.assert_array_equal(autosparse.mttkrp(T, [own, B, C], 0), [[6.0, 80.0], [3.0, 60.0]])


@pytest.mark.parametrize("keep", [True, False])
def test_written_values_are_seen(keep: bool) -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal(50)
    coords = np.stack([rng.integers(0, 6, 50) for _ in range(3)])
    T = autosparse.tensor(coords, values, (6, 6, 6), copy=not keep)
    factors = factors_of(rng, T, 5, "float64")
    for step in range(3):
        for mode in range(3):
            assert_right(autosparse.mttkrp(T, factors, mode), T, factors, mode)
        T.values[step] += 1.0
        if keep:
            values *= 2  # through the array that T was made from
            np.testing.assert_array_equal(T.values, values)
    T.values = np.arange(50.0)
    assert_right(autosparse.mttkrp(T, factors, 2), T, factors, 2)


def test_coordinates_are_fixed() -> None:
    coords = np.zeros((3, 4), np.int64)
    T = autosparse.tensor(coords, np.ones(4), (2, 2, 2))
    coords[:] = 1
    assert not T.coords.any()
    with pytest.raises(ValueError, match="read-only"):
        T.coords[0, 0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        T.coords.flags.writeable = True


def test_out_takes_the_result() -> None:
    rng = np.random.default_rng(5)
    T = make(rng, (6, 7, 8), 60, "float32")
    factors = factors_of(rng, T, 9, "float32")
    M = autosparse.mttkrp(T, factors, 1)
    for out in (np.empty((7, 9), "f4"), np.empty((7, 20), "f4")[:, 3:12], np.empty((9, 7), "f4").T):
        assert autosparse.mttkrp(T, factors, 1, out=out) is out
        np.testing.assert_array_equal(out, M)
    factors = [factor.copy() for factor in factors]
    square = [np.ones((8, 9), "f4"), None, np.ones((8, 9), "f4")]
    S = make(rng, (8, 8, 8), 60, "float32")
    alone = autosparse.mttkrp(S, square, 1)
    np.testing.assert_array_equal(autosparse.mttkrp(S, square, 1, out=square[0]), alone)  # `out` is in a factor


def test_tensors_come_from_coo_arrays_and_go_into_pickles() -> None:
    rng = np.random.default_rng(6)
    T = make(rng, (4, 5, 6), 30, "float64")
    again = pickle.loads(pickle.dumps(T))
    np.testing.assert_array_equal(again.todense(), T.todense())
    assert (again.shape, again.nnz, again.dtype, again.ndim) == ((4, 5, 6), 30, np.float64, 3)
    assert repr(T) == "<autosparse tensor of shape (4, 5, 6), 30 stored entries, float64>"
    matrix = sps.coo_array(np.array([[0.0, 2.0], [3.0, 0.0]]))
    np.testing.assert_array_equal(autosparse.tensor(matrix).todense(), matrix.toarray())
    assert autosparse.tensor([[0, 4], [1, 1]], [1, 2]).shape == (5, 2)
    assert autosparse.tensor(T).shape == T.shape


def test_tensors_come_from_pydata_sparse() -> None:
    sparse = pytest.importorskip("sparse", reason="pydata/sparse is not installed")
    S = sparse.random((5, 6, 7), density=0.2, random_state=0)
    T = autosparse.tensor(S)
    np.testing.assert_array_equal(T.todense(), S.todense())
    with pytest.raises(ValueError, match="fill value"):
        autosparse.tensor(sparse.COO(S.coords, S.data, S.shape, fill_value=1.0))


def test_bad_tensors_are_explained() -> None:
    coords = np.zeros((3, 2), int)
    with pytest.raises(ValueError, match=r"one value for each of the 2 columns"):
        autosparse.tensor(coords, np.ones(3), (2, 2, 2))
    with pytest.raises(ValueError, match=r"a shape of 3 extents"):
        autosparse.tensor(coords, np.ones(2), (2, 2))
    with pytest.raises(ValueError, match=r"indices must be < 2(.|\n)*indices holds 5"):
        autosparse.tensor([[0, 0], [0, 5]], [1.0, 2.0], (2, 2))
    with pytest.raises(ValueError, match="indices must be >= 0"):
        autosparse.tensor([[0, -1], [0, 1]], [1.0, 2.0], (2, 2))
    with pytest.raises(TypeError, match="a row per mode"):
        autosparse.tensor(coords.astype(float), np.ones(2), (2, 2, 2))
    with pytest.raises(TypeError, match="cannot be made"):
        autosparse.tensor({})
    with pytest.raises(TypeError, match="dtypes object"):
        autosparse.tensor(coords, np.array([None, None]), (2, 2, 2))
    with pytest.raises(ValueError, match="values of shape"):
        autosparse.tensor(coords, np.ones(2), (2, 2, 2)).values = np.ones(3)


def test_bad_factors_are_explained() -> None:
    T = autosparse.tensor(np.zeros((3, 2), int), np.ones(2), (2, 3, 4))
    good = [np.ones((n, 5)) for n in T.shape]
    for factors, message in (
        (good[:2], r"one factor for each of the 3 modes"),
        ([None, good[1], np.ones((3, 5))], r"factor 2 with 4 rows"),
        ([None, good[1], np.ones((4, 6))], r"one number of columns"),
        ([None, good[1], np.ones(4)], r"factor 2 with 4 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            autosparse.mttkrp(T, factors, 0)
    for factors in ([None, None, good[2]], [None, sps.csr_array(good[1]), good[2]]):
        with pytest.raises(TypeError, match="factor 1 must be a dense matrix"):
            autosparse.mttkrp(T, factors, 0)
    for mode in (3, -4, 1.0, True):
        with pytest.raises(ValueError, match="a mode from 0 to 2"):
            autosparse.mttkrp(T, good, mode)
    with pytest.raises(ValueError, match="out has shape"):
        autosparse.mttkrp(T, good, 0, out=np.empty((2, 4)))
    with pytest.raises(TypeError, match="out has dtype"):
        autosparse.mttkrp(T, good, 0, out=np.empty((2, 5), np.float32))
    with pytest.raises(ValueError, match="order 2 or more"):
        autosparse.mttkrp(autosparse.tensor([[0]], [1.0]), [np.ones((1, 2))], 0)


@pytest.mark.parametrize("shape", [5, "abc", (2.5, 3, 3), (None,) * 3, [[1, 2], 3, 4], object()])
def test_shapes_that_are_none_are_explained(shape: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)a sequence of integers.*Given: shape=.*Hint: "):
        autosparse.tensor(np.zeros((3, 2), int), np.ones(2), shape)


def test_extents_beyond_64_bits_are_explained() -> None:
    with pytest.raises(ValueError, match=r"(?s)extents must be < 2\*\*63.*Hint: "):
        autosparse.tensor(np.zeros((3, 2), int), np.ones(2), (2**70, 2, 2))


@pytest.mark.parametrize(
    "factors", [5, None, object(), [None, "x", "y"], [None, [[1], [1, 2]], [[1]]], [None, [["a"]], [["b"]]], "abc"]
)
def test_factors_that_are_none_are_explained(factors: Any) -> None:
    T = autosparse.tensor(np.zeros((3, 2), int), np.ones(2), (2, 3, 4))
    with pytest.raises(TypeError, match=r"(?s)mttkrp: factor.*Given: .*Hint: "):
        autosparse.mttkrp(T, factors, 0)


@pytest.mark.parametrize("product", [lambda T, x: T @ x, lambda T, x: x @ T, lambda T, x: x * T, lambda T, x: T + x])
def test_arithmetic_of_tensors_and_arrays_is_a_type_error(product: Any) -> None:
    """NumPy would treat the tensor as an object without dimensions."""
    with pytest.raises(TypeError, match="AutoSparseTensor"):
        product(autosparse.tensor(np.zeros((3, 2), int), np.ones(2), (2, 3, 4)), np.ones(4))
