"""Tests of row permutations: each row occurs once, round trips are exact, results are in the user's order."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native.ir.lower import supports
from autosparse._native.storage import packers as native_packers
from autosparse._native.storage import row_orders
from scipy.sparse import csgraph

from autosparse import _native
from autosparse.core.formats import ROW_ORDERS, Format
from autosparse.core.pattern import Pattern
from autosparse.errors import ScheduleError
from tests.covering import covering
from tests.native import cases
from tests.native.interpreter import interpret

SHAPES = ((0, 0), (0, 4), (5, 0), (1, 1), (40, 40), (23, 61), (61, 23))
MADE = (
    cases.schedule("i1:U,k1:C | rows=first", "i1 k1"),
    cases.schedule("i1:U,k1:C | rows=rcm", "i1 k1", unroll=16),
    cases.schedule("i1:U,k1:C | rows=rcm", "i1 j1 k1 j0", 32, unroll=2),
    cases.schedule("i1:U,k1:C | bits=16 | rows=degree", "i1 j1 k1 j0", 16, partition="dynamic", chunk=2),
    cases.schedule("i1:C,k1:C | rows=first", "i1 j1 k1 j0", 16),
    cases.schedule("i1:U,k1:C,i0:U | i=4 | rows=first", "i1 j1 k1 i0 j0", 16),
    cases.schedule("i1:U,k1:C,i0:U,k0:U | i=3,k=3 | rows=rcm", "i1 j1 k1 i0 k0 j0", 16),
    cases.schedule("k1:U,i1:U,k0:C | k=8 | rows=degree", "k1 i1 j1 k0 j0", 16),
    cases.schedule("k1:U,i1:C | rows=first", "k1 i1 j1 j0", 16, parallel="k1"),
)


def matrix(shape, seed=0, density=0.15):
    A = sp.random_array(shape, density=density, format="csr", random_state=np.random.default_rng(seed))
    A.data[:] = np.random.default_rng(seed).integers(-4, 5, A.nnz)
    A.indices = A.indices.astype(np.int32)
    A.indptr = A.indptr.astype(np.int32)
    return A


def pattern_of(A):
    return Pattern(*A.shape, A.indptr, A.indices)


def rows_of(A):
    return native_packers.rows_of(pattern_of(A), A.data, transposed=False)[0]


@pytest.mark.parametrize("name", ROW_ORDERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_order_has_each_row_once(shape, name):
    order = row_orders.order_of(rows_of(matrix(shape)), name)
    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(shape[0]))


def test_row_orders_match_their_names():
    A = matrix((50, 50), density=0.08)
    rows = rows_of(A)
    filled = [row for row in row_orders.order_of(rows, "first").tolist() if A.indptr[row] < A.indptr[row + 1]]
    firsts = [A.indices[A.indptr[row] : A.indptr[row + 1]].min() for row in filled]
    assert firsts == sorted(firsts)
    lengths = np.diff(A.indptr)[row_orders.order_of(rows, "degree")]
    assert lengths.tolist() == sorted(lengths.tolist(), reverse=True)


def test_rcm_finds_a_hidden_band():
    n = 200
    band = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
    hidden = np.random.default_rng(1).permutation(n)
    A = sp.csr_array(band[hidden][:, hidden])
    order = row_orders.order_of(rows_of(A), "rcm")
    found = A[order][:, order].tocoo()
    assert np.abs(found.row - found.col).max() <= 2
    np.testing.assert_array_equal(order, csgraph.reverse_cuthill_mckee(sp.csr_matrix(A), symmetric_mode=True))


@covering(made=MADE, transposed=[False, True], shape=SHAPES)
def test_kernel_equals_interpreter_equals_scipy(made, shape, transposed):
    A = matrix(shape, seed=3).astype(np.float32)
    op = A.T if transposed else A
    packed = _native.pack(pattern_of(A), A.data, made.format, transposed=transposed)
    for at, columns in enumerate(cases.n_columns(made)[:4]):
        B = np.random.default_rng(4).integers(-3, 4, (op.shape[1], columns)).astype(np.float32)
        of = cases.spec(made, "float32", "int32")
        got, _ = cases.run(of, packed, B, 3)
        np.testing.assert_array_equal(got, op @ B)
        if at % 2 == 0:  # one column, and one more than a tile
            np.testing.assert_array_equal(interpret(of, packed, B, 2), op @ B)


@pytest.mark.parametrize("made", MADE, ids=cases.label)
@pytest.mark.parametrize("transposed", [False, True])
def test_packing_is_exact_bounded_and_refreshed(made, transposed):
    A = matrix((70, 40), seed=5)
    packed = _native.pack(pattern_of(A), A.data, made.format, transposed=transposed)
    bound = _native.packed_bytes(pattern_of(A), made.format, 8, transposed=transposed)
    assert packed.nbytes <= bound
    for data in (A.data, np.arange(1.0, 1 + A.nnz)):
        packed.refresh(data)
        indptr, indices, values = packed.unpack()
        back = sp.csr_array((values, indices, indptr), shape=A.shape[:: -1 if transposed else 1])
        same = sp.csr_array((data, A.indices, A.indptr), shape=A.shape)
        assert (abs(back - (same.T if transposed else same)) > 0).nnz == 0


def test_text_form():
    fmt = Format.parse("i1:U,k1:C,i0:U | i=4 | rows=rcm | bits=16")
    assert (fmt.rows, fmt.index_bits, fmt.is_csr) == ("rcm", 16, False)
    assert Format.parse(str(fmt)) == fmt
    assert Format.parse("i1:U,k1:C | rows=first").as_compiled() == Format.parse("i1:U,k1:C | rows=rcm").as_compiled()
    for wrong in ("i1:U,k1:C | rows=best", "i1:U,k1:S,i0:U | i=8 | rows=rcm"):
        with pytest.raises(ScheduleError, match="rows"):
            Format.parse(wrong)


def test_formats_without_row_lists_are_refused_with_a_reason():
    lanes = cases.schedule("i1:U,k1:C,i0:U | i=8 | rows=first", "i1 k1 i0")
    assert "neighbours" in str(supports("matmul", lanes))
