"""Tests that preconditioners equal NumPy references, applied to vectors and in the iterations of cg."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api

import autosparse as asp
from autosparse.linalg import preconditioners
from tests.linalg.test_krylov import grid, hermitian

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def scaled_grid(code: str, n: int = 15) -> sps.csr_array:
    """Return a Hermitian positive definite matrix with rows of different scales."""
    S = hermitian(n) if code in "FD" else grid(n)
    d = sps.diags_array(np.linspace(1, 4, n * n))
    return sps.csr_array(d @ S @ d).astype(code)


def jacobi(S: Any) -> Any:
    return np.diag(1 / S.diagonal())


def block_jacobi(S: Any, size: int) -> Any:
    dense, n = S.toarray(), S.shape[0]
    return scipy.linalg.block_diag(*[np.linalg.inv(dense[i : i + size, i : i + size]) for i in range(0, n, size)])


def chebyshev(S: Any, degree: int, low: float, high: float) -> Any:
    """Return p of the residual polynomial 1 - t p(t), a Chebyshev polynomial on (low, high) that is 1 at 0."""
    values, vectors = np.linalg.eigh(S.toarray())
    T = np.polynomial.chebyshev.Chebyshev.basis(degree + 1)
    residual = T((high + low - 2 * values) / (high - low)) / T((high + low) / (high - low))
    return (vectors * ((1 - residual) / values)) @ vectors.conj().T


def pairs(S: Any) -> list[tuple[Any, Any]]:
    bounds = asp.linalg.chebyshev(S, 1).bounds
    return [
        (asp.linalg.jacobi(S), jacobi(S)),
        (asp.linalg.block_jacobi(S, 4), block_jacobi(S, 4)),
        (asp.linalg.chebyshev(S, 3), chebyshev(S, 3, *bounds)),
        (asp.linalg.chebyshev(S, 5, bounds=(0.5, 200.0)), chebyshev(S, 5, 0.5, 200.0)),
    ]


@pytest.mark.parametrize("kind", [asp.csr, sps.csr_array, sps.coo_array, lambda S: S.toarray()])
@pytest.mark.parametrize("code", "fdFD")
def test_applications_equal_their_references(code: str, kind: Any) -> None:
    S = scaled_grid(code)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((S.shape[0], 3)) + (1j * rng.standard_normal((S.shape[0], 3)) if code in "FD" else 0)
    X = X.astype(code)
    found = [asp.linalg.jacobi(kind(S)), asp.linalg.block_jacobi(kind(S), 4), asp.linalg.chebyshev(kind(S), 3)]
    references = [jacobi(S), block_jacobi(S, 4), chebyshev(S, 3, *found[2].bounds)]
    eps = np.finfo(code).eps
    for M, reference in zip(found, references, strict=True):
        assert M.dtype == code
        assert M.shape == S.shape
        wanted = reference @ X
        atol = 500 * eps * np.abs(wanted).max()
        np.testing.assert_allclose(M @ X, wanted, atol=atol)
        np.testing.assert_allclose(M.H @ X, reference.conj().T @ X, atol=atol)
        np.testing.assert_allclose(M.matvec(X[:, 1]), wanted[:, 1], atol=atol)
        assert M.matvec(X[:, 1]).dtype == code


@pytest.mark.parametrize("code", "dD")
def test_iterations_are_those_of_the_reference(code: str) -> None:
    S = scaled_grid(code)
    b = (S @ np.linspace(-1, 1, S.shape[0])).astype(code)
    for M, reference in pairs(S):
        counts = []
        for solve, A, preconditioner in ((asp.linalg.cg, asp.csr(S), M), (scipys.cg, S, reference)):
            seen: list[int] = []
            _, info = solve(A, b, M=preconditioner, rtol=1e-10, callback=lambda _, seen=seen: seen.append(1))
            assert info == 0
            counts.append(len(seen))
        assert abs(counts[0] - counts[1]) <= 1


def test_a_real_preconditioner_serves_complex_and_single_vectors() -> None:
    S = scaled_grid("d")
    x = np.linspace(0, 1, S.shape[0])
    for M, reference in pairs(S):
        np.testing.assert_allclose(M @ (x + 1j * x[::-1]), reference @ (x + 1j * x[::-1]), rtol=1e-9)
        assert (M @ x.astype("f")).dtype == np.float64


def test_the_last_block_is_smaller_and_integers_are_floats() -> None:
    S = sps.csr_array(np.array([[4, 1, 9], [1, 3, 9], [9, 9, 2]]))
    np.testing.assert_allclose(asp.linalg.block_jacobi(S, 2) @ np.eye(3), block_jacobi(S, 2), atol=1e-15)
    np.testing.assert_allclose(asp.linalg.block_jacobi(S, 50) @ np.eye(3), np.linalg.inv(S.toarray()), atol=1e-15)


def test_spare_room_behind_the_last_entry_is_no_entry() -> None:
    """SciPy's conversion to coordinates leaves the rows of such elements uninitialised."""
    S = sps.csr_array(np.array([[2.0, 1.0, 9.0], [1.0, 1.0, 9.0], [9.0, 9.0, 4.0]]))
    expected = asp.linalg.block_jacobi(S, 2) @ np.eye(3)
    S.data, S.indices = np.concatenate([S.data, S.data]), np.concatenate([S.indices, S.indices])
    np.testing.assert_array_equal(asp.linalg.block_jacobi(S, 2) @ np.eye(3), expected)
    assert asp.linalg.jacobi(S).dtype == asp.linalg.chebyshev(S, 1, (1, 2)).dtype == np.float64


def test_lanczos_estimates_the_largest_eigenvalue_the_same_way_each_time() -> None:
    S = scaled_grid("d")
    largest = np.linalg.eigvalsh(S.toarray())[-1]
    low, high = asp.linalg.chebyshev(S, 2).bounds
    assert 0.8 * largest < high / preconditioners.ABOVE_ESTIMATE <= largest * (1 + 1e-12)
    assert low == pytest.approx(high / preconditioners.ABOVE_ESTIMATE / preconditioners.SPECTRUM_RATIO)
    assert asp.linalg.chebyshev(S, 2).bounds == (low, high)
    assert asp.linalg.chebyshev(sps.eye_array(5), 2).bounds[1] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("make", "first", "fact"),
    [
        (lambda: asp.linalg.jacobi(sps.diags_array([1.0, 0, 2, 0])), "zeros", "2 zeros among 4 .* in row 1"),
        (lambda: asp.linalg.jacobi(np.ones((2, 3))), "jacobi", r"A \(2, 3\)"),
        (lambda: asp.linalg.jacobi(scipys.LinearOperator((2, 2), matvec=lambda x: x)), "entries", "operator"),
        (lambda: asp.linalg.block_jacobi(np.eye(3), 0), "positive integer", "size=0 for 3 rows"),
        (lambda: asp.linalg.block_jacobi(np.eye(3), 1.5), "positive integer", "size=1.5"),
        (
            lambda: asp.linalg.block_jacobi(np.diag([1.0, 1, 1, 0]), 2),
            "singular",
            "block 1 .rows from 2. has rank 1 of 2",
        ),
        (lambda: asp.linalg.chebyshev(np.eye(3), 0), "degree", "degree=0"),
        (lambda: asp.linalg.chebyshev(np.eye(3), 2, (2.0, 1.0)), "increasing", r"bounds \(2, 1\)"),
        (lambda: asp.linalg.chebyshev(-np.eye(3), 2), "positive", "estimated from A"),
        (lambda: asp.linalg.chebyshev(np.eye(3)[:2], 2), "chebyshev", r"A \(2, 3\)"),
    ],
)
def test_errors_say_what_disagrees(make: Any, first: str, fact: str) -> None:
    with pytest.raises((ValueError, TypeError), match=rf"(?s){first}.*{fact}.*Hint: "):
        make()


def test_pyamg_as_preconditioner_and_our_cg_inside_pyamg() -> None:
    pyamg = pytest.importorskip("pyamg")
    S = grid(40)
    hierarchy = pyamg.smoothed_aggregation_solver(sps.csr_array(S))
    b = np.ones(S.shape[0])
    x, info = asp.linalg.cg(asp.csr(S), b, M=hierarchy.aspreconditioner(), rtol=1e-8, maxiter=40)
    assert info == 0
    assert np.linalg.norm(b - S @ x) < 1e-7 * np.linalg.norm(b)
    x = hierarchy.solve(b, accel=asp.linalg.cg, tol=1e-8)
    assert np.linalg.norm(b - S @ x) < 1e-6 * np.linalg.norm(b)
    _, infos = asp.linalg.cg(
        asp.csr(S), np.stack([b, b * 0, S @ b], axis=1), M=hierarchy.aspreconditioner(), columns=True
    )
    assert infos.tolist() == [0, 0, 0]
