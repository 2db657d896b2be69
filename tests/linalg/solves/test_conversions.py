"""Tests of converted copies: one per matrix and dtype, of the current values, freed with the matrix."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg

import autosparse as asp
from autosparse.linalg.solves.conversions import converted, remembered
from autosparse.linalg.solves.workspace import operands_of

N = 60


def system(dtype: str) -> sps.csr_array:
    made = sps.random_array((N, N), density=0.1, random_state=np.random.default_rng(0), format="csr") * 100
    return sps.csr_array((made + 500 * sps.eye_array(N)).astype(dtype))


@pytest.mark.parametrize(("dtype", "wanted"), [("f4", "f8"), ("i4", "f8"), ("f8", "c16"), ("f4", "c16")])
@pytest.mark.parametrize("take", [asp.csr, asp.csc])
def test_a_copy_is_made_once_for_a_matrix_and_its_transpose(take, dtype: str, wanted: str) -> None:
    m = system(dtype)
    A = take(sps.csr_array(m) if take is asp.csr else sps.csc_array(m))
    made = converted(A, np.dtype(wanted))
    assert made.dtype == wanted
    assert converted(A, np.dtype(wanted)) is made
    assert converted(A.T, np.dtype(wanted))._cell is made._cell
    np.testing.assert_array_equal(made.toarray(), m.toarray())
    np.testing.assert_array_equal(converted(A.T, np.dtype(wanted)).toarray(), m.T.toarray())


def test_a_matrix_that_has_the_dtype_is_not_copied() -> None:
    A = asp.csr(system("f8"))
    assert converted(A, np.dtype("f8"), is_conjugated=True) is A
    assert A._cell.solver_memory is None


def test_written_values_and_structures_are_seen() -> None:
    A = asp.csr(system("f4"))
    made = converted(A, np.dtype("f8"))
    A.data[3] = 7.0
    assert converted(A, np.dtype("f8")) is made
    np.testing.assert_array_equal(made.toarray(), A.toarray())
    A.indices[:2] = A.indices[1::-1].copy()
    np.testing.assert_array_equal(converted(A, np.dtype("f8")).toarray(), A.toarray())


def test_conjugates_are_kept_too() -> None:
    A = asp.csr(system("f8") + 1j * system("f8").T)
    made = converted(A, A.dtype, is_conjugated=True)
    np.testing.assert_array_equal(made.toarray(), A.toarray().conj())
    A.data *= 1j
    assert converted(A, A.dtype, is_conjugated=True) is made
    np.testing.assert_array_equal(made.toarray(), A.toarray().conj())


@pytest.mark.parametrize(
    ("name", "dtype"), [("cg", "f4"), ("gmres", "i8"), ("lsqr", "f4"), ("lsmr", "i4"), ("qmr", "f4")]
)
def test_solves_use_the_copy_and_follow_the_values(name: str, dtype: str) -> None:
    m = system(dtype)
    m = sps.csr_array(m + m.T)
    A, b = asp.csr(m), np.ones(N)
    solve = getattr(asp.linalg, name)
    solve(A, b)
    operands = operands_of(A._cell)
    assert len(operands) == 2
    for factor in (1, 3):
        np.multiply(A.data, factor, out=A.data)
        np.testing.assert_allclose(A @ solve(A, b)[0], b, rtol=1e-3)
    assert operands_of(A._cell) == operands


def test_the_copy_is_freed_with_the_matrix() -> None:
    A = asp.csr(system("f4"))
    asp.linalg.cg(A, np.ones(N), maxiter=3)
    kept = weakref.ref(operands_of(A._cell)[1])
    gc.collect()
    assert kept() is not None
    gc.disable()
    try:
        del A
        assert kept() is None
    finally:
        gc.enable()


def test_facts_are_found_once_for_each_state_of_the_values() -> None:
    A = asp.csr(system("f8"))
    calls: list[float] = []

    def find() -> float:
        calls.append(float(A.sum()))
        return calls[-1]

    assert remembered(A, "sum", find) == remembered(A, "sum", find)
    assert len(calls) == 1
    A.data *= 2
    assert remembered(A, "sum", find) == 2 * calls[0]
    assert remembered(A.T, "sum", find) == 2 * calls[0]
    assert len(calls) == 3


def test_the_norms_of_expm_multiply_follow_the_values() -> None:
    m = sps.csr_array(system("f8") * 1e-3)
    A, B = asp.csr(m), np.ones(N)
    for factor in (1.0, 1.0, 4.0):
        A.data *= factor
        wanted = scipy.sparse.linalg.expm_multiply(sps.csr_array(A.toarray()), B)
        np.testing.assert_allclose(asp.linalg.expm_multiply(A, B), wanted, rtol=1e-12)
        wanted = scipy.sparse.linalg.expm_multiply(sps.csc_array(A.toarray().T), B)
        np.testing.assert_allclose(asp.linalg.expm_multiply(A.T, B), wanted, rtol=1e-12)
