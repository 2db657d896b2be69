"""Tests of `columns=True`: each column has the iterations, info and solution of a separate solve."""

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
from autosparse.isa import ISAS
from autosparse.linalg import columns
from autosparse.linalg.columns.conjugate_gradients import ColumnsCG
from autosparse.linalg.columns.restarted import ColumnsGmres
from autosparse.linalg.solves.convergence import Left
from autosparse.linalg.solves.solve import _with_following
from autosparse.linalg.solves.workspace import memory_of
from tests.linalg.test_krylov import grid, hermitian
from tests.native.hooks import on_several_threads

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
SOLVERS = ("cg", "bicgstab", "minres", "gmres")
RTOL = {"f": 1e-3, "d": 1e-6, "F": 1e-3, "D": 1e-6}


@pytest.fixture(autouse=True)
def blocks_of_any_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gmres solve blocks of short rows too, which these tests are about."""
    monkeypatch.setattr(columns, "MAX_SEPARATE", -1)


def matrix(name: str, code: str, n: int = 12) -> sps.csr_array:
    """Return a matrix that suits the solver: Hermitian for cg and minres."""
    S = hermitian(n) if code in "FD" else grid(n, shift=2.3)
    if name in ("bicgstab", "gmres"):
        S = S + sps.random_array(S.shape, density=0.02, random_state=np.random.default_rng(0)) * 0.3
    return sps.csr_array(S).astype(code)


def right_sides(S: sps.csr_array, k: int) -> Any:
    """Return columns that converge at different times: noise, zero, an eigenvector, a smooth solution."""
    rng = np.random.default_rng(k)
    B = rng.standard_normal((S.shape[0], k)) + (1j * rng.standard_normal((S.shape[0], k)) if S.dtype.kind == "c" else 0)
    B[:, 1 % k] = 0
    B[:, 2 % k] = np.linalg.eigh(S.toarray())[1][:, -1]
    B[:, 3 % k] = S @ np.ones(S.shape[0])
    return B.astype(S.dtype)


def one_by_one(name: str, S: Any, B: Any, x0: Any, **how: Any) -> tuple[Any, list[int]]:
    solver = getattr(scipys, name)
    found = [solver(S, B[:, j], None if x0 is None else x0[:, j], **how) for j in range(B.shape[1])]
    return np.stack([x for x, _ in found], axis=1), [info for _, info in found]


def agree(name: str, A: Any, S: Any, B: Any, x0: Any = None, **how: Any) -> None:
    X, info = columns.solve(name, A, B, x0, **how)
    wanted, infos = one_by_one(name, S, B, x0, **how)
    assert info.tolist() == infos
    assert X.dtype == wanted.dtype or name == "minres"  # SciPy's minres widens its result
    eps = np.finfo(X.dtype).eps
    np.testing.assert_allclose(
        X, wanted, rtol=0, atol=np.abs(wanted).max(initial=1) * (1e6 if eps < 1e-8 else 1e4) * eps
    )


@needs_runtime
@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize("name", SOLVERS)
def test_each_column_stops_when_it_would_stop_alone(name: str, code: str) -> None:
    if name == "minres" and code in "FD":
        pytest.skip("unconditional skip: SciPy's minres is for real systems")
    S = matrix(name, code)
    A, B = asp.csr(S), right_sides(S, 7)
    for maxiter in (0, 1, 2, 5, 9, 14, 60)[name == "gmres" :]:  # SciPy's gmres fails for 0
        agree(name, A, S, B, rtol=RTOL[code], maxiter=maxiter, **({"restart": 4} if name == "gmres" else {}))


@needs_runtime
@pytest.mark.parametrize("guess", [False, True])
@pytest.mark.parametrize("kind", ["none", "dia", "csr", "operator", "jacobi"])
@pytest.mark.parametrize("name", SOLVERS)
def test_preconditioners_and_guesses(name: str, kind: str, guess: bool) -> None:
    S = matrix(name, "d")
    B = right_sides(S, 5)
    d = sps.diags_array(1 / S.diagonal())
    M = {
        "none": None,
        "dia": d,
        "csr": d.tocsr(),
        "operator": scipys.aslinearoperator(d.tocsr()),
        "jacobi": asp.linalg.jacobi(S),
    }
    x0 = np.random.default_rng(1).standard_normal(B.shape) if guess else None
    agree(name, asp.csr(S), S, B, x0, M=M[kind], rtol=1e-7)


@needs_runtime
@pytest.mark.parametrize("name", SOLVERS)
def test_operators_dense_matrices_and_mixed_dtypes(name: str) -> None:
    S = matrix(name, "d")
    B = right_sides(S, 3)
    X, info = getattr(asp.linalg, name)(asp.csr(S), B, columns=True, rtol=1e-6)
    np.testing.assert_array_equal(X, columns.solve(name, asp.csr(S), B, None, rtol=1e-6)[0])
    assert info.tolist() == [0, 0, 0]
    for A in (scipys.aslinearoperator(S), S.toarray(), S, S.tocsc(), S.tocoo()):
        agree(name, A, S, B, rtol=1e-6)
    agree(name, asp.csr(S.astype("f")), S.astype("f"), B, rtol=1e-5)
    agree(name, asp.csr(S), S, np.asfortranarray(B.astype("f")), rtol=1e-5)
    if name != "minres":
        agree(name, asp.csr(S), S, B * (1 + 2j), rtol=1e-6)


@needs_runtime
@pytest.mark.parametrize(("name", "n_panel"), [("cg", 32), ("gmres", 8)])
def test_many_columns_run_in_panels(name: str, n_panel: int) -> None:
    S = matrix(name, "d", n=5)
    agree(name, asp.csr(S), S, right_sides(S, n_panel + 3), rtol=1e-8)
    agree(name, asp.csr(S), S, right_sides(S, 1), rtol=1e-8)
    X, info = columns.solve(name, asp.csr(S), np.zeros((25, 0)), None)
    assert X.shape == (25, 0)
    assert info.shape == (0,)


@needs_runtime
def test_breakdowns_are_those_of_single_solves() -> None:
    S = sps.csr_array(np.array([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 2, 0], [0, 0, 0, 3]]))
    B = np.array([[1.0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree("bicgstab", asp.csr(S), S, B, rtol=1e-10)
        agree("gmres", asp.csr(S), S, B, rtol=1e-10)
    singular = sps.csr_array(np.diag([1.0, 2.0, 0.0]))
    B = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    assert columns.solve("gmres", asp.csr(singular), B, None, maxiter=3)[1].tolist() == [3, 0]
    agree("minres", asp.csr(singular), singular, np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))


@needs_runtime
def test_a_column_without_numbers_leaves_the_others_alone() -> None:
    S = matrix("cg", "d")
    B = right_sides(S, 3)
    B[:, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X, info = asp.linalg.cg(asp.csr(S), B, columns=True, maxiter=200)
    assert info.tolist() == [0, 200, 0]
    assert np.isnan(X[:, 1]).any()
    kept = B[:, [0, 2]]
    np.testing.assert_allclose(S @ X[:, [0, 2]], kept, atol=1e-3)


@needs_runtime
@pytest.mark.parametrize("name", SOLVERS)
def test_same_bits_for_any_number_of_threads(name: str) -> None:
    S = matrix(name, "d", n=70)
    A, B = asp.csr(S), right_sides(matrix(name, "d", n=4), 5)
    B = np.resize(B, (4900, 5))
    found = []
    for threads in (1, 2, 3):
        with asp.options(threads=threads, deterministic=True, effort="off"), on_several_threads():
            X, _ = columns.solve(name, A, B, None, maxiter=6)
            found.append(X.tobytes())
    assert found[0] == found[1] == found[2]


@needs_runtime
@given(
    data=st.data(), n=st.integers(1, 9), k=st.integers(1, 5), name=st.sampled_from(SOLVERS),
    rank=st.integers(1, 9), maxiter=st.integers(1, 6),
)  # fmt: skip
def test_small_systems(data: Any, n: int, k: int, name: str, rank: int, maxiter: int) -> None:
    """Use symmetric systems of small integers, some singular: same info, and solutions where they exist."""
    whole = st.lists(st.integers(-3, 3), min_size=n * n, max_size=n * n)
    F = np.array(data.draw(whole), float).reshape(n, n)[:, :rank]
    S = sps.csr_array(F @ F.T + np.diag(np.arange(n) % 3))
    B = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=n * k, max_size=n * k)), float).reshape(n, k)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        X, info = columns.solve(name, asp.csr(S), B, None, maxiter=maxiter, rtol=1e-4)
        wanted, infos = one_by_one(name, S, B, None, maxiter=maxiter, rtol=1e-4)
    for j in range(k):
        left, right = (np.linalg.norm(S @ Z[:, j] - B[:, j]) for Z in (X, wanted))
        size = np.linalg.norm(B[:, j])
        if info[j] != infos[j]:  # a residual at the limit up to rounding, or a step beyond the exact solution
            assert (
                min(left, right) < 2e-4 * max(size, 1)
                or not np.isfinite([left, right]).all()
                or max(left, right) > size
            )
        elif info[j] == 0 and name != "minres":
            assert left <= 2e-4 * size


def test_without_the_runtime_scipy_solves_for_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_api, "available", False)
    monkeypatch.setattr(python_objects, "has_runtime", False)
    S = matrix("cg", "d")
    B = right_sides(S, 3)
    for name in SOLVERS:
        agree(name, S, S, B, rtol=1e-6)


def test_errors_say_what_disagrees() -> None:
    S = matrix("cg", "d")
    B = right_sides(S, 3)
    with pytest.raises(TypeError, match=r"(?s)no callback.*Given:.*Hint:"):
        asp.linalg.cg(S, B, columns=True, callback=lambda x: None)
    with pytest.raises(ValueError, match=r"(?s)shape \(n, k\).*\(144,\).*Hint:"):
        asp.linalg.cg(S, B[:, 0], columns=True)
    with pytest.raises(ValueError, match=r"(?s)initial guess.*\(144,\).*\(144, 3\)"):
        asp.linalg.minres(S, B, B[:, 0], columns=True)
    with pytest.raises(ValueError, match=r"\(144, 144\) and b \(143, 3\) are incompatible"):
        asp.linalg.bicgstab(S, B[:-1], columns=True)
    with pytest.raises(ValueError, match="atol"):
        asp.linalg.cg(S, B, columns=True, atol=-1)


@needs_runtime
def test_blocks_are_narrowed_for_columns_that_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a column far from its end leaves the block of ended ones, and that one near its end does not."""
    narrowed: list[bool] = []
    narrow = ColumnsCG.narrow
    monkeypatch.setattr(ColumnsCG, "narrow", lambda run: narrowed.append(narrow(run)) or narrowed[-1])
    S, n = grid(20), 400
    vectors = np.linalg.eigh(S.toarray())[1]
    noise = np.random.default_rng(0).standard_normal(n)
    few = vectors[:, ::100] @ np.ones(4)  # ends after four iterations
    near = few + 1e-7 * vectors[:, 50]  # ends an iteration later
    for other, is_narrowed in ((noise, True), (near, False)):
        narrowed.clear()
        B = np.stack([few, other], axis=1)
        X, info = columns.solve("cg", asp.csr(S), B, None, rtol=1e-8)
        assert info.tolist() == [0, 0]
        np.testing.assert_allclose(S @ X, B, atol=1e-6 * np.abs(B).max())
        assert any(narrowed) == is_narrowed


@needs_runtime
def test_gmres_solves_columns_of_short_rows_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    S = matrix("gmres", "d")
    B = right_sides(S, 5)
    A, how = asp.csr(S), {"rtol": 1e-7, "restart": 6}
    blocks: list[int] = []
    monkeypatch.setattr(ColumnsGmres, "run", lambda self, maxiter: blocks.append(maxiter))
    monkeypatch.setattr(columns, "MAX_SEPARATE", S.nnz / S.shape[0])
    guess = np.random.default_rng(2).standard_normal(B.shape)
    for x0 in (None, "Mb", guess):
        with asp.options(effort="off"):  # a plan that is found meanwhile would round otherwise
            X, info = asp.linalg.gmres(A, B, x0, columns=True, **how)
            alone = [asp.linalg.gmres(A, B[:, j], guess[:, j] if x0 is guess else x0, **how) for j in range(5)]
        assert X.tobytes() == np.stack([x for x, _ in alone], axis=1).tobytes()
        assert info.tolist() == [code for _, code in alone]
    assert not blocks
    assert asp.linalg.gmres(asp.csr(S.astype("f")), np.zeros((144, 0), "f"), columns=True)[0].dtype == np.float32
    monkeypatch.setattr(columns, "MAX_SEPARATE", S.nnz / S.shape[0] - 0.1)
    blocks.clear()
    asp.linalg.gmres(A, B, columns=True, **how)
    assert len(blocks) == 1


@needs_runtime
@pytest.mark.parametrize("name", ["cg", "minres", "bicgstab"])
def test_large_blocks_of_a_compressed_matrix_are_solved_separately(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    S = grid(20, shift=2.3)
    A, B = asp.csr(S), right_sides(S, 5)
    monkeypatch.setattr(columns, "MAX_SEPARATE", 20)
    monkeypatch.setattr(columns, "MIN_SEPARATE_BYTES", B.nbytes - 1)
    monkeypatch.setattr(columns, "ISAS", dict.fromkeys(ISAS, ISAS["avx512"]))
    solver = getattr(asp.linalg, name)

    def n_solves(A: Any, **how: Any) -> int:
        with asp.linalg.trace() as solves:
            solver(A, B, columns=True, rtol=1e-7, **how)
        return len(solves)

    X, info = solver(A, B, columns=True, rtol=1e-7)
    alone = [solver(A, B[:, j], rtol=1e-7) for j in range(5)]
    assert X.tobytes() == np.stack([x for x, _ in alone], axis=1).tobytes()
    assert info.tolist() == [code for _, code in alone]
    assert n_solves(A) > 1
    noise = S.copy()
    noise.data *= np.random.default_rng(0).uniform(0.9, 1.0, S.nnz)
    assert n_solves(asp.csr(noise)) == n_solves(A.T) == n_solves(A, M=A) == 1

    class Shifted(scipys.LinearOperator):
        """A + I as an operator of a user's class."""

        def __init__(self) -> None:
            super().__init__(np.dtype(float), S.shape)
            self.A = A

        def _matvec(self, x: Any) -> Any:
            return self.A @ x + x

    assert n_solves(Shifted()) == 1
    for how in ({"effort": "off"}, {"deterministic": True}, {"overhead": 0.0}):
        with asp.options(**how):
            assert n_solves(A) == 1
    monkeypatch.setattr(columns, "MIN_SEPARATE_BYTES", B.nbytes)
    assert n_solves(A) == 1
    monkeypatch.setattr(columns, "MIN_SEPARATE_BYTES", 0)
    monkeypatch.setattr(columns, "ISAS", dict.fromkeys(ISAS, ISAS["baseline"]))
    assert n_solves(A) == 1


@needs_runtime
def test_separate_columns_tell_of_the_solves_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    S, following = matrix("gmres", "d"), []
    A, B = asp.csr(S), right_sides(S, 4)
    monkeypatch.setattr(columns, "MAX_SEPARATE", 20)

    def one(A: Any, b: Any, x0: Any, **how: Any) -> Any:
        following.append(memory_of(A._cell).n_following)
        if b[0] == np.inf:
            raise KeyboardInterrupt
        return b, 0

    monkeypatch.setattr(asp.linalg, "gmres", one)
    columns.solve("gmres", A, B, None)
    assert following == [3, 2, 1, 0]
    B[0, 1] = np.inf
    with pytest.raises(KeyboardInterrupt):
        columns.solve("gmres", A, B, None)
    assert memory_of(A._cell).n_following == 0


def test_solves_that_follow_are_expected_to_be_as_long_and_half_of_them_is_certain() -> None:
    left = Left(likely=30.0, certain=10.0)
    assert _with_following(left, 20, 0) == left
    assert _with_following(left, 20, 3) == Left(likely=30.0 + 3 * 50.0, certain=10.0 + 3 * 15.0)
