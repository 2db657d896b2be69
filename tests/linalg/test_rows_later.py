"""Tests of solves with matrices by columns, which are copied by rows after some products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.linalg import operators
from autosparse.linalg.operators import adjoint_of, product_of

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


@pytest.fixture(autouse=True)
def small_matrices_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "ROWS_FROM", 1)


def system(code: str = "d") -> tuple[Any, Any]:
    """Return a matrix by columns whose indices are not sorted, with duplicates, and a right-hand side."""
    rng = np.random.default_rng(3)
    m = sps.random_array((300, 300), density=0.02, random_state=rng)
    A = sps.csc_array(m @ m.T + 3 * sps.eye_array(300)).astype(code)
    order = np.arange(A.nnz)
    for start, stop in zip(A.indptr[:-1], A.indptr[1:], strict=True):
        order[start:stop] = order[start:stop][::-1]
    A = sps.csc_array((A.data[order], A.indices[order], A.indptr), shape=A.shape)
    return A, rng.standard_normal(300).astype(code)


@pytest.mark.parametrize("code", ["f", "d", "D"])
@pytest.mark.parametrize("of", [product_of, adjoint_of])
def test_products_by_rows_equal_those_by_columns(code, of):
    A, x = system(code)
    A = A if of is product_of else A.T.tocsr()
    product, out = of(A, x.dtype, is_unwritten=True), np.empty_like(x)
    wanted = (A if of is product_of else A.conj().T) @ x
    formats = set()
    for _ in range(2 * operators.ROWS_AFTER):
        product(x, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-4 if code == "f" else 1e-10)
        formats.add(product.matrix.format)
    assert formats == {"csc", "csr"}


@pytest.mark.parametrize("name", ["cg", "bicgstab", "minres", "gmres", "cgs", "lsqr", "lsmr"])
def test_solves_have_scipys_answers(name, monkeypatch):
    A, b = system()
    copies = []
    monkeypatch.setattr(operators._RowsLater, "_copy_rows", lambda made: copies.append(made))
    how: dict[str, Any] = {"atol": 1e-12, "btol": 1e-12} if name.startswith("ls") else {"rtol": 1e-12}
    for rows_after in (3, 1 << 30):
        monkeypatch.setattr(operators, "ROWS_AFTER", rows_after)
        x = getattr(asp.linalg, name)(A, b, **how)[0]
        np.testing.assert_allclose(x, getattr(scipys, name)(A, b, **how)[0], rtol=1e-6)
    assert len(copies) in (1, 2)


@pytest.mark.parametrize("how", ["callback", "operator"])
def test_a_matrix_that_the_program_may_write_to_is_not_copied(how, monkeypatch):
    A, b = system()
    monkeypatch.setattr(operators, "ROWS_AFTER", 1)
    monkeypatch.setattr(operators._RowsLater, "_copy_rows", lambda made: pytest.fail("copied"))
    M = scipys.LinearOperator(A.shape, lambda r: r / 3.0, dtype=float)
    asp.linalg.cg(A, b, **({"callback": lambda x: None} if how == "callback" else {"M": M}))


def test_values_written_between_solves_are_read():
    A, b = system()
    for factor in (1.0, 2.0):
        A.data *= factor
        np.testing.assert_allclose(asp.linalg.cg(A, b, rtol=1e-12)[0], scipys.cg(A, b, rtol=1e-12)[0], rtol=1e-6)


def test_few_entries_stay_by_columns(monkeypatch):
    A, b = system()
    monkeypatch.setattr(operators, "ROWS_FROM", A.nnz + 1)
    assert type(product_of(A, b.dtype, is_unwritten=True)) is operators.MatrixProduct


def test_without_memory_products_stay_by_columns(monkeypatch):
    A, x = system()

    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError

    product, out = product_of(A, x.dtype, is_unwritten=True), np.empty_like(x)
    monkeypatch.setattr(type(product.matrix), "tocsr", fail)
    for _ in range(2 * operators.ROWS_AFTER):
        product(x, out)
    np.testing.assert_allclose(out, A @ x)
