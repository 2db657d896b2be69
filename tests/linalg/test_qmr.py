"""Tests that qmr equals SciPy's: iterations, iterates, info, dtypes, callbacks, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from tests.scipy_versions import needs_recent

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def grid(n: int, code: str = "d") -> sps.csr_array:
    """Return an unsymmetric matrix of n * n unknowns, far from singular: few iterations, no breakdown."""
    ones = np.ones(n)
    T = sps.diags_array([-1.2 * ones[1:], 3 * ones, -0.8 * ones[1:]], offsets=[-1, 0, 1])
    S = sps.kron(T, sps.eye_array(n)) + sps.kron(sps.eye_array(n), T)
    return sps.csr_array(S * (1 + 0.3j) if code in "FD" else S).astype(code)


def right_side(n: int, code: str = "d") -> Any:
    rng = np.random.default_rng(n)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if code in "FD" else b).astype(code)


def agree(ours: Any, theirs: Any, b: Any, x0: Any = None, **how: Any) -> None:
    """Check for the same info, dtype, iterations and iterates."""
    found = []
    for solve, A in ((asp.linalg.qmr, ours), (scipys.qmr, theirs)):
        seen: list[Any] = []
        x, info = solve(A, b, x0, callback=lambda xk, seen=seen: seen.append(xk.copy()), **how)
        found.append((x, info, seen))
    (x, info, seen), (y, wanted, others) = found
    assert info == wanted
    assert x.dtype == y.dtype
    assert len(seen) == len(others)
    precision = 1e-3 if x.dtype.char in "fF" or b.dtype.char in "fF" else 1e-9
    for one, other in zip(seen, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=precision * np.abs(other).max())
    np.testing.assert_allclose(x, y, rtol=0, atol=precision * np.abs(y).max(initial=0))


@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize("n", [1, 2, 5, 12, 40])
def test_sizes(code: str, n: int) -> None:
    S, b = grid(n, code), right_side(n * n, code)
    for how in ({}, {"maxiter": 0}, {"maxiter": 3}, {"x0": np.ones((n * n, 1))}):
        agree(asp.csr(S), S, b, rtol=1e-3 if code in "fF" else 1e-9, **how)


@pytest.mark.parametrize("a", ["f", "d", "F", "D", "i"])
@pytest.mark.parametrize("b", ["f", "d", "F", "D", "i"])
def test_mixed_dtypes(a: str, b: str) -> None:
    S = sps.csr_array((grid(8, "D" if a in "FD" else "d") * 10).astype(a))
    agree(asp.csr(S), S, (right_side(64, "D" if b in "FD" else "d") * 10).astype(b), rtol=1e-3)


@pytest.mark.parametrize(
    "make", [asp.csr, asp.csc, lambda S: S, sps.coo_array, lambda S: S.toarray(), scipys.aslinearoperator]
)
@pytest.mark.parametrize("code", "dD")
def test_operands(make: Any, code: str) -> None:
    agree(make(grid(9, code)), grid(9, code), right_side(81, code), rtol=1e-9)


@pytest.mark.parametrize("sides", [("M1",), ("M2",), ("M1", "M2")])
def test_with_preconditioners_scipy_solves(sides: tuple[str, ...]) -> None:
    d = sps.csr_array(sps.diags_array(1 / grid(9).diagonal()))
    if len(sides) < 2:
        with pytest.raises(AttributeError):
            scipys.qmr(grid(9), right_side(81), **dict.fromkeys(sides, scipys.aslinearoperator(d)))
        return
    agree(asp.csr(grid(9)), grid(9), right_side(81), rtol=1e-9, **dict.fromkeys(sides, scipys.aslinearoperator(d)))


@pytest.mark.parametrize(
    ("A", "b"),
    [
        (np.array([[0.0, 1.0], [-1.0, 0.0]]), np.array([1.0, 0.0])),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0])),
        (np.zeros((3, 3)), np.ones(3)),
        (np.eye(3), np.array([1e-20, 0.0, 0.0])),
        (np.eye(3), np.zeros(3)),
        (np.diag([1.0, 2.0, 0.0]), np.ones(3)),
    ],
)
def test_breakdowns(A: Any, b: Any) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        agree(asp.csr(A), A, b, rtol=1e-10, maxiter=4)


@needs_recent
@pytest.mark.parametrize(
    ("A", "b", "how"),
    [
        (grid(3)[:4], np.ones(4), {}),
        (grid(3), np.ones(8), {}),
        (grid(3), np.ones(9), {"x0": np.ones(8)}),
        (grid(3), np.ones(9), {"atol": -1.0}),
        (grid(3), np.ones(9), {"M": np.eye(9)}),
        (lambda x: x, np.ones(9), {}),
        (scipys.LinearOperator((9, 9), matvec=lambda x: x, dtype="d"), np.ones(9), {}),
    ],
)
def test_errors_are_scipys(A: Any, b: Any, how: dict[str, Any]) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  (any exception that SciPy raises)
        scipys.qmr(A, b, **how)
    with pytest.raises(wanted.type) as found:
        asp.linalg.qmr(asp.csr(A) if sps.issparse(A) else A, b, **how)
    if wanted.type is ValueError:
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("code", "fdFD")
def test_bits_do_not_depend_on_threads(code: str) -> None:
    found = []
    for threads in range(1, 6):
        with asp.options(threads=threads, effort="off", deterministic=True):
            found.append(asp.linalg.qmr(asp.csr(grid(70, code)), right_side(4900, code), maxiter=8)[0].tobytes())
    assert len(set(found)) == 1


@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), density=st.floats(0.1, 1))
def test_small_systems(seed: int, n: int, density: float) -> None:
    """Use diagonally dominant systems, and compare info and the true residual."""
    rng = np.random.default_rng(seed)
    A = sps.random_array((n, n), density=density, random_state=rng).toarray() + 2 * n * np.eye(n)
    b = rng.standard_normal(n)
    (x, info), (y, wanted) = asp.linalg.qmr(asp.csr(A), b, rtol=1e-9), scipys.qmr(A, b, rtol=1e-9)
    assert info == wanted
    limit = max(np.linalg.norm(b - A @ y), 1e-9 * np.linalg.norm(b))
    assert np.linalg.norm(b - A @ x) <= 1.05 * limit
