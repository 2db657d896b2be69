"""Tests that A @ B is SciPy's answer in value, dtype, shape, order and error, for every class, dtype and B."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse._compressed import _cs_matrix

import autosparse
import autosparse as asp
from autosparse.dispatch.pairs import MIN_WORK
from autosparse.errors import ShapeError, StructureError
from tests.covering import covering
from tests.scipy_versions import IS_RECENT

CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
NATIVE = ("f4", "f8", "c8", "c16")
DTYPES = ("?", "i1", "u1", "i4", "u8", *NATIVE, "g", "G")


def pair(name: str, m: Any) -> tuple[Any, Any]:
    """Return the matrix as our class and as SciPy's."""
    return getattr(autosparse, name)(m), getattr(sps, name)(m)


def random(n_rows: int, n_cols: int, *, dtype: str = "f8", seed: int = 0, density: float = 0.3) -> Any:
    rng = np.random.RandomState(seed)
    m = sps.random(n_rows, n_cols, density, format="csr", random_state=rng)
    m.data = 8 * m.data - 2
    if np.dtype(dtype).kind == "c":
        m = m + 1j * m[:, ::-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return m.astype(dtype)


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert ours.flags.c_contiguous == theirs.flags.c_contiguous
    assert ours.flags.f_contiguous == theirs.flags.f_contiguous
    tolerance = 1e-4 if ours.dtype.char in "fF" else 1e-11
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("a_dtype", DTYPES)
def test_every_pair_of_dtypes(name: str, a_dtype: str) -> None:
    ours, theirs = pair(name, random(7, 9, dtype=a_dtype))
    rng = np.random.default_rng(1)
    for b_dtype in (*DTYPES, "f2", ">f8", ">f4"):
        B = (rng.random((9, 3)) * 7).astype(b_dtype)
        assert_same(ours @ B, theirs @ B)
        assert_same(ours @ B[:, 0], theirs @ B[:, 0])
        assert_same(B[:7].T @ ours, B[:7].T @ theirs)
        assert_same(B[:7, 0] @ ours, B[:7, 0] @ theirs)


def test_bool_is_or_and_int8_wraps() -> None:
    A = autosparse.csr_array(np.ones((1, 2), bool))
    assert (A @ np.ones(2, bool)).tolist() == [True]
    A = autosparse.csr_array(np.full((1, 2), 100, np.int8))
    assert (A @ np.ones(2, np.int8)).tolist() == [-56]


class Subclass(np.ndarray):
    """Subclass of ndarray without additions."""


def _unaligned(B: Any) -> Any:
    raw = np.zeros(B.nbytes + 1, np.uint8)
    view = raw[1:].view(B.dtype).reshape(B.shape)
    view[...] = B
    return view


def _read_only(B: Any) -> Any:
    B = B.copy()
    B.flags.writeable = False
    return B


LAYOUTS = {
    "C": lambda B: B,
    "F": np.asfortranarray,
    "every second row": lambda B: np.repeat(B, 2, axis=0)[::2],
    "every second column": lambda B: np.repeat(B, 2, axis=-1)[..., ::2] if B.ndim == 2 else B,
    "upside down": lambda B: B[::-1].copy()[::-1],
    "left to right": lambda B: B[..., ::-1].copy()[..., ::-1],
    "columns of a wider array": lambda B: np.hstack([B, B])[:, : B.shape[1]] if B.ndim == 2 else B,
    "unaligned": _unaligned,
    "read-only": _read_only,
    "broadcast rows": lambda B: np.broadcast_to(B[:1], B.shape),
    "broadcast columns": lambda B: np.broadcast_to(B[:, :1], B.shape) if B.ndim == 2 else B,
    "subclass": lambda B: B.view(Subclass),
    "np.matrix": lambda B: B.view(np.matrix) if B.ndim == 2 else B,
    "masked": lambda B: np.ma.array(B, mask=B > 0.5),
    "list": lambda B: B.tolist(),
    "float32": lambda B: B.astype("f4"),
    "field of records": lambda B: np.rec.fromarrays([B, B], names="a,b")["a"],
}


@covering(columns=[None, 0, 1, 2, 17], layout=LAYOUTS, name=CLASSES)
def test_every_layout_of_B(name: str, layout: str, columns: int | None) -> None:
    ours, theirs = pair(name, random(13, 10))
    B = np.random.default_rng(0).random(10 if columns is None else (10, columns))
    B = LAYOUTS[layout](B)
    assert_same(ours @ B, theirs @ B)
    assert_same(ours.dot(B), theirs.dot(B))
    if name.endswith("matrix"):
        assert_same(ours * B, theirs * B)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("index", ["i4", "i8"])
@given(
    shape=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    dtype=st.sampled_from(NATIVE),
    columns=st.sampled_from([None, 0, 1, 2, 8, 33]),
    seed=st.integers(0, 10**6),
)
def test_products_of_any_matrix_equal_scipys(
    name: str, index: str, shape: tuple[int, int], dtype: str, columns: int | None, seed: int
) -> None:
    """Matrices have unsorted and repeated indices, explicit zeros, empty rows and room behind the last entry."""
    rng = np.random.default_rng(seed)
    n_major, n_minor = shape if name[:3] == "csr" else shape[::-1]
    lengths = rng.integers(0, 5, n_major) * (n_minor > 0)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    room = int(indptr[-1]) + int(rng.integers(3))
    indices = rng.integers(0, max(n_minor, 1), room).astype(index)
    data = rng.integers(-2, 3, room).astype(dtype)
    arrays = (data, indices, indptr)
    ours, theirs = getattr(autosparse, name)(arrays, shape=shape), getattr(sps, name)(arrays, shape=shape)
    extra = () if columns is None else (columns,)
    B, X = (rng.standard_normal((extent, *extra)).astype(dtype) for extent in (shape[1], shape[0]))
    before = [array.copy() for array in arrays]
    assert_same(ours @ B, theirs @ B)
    assert_same(ours.T @ X, theirs.T @ X)
    assert_same(X.T @ ours, X.T @ theirs)
    assert_same(ours.conj().T @ X, theirs.conj().T @ X)
    assert_same(ours.T.T @ B, theirs.T.T @ B)
    assert all(np.array_equal(*arrays) for arrays in zip(before, arrays, strict=True)), "a product wrote to A"


@pytest.mark.parametrize("name", CLASSES)
def test_special_values_go_where_scipy_sends_them(name: str) -> None:
    dense = np.array([[0.0, 1.0, 0.0], [-0.0, 0.0, 2.0]])
    m = sps.csr_array((np.array([0.0, 1.0, np.inf]), [0, 1, 2], [0, 2, 3]), shape=dense.shape)
    ours, theirs = pair(name, m)
    for x in ([np.inf, 1, 0], [np.nan, 1, 1], [1, -0.0, 5e-324], [1, 1, np.inf]):
        np.testing.assert_array_equal(ours @ np.array(x), theirs @ np.array(x))
        np.testing.assert_array_equal(ours @ np.array([x, x]).T, theirs @ np.array([x, x]).T)
    assert np.signbit(ours @ np.zeros(3)).tolist() == np.signbit(theirs @ np.zeros(3)).tolist()


@pytest.mark.parametrize("name", CLASSES)
def test_results_are_fresh(name: str) -> None:
    ours, _ = pair(name, random(400, 500))
    for B in (np.ones(500), np.ones((500, 3)), np.ones((500, 700))):
        C = ours @ B
        kept = C.copy()
        assert C.flags.owndata or C.base is not None
        assert C.flags.writeable
        assert not np.may_share_memory(C, B)
        D = ours @ (2 * B)
        assert not np.may_share_memory(C, D)
        np.testing.assert_array_equal(C, kept)


WRONG = {
    "vector too long": lambda: np.ones(5),
    "column too long": lambda: np.ones((5, 1)),
    "matrix too long": lambda: np.ones((5, 2)),
    "sparse too long": lambda: sps.csr_array(np.ones((5, 2))),
    "list too long": lambda: [1.0] * 5,
    "scalar": lambda: 3.0,
    "numpy scalar": lambda: np.float64(3),
    "3-D": lambda: np.ones((3, 3, 3)),
    "objects": lambda: np.array([1, "a", None], dtype=object),
    "0-D": lambda: np.array(2.0),
    "None": lambda: None,
    "text": lambda: "abc",
}


@covering(side=["A @ B", "B @ A"], case=WRONG, name=CLASSES)
def test_errors_are_scipys(name: str, case: str, side: str) -> None:
    def outcome(A: Any) -> Any:
        B = WRONG[case]()
        try:
            return type(A @ B if side == "A @ B" else B @ A).__name__
        except Exception as err:  # noqa: BLE001 - whatever SciPy raises must be raised
            return next(kind for kind in type(err).__mro__ if kind.__module__ == "builtins"), str(err).split("\n")[0]

    ours, theirs = pair(name, random(3, 3))
    assert outcome(ours) == outcome(theirs)


def test_a_wrong_shape_is_answered_with_both_shapes_and_the_hint() -> None:
    A = autosparse.csr_array(np.ones((3, 4)))
    for product in (lambda: A @ np.ones(5), lambda: A @ np.ones((5, 2)), lambda: A.dot(np.ones((5, 1)))):
        with pytest.raises(
            ShapeError, match=r"(?s)^(matmul: )?dimension mismatch.*4 columns.*5 rows.*Hint: "
        ) as caught:
            product()
        assert isinstance(caught.value, ValueError)
    with pytest.raises(ShapeError, match=r"(?s)5 columns \(shape \(2, 5\)\).*3 rows \(shape \(3, 4\)\).*Hint: "):
        np.ones((2, 5)) @ A
    with pytest.raises(ShapeError, match=r"(?s)4 columns.*5 rows.*Hint: "):
        autosparse.csr_matrix(A) * np.ones(5)


def test_numpy_traps_stay_as_they_are() -> None:
    ours, theirs = pair("csr_array", random(3, 3))
    assert np.dot(ours, np.ones(3)).dtype == np.dot(theirs, np.ones(3)).dtype == object
    for A in (ours, theirs):
        with pytest.raises(ValueError, match="does not have enough dimensions"):
            np.matmul(A, np.ones(3))
    assert ours.__array_priority__ == theirs.__array_priority__
    assert np.asarray(ours).shape == ()


def test_one_dimensional_arrays_multiply_as_in_scipy() -> None:
    if not hasattr(sps, "block_array") or 1 not in getattr(sps.csr_array, "_allow_nd", (2,)):
        pytest.skip("this SciPy has no one-dimensional csr_array")
    v = np.array([0.0, 2.0, 0.0, 3.0])
    ours, theirs = autosparse.csr_array(v), sps.csr_array(v)
    assert ours.shape == (4,)
    for B in (np.ones(4), np.ones((4, 2)), np.ones((4, 1))):
        np.testing.assert_allclose(ours @ B, theirs @ B)
        assert np.shape(ours @ B) == np.shape(theirs @ B)


def test_products_count_duplicates_in_wide_matrices() -> None:
    shape = (3, 2**40)
    ours, theirs = pair("csr_array", sps.coo_array(([1.0, 2.0], ([0, 2], [5, 2**39])), shape=shape))
    assert ours.indices.dtype == np.int64
    y = np.array([1.0, 2.0, 3.0])
    sums = [np.asarray(A.sum(axis=1)) for A in (ours, theirs)]
    np.testing.assert_array_equal(*sums)
    assert (ours.multiply(y[:, None]) - theirs.multiply(y[:, None])).count_nonzero() == 0


@pytest.mark.parametrize(("a", "b"), [*itertools.product(CLASSES, repeat=2)])
def test_sparse_times_sparse(a: str, b: str) -> None:
    (ours, theirs), (ours_b, theirs_b) = pair(a, random(6, 7)), pair(b, random(7, 5, seed=1))
    expected = (theirs @ theirs_b).toarray()
    for C in (ours @ ours_b, ours @ theirs_b, theirs @ ours_b):
        np.testing.assert_allclose(C.toarray(), expected)
    assert type(theirs @ ours_b) is (type(ours @ ours_b) if a == b else type(theirs @ theirs_b))


@pytest.mark.skipif(not IS_RECENT, reason="this SciPy calls its constructor for A.T")
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_a_transposed_operand_is_converted_without_scipys_constructor(
    fmt: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    m = getattr(sps, f"{fmt}_{kind}")(sps.random_array((30, 20), density=0.2, random_state=np.random.default_rng(0)))
    A = getattr(asp, fmt)(m)
    expected = m @ m.T, m.T @ m
    made: list[Any] = []
    init = _cs_matrix.__init__
    monkeypatch.setattr(_cs_matrix, "__init__", lambda *a, **k: (made.append(a), init(*a, **k))[1])
    found = A @ A.T, A.T @ A
    assert not made
    for mine, theirs in zip(found, expected, strict=True):
        assert (type(mine).__name__, mine.format) == (type(theirs).__name__, theirs.format)
        np.testing.assert_array_equal(mine.indices, theirs.indices)
        np.testing.assert_allclose(mine.data, theirs.data)


DIAGONALS = {
    "full": ([[1.0, 2, np.nan, -4, 5, 6]], [0], 6),
    "zeros": ([[1.0, 0, 3, -0.0, 5, 6]], [0], 6),
    "complex": ([[1.0, 2j, 3, 4, 5, 6]], [0], 6),
    "small integers": ([np.arange(1, 7, dtype=np.int8)], [0], 6),
    "short": ([[1.0, 2]], [0], 6),
    "long": ([[1.0, 2, 3, 4, 5, 6, 7, 8]], [0], 6),
    "beside the main one": ([[1.0, 2, 3, 4, 5, 6]], [1], 6),
    "two": ([[1.0, 2, 3, 4, 5, 6]] * 2, [0, -1], 6),
    "wide": ([[1.0, 2, 3, 4, 5, 6]], [0], 9),
}


@covering(
    name=list(CLASSES), diagonal=list(DIAGONALS), kind=["dia_array", "dia_matrix"], index=["i4", "i8"], dtype="?df"
)
def test_products_with_diagonals(name: str, diagonal: str, kind: str, index: str, dtype: str) -> None:
    data, offsets, n_cols = DIAGONALS[diagonal]
    D = getattr(sps, kind)((np.array(data), offsets), shape=(6, n_cols))
    ours, theirs = pair(name, random(8, 6, dtype=dtype, density=0.5))
    for A in (ours, theirs):
        A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    found, expected = ours @ D, theirs @ D
    assert (type(found).__name__, found.dtype) == (type(expected).__name__, expected.dtype)
    for field in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
        assert getattr(found, field).dtype == getattr(expected, field).dtype
    assert not np.shares_memory(found.data, D.data)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
def test_a_full_diagonal_is_not_searched_for_entries(fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, D = asp.csr(random(8, 6)).asformat(fmt), sps.diags_array(np.arange(1.0, 7))
    expected = (A.toarray() * np.arange(1.0, 7)).tolist()
    for method in ("asformat", "tocsr", "tocsc", "tocoo"):
        monkeypatch.setattr(sps.dia_array, method, None, raising=False)
    assert A.base is not A  # matrices that are light multiply by SciPy
    assert (A @ D).toarray().tolist() == expected


def test_values_of_a_dtype_that_scipy_multiplies_come_and_go() -> None:
    """Data cached for values of one dtype must not be used for values of another."""
    m = sps.csr_array(np.arange(12).reshape(3, 4) % 5)
    A, x = autosparse.csr(m), np.arange(4)
    for values in (m.data, m.data * 0.5, m.data > 1, (m.data * 2j).astype("complex64"), m.data * 3, m.data * 0.25):
        A.data, now = values, sps.csr_array((values, m.indices, m.indptr), shape=m.shape)
        for B in (x, x[:, None] * 1.5, x > 1):
            for ours, theirs in ((A, now), (A.T, now.T)):
                B = np.resize(B, (ours.shape[1], *B.shape[1:]))
                found = ours @ B
                np.testing.assert_array_equal(found, theirs @ B)
                assert found.dtype == (theirs @ B).dtype
        with pytest.raises(ValueError, match="mismatch"):
            A @ np.ones(5)


@covering(
    right=["bool", "int32", "uint64", "float32", "float64", "longdouble", "complex128"],
    left=["bool", "int8", "uint16", "int64", "float32", "float64", "longdouble", "complex64"],
    fmt=["csr", "csc"],
)
def test_large_products_of_two_dtypes_are_those_of_scipy(left, right, fmt):
    """Compare dtype, class and order with SciPy's; the values of A must not change."""
    rng = np.random.default_rng(4)
    plain = sps.random_array((300, 200), density=0.25, random_state=rng, format=fmt)
    plain.data = rng.integers(0, 5, plain.nnz).astype(left)
    A, before = autosparse.csr_array(plain) if fmt == "csr" else autosparse.csc_array(plain), plain.data.copy()
    B = np.asarray(rng.integers(0, 5, (200, 10)).astype(right), order="F")
    for threads in (1, 3):
        with autosparse.options(threads=threads, runs=1000, effort="estimate"):
            found, expected = A @ B, plain @ B
        assert (type(found), found.dtype, found.shape) == (type(expected), expected.dtype, expected.shape)
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(A.data, before)
    assert plain.nnz * 10 >= MIN_WORK
    A.indices[3] = 10**6
    if "longdouble" not in (left, right):
        with pytest.raises(StructureError):
            A @ B


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("right", ["own", "plain", "other format"])
def test_sparse_products_of_a_subclass_are_made_by_its_constructor(name: str, right: str) -> None:
    def outcome(kind: Any) -> Any:
        class Named(kind):  # type: ignore[misc]
            def __init__(self, *args: Any, name: str = "unnamed", **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.name = name

        m = random(40, 40)
        A = Named(m, name="given")
        C = A @ {"own": A, "plain": kind(m), "other format": m.tocoo()}[right]
        return type(C).__name__, C.name, C.toarray().tolist()

    assert outcome(getattr(asp, name)) == outcome(getattr(sps, name))


@pytest.mark.parametrize("name", ["csr_matrix", "csc_matrix"])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_a_subclass_of_a_matrix_class_may_define_matmul_by_mul(name: str, dtype: str) -> None:
    class Matrix(getattr(asp, name)):  # type: ignore[misc]
        def __matmul__(self, other: Any) -> Any:
            return self * other

    A, x = Matrix(random(6, 5)), np.arange(5).astype(dtype)
    for product in (A @ x, A * x, A.dot(x)):
        np.testing.assert_allclose(product, random(6, 5) @ x)
