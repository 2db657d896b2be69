"""Tests of default kernels: A B and A^T B equal SciPy's for every instruction set, type, thread count and layout."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.runtime_api import FLAG_ACCUMULATE, FLAG_DETERMINISTIC
from hypothesis import given
from hypothesis import strategies as st

from tests.covering import covering
from tests.native.runtime_cases import (
    DTYPES,
    INDEX_DTYPES,
    Reference,
    assert_product,
    forced,
    isas,
    needs_runtime,
    patterns,
    spoken,
    values,
    with_lengths,
)

pytestmark = needs_runtime

COLUMNS = (None, 1, 2, 3, 5, 8, 17, 32, 33, 100, 256, 300)  # None: B is a vector
PATTERNS = patterns()


def run(csr, shape, B, *, transposed, threads, flags=0, out=None):
    outer = shape[1] if transposed else shape[0]
    if out is None:
        out = np.full((outer, *B.shape[1:]), np.nan, B.dtype)
    return runtime_api.matmul(csr, shape, B, out, transposed=transposed, threads=threads, flags=flags)


@covering(name=PATTERNS, isa=isas(), dtype=DTYPES, index_dtype=INDEX_DTYPES)
def test_product_equals_scipy(name, isa, dtype, index_dtype, pytestconfig):
    """Check every number of columns; without --full at most 100 where there are many rows."""
    A, csr = spoken(PATTERNS[name], dtype, index_dtype)
    few, many = A.nnz > 20_000, A.shape[0] > 8000 and not pytestconfig.getoption("--full")
    with forced(isa):
        for transposed in (False, True):
            op = A.T if transposed else A
            for columns in COLUMNS[: 9 if few else 10 if many else None]:
                rng = np.random.default_rng(3)
                B = values(rng, op.shape[1] if columns is None else (op.shape[1], columns), dtype)
                wanted = Reference(op, B)
                for threads in (1, 3):
                    wanted.check(run(csr, A.shape, B, transposed=transposed, threads=threads))


@covering(name=PATTERNS, isa=isas(), dtype=DTYPES)
def test_accumulate_adds_to_what_is_there(name, isa, dtype):
    A, csr = spoken(PATTERNS[name], dtype, "int32")
    rng = np.random.default_rng(4)
    with forced(isa):
        for transposed in (False, True):
            op = A.T if transposed else A
            for columns in (None, 3, 33):
                B = values(rng, op.shape[1] if columns is None else (op.shape[1], columns), dtype)
                before = values(rng, (op.shape[0], *B.shape[1:]), dtype)
                out = before.copy()
                run(csr, A.shape, B, transposed=transposed, threads=3, flags=FLAG_ACCUMULATE, out=out)
                assert_product(out, op, B, added_to=before)


@covering(name=PATTERNS, isa=isas(), dtype=DTYPES)
def test_deterministic_is_bitwise_the_same_for_any_number_of_threads(name, isa, dtype):
    A, csr = spoken(PATTERNS[name], dtype, "int32")
    with forced(isa):
        for transposed in (False, True):
            for columns in (None, 2, 5, 40):
                n = A.shape[0] if transposed else A.shape[1]
                B = values(np.random.default_rng(5), n if columns is None else (n, columns), dtype)
                results = [
                    run(csr, A.shape, B, transposed=transposed, threads=threads, flags=FLAG_DETERMINISTIC).tobytes()
                    for threads in (1, 2, 3, 7, 2)
                ]
                assert len(set(results)) == 1


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("isa", isas())
def test_deterministic_holds_when_there_is_enough_work_for_several_parts(isa, transposed):
    pattern = with_lengths(np.random.default_rng(6).integers(0, 60, 6000), 700, np.random.default_rng(7))
    A, csr = spoken(pattern, "float32", "int32")
    B = values(np.random.default_rng(8), A.shape[0] if transposed else A.shape[1], "float32")
    with forced(isa):
        results = {
            run(csr, A.shape, B, transposed=transposed, threads=threads, flags=FLAG_DETERMINISTIC).tobytes()
            for threads in (1, 2, 5, 16)
        }
    assert len(results) == 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("transposed", [False, True])
def test_strides_of_vectors_and_rows(isa, dtype, transposed):
    A, csr = spoken(PATTERNS["rows of at most 40"], dtype, "int32")
    op = A.T if transposed else A
    rng = np.random.default_rng(9)
    with forced(isa):
        for step in (-3, -1, 2):
            x = values(rng, 3 * op.shape[1], dtype)[::step][: op.shape[1]]
            room = np.full(3 * op.shape[0], np.nan, dtype)
            out = room[::step][: op.shape[0]]
            run(csr, A.shape, x, transposed=transposed, threads=2, out=out)
            assert_product(out.copy(), op, np.ascontiguousarray(x))
            assert np.isnan(room).sum() == room.size - out.size  # nothing else was written
        for columns in (3, 20):
            B = values(rng, (2 * op.shape[1], columns + 4), dtype)[::2, 1 : columns + 1]
            room = np.full((2 * op.shape[0], columns + 3), np.nan, dtype)
            out = room[1::2, 2 : columns + 2]
            run(csr, A.shape, B, transposed=transposed, threads=2, out=out)
            assert_product(out.copy(), op, np.ascontiguousarray(B))
            assert np.isnan(room).sum() == room.size - out.size


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inf_and_nan_appear_exactly_where_scipy_has_them(isa, transposed, dtype):
    """Check that a stored zero times infinity is NaN, and that masked lanes multiply stored values only."""
    for name in ("rows of at most 2", "rows of at most 4", "rows of at most 8", "rows of at most 40", "wide"):
        A, csr = spoken(PATTERNS[name], dtype, "int32")
        op = A.T if transposed else A
        for columns in (None, 2, 7, 33):
            B = values(np.random.default_rng(10), op.shape[1] if columns is None else (op.shape[1], columns), dtype)
            B[::7] = np.inf
            B[3::11] = np.nan
            with forced(isa), np.errstate(invalid="ignore"):
                got, wanted = run(csr, A.shape, B, transposed=transposed, threads=2), op @ B
                assert np.array_equal(np.isnan(got), np.isnan(wanted))
                finite = np.isfinite(wanted)
                assert np.array_equal(got[~finite], wanted[~finite], equal_nan=True)
                assert np.allclose(got[finite], wanted[finite], rtol=1e-3, atol=1e-3)


def test_read_only_and_unaligned_operands():
    A, csr = spoken(PATTERNS["rows of at most 8"], "float32", "int32")

    def shifted(array: np.ndarray, by_bytes: int = 4) -> np.ndarray:
        raw = np.empty(array.nbytes + 64 + by_bytes, np.uint8)
        start = -raw.ctypes.data % 64 + by_bytes
        copy = raw[start : start + array.nbytes].view(array.dtype)
        copy[...] = array
        copy.flags.writeable = False
        return copy

    csr = tuple(shifted(part) for part in csr)
    for isa in isas():
        for transposed in (False, True):
            op = A.T if transposed else A
            x = shifted(values(np.random.default_rng(11), op.shape[1], "float32"))
            with forced(isa):
                assert_product(run(csr, A.shape, x, transposed=transposed, threads=2), op, x)


@st.composite
def problems(draw):
    n_cols = draw(st.integers(0, 70))
    lengths = draw(st.lists(st.integers(0, 40 if n_cols else 0), max_size=70))
    return (
        with_lengths(np.array(lengths, dtype=np.int64), n_cols, np.random.default_rng(draw(st.integers(0, 2**16)))),
        draw(st.sampled_from(DTYPES)),
        draw(st.sampled_from(INDEX_DTYPES)),
        draw(st.one_of(st.none(), st.integers(0, 300))),
        draw(st.booleans()),
        draw(st.integers(1, 4)),
        draw(st.sampled_from(isas() or [""])),
    )


@given(problems())
def test_any_small_problem_equals_scipy(problem):
    pattern, dtype, index_dtype, columns, transposed, threads, isa = problem
    A, csr = spoken(pattern, dtype, index_dtype)
    op = A.T if transposed else A
    B = values(np.random.default_rng(12), op.shape[1] if columns is None else (op.shape[1], columns), dtype)
    with forced(isa):
        assert_product(run(csr, A.shape, B, transposed=transposed, threads=threads), op, B)


@pytest.mark.full
def test_large_results_are_streamed_and_equal_scipys():
    """Check results beyond 64 MiB with short rows, which are written by streaming stores as those of the next test."""
    A, csr = spoken(with_lengths(np.full(70_000, 2), 500, np.random.default_rng(13)), "float32", "int32")
    B = values(np.random.default_rng(14), (500, 256), "float32")
    raw = np.empty(70_000 * 256 + 16, np.float32)
    out = raw[-raw.ctypes.data // 4 % 16 :][: 70_000 * 256].reshape(70_000, 256)
    runtime_api.matmul(csr, A.shape, B, out, threads=2)
    assert_product(out, A, B)


@covering(isa=isas(), place=["float32+0", "float32+4", "float32+16", "float64+56"], columns=[32, 320, 299])
def test_large_results_are_streamed_wherever_they_begin(isa, place, columns):
    """Check streaming stores some bytes after a cache line, in rows of one tile, of two, and of partial vectors.

    Rows long enough for several threads interrupt runs of joined rows.
    """
    dtype, late = place.split("+")[0], int(place.split("+")[1])
    rng = np.random.default_rng(8)
    n_rows = 9_000_000 // columns
    lengths = rng.integers(0, 3, n_rows)
    lengths[[2, 1000, n_rows - 1]] = (20_000, 20_000, 9_000)
    A, csr = spoken(with_lengths(lengths, 700, rng), dtype, "int32")
    B = values(rng, (700, columns), dtype)
    room = np.full(n_rows * columns * B.itemsize + 192, 7, np.uint8)
    start = -room.ctypes.data % 64 + 64 + late
    out = room[start : start + n_rows * columns * B.itemsize].view(dtype).reshape(n_rows, columns)
    with forced(isa):
        run(csr, A.shape, B, transposed=False, threads=3, out=out)
    assert_product(out, A, B)
    assert (room[:start] == 7).all()
    assert (room[start + out.nbytes :] == 7).all()


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("columns", [3, 40, 130])
def test_offsets_beyond_32_bits(isa, columns):
    """Check rows of B and C so far apart that element offsets exceed 2**31; memory between them is never touched."""
    pattern = with_lengths(np.array([2, 0, 3, 5, 1, 4]), 6, np.random.default_rng(16))
    A, csr = spoken(pattern, "float32", "int32")
    far = 2**29 + 64
    try:
        B, out = (np.empty((6, far), np.float32)[:, :columns] for _ in range(2))
    except MemoryError:
        pytest.skip("no 26 GB of address space")
    B[...] = values(np.random.default_rng(17), B.shape, "float32")
    for transposed in (False, True):
        with forced(isa):
            out[...] = np.nan
            runtime_api.matmul(csr, A.shape, B, out, transposed=transposed, threads=2)
            assert_product(out.copy(), A.T if transposed else A, B.copy())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"B": np.ones(9, np.float32)}, "do not fit"),
        ({"out": np.ones(9, np.float32)}, "do not fit"),
        ({"B": np.ones(4, np.float64)}, "dtypes differ"),
        ({"B": np.ones((4, 6), np.float32)[:, ::2], "out": np.ones((4, 3), np.float32)}, "adjacent"),
    ],
)
def test_operands_that_do_not_fit_are_refused(change, says):
    eye = sp.eye_array(4, dtype=np.float32, format="csr")
    given_ = {"B": np.ones(4, np.float32), "out": np.ones(4, np.float32)} | change
    with pytest.raises(ValueError, match=says):
        runtime_api.matmul((eye.indptr, eye.indices, eye.data), (4, 4), given_["B"], given_["out"])


@pytest.mark.matrices
@pytest.mark.parametrize("transposed", [False, True])
def test_real_matrices(matrices, transposed):
    for name in ("bcsstk16", "email-Enron", "lp_fit2d", "qp_CONT-100_KKT", "gene_ontology_closure"):
        A = sp.load_npz(matrices / f"{name}.npz").tocsr().astype(np.float32)
        op = A.T.tocsr() if transposed else A
        for columns in (None, 32):
            B = values(np.random.default_rng(15), op.shape[1] if columns is None else (op.shape[1], columns), "float32")
            csr = (A.indptr, A.indices, A.data)
            assert_product(run(csr, A.shape, B, transposed=transposed, threads=2), op, B)
