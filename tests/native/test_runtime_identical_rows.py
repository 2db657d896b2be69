"""Tests of rows with the same columns: they are computed together, with the bits that each has alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from autosparse._native import runtime_api

from tests.native.hooks import forced_choice
from tests.native.runtime_cases import INDEX_DTYPES, forced, isas, needs_runtime, patterns, spoken, values

pytestmark = needs_runtime

COLUMNS = (2, 8, 16, 31, 32, 48, 64, 66, 80, 100, 128, 130, 140, 150, 256, 272)


def has_identical_rows(matrix: sp.csr_matrix, index_dtype: str = "int32") -> bool:
    return runtime_api.has_identical_rows(matrix.indptr.astype(index_dtype), matrix.indices.astype(index_dtype))


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
def test_identical_rows_are_found(index_dtype: str) -> None:
    rng = np.random.default_rng(3)
    mesh = sp.random_array((50, 50), density=0.2, random_state=rng, format="csr") + sp.eye_array(50)
    three = sp.csr_matrix(sp.kron(mesh, np.ones((3, 3))))
    assert has_identical_rows(three, index_dtype)
    assert has_identical_rows(sp.csr_matrix(sp.vstack([sp.csr_matrix((1, 150)), three])), index_dtype)
    assert has_identical_rows(patterns()["identical_rows"], index_dtype)
    for other in (mesh, sp.kron(mesh, np.ones((2, 2))), sp.csr_array((9, 9)), sp.csr_array((0, 9)), sp.eye_array(99)):
        assert not has_identical_rows(sp.csr_matrix(other), index_dtype)


@pytest.mark.parametrize("index_dtype", INDEX_DTYPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("contention", [0, 1])
def test_each_row_has_the_bits_that_it_has_alone(isa: str, dtype: str, index_dtype: str, contention: int) -> None:
    """Check for any alignment, ordinary and streaming stores, and any number of threads."""
    A, csr = spoken(patterns()["identical_rows"], dtype, index_dtype)
    indptr, indices, data = csr
    with forced_choice("llc_contention", contention):
        for columns in COLUMNS:
            B = values(np.random.default_rng(columns), (A.shape[1], columns), dtype)
            wanted = np.empty((A.shape[0], columns), dtype)
            out = np.empty_like(wanted)
            with forced(isa):
                for row, (start, end) in enumerate(itertools.pairwise(indptr)):
                    alone = (np.array([0, end - start], index_dtype), indices[start:end], data[start:end])
                    runtime_api.matmul(alone, (1, A.shape[1]), B, wanted[row : row + 1])
                for threads in (1, 2, 3):
                    runtime_api.matmul(csr, A.shape, B, out, threads=threads)
                    np.testing.assert_array_equal(out, wanted)
