"""Tests of A @ B with two sparse operands: entries, their order and their sums equal SciPy's to the last bit."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from autosparse._native.kernels import spgemm
from autosparse._native.kernels.spgemm import SOLVERS, CompressedRows
from autosparse._native.kernels.spgemm_solvers import costs
from hypothesis import given, settings

import autosparse
from autosparse import light
from autosparse.explain import explain_einsum
from tests.native.hooks import hook, on_several_threads

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = ("float32", "float64", "complex64", "complex128", "bool", *INTEGERS)


def raw_csr(rng: np.random.Generator, shape: tuple[int, int], density: float, dtype: str, index: str) -> Any:
    """Return a random CSR array: unsorted rows with duplicates, explicit zeros, and sums that often cancel."""
    n_rows, n_cols = shape
    lengths = rng.binomial(2 * n_cols, density / 2, n_rows) if n_cols else np.zeros(n_rows, int)
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(index)
    indices = rng.integers(0, max(n_cols, 1), indptr[-1]).astype(index)
    data = rng.integers(-2, 3, indptr[-1]).astype(dtype)
    if data.dtype.kind in "iu":
        data *= rng.choice(np.array([1, 3, np.iinfo(dtype).max], dtype), data.size)  # sums overflow
    if data.dtype.kind == "c":
        data = data * np.array(1 - 2j, dtype)
    return sps.csr_array((data, indices, indptr), shape=shape)


def assert_identical(ours: Any, theirs: Any) -> None:
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_array_equal(ours.data, theirs.data)


@given(
    seed=st.integers(0, 2**31),
    shape=st.tuples(*[st.integers(0, 25)] * 3),
    density=st.sampled_from((0.0, 0.02, 0.2, 0.9)),
    dtypes=st.tuples(*[st.sampled_from(DTYPES)] * 2),
    indices=st.tuples(*[st.sampled_from(("int32", "int64"))] * 2),
    formats=st.tuples(*[st.sampled_from(("csr", "csc"))] * 2),
)
def test_product_is_scipys_to_the_last_bit(
    seed: int, shape: Any, density: float, dtypes: Any, indices: Any, formats: Any
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(seed)
    A = raw_csr(rng, (m, k), density, dtypes[0], indices[0]).asformat(formats[0])
    B = raw_csr(rng, (k, n), density, dtypes[1], indices[1]).asformat(formats[1])
    make = {"csr": autosparse.csr_array, "csc": autosparse.csc_array}
    ours = make[formats[0]](A) @ make[formats[1]](B)
    assert type(ours) is make[formats[0]]
    assert_identical(ours, A @ B)
    assert_identical(make[formats[0]](A) @ B, A @ B)


def blocks(rng: np.random.Generator, n_nodes: int, size: int, dtype: str, order: str) -> Any:
    """Return a matrix whose rows share columns in groups of `size`; sums of its values cancel or round."""
    nodes = sps.random_array((n_nodes, n_nodes), density=min(1.0, 6 / n_nodes), random_state=rng, format="csr")
    pattern = sps.kron(nodes, np.ones((size, size)), format="csr")
    pattern.data = rng.choice((-1, 0, 1, 0.1, 1 / 3, 1e8), pattern.nnz).astype(dtype)
    A = sps.csr_array(pattern)
    return A if order == "sorted" else shuffled(A, rng, repeat=order == "repeated")


def shuffled(A: Any, rng: np.random.Generator, *, repeat: bool) -> Any:
    """Return `A` with shuffled rows: rows of the same length share one random order; `repeat` duplicates a column."""
    orders: dict[int, Any] = {}
    starts, stops = A.indptr[:-1], A.indptr[1:]
    indices, data = A.indices.copy(), A.data.copy()
    for start, stop in zip(starts, stops, strict=True):
        order = orders.setdefault(stop - start, rng.permutation(stop - start))
        indices[start:stop], data[start:stop] = indices[start:stop][order], data[start:stop][order]
        if repeat and stop - start > 2:
            indices[stop - 1] = indices[start]
    return sps.csr_array((data, indices, A.indptr), shape=A.shape)


@given(
    seed=st.integers(0, 2**31),
    n_nodes=st.integers(1, 12),
    size=st.integers(1, 6),
    orders=st.tuples(*[st.sampled_from(("sorted", "shuffled", "repeated"))] * 2),
    dtype=st.sampled_from(DTYPES),
    index=st.sampled_from(("int32", "int64")),
)
def test_rows_that_share_their_columns(
    seed: int, n_nodes: int, size: int, orders: tuple[str, str], dtype: str, index: str
) -> None:
    rng = np.random.default_rng(seed)
    A, B = (blocks(rng, n_nodes, size, dtype, order) for order in orders)
    for one in (A, B):
        one.indices, one.indptr = one.indices.astype(index), one.indptr.astype(index)
    assert_identical(autosparse.csr_array(A) @ B, A @ B)
    assert_identical(autosparse.csr_array(A) @ A, A @ A)


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_longer_than_a_piece_of_memory(threads: int) -> None:
    rng = np.random.default_rng(5)
    B = sps.random_array((40, 300_000), density=0.2, random_state=rng, format="csr", dtype=np.float32)
    A = sps.random_array((9, 40), density=0.4, random_state=rng, format="csr", dtype=np.float32)
    A = sps.csr_array(sps.vstack([A, A, A]))
    with on_several_threads(), autosparse.options(threads=threads):
        assert_identical(autosparse.csr_array(A) @ B, A @ B)


@pytest.mark.parametrize("threads", [2, 3, 5, 8])
def test_small_products_on_many_threads(threads: int) -> None:
    rng = np.random.default_rng(11)
    with on_several_threads(), autosparse.options(threads=threads):
        for n in (1, 2, 7, 30, 100, 400):
            A = sps.random_array((n, n), density=min(1.0, 5 / n), random_state=rng, format="csr", dtype=np.float32)
            assert_identical(autosparse.csr_array(A) @ A, A @ A)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_a_bit(threads: int) -> None:
    rng = np.random.default_rng(3)
    A = sps.random_array((700, 900), density=0.03, random_state=rng, format="csr", dtype=np.float32)
    B = sps.random_array((900, 800), density=0.03, random_state=rng, format="csr", dtype=np.float32)
    A = sps.vstack(
        [A, sps.csr_array(np.ones((1, 900), np.float32)), sps.csr_array((40, 900), dtype=np.float32)]
    ).tocsr()
    with on_several_threads(), autosparse.options(threads=threads):
        ours = autosparse.csr_array(A) @ B
    assert_identical(ours, A @ B)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_kernels_multiply_integers_and_booleans(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A, B = (raw_csr(np.random.default_rng(seed), (40, 40), 0.2, dtype, "int32") for seed in (7, 8))
    B = B.tocsc()
    wanted, ours = A @ B, (autosparse.csr_array(A), autosparse.csc_array(B))
    light.complete()
    monkeypatch.setattr(sps.csr_array, "_matmul_sparse", None)
    monkeypatch.setattr(sps.csc_array, "_matmul_sparse", None)
    assert_identical(ours[0] @ ours[1], wanted)


def test_sums_that_cancel_are_no_entries_and_nan_is_one() -> None:
    A = sps.csr_array(np.array([[1.0, -1.0], [np.nan, 0.0], [np.inf, 1.0]]))
    B = sps.csr_array(np.array([[1.0, 2.0], [1.0, 0.0]]))
    assert_identical(autosparse.csr_array(A) @ B, A @ B)


def test_matrix_semantics_and_other_dtypes_stay_scipys() -> None:
    A = sps.random_array((30, 30), density=0.2, random_state=np.random.default_rng(0), format="csr")
    M = sps.csr_matrix(A)
    product = autosparse.csr_matrix(M) * M
    assert type(product) is autosparse.csr_matrix
    assert_identical(product, M * M)
    for dtype in ("int8", "bool", "longdouble"):
        other = A.astype(dtype)
        assert_identical(autosparse.csr_array(A) @ other, A @ other)
        assert_identical(autosparse.csr_array(other) @ A, other @ A)


def test_written_values_and_structure_are_seen() -> None:
    A = sps.random_array((40, 40), density=0.2, random_state=np.random.default_rng(1), format="csr")
    ours = autosparse.csr_array(A.copy())
    ours @ ours
    ours.data *= 3
    ours.indices[0] = (ours.indices[0] + 1) % 40
    plain = sps.csr_array((ours.data, ours.indices, ours.indptr), shape=A.shape)
    assert_identical(ours @ ours, plain @ plain)


@pytest.mark.parametrize("name", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_product_is_like_one_that_a_constructor_made(name: str, index: str) -> None:
    rng = np.random.default_rng(2)
    A, B = (raw_csr(rng, shape, 0.3, "float64", index) for shape in ((9, 7), (7, 12)))
    for one in (A, B):
        one.data = np.abs(one.data) + 1  # where sums cancel, SciPy's index type depends on memory beyond the entries
    theirs = getattr(sps, name)(A) @ getattr(sps, name)(B)
    ours = getattr(autosparse, name)(A) @ getattr(autosparse, name)(B)
    again = getattr(autosparse, name)((ours.data, ours.indices, ours.indptr), shape=ours.shape)
    assert_identical(ours, theirs)
    assert (ours.indices.dtype, ours.indptr.dtype) == (theirs.indices.dtype, theirs.indptr.dtype)
    assert vars(ours).keys() == vars(again).keys()
    x = rng.standard_normal(12)
    np.testing.assert_allclose(ours @ x, theirs @ x)
    ours.data[:] = 1
    theirs.data[:] = 1
    np.testing.assert_allclose(ours @ x, theirs @ x)
    assert_identical(ours.T @ ours, theirs.T @ theirs)
    ours.indices[0] = 99
    with pytest.raises(ValueError, match="99"):
        ours @ x


def test_indices_out_of_bounds_raise() -> None:
    ours = autosparse.csr_array(sps.eye_array(5, format="csr"))
    ours.indices[2] = 99
    with pytest.raises(ValueError, match="99"):
        ours @ ours


EMPTY = {
    "nothing meets": ([[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]]),
    "all sums cancel": ([[1.0, -1], [0, 0]], [[1.0, 0], [1, 0]]),
    "nothing at all": ([[0.0, 0], [0, 0]], [[0.0, 0], [0, 0]]),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("formats", list(itertools.product(("csr", "csc"), ("csr", "csc", "coo"))))
def test_products_without_entries_have_scipys_types(name: str, formats: tuple[str, str]) -> None:
    # SciPy chooses a matrix's index type from memory beyond its entries, which is arbitrary where sums have cancelled.
    left = ("array",) if name == "all sums cancel" else ("array", "matrix")
    for kinds in itertools.product(left, ("array", "matrix")):
        for indices in itertools.product(("int32", "int64"), repeat=2):
            made = []
            for values, fmt, kind, index in zip(EMPTY[name], formats, kinds, indices, strict=True):
                one = getattr(sps, f"{fmt}_{kind}")(np.array(values))
                if fmt != "coo":
                    one.indices, one.indptr = one.indices.astype(index), one.indptr.astype(index)
                made.append(one)
            wanted = made[0] @ made[1]
            A = getattr(autosparse, formats[0])(made[0].copy())
            A.indices, A.indptr = made[0].indices.copy(), made[0].indptr.copy()
            got = A @ made[1]
            facts = [(one.indices.dtype, one.indptr.dtype, one.dtype, one.nnz, one.shape) for one in (got, wanted)]
            assert facts[0] == facts[1], (kinds, indices)


def test_any_number_of_threads_can_be_allowed() -> None:
    A = autosparse.csr(sps.eye_array(50, format="csr"))
    with autosparse.options(threads=4096):
        assert (A @ A).nnz == 50


def rows_of(A: Any, index: str = "") -> CompressedRows:
    """Return the compressed rows of a matrix, with indices of its own type or of the type `index`."""
    indptr, indices = (one.astype(index or one.dtype, copy=False) for one in (A.indptr, A.indices))
    return CompressedRows(indptr, indices, A.data)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    shape=st.tuples(st.integers(0, 25), st.integers(1, 25), st.integers(1, 40)),
    densities=st.tuples(*[st.sampled_from((0.0, 0.03, 0.2, 0.9))] * 2),
    dtype=st.sampled_from(DTYPES),
    index=st.sampled_from(("int32", "int64")),
    is_sorted=st.booleans(),
)
def test_every_solver_gives_scipys_entries_in_scipys_order(
    seed: int, shape: Any, densities: Any, dtype: str, index: str, is_sorted: bool
) -> None:
    m, k, n = shape
    rng = np.random.default_rng(seed)
    A, B = raw_csr(rng, (m, k), densities[0], dtype, index), raw_csr(rng, (k, n), densities[1], dtype, index)
    A.indices, A.indptr = A.indices.astype(index), A.indptr.astype(index)
    B.indices, B.indptr = B.indices.astype(index), B.indptr.astype(index)
    if is_sorted:  # with duplicates, which a merge adds up in their order
        for start, stop in itertools.pairwise(B.indptr):
            B.indices[start:stop].sort()
    wanted = A @ B
    for solver in SOLVERS:
        got = spgemm.multiply(rows_of(A), rows_of(B), n_cols=n, threads=2, solver=solver)
        np.testing.assert_array_equal(got.indptr, wanted.indptr)
        np.testing.assert_array_equal(got.indices, wanted.indices)
        np.testing.assert_array_equal(got.data, wanted.data)


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_agree_on_rounding_long_rows_and_single_entries(solver: str) -> None:
    rng = np.random.default_rng(4)
    B = sps.random_array((300, 20_000), density=0.05, random_state=rng, format="csr")
    A = sps.random_array((60, 300), density=0.3, random_state=rng, format="csr")
    D = sps.csr_array(sps.diags_array(rng.standard_normal(300)))
    for left in (A, D, sps.csr_array((60, 300))):
        got = spgemm.multiply(rows_of(left, "int32"), rows_of(B, "int32"), n_cols=B.shape[1], threads=2, solver=solver)
        wanted = left @ B
        np.testing.assert_array_equal(got.indices, wanted.indices)
        np.testing.assert_array_equal(got.data, wanted.data)


def test_few_rows_of_a_wide_matrix_and_hashed_columns_of_equal_low_bits() -> None:
    rng = np.random.default_rng(6)
    columns = np.sort(rng.choice(2**11, (50, 8)), axis=1) * 1024
    B = sps.csr_array((rng.standard_normal(400), columns.ravel(), np.arange(0, 401, 8)), shape=(50, 2**21))
    A = sps.random_array((20, 50), density=0.3, random_state=rng, format="csr")
    assert_identical(autosparse.csr_array(A) @ B, A @ B)


def test_costs_count_every_row_and_multiplication_once() -> None:
    rng = np.random.default_rng(8)
    A, B = (sps.random_array((200, 200), density=0.02, random_state=rng, format="csr") for _ in range(2))
    by_class, *alone = costs(rows_of(A), rows_of(B), n_cols=200)
    lengths = np.diff(B.indptr)
    work = np.array([lengths[A.indices[start:stop]].sum() for start, stop in itertools.pairwise(A.indptr)])
    assert (by_class.n_rows, by_class.n_products) == ((work > 0).sum(), work.sum())
    assert sum(one.n_rows for one in alone) == by_class.n_rows
    assert sum(one.n_products for one in alone) == by_class.n_products
    assert by_class.alone_s <= min(one.alone_s for one in alone) * (1 + 1e-12)
    D = sps.csr_array(sps.diags_array(np.ones(200)))
    full = sps.csr_array(np.ones((200, 200)))
    copied = costs(rows_of(D), rows_of(full), n_cols=200)[SOLVERS.index("copy")]
    assert copied.n_rows == 200  # multiples of sorted rows of B


def test_explanations_of_sparse_products_list_the_solvers() -> None:
    A = sps.random_array((30, 30), density=0.2, random_state=np.random.default_rng(0), format="csr")
    ours = autosparse.csr_array(A)
    for text in map(str, (ours.explain(A), autosparse.csc_array(A).explain(ours), explain_einsum("ij,jk->ik", A, A))):
        for solver in SOLVERS:
            assert any(line.strip().startswith(solver) for line in text.splitlines())
    counts = A.astype("int8")
    assert SOLVERS[1] in str(autosparse.csr_array(counts).explain(counts))
    assert "SciPy" in str(ours.astype("longdouble").explain(A.astype("longdouble")))
    assert "<table" in ours.explain(A)._repr_html_()
    with pytest.raises(ValueError, match="dimension mismatch"):
        ours.explain(A[:7])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_wait_in_little_memory_for_their_place_in_the_result(dtype: str) -> None:
    A = sps.random_array(
        (9_000, 9_000), density=6 / 9_000, random_state=np.random.default_rng(0), format="csr", dtype=dtype
    )
    made = spgemm.multiply(rows_of(A), rows_of(A), n_cols=9_000, threads=1)
    private_bytes = hook("asp_spgemm_private_bytes")()
    assert private_bytes <= 1 << 20
    assert private_bytes < 0.3 * (made.indices.nbytes + made.data.nbytes)
    assert all(one.flags.owndata and one.flags.writeable for one in made)


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("order", [1, -1])
def test_results_grow_beyond_an_estimate_from_the_first_rows(threads: int, order: int) -> None:
    rng = np.random.default_rng(1)
    lengths = np.repeat([0, 1, 40], [6_000, 3_000, 1_500])[::order]
    indptr = np.append(0, np.cumsum(lengths)).astype(np.int32)
    columns = rng.integers(0, lengths.size, indptr[-1]).astype(np.int32)
    A = sps.csr_array((rng.standard_normal(columns.size), columns, indptr), shape=(lengths.size, lengths.size))
    with on_several_threads():
        made = spgemm.multiply(rows_of(A), rows_of(A), n_cols=lengths.size, threads=threads)
    assert_identical(sps.csr_array(made[::-1], shape=A.shape), A @ A)
    made.data[:], made.indices[:] = 1, 0  # sanitizers see writes beyond the memory of the arrays


def test_results_are_copied_where_the_pool_is_turned_off() -> None:
    A = sps.random_array((3_000, 3_000), density=8 / 3_000, random_state=np.random.default_rng(0), format="csr")
    with autosparse.options(output_pool_bytes=0):
        assert_identical(autosparse.csr_array(A) @ A, A @ A)


def test_results_are_cut_where_the_first_rows_are_longest() -> None:
    n = 60_000
    lengths = np.ones(n, np.int64)
    lengths[:200] = 2_000  # an estimate from the first rows is nine times too high
    indptr = np.append(0, np.cumsum(lengths)).astype(np.int32)
    A = sps.csr_array((np.ones(indptr[-1]), np.arange(indptr[-1], dtype=np.int32) % n, indptr), shape=(n, n))
    assert_identical(autosparse.csr_array(A) @ A, A @ A)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_multiples_of_rows_are_scipys(dtype: str, index: str, solver: str) -> None:
    """Sorted, unsorted, repeated and empty rows of B, each times one number, and sums that vanish or are not finite."""
    rng = np.random.default_rng(0)
    B = raw_csr(rng, (60, 40), 0.3, dtype, index)
    B = sps.vstack([B, sps.csr_array(B.toarray()), sps.csr_array((5, 40))], format="csr").astype(dtype)
    B.indices, B.indptr = B.indices.astype(index), B.indptr.astype(index)
    n = B.shape[0]
    factors = rng.choice([0.0, 1.0, -2.0, np.inf, np.nan], n).astype(dtype)
    for chosen in (np.arange(n), rng.integers(0, n, n), np.zeros(n, int)):
        A = sps.csr_array((factors, chosen.astype(index), np.arange(n + 1, dtype=index)), shape=(n, n))
        with np.errstate(invalid="ignore"):
            expected = A @ B
        made = spgemm.multiply(rows_of(A), rows_of(B), n_cols=40, threads=2, solver=solver)
        for ours, theirs in zip(made, (expected.indptr, expected.indices, expected.data), strict=True):
            np.testing.assert_array_equal(ours, theirs)
