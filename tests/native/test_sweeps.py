"""Tests of parts computed in one sweep over B: the same result and the same bits as the parts alone."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api
from autosparse._native.kernels.composite import BoundSwept, is_swept
from autosparse.tuner.hybrid.schedules import runtime

from autosparse import _native
from autosparse.core.composite import REST, Composite, Part, Rows
from autosparse.core.pattern import Pattern
from autosparse.tuning.solvers.row_panels import PANEL, RESIDENT_READS, panels, resident_composites, resident_share
from tests.native.test_composites import bound_of, product

FOUR, EIGHT, ONE = (panels("matmul", n) for n in (4, 8, 1))
BY_COLUMN, AHEAD = runtime("matmul", "first"), runtime("matmul", "first", 8)
SWEPT = (
    Composite(parts=(Part(Rows(100), FOUR), Part(REST, BY_COLUMN))),
    Composite(parts=(Part(Rows(100), EIGHT), Part(REST, AHEAD))),
    Composite(parts=(Part(Rows(200), EIGHT), Part(Rows(60, 199), FOUR), Part(REST, ONE))),
    Composite(parts=(Part(Rows(200), EIGHT), Part(Rows(60, 199), FOUR), Part(REST, AHEAD))),
    Composite(parts=(Part(Rows(1), FOUR), Part(REST, BY_COLUMN))),
    Composite(parts=(Part(Rows(1000), FOUR), Part(REST, BY_COLUMN))),
    Composite(parts=(Part(Rows(20), ONE), Part(REST, AHEAD))),  # rows of B are read often: B is copied into tiles
    Composite(parts=(Part(Rows(200), FOUR), Part(Rows(20, 199), ONE), Part(REST, AHEAD))),
)


def matrix(dtype: str = "float32", n_cols: int = 2 * PANEL + 90) -> Any:
    """Return a matrix with rows of 0 to 2/3 of the columns; some columns and first panels are empty."""
    rng = np.random.default_rng(4)
    dense = rng.random((61, n_cols)) < (rng.random(61)[:, None] ** 3) * 0.7
    dense[[3, 17, 60]] = False
    dense[40:50, :PANEL] = False
    dense[:, 100:110] = False
    return sp.csr_matrix((dense * rng.standard_normal(dense.shape)).astype(dtype))


@pytest.mark.parametrize("isa", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("composite", SWEPT, ids=str)
def test_swept_parts_compute_the_product(composite, dtype, isa):
    """Cover widths with slices and tiles of every size, and several numbers of threads."""
    A = matrix(dtype)
    bound, _ = bound_of(A, composite)
    assert isinstance(bound, BoundSwept)
    try:
        runtime_api.lib.asp_force_isa(isa)
        for width in (1, 5, 19, 72, 197, 600):
            B = np.random.default_rng(3).standard_normal((A.shape[1], width)).astype(dtype)
            found = [product(bound, B, A.shape[0], n_threads, room=3) for n_threads in (1, 2, 3, 7)]
            assert all(one.tobytes() == found[0].tobytes() for one in found)
            np.testing.assert_allclose(found[0], A @ B, rtol=1e-4, atol=1e-4)
    finally:
        runtime_api.lib.asp_force_isa(-1)


@pytest.mark.parametrize("composite", SWEPT, ids=str)
def test_a_sweep_has_the_bits_of_its_parts_alone(composite):
    A = matrix("float64")
    bound, packed = bound_of(A, composite)
    B = np.random.default_rng(3).standard_normal((A.shape[1], 40))
    alone = np.full((A.shape[0], 40), np.nan)
    for one in bound.bounds:
        one.run(B.ctypes.data, 40, alone.ctypes.data, 40, 40, 1)
    assert product(bound, B, A.shape[0], 2).tobytes() == alone.tobytes()
    assert [part.subset.pattern.n_rows for part in packed.parts] == [one.packed.sizes["i"] for one in bound.bounds]


@pytest.mark.parametrize("composite", SWEPT[:3], ids=str)
def test_a_sweep_of_a_transpose_with_new_values(composite):
    A = sp.csr_matrix(matrix().T)
    bound, packed = bound_of(A, composite, transposed=True)
    packed.refresh(2 * A.data)
    B = np.random.default_rng(3).standard_normal((A.shape[0], 33)).astype(np.float32)
    np.testing.assert_allclose(product(bound, B, A.shape[1], 2), 2 * (A.T @ B), rtol=1e-4, atol=1e-4)


def test_a_result_that_padding_spoils_is_told():
    A = matrix()
    B = np.ones((A.shape[1], 16), np.float32)
    B[300, 7] = np.inf
    C = np.empty((A.shape[0], 16), np.float32)
    assert not bound_of(A, SWEPT[0])[0].run(B.ctypes.data, 16, C.ctypes.data, 16, 16, 2)


def test_only_panels_followed_by_column_ordered_rows_are_swept():
    """Check that only panels followed by rows in order of their first column, all of the runtime, are swept."""
    assert all(map(is_swept, SWEPT))
    others = itertools.product((FOUR, BY_COLUMN), (runtime("matmul"), runtime("matmul", "degree")))
    assert not any(is_swept(Composite(parts=(Part(Rows(9), one), Part(REST, rest)))) for one, rest in others)
    assert _native.supports("matmul", ONE) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_of_B_are_chosen_by_reads_and_change_no_bit(dtype):
    """Compare a row among many, with B copied into tiles, with the row alone, where B is not copied."""
    A, B = matrix(dtype), np.random.default_rng(3).standard_normal((2 * PANEL + 90, 100)).astype(dtype)
    A = sp.csr_matrix(A[np.diff(A.indptr) > 0])
    together, alone = (Composite(parts=(Part(Rows(1), ONE), Part(REST, AHEAD))) for _ in range(2))
    every = product(bound_of(A, together)[0], B, A.shape[0], 1)
    for row in range(0, A.shape[0], 7):
        one = sp.csr_matrix(A[[row, row]])
        assert product(bound_of(one, alone)[0], B, 2, 1)[0].tobytes() == every[row].tobytes()


def test_rows_of_a_few_entries_in_every_panel_are_a_part():
    """Check panels for rows that read B often enough to copy it; rows with more entries may form groups."""
    rng = np.random.default_rng(0)
    dense = rng.random((400, 4 * PANEL)) < 0.002
    dense[:90] = rng.random((90, 4 * PANEL)) < 0.1
    dense[:2] = True
    A = sp.csr_matrix(dense)
    pattern = Pattern(*A.shape, A.indptr, A.indices)
    found = resident_composites("matmul", pattern, 64)
    assert [part.select for part in found[0].parts] == [Rows(8), REST]
    kinds = [[part.schedule for part in one.parts] for one in found]
    assert kinds == [[ONE, AHEAD], [FOUR, ONE, AHEAD], [ONE, AHEAD], [FOUR, ONE, AHEAD]]
    assert resident_share(pattern, 64) > 0.8
    assert not resident_composites("matmul", pattern, 1)
    few = sp.csr_matrix(dense[: 2 + RESIDENT_READS])
    assert resident_share(Pattern(*few.shape, few.indptr, few.indices), 64) == 0.0
    whole = sp.csr_matrix(dense[:90])
    assert resident_share(Pattern(*whole.shape, whole.indptr, whole.indices), 64) == 1.0
    assert not resident_composites("matmul", Pattern(*whole.shape, whole.indptr, whole.indices), 64)
