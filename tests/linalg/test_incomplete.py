"""Tests that Gauss-Seidel sweeps and incomplete factorizations equal dense NumPy references."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError

import autosparse as asp
from autosparse.linalg import preconditioners
from autosparse.linalg.triangular import operators, triangle
from tests.linalg.test_krylov import grid, hermitian
from tests.native.hooks import needs_hooks

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
Made = Callable[[Any], Any]


def reference_lu(S: Any) -> Any:
    """Return the dense L U of the factorization on the pattern of S, by the textbook's three loops."""
    dense, pattern, n = S.toarray(), S.toarray() != 0, S.shape[0]
    for i in range(n):
        for k in range(i):
            if pattern[i, k]:
                dense[i, k] /= dense[k, k]
                later = pattern[i] & pattern[k] & (np.arange(n) > k)
                dense[i, later] -= dense[i, k] * dense[k, later]
    return (np.tril(dense, -1) + np.eye(n)) @ np.triu(dense)


def reference_cholesky(S: Any, shift: float = 0.0) -> Any:
    """Return the dense L L^H of the factorization on the pattern of the lower triangle of S."""
    L, pattern, n = np.tril(S.toarray()), S.toarray() != 0, S.shape[0]
    np.fill_diagonal(L, np.diagonal(L).real * (1 + shift))
    for k in range(n):
        L[k, k] = np.sqrt(L[k, k].real)
        below = pattern[:, k] & (np.arange(n) > k)
        L[below, k] /= L[k, k]
        for j in np.flatnonzero(below):
            rows = below & pattern[:, j] & (np.arange(n) >= j)
            L[rows, j] -= L[rows, k] * L[j, k].conj()
    return L @ L.conj().T


def lower(S: Any) -> Any:
    return np.tril(S.toarray())


def upper(S: Any) -> Any:
    return np.triu(S.toarray())


def symmetric(S: Any) -> Any:
    return lower(S) @ np.diag(1 / S.diagonal()) @ upper(S)


PAIRS: dict[str, tuple[Made, Made]] = {
    "forward": (asp.linalg.gauss_seidel, lower),
    "backward": (lambda A: asp.linalg.gauss_seidel(A, sweep="backward"), upper),
    "symmetric": (lambda A: asp.linalg.gauss_seidel(A, "symmetric"), symmetric),
    "symgs": (asp.linalg.symgs, symmetric),
    "ilu0": (asp.linalg.ilu0, reference_lu),
    "ic0": (asp.linalg.ic0, reference_cholesky),
    "ic0 with a shift": (lambda A: asp.linalg.ic0(A, shift=0.1), lambda S: reference_cholesky(S, 0.1)),
}
"""Name -> (function that makes the preconditioner, function that returns the dense matrix that it inverts)."""


def systems(code: str) -> list[Any]:
    """Return Hermitian positive definite matrices: a grid, a random one, an arrow, dense, diagonal, and of one row."""
    rng = np.random.default_rng(0)
    random = sps.random_array((40, 40), density=0.1, random_state=rng)
    random = random + random.T + sps.diags_array(np.full(40, 8.0))
    arrow = np.diag(np.linspace(40, 50, 20))
    arrow[0] = arrow[:, 0] = 1
    arrow[0, 0] = 30
    full = np.full((9, 9), 0.5) + np.diag(np.linspace(5, 6, 9))
    made = [hermitian(6) if code in "FD" else grid(6), random, arrow, full, np.diag([1.0, 2.0, 3.0]), np.array([[4.0]])]
    return [sps.csr_array(one).astype(code) for one in made]


def vectors(n: int, code: str) -> Any:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 3))
    return (X + 1j * rng.standard_normal((n, 3)) if code in "FD" else X).astype(code)


def assert_close(found: Any, wanted: Any, code: str) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2000 * np.finfo(code).eps * np.abs(wanted).max(initial=1))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("code", "fdFD")
def test_applications_equal_their_references(name: str, code: str) -> None:
    make, reference = PAIRS[name]
    for S in systems(code):
        wanted, X = np.linalg.inv(reference(S)), vectors(S.shape[0], code)
        for A in (asp.csr(S), S, asp.csc(S.tocsc()), S.tocoo(), S.toarray()):
            M = make(A)
            assert (M.shape, M.dtype) == (S.shape, np.dtype(code))
            assert_close(M @ X, wanted @ X, code)
            assert_close(M.matvec(X[:, 1]), wanted @ X[:, 1], code)
            assert_close(M.matvec(X[:, 1:2]), wanted @ X[:, 1:2], code)
            assert_close(M.matmat(np.asfortranarray(X)), wanted @ X, code)
            assert_close(M.rmatvec(X[:, 0]), wanted.conj().T @ X[:, 0], code)
            assert_close(M.rmatmat(X), wanted.conj().T @ X, code)
            assert_close(M.T @ X, wanted.T @ X, code)
            assert_close(M.H.H @ X, wanted @ X, code)
            assert M.matvec(X[:, 1]).dtype == code


@pytest.mark.parametrize("name", PAIRS)
def test_vectors_of_other_dtypes(name: str) -> None:
    make, reference = PAIRS[name]
    S = systems("d")[1]
    wanted, X = np.linalg.inv(reference(S)), vectors(S.shape[0], "D")
    for code, x in (("f", X.real.astype("f")), ("d", X.real), ("D", X), ("l", np.arange(120).reshape(40, 3))):
        for of_M in "fd":
            M = make(asp.csr(S.astype(of_M)))
            found = M @ x
            assert found.dtype == np.result_type(of_M, x.dtype)
            assert_close(found, wanted @ x, "f" if "f" in (of_M, code) else "d")
            assert_close(M @ x[:, 0], wanted @ x[:, 0], "f" if "f" in (of_M, code) else "d")
    assert make(sps.csr_array(np.diag([1, 2]))).dtype == np.float64


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("code", "dD")
def test_solvers_take_them(name: str, code: str) -> None:
    make, reference = PAIRS[name]
    S = systems(code)[0]
    b = (S @ np.linspace(-1, 1, S.shape[0])).astype(code)
    dense = np.linalg.inv(reference(S))
    for solver in ("cg", "gmres", "bicgstab", "minres") if code == "d" else ("cg", "gmres", "bicgstab"):
        if solver in ("cg", "minres") and name in ("forward", "backward", "ilu0"):
            continue  # they need a Hermitian M
        n_steps: dict[str, list[int]] = {"ours": [], "reference": []}
        how = {"callback_type": "pr_norm"} if solver == "gmres" else {}
        for kind, M in (("ours", make(asp.csr(S))), ("reference", dense)):
            steps = n_steps[kind]
            x, info = getattr(asp.linalg, solver)(
                asp.csr(S), b, M=M, rtol=1e-9, callback=lambda _, steps=steps: steps.append(1), **how
            )
            assert info == 0
            np.testing.assert_allclose(S @ x, b, atol=1e-6 * np.abs(b).max())
        assert abs(len(n_steps["ours"]) - len(n_steps["reference"])) <= 1


def test_scipys_solvers_take_them() -> None:
    S = systems("d")[0]
    x, info = scipys.cg(S, S @ np.ones(S.shape[0]), M=asp.linalg.ic0(S), rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(x, 1, atol=1e-6)
    x, info = scipys.bicg(S, S @ np.ones(S.shape[0]), M=asp.linalg.ilu0(S), rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(x, 1, atol=1e-6)


def test_solvers_write_into_their_own_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a product made a new vector")

    monkeypatch.setattr(operators.TriangularInverse, "_matvec", refuse)
    S = systems("d")[0]
    M, b = asp.linalg.ic0(S), S @ np.ones(S.shape[0])
    np.testing.assert_allclose(asp.linalg.cg(asp.csr(S), b, M=M, rtol=1e-10)[0], 1, atol=1e-6)
    B = np.stack([b, 2 * b, -b], axis=1)
    X, info = asp.linalg.cg(asp.csr(S), B, M=M, rtol=1e-10, columns=True)
    assert not info.any()
    np.testing.assert_allclose(X, [[1, 2, -1]] * S.shape[0], atol=1e-6)


@given(st.integers(1, 14), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.integers(0, 2**32 - 1), st.sampled_from("dD"))
def test_any_pattern(n: int, density: float, seed: int, code: str) -> None:
    """Draw matrices with duplicates and unsorted indices of either width; compare with the references."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((n, n)) * (rng.random((n, n)) < density) + 0j
    dense += 1j * rng.standard_normal((n, n)) * (dense != 0) if code == "D" else 0
    dense = dense + dense.conj().T + np.diag(np.full(n, 6.0 * n))
    rows, columns = np.nonzero(dense)
    order = np.argsort(np.tile(rows, 2) + rng.random(2 * rows.size) * 0.5)  # each entry twice, in any order
    values = np.tile(dense[rows, columns] / 2, 2)[order]
    index = rng.choice([np.int32, np.int64])
    indptr = np.concatenate([[0], np.cumsum(2 * np.bincount(rows, minlength=n))]).astype(index)
    values = (values if code == "D" else values.real).astype(code)
    S = sps.csr_array((values, np.tile(columns, 2)[order].astype(index), indptr), shape=(n, n))
    X = vectors(n, code)
    for name, (make, reference) in PAIRS.items():
        plain = sps.csr_array(dense.astype(code) if code == "D" else dense.real)
        wanted = np.linalg.solve(reference(plain), X)
        for one in (S, asp.csr(S, copy=True)):
            np.testing.assert_allclose(make(one) @ X, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize("code", "fdFD")
def test_dense_patterns_give_exact_factors(code: str) -> None:
    S = systems(code)[3]
    identity = np.eye(S.shape[0], dtype=code)
    for make in (asp.linalg.ilu0, asp.linalg.ic0):
        assert_close(make(S) @ S.toarray(), identity, code)


def test_errors_name_the_row_and_a_remedy() -> None:
    S = sps.csr_array(np.array([[4.0, 1, 0], [1, 0, 1], [0, 1, 4]]))
    for make in (asp.linalg.gauss_seidel, asp.linalg.symgs):
        with pytest.raises(LinAlgError, match=r"row 1: the diagonal of A is zero(.|\n)*Hint"):
            make(S)
    with pytest.raises(LinAlgError, match=r"ilu0: no valid pivot in row 1: A has no diagonal entry(.|\n)*Hint"):
        asp.linalg.ilu0(S)
    singular = sps.csr_array(np.array([[1.0, 2, 0], [2, 4, 1], [0, 1, 4]]))
    with pytest.raises(LinAlgError, match=r"ilu0: no valid pivot in row 1: the pivot is 0.0(.|\n)*Hint"):
        asp.linalg.ilu0(singular)
    with pytest.raises(LinAlgError, match=r"ic0: no valid pivot in row 1(.|\n)*Hint: pass a larger shift"):
        asp.linalg.ic0(singular)
    with pytest.raises(LinAlgError, match="row 1"):
        asp.linalg.ic0(S)
    asp.linalg.ic0(singular, shift=0.5)
    with pytest.raises(LinAlgError, match="row 2"):
        asp.linalg.ic0(sps.diags_array([1.0, 2.0, np.nan]))
    with pytest.raises(LinAlgError, match="row 2"):
        asp.linalg.ilu0(sps.diags_array([1.0, 2.0, np.nan]).tocsr())


def test_arguments_are_checked() -> None:
    S = sps.eye_array(4, format="csr")
    with pytest.raises(ValueError, match=r"sweep='sideways'(.|\n)*'forward', 'backward', 'symmetric'"):
        asp.linalg.gauss_seidel(S, "sideways")
    for shift in (-1, np.nan, np.inf):
        with pytest.raises(ValueError, match="shift must not be negative"):
            asp.linalg.ic0(S, shift=shift)
    for make, _ in PAIRS.values():
        with pytest.raises(ValueError, match="a square A"):
            make(S[:3])
        with pytest.raises(TypeError, match="whose entries can be read"):
            make(scipys.LinearOperator((4, 4), matvec=lambda x: x))


def test_operators_hold_copies() -> None:
    for name, (make, reference) in PAIRS.items():
        S = systems("d")[1]
        A, X = asp.csr(S, copy=True), vectors(40, "d")
        M, wanted = make(A), np.linalg.inv(reference(S))
        A.data[:] = 7
        A.indices[:] = 0
        assert_close(M @ X, wanted @ X, "d")
        assert_close(pickle.loads(pickle.dumps(M)) @ X, wanted @ X, "d"), name


def test_no_rows() -> None:
    for make, _ in PAIRS.values():
        M = make(sps.csr_array((0, 0)))
        assert (M @ np.ones(0)).shape == (0,)
        assert (M @ np.ones((0, 2))).shape == (0, 2)


def red_black_grid(side: int) -> Any:
    """Return a grid with rows of different scales, whose triangles have wide levels."""
    S = grid(side)
    d = sps.diags_array(np.random.default_rng(0).uniform(1, 2, S.shape[0]))
    red_black = np.argsort((np.add.outer(np.arange(side), np.arange(side)) % 2).ravel(), kind="stable")
    return sps.csr_array(d @ S @ d)[red_black][:, red_black].tocsr()


@needs_hooks
@pytest.mark.parametrize("side", [pytest.param(30, id="few_rows"), pytest.param(180, id="many_rows")])
@pytest.mark.parametrize("name", PAIRS)
def test_threads_do_not_change_bits(name: str, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    S = red_black_grid(side)
    found: dict[str, set[bytes]] = {"vector": set(), "columns": set(), "adjoint": set()}
    X = vectors(S.shape[0], "d")
    runtime_api.lib.asp_force_helpers(1)
    monkeypatch.setattr(triangle, "MAX_SHARE", np.inf)  # also where sharing does not pay
    monkeypatch.setattr(triangle, "SYNCHRONIZATION", 0)
    monkeypatch.setattr(triangle, "MIN_WORK", 0)
    try:
        for threads in (1, 2, 3):
            with asp.options(threads=threads):
                M = PAIRS[name][0](asp.csr(S, copy=True))
                assert all("stages" in one for one in M.schedules) == (threads > 1)
                for _ in range(3):
                    found["vector"].add(M.matvec(X[:, 0]).tobytes())
                    found["columns"].add((M @ X).tobytes())
                    found["adjoint"].add(M.rmatvec(X[:, 0]).tobytes())
    finally:
        runtime_api.lib.asp_force_helpers(-1)
    assert {key: len(values) for key, values in found.items()} == dict.fromkeys(found, 1)


def test_the_analysis_of_the_pattern_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    n_made = []
    made = operators.schedule_of
    monkeypatch.setattr(operators, "schedule_of", lambda one: (n_made.append(1), made(one))[1])
    S = systems("d")[0]
    A = asp.csr(S, copy=True)
    asp.linalg.ilu0(A)
    n_first = len(n_made)
    A.data[:] *= 2
    X = vectors(S.shape[0], "d")
    assert_close(asp.linalg.ilu0(A) @ X, np.linalg.inv(reference_lu(2 * S)) @ X, "d")
    assert len(n_made) == n_first == 2


def test_without_the_runtime_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators.runtime_api, "available", False)
    with pytest.raises(RuntimeError, match=r"ilu0 needs the C runtime(.|\n)*Hint"):
        asp.linalg.ilu0(sps.eye_array(3, format="csr"))


def test_cholesky_equals_scipys_where_nothing_is_dropped() -> None:
    S = sps.diags_array([np.full(49, -1.0), np.full(50, 2.5), np.full(49, -1.0)], offsets=[-1, 0, 1]).tocsr()
    b = vectors(50, "d")
    wanted = scipy.linalg.cho_solve(scipy.linalg.cho_factor(S.toarray()), b)
    assert_close(asp.linalg.ic0(S) @ b, wanted, "d")
    assert_close(asp.linalg.ilu0(S) @ b, wanted, "d")
    assert preconditioners.entries_of(S, "ic0") is S
