"""Tests that solvers multiply by subclasses as SciPy's do: by the `@` or the `dot` that a user's class defines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg

import autosparse as asp
from autosparse.light.construct import has_own_product
from tests.scipy_versions import SOLVERS_CALL_DOT

N = 400
SHIFT = 0.5
SOLVERS = (
    "cg",
    "gmres",
    "bicgstab",
    "bicg",
    "cgs",
    "minres",
    "qmr",
    "lsqr",
    "lsmr",
    "eigsh",
    "lobpcg",
    "expm_multiply",
)


def plain(dtype: str) -> Any:
    rng = np.random.default_rng(0)
    m = sps.random_array((N, N), density=0.01, random_state=rng, format="csr")
    return sps.csr_array(m + m.T + sps.diags_array(np.linspace(4.0, 9.0, N))).astype(dtype)


def shifted(kind: Any, method: str) -> Any:
    """Return a subclass of `kind` whose products are those of A + SHIFT I."""

    def product(self: Any, other: Any) -> Any:
        return getattr(super(made, self), method)(other) + SHIFT * other

    made = type("Shifted", (kind,), {method: product})
    return made


def found(library: Any, name: str, A: Any, **how: Any) -> Any:
    b, solver = np.ones(N, A.dtype), getattr(library, name)
    if name == "eigsh":
        return solver(A, 2, v0=b, **how)[0]
    if name == "lobpcg":
        return solver(A, np.eye(N, 4, dtype=A.dtype), maxiter=3, **how)[0]
    if name == "expm_multiply":
        return solver(A, b)
    return solver(A, b, **how)[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("method", ["__matmul__", "dot"])
@pytest.mark.parametrize("name", [*SOLVERS, "expm_multiply"])
def test_solvers_call_the_product_of_a_subclass_as_scipys_do(name: str, method: str, dtype: str) -> None:
    m, tolerance = plain(dtype), 1e-3
    wanted = found(scipy.sparse.linalg, name, shifted(sps.csr_array, method)(m))
    other = found(scipy.sparse.linalg, name, m)
    is_called = SOLVERS_CALL_DOT or method == "__matmul__" or name == "expm_multiply"
    assert name == "lobpcg" or np.allclose(wanted, other, rtol=tolerance, atol=tolerance) is not is_called
    for kind in (asp.csr_array, sps.csr_array, asp.csc_array):
        A = shifted(kind, method)(m)
        np.testing.assert_allclose(found(asp.linalg, name, A), wanted, rtol=tolerance, atol=tolerance)
    if name == "cg":
        A = scipy.sparse.linalg.aslinearoperator(shifted(asp.csr_array, method)(m))
        np.testing.assert_allclose(found(asp.linalg, name, A), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_call_the_dot_of_one_object_where_scipys_do(name: str) -> None:
    """SciPy's `lobpcg` and `expm_multiply` multiply by `@` instead."""
    n_calls, values = list[int](), list[Any]()
    for library, kind in (
        (scipy.sparse.linalg, sps.csr_array),
        (asp.linalg, asp.csr_array),
        (asp.linalg, sps.csr_array),
    ):
        A: Any = kind(plain("float64"))
        product, calls = A.dot, list[int]()
        A.dot = lambda x, product=product, calls=calls: (calls.append(1), product(x) + SHIFT * x)[1]
        values.append(found(library, name, A))
        n_calls.append(len(calls))
    assert [n > 0 for n in n_calls] == [SOLVERS_CALL_DOT and name not in ("lobpcg", "expm_multiply")] * 3
    for one in values[1:]:
        np.testing.assert_allclose(one, values[0], rtol=1e-3, atol=1e-3)


def test_columns_and_preconditioners_use_the_product_of_a_subclass() -> None:
    m = plain("float64")
    A, B = shifted(asp.csr_array, "__matmul__")(m), np.random.default_rng(1).random((N, 3))
    X, info = asp.linalg.cg(A, B, columns=True, rtol=1e-10, M=shifted(asp.csr_array, "dot")(sps.eye_array(N)))
    assert not info.any()
    np.testing.assert_allclose(m @ X + SHIFT * X, B, rtol=1e-6, atol=1e-6)


def test_functions_of_no_module_are_a_users() -> None:
    """Methods of built-in objects have None as their module."""
    calls = list[Any]()
    kind = type("Own", (asp.csr_array,), {"dot": calls.append})
    assert calls.append.__module__ is None
    assert has_own_product(kind(sps.eye_array(3)))
