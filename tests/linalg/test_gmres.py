"""Tests that gmres equals SciPy's: iterations, callback residuals, x, info, dtypes, warnings, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import python_objects, runtime_api
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from tests.covering import covering
from tests.scipy_versions import needs_recent

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def grid(n: int, wind: float = 0.3, code: str = "d") -> sps.csr_array:
    """Return an unsymmetric matrix of n * n unknowns, complex for complex codes."""
    ones = np.ones(n)
    T = sps.diags_array([-(1 + wind) * ones[1:], 2.1 * ones, -(1 - wind) * ones[1:]], offsets=[-1, 0, 1])
    S = sps.kron(T, sps.eye_array(n)) + sps.kron(sps.eye_array(n), T)
    return sps.csr_array(S * (1 + 0.3j) if code in "FD" else S).astype(code)


def right_side(n: int, code: str = "d") -> Any:
    rng = np.random.default_rng(n)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if code in "FD" else b).astype(code)


def both(ours: Any, theirs: Any, b: Any, x0: Any = None, **how: Any) -> list[tuple[Any, int, list[Any]]]:
    """Return (x, info, arguments of the callback) of our gmres and of SciPy's."""
    found = []
    for solve, A in ((asp.linalg.gmres, ours), (scipys.gmres, theirs)):
        seen: list[Any] = []
        x, info = solve(A, b, x0, callback=lambda one, seen=seen: seen.append(np.copy(one)), **how)
        found.append((x, info, seen))
    return found


def agree(ours: Any, theirs: Any, b: Any, x0: Any = None, tolerance: float = 1e-8, **how: Any) -> None:
    """Check for the same iterations and info, and for residuals and iterates that agree up to rounding."""
    how = {"callback_type": "pr_norm", **how}
    (x, info, seen), (y, wanted, theirs_seen) = both(ours, theirs, b, x0, **how)
    assert info == wanted
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert len(seen) == len(theirs_seen)
    for one, other in zip(seen, theirs_seen, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e4 * tolerance, atol=tolerance)
    np.testing.assert_allclose(x, y, rtol=0, atol=1e3 * tolerance * np.abs(y).max(initial=0))


@covering(restart=[None, 1, 7, 1000], n=[1, 2, 5, 12, 40], code="fdFD")
def test_sizes_and_restarts(code: str, n: int, restart: int | None) -> None:
    single = code in "fF"
    S, b = grid(n, code=code), right_side(n * n, code)
    agree(
        asp.csr(S),
        S,
        b,
        restart=restart,
        rtol=1e-3 if single else 1e-9,
        maxiter=10,
        tolerance=1e-6 if single else 1e-11,
    )


def preconditioners(S: Any) -> dict[str, Any]:
    d = 1 / S.diagonal()
    return {
        "diagonal": sps.diags_array(d),
        "matrix": sps.csr_array(sps.diags_array(d)),
        "operator": scipys.LinearOperator(S.shape, matvec=lambda r: d * r, dtype=S.dtype),
        "ours": asp.csr(sps.csr_array(sps.diags_array(d))),
    }


@pytest.mark.parametrize("code", "dD")
@pytest.mark.parametrize("kind", ["diagonal", "matrix", "operator", "ours"])
@pytest.mark.parametrize("x0", [None, "ones", "Mb"])
def test_preconditioners_and_initial_guesses(code: str, kind: str, x0: Any) -> None:
    S = sps.csr_array(sps.diags_array(np.linspace(1, 30, 144)) @ grid(12, code=code)).astype(code)
    M, b = preconditioners(S)[kind], right_side(144, code)
    agree(asp.csr(S), S, b, np.ones((144, 1)) if x0 == "ones" else x0, M=M, rtol=1e-9)


@pytest.mark.parametrize("a", ["f", "d", "F", "D", "i"])
@pytest.mark.parametrize("b", ["f", "d", "F", "D", "i"])
def test_mixed_dtypes(a: str, b: str) -> None:
    S = sps.csr_array((grid(8, code="D" if a in "FD" else "d") * 10).astype(a))
    agree(asp.csr(S), S, (right_side(64, "D" if b in "FD" else "d") * 10).astype(b), rtol=1e-3, tolerance=1e-6)


@pytest.mark.parametrize(
    "make", [asp.csr, asp.csc, lambda S: S, sps.coo_array, lambda S: S.toarray(), scipys.aslinearoperator]
)
def test_operands(make: Any) -> None:
    S = grid(9)
    agree(make(S), S, right_side(81), rtol=1e-9)


@pytest.mark.parametrize("kind", ["x", "pr_norm", "legacy", None])
@pytest.mark.parametrize("maxiter", [None, 1, 2, 13])
def test_callback_types_and_the_meaning_of_maxiter(kind: str | None, maxiter: int | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        agree(asp.csr(grid(12)), grid(12), right_side(144), callback_type=kind, maxiter=maxiter, restart=5, rtol=1e-10)
    for one in ("x", "pr_norm", "legacy", None):  # without effect if there is no callback
        x, info = asp.linalg.gmres(asp.csr(grid(12)), right_side(144), maxiter=1, callback_type=one)
        y, wanted = scipys.gmres(grid(12), right_side(144), maxiter=1, callback_type=one)
        assert info == wanted
        np.testing.assert_allclose(x, y, rtol=1e-9)


@needs_recent
def test_a_callback_without_its_type_is_warned_of_as_by_scipy() -> None:
    said = []
    for solve, A in ((asp.linalg.gmres, asp.csr(grid(3))), (scipys.gmres, grid(3))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            solve(A, np.ones(9), callback=lambda _: None)
        said.append([(one.category, str(one.message), one.filename) for one in caught])
    assert said[0] == said[1]
    assert len(said[0]) == 1


def test_callbacks_see_the_live_x() -> None:
    every: list[Any] = []
    x, _ = asp.linalg.gmres(asp.csr(grid(9)), right_side(81), callback=every.append, callback_type="x", restart=4)
    assert len(every) > 1
    assert all(one is x for one in every)


def test_an_exception_of_a_callback_passes() -> None:
    def stop(_: Any) -> None:
        raise KeyboardInterrupt

    A, b = asp.csr(grid(9)), right_side(81)
    with pytest.raises(KeyboardInterrupt):
        asp.linalg.gmres(A, b, callback=stop, callback_type="pr_norm")
    agree(A, grid(9), b, rtol=1e-9)


@needs_recent
@pytest.mark.parametrize(
    ("A", "b", "how"),
    [
        (grid(3)[:4], np.ones(4), {}),
        (grid(3), np.ones(8), {}),
        (grid(3), np.ones(9), {"x0": np.ones(8)}),
        (grid(3), np.ones(9), {"M": np.eye(8)}),
        (grid(3), np.ones(9), {"atol": -1.0}),
        (grid(3), np.ones(9), {"atol": "legacy"}),
        (grid(3), np.ones(9), {"callback_type": "nonsense"}),
        (grid(3), np.ones(9), {"nonsense": 1}),
        (grid(3), np.ones(9), {"maxiter": 0}),
        (grid(3), np.ones(9), {"restart": 0}),
        (lambda x: x, np.ones(9), {}),
    ],
)
def test_errors_are_scipys(A: Any, b: Any, how: dict[str, Any]) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  (any exception that SciPy raises)
        scipys.gmres(A, b, **how)
    with pytest.raises(wanted.type) as found:
        asp.linalg.gmres(asp.csr(A) if sps.issparse(A) else A, b, **how)
    if wanted.type is ValueError:
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize(
    ("A", "b"),
    [
        (np.eye(4), np.ones(4)),  # exact after one iteration
        (np.diag([1.0, 1.0, 2.0, 2.0]), np.ones(4)),
        (np.zeros((3, 3)), np.ones(3)),
        (np.diag([1.0, 2.0, 0.0]), np.array([1.0, 1.0, 0.0])),  # singular, consistent
        (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 0.0])),
        (np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([1.0, 0.0])),
        (np.roll(np.eye(6), 1, axis=0), np.eye(6)[0]),  # no progress before the last iteration
    ],
)
@pytest.mark.parametrize("restart", [None, 2])
def test_breakdowns(A: Any, b: Any, restart: int | None) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        agree(asp.csr(A), A, b, rtol=1e-10, maxiter=3, restart=restart)


def test_a_singular_inconsistent_system_ends_like_scipys() -> None:
    """x is a quotient of rounding errors, in SciPy too, so only info and iterations are compared."""
    A = np.diag([1.0, 1.0, 0.0])
    with np.errstate(all="ignore"):
        (_, info, seen), (_, wanted, others) = both(asp.csr(A), A, np.ones(3), rtol=1e-10, callback_type="pr_norm")
    assert info == wanted
    assert len(seen) == len(others)


def test_zero_and_not_finite_right_sides() -> None:
    b = np.zeros(9)
    assert asp.linalg.gmres(asp.csr(grid(3)), b) == (pytest.approx(b), 0)
    for bad in (np.nan, np.inf):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            (x, info, seen), (y, wanted, others) = both(
                asp.csr(grid(3)), grid(3), np.r_[np.ones(8), bad], maxiter=2, callback_type="pr_norm"
            )
        assert info == wanted
        assert len(seen) == len(others)
        assert np.isfinite(x).any() == np.isfinite(y).any()


@pytest.mark.parametrize("code", "fdFD")
def test_bits_do_not_depend_on_threads(code: str) -> None:
    S, b, found = grid(70, code=code), right_side(4900, code), []
    for threads in range(1, 6):
        with asp.options(threads=threads, effort="off"):
            found.append(asp.linalg.gmres(asp.csr(S), b, maxiter=2)[0].tobytes())
    assert len(set(found)) == 1


@given(seed=st.integers(0, 10**6), n=st.integers(1, 10), density=st.floats(0.1, 1), rank=st.integers(0, 10))
def test_small_systems(seed: int, n: int, density: float, rank: int) -> None:
    """Use systems that may be singular or inconsistent; SciPy must find the same for some order of the unknowns."""
    rng = np.random.default_rng(seed)
    A = sps.random_array((n, n), density=density, random_state=rng).toarray() + np.diag((np.arange(n) < rank) * 2.0)
    b, infos, sizes = rng.integers(-3, 4, n).astype(float), set(), [1e-8 * n**0.5]
    how = {"rtol": 1e-8, "maxiter": 5}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for order in [np.arange(n), np.arange(n)[::-1], *(rng.permutation(n) for _ in range(4))]:
            y, wanted = scipys.gmres(A[np.ix_(order, order)], b[order], **how)
            infos.add(wanted)
            sizes.append(np.linalg.norm(b[order] - A[np.ix_(order, order)] @ y))
        x, info = asp.linalg.gmres(asp.csr(A), b, **how)
        size = np.linalg.norm(b - A @ x)
    assert info in infos
    assert infos != {0} or size <= 1.05 * max(sizes)


def test_the_basis_stays_as_orthogonal_as_one_by_one() -> None:
    from autosparse.linalg.generalised_residual import Basis

    rng = np.random.default_rng(0)
    n, k = 300, 60
    S = sps.csr_array(
        sps.diags_array(np.logspace(0, 7, n)) + 0.1 * sps.random_array((n, n), density=0.02, random_state=rng)
    )
    V, w, U = np.empty((k + 1, n)), np.empty(n), np.empty((k + 1, n))
    basis = Basis(V, w)
    V[0] = U[0] = np.full(n, n**-0.5)
    for j in range(k):
        w[:] = S @ V[j]
        _, before, left = basis.orthogonalise(j)
        assert before == pytest.approx(np.linalg.norm(w))
        assert left == pytest.approx(np.linalg.norm(V[j + 1]))
        basis.scale(j + 1, 1 / left)
        u = S @ U[j]
        for i in range(j + 1):
            u -= (U[i] @ u) * U[i]
        U[j + 1] = u / np.linalg.norm(u)
    ours, theirs = (np.abs(B @ B.T - np.eye(k + 1)).max() for B in (V, U))
    assert theirs > 1e-13, "the example is one where orthogonality is lost"
    assert ours <= 10 * theirs


@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize("n", [1, 2, 7, 513, 1024, 1025, 5000])
def test_products_with_a_basis(code: str, n: int) -> None:
    """Compare one pass of the runtime with (I + L) h = V^H w and w - sum_i h_i v_i, for any number of rows."""
    from autosparse.linalg.generalised_residual import Basis

    rng = np.random.default_rng(n)
    wide = np.complex128 if code in "FD" else np.float64
    drawn = rng.standard_normal((2, 12, n))
    V = (drawn[0] + 1j * drawn[1] if code in "FD" else drawn[0]).astype(code) / n**0.5
    w, precision = V[11].copy(), 1e-5 if code in "fF" else 1e-12
    basis = Basis(V.copy(), w)
    L = np.tril(V.astype(wide).conj() @ V.astype(wide).T, -1)
    for k in range(10):
        basis.rows[k + 1][:] = V[k + 1]
        h, before, left = basis.orthogonalise(k)
        wanted = np.linalg.solve(np.eye(k + 1) + L[: k + 1, : k + 1], V[: k + 1].astype(wide).conj() @ w)
        np.testing.assert_allclose(h, wanted, rtol=precision, atol=precision * np.abs(wanted).max() * 10)
        rest = w - wanted @ V[: k + 1]
        np.testing.assert_allclose(basis.rows[k + 1], rest, atol=precision * 30 * (1 + np.abs(wanted).sum()))
        assert before == pytest.approx(np.linalg.norm(w), rel=1e-5)
        assert left == pytest.approx(np.linalg.norm(basis.rows[k + 1]), rel=1e-5)
        basis.rows[k + 1][:] = V[k + 1]


def test_without_the_runtime_scipy_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_api, "available", False)
    monkeypatch.setattr(python_objects, "has_runtime", False)
    x, info = asp.linalg.gmres(grid(5), right_side(25), rtol=1e-9)
    y, wanted = scipys.gmres(grid(5), right_side(25), rtol=1e-9)
    assert info == wanted
    np.testing.assert_array_equal(x, y)


@needs_recent
@pytest.mark.parametrize("code", ["f", "d", "F", "D"])
def test_a_preconditioned_residual_of_zero_warns_as_scipys_does(code: str) -> None:
    found, M = [], sps.csr_array((3, 3), dtype=code)
    for solver, make in ((scipys.gmres, lambda m: m), (asp.linalg.gmres, asp.csr)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x, info = solver(make(sps.csr_array(2.0 * np.eye(3)).astype(code)), np.ones(3, code), M=M, maxiter=3)
        found.append((x.tolist(), info, {str(one.message) for one in caught}))
    np.testing.assert_equal(found[1], found[0])
    assert "invalid value encountered in multiply" in found[0][2]
