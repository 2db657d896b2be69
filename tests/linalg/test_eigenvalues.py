"""Tests that eigsh, eigs, svds and lobpcg find SciPy's values; lobpcg keeps its iterations, histories and dtypes."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import mmap
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api
from numpy.typing import NDArray

import autosparse as asp
from autosparse.linalg import block_eigenvalues, eigenvalues, tall
from tests.covering import in_turn
from tests.native.hooks import on_several_threads

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")


def symmetric(n: int, code: str = "d") -> sps.csr_array:
    rng = np.random.default_rng(n)
    S = sps.diags_array([-1, 2.5, -1], offsets=[-1, 0, 1], shape=(n, n)) + sps.diags_array(np.linspace(0, 3, n))
    if code in "FD":
        upper = sps.triu(sps.random_array((n, n), density=0.02, random_state=rng), 1) * 0.2j
        S = S + upper + upper.conj().T
    return sps.csr_array(S).astype(code)


def values_of(found: Any) -> Any:
    return np.sort_complex(np.asarray(found).ravel())


MODES: list[tuple[str, dict[str, Any]]] = [
    ("eigsh", {"k": 3}),
    ("eigsh", {"k": 3, "which": "SA", "v0": np.ones(80)}),
    ("eigsh", {"k": 3, "sigma": 0.5}),
    ("eigsh", {"k": 3, "sigma": 0.5, "mode": "cayley", "tol": 1e-8}),
    ("eigsh", {"k": 3, "M": sps.csc_array(sps.diags_array(np.linspace(1, 2, 80)))}),
    ("eigs", {"k": 3, "which": "LR"}),
    ("eigs", {"k": 3, "sigma": 0.4 + 0.1j}),
    ("svds", {"k": 3}),
    ("svds", {"k": 3, "solver": "lobpcg", "rng": np.random.default_rng(0)}),
    ("svds", {"k": 3, "which": "SM", "solver": "arpack"}),
]


@pytest.mark.parametrize("code", "dD")
@pytest.mark.parametrize(("name", "how"), MODES)
def test_values_are_scipys(name: str, how: dict[str, Any], code: str) -> None:
    if "rng" in how and "rng" not in inspect.signature(scipys.svds).parameters:
        pytest.skip("this SciPy has no such argument")
    code = "d" if "mode" in how else code  # SciPy refuses modes of complex matrices
    S = symmetric(80, code)
    how = {key: value.astype(code) if key == "M" else value for key, value in how.items()}
    at = 1 if name == "svds" else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, wanted = (getattr(one, name)(A, **how) for one, A in ((asp.linalg, asp.csr(S)), (scipys, S)))
    np.testing.assert_allclose(values_of(found[at]), values_of(wanted[at]), rtol=1e-7)


def test_inverse_operators_and_positional_arguments_pass_through() -> None:
    S = symmetric(60)
    inverse = scipys.LinearOperator(S.shape, matvec=scipys.splu(sps.csc_array(S)).solve, dtype=S.dtype)
    for name in ("eigsh", "eigs"):
        wanted = getattr(scipys, name)(S, 3, None, 0.0, OPinv=inverse, return_eigenvectors=False)
        found = getattr(asp.linalg, name)(asp.csr(S), 3, None, 0.0, OPinv=inverse, return_eigenvectors=False)
        np.testing.assert_allclose(values_of(found), values_of(wanted))


@pytest.mark.parametrize("name", ["eigsh", "eigs", "svds"])
def test_errors_and_signatures_are_scipys(name: str) -> None:
    ours, theirs = getattr(asp.linalg, name), getattr(scipys, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    for shape, k in (((20, 20), 0), ((20, 20), 20), ((20, 20), 19), ((20, 10), 3)):
        S = sps.random_array(shape, density=0.3, format="csr", random_state=np.random.default_rng(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            texts = []
            for solve, A in ((ours, asp.csr(S)), (theirs, S)):
                try:
                    texts.append(str(np.shape(solve(A, k)[0])))
                except (ValueError, TypeError) as error:
                    texts.append(f"{type(error).__name__}: {error}")
        assert texts[0] == texts[1]


@needs_runtime
def test_arpack_multiplies_by_our_products() -> None:
    operator = eigenvalues._products(symmetric(20))
    assert isinstance(operator, eigenvalues.MatrixOperator)
    X = np.random.default_rng(0).standard_normal((20, 2))
    dense = symmetric(20).toarray()
    for found, wanted in (
        (operator @ X, dense @ X),
        (operator.H @ X[:, 0], dense @ X[:, 0]),
        (operator.T @ X, dense.T @ X),
    ):
        np.testing.assert_allclose(found, wanted)


PROBLEMS: list[dict[str, Any]] = [
    {},
    {"largest": False},
    {"B": True},
    {"B": True, "Y": True, "largest": False},
    {"M": True, "largest": False},
    {"tol": 1e-3},
    {"maxiter": 3},
]


def problem(code: str, **asked: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return S, X and keyword arguments of lobpcg."""
    n, rng = 300, np.random.default_rng(3)
    S = symmetric(n, code)
    parts = {
        "B": sps.csr_array(sps.diags_array(np.linspace(1, 2, n))).astype(code),
        "Y": np.linalg.qr(rng.standard_normal((n, 2)))[0].astype(code),
        "M": sps.csr_array(sps.diags_array(1 / S.diagonal())).astype(code),
    }
    how = {key: parts.get(key, value) for key, value in asked.items()}
    return S, rng.standard_normal((n, 4)).astype(code), {"maxiter": 40, **how}


@needs_runtime
@in_turn("asked", "code", first=PROBLEMS, second="dDfF")
def test_lobpcg_equals_scipys(asked: dict[str, Any], code: str) -> None:
    S, X, how = problem(code, **asked)
    histories = {"retLambdaHistory": True, "retResidualNormsHistory": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        copies = {key: value.copy() if key == "Y" else value for key, value in how.items()}
        wanted = scipys.lobpcg(S, X.copy(), **copies, **histories)
        for A in (asp.csr(S), scipys.aslinearoperator(S), lambda V: S @ V, S.toarray()):
            before = X.copy()
            found = asp.linalg.lobpcg(A, X, **how, **histories)
            np.testing.assert_array_equal(X, before)
            assert [one.dtype for one in found[:2]] == [one.dtype for one in wanted[:2]]
            np.testing.assert_allclose(found[0], wanted[0], rtol=1e-8 if code in "dD" else 2e-3)
            if code in "dD":
                assert abs(len(found[2]) - len(wanted[2])) <= 1
                assert len(found[3]) == len(found[2])
                np.testing.assert_allclose(found[2][1], wanted[2][1], rtol=1e-9)
                np.testing.assert_allclose(found[3][1], wanted[3][1], rtol=1e-6)


@needs_runtime
def test_lobpcg_of_few_columns_and_single_ones() -> None:
    S = symmetric(100)
    X = np.random.default_rng(0).standard_normal((100, 1))
    values, vectors = asp.linalg.lobpcg(asp.csr(S), X, maxiter=100, tol=1e-8)
    assert values[0] == pytest.approx(np.linalg.eigvalsh(S.toarray())[-1])
    np.testing.assert_allclose(S @ vectors, values * vectors, atol=1e-6)
    with pytest.warns(UserWarning, match="not reaching the requested tolerance"):
        asp.linalg.lobpcg(asp.csr(S), X, maxiter=1, tol=1e-12)
    with pytest.raises(ValueError, match="Linearly dependent initial"):
        asp.linalg.lobpcg(asp.csr(S), np.ones((100, 2)))
    with pytest.raises(ValueError, match="Linearly dependent constraints"):
        asp.linalg.lobpcg(asp.csr(S), X, Y=np.ones((100, 2)))
    with pytest.raises(ValueError, match="not preserved"):
        asp.linalg.lobpcg(lambda V: V[:5], X)


@needs_runtime
def test_lobpcg_of_small_blocks_runs_scipys_function(monkeypatch: pytest.MonkeyPatch) -> None:
    S = sps.csr_array(sps.diags_array(np.arange(1.0, 101.0)))
    X = np.random.default_rng(0).standard_normal((100, 3))
    found = []
    for n_elements in (X.size, X.size + 1):
        monkeypatch.setattr(block_eigenvalues, "MIN_ELEMENTS", n_elements)
        with asp.linalg.trace() as solves:
            found.append(asp.linalg.lobpcg(asp.csr(S), X, maxiter=60))
        assert len(solves) == (n_elements == X.size)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-7)


@pytest.mark.parametrize("how", [{"verbosityLevel": 1}, {"X": np.eye(8, 3)}, {"X": np.ones((50, 1), int)}])
def test_lobpcg_passes_other_calls_to_scipy(how: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    X = how.get("X", np.random.default_rng(0).standard_normal((50, 2)))
    S = symmetric(len(X))
    rest = {key: value for key, value in how.items() if key != "X"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = asp.linalg.lobpcg(asp.csr(S), X.copy(), maxiter=30, **rest)
        wanted = scipys.lobpcg(S, X.copy(), maxiter=30, **rest)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
    assert bool(capsys.readouterr().out) == bool(rest)
    assert not block_eigenvalues._is_ours(S, None, how.get("X"), None)


@needs_runtime
@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 5), (8, 8), (7, 13), (20, 4), (33, 17)])
def test_products_of_tall_blocks(a: int, b: int, code: str) -> None:
    rng = np.random.default_rng(a)
    eps = np.finfo(code).eps
    for n in (1, 7, 511, 513, 3000):
        U, V = (rng.standard_normal((n, k)).astype(code) for k in (a, b))
        if code in "FD":
            U, V = U + U[::-1] * code_unit(code), V - V[::-1] * code_unit(code)
        atol = 100 * eps * n
        bits = set()
        for threads in (1, 2, 3):
            with asp.options(threads=threads), on_several_threads():
                G = tall.gram(U, V)
                F = rng.standard_normal((a, b)).astype(code) if threads == 1 else F  # noqa: F821
                out = tall.combine(V.copy(), (U, F), (V, None))
            bits.add(G.tobytes() + out.tobytes() if code in "fd" else b"")
        assert len(bits) == 1
        np.testing.assert_allclose(G, U.conj().T @ V, atol=atol)
        np.testing.assert_allclose(out, U @ F + V, atol=atol)
        own, K = V.copy(), rng.standard_normal((b, b)).astype(code)
        np.testing.assert_allclose(tall.combine(own, (U, F), (own, K)), U @ F + V @ K, atol=atol)


@needs_runtime
@pytest.mark.parametrize("code", "fd")
@pytest.mark.parametrize("k", [1, 2, 3, 5, 6, 10, 12, 13, 20])
@pytest.mark.parametrize("n", [1, 2, 9, 513])
def test_nothing_is_read_beyond_a_tall_block(n: int, k: int, code: str) -> None:
    """Vectors that are wider than what is left of a row read into the next one; behind the last row they must not."""
    rng = np.random.default_rng(k)
    with at_the_end_of_memory(rng.standard_normal((n, k)).astype(code)) as V:
        pairs = tall.grams([(V, V), (V[:, :1], V)])
        for G, U in zip(pairs, (V, V[:, :1]), strict=True):
            np.testing.assert_allclose(G, U.T @ V, rtol=1e-3, atol=1e-3)
        F = rng.standard_normal((k, k)).astype(code)
        np.testing.assert_allclose(tall.combine(np.empty_like(V), (V, F), (V, None)), V @ F + V, rtol=1e-3, atol=1e-3)
        tall.combine(V, (V, F))


@contextlib.contextmanager
def at_the_end_of_memory(V: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Give a copy of V that ends where a page begins that can neither be read nor written."""
    page = mmap.PAGESIZE
    size = -(-V.nbytes // page) * page
    libc = ctypes.CDLL(None, use_errno=True)
    whole = np.frombuffer(mmap.mmap(-1, size + page), np.uint8)
    last = ctypes.c_void_p(whole.ctypes.data + size)
    assert libc.mprotect(last, page, 0) == 0
    copy = whole[size - V.nbytes : size].view(V.dtype).reshape(V.shape)
    copy[...] = V
    try:
        yield copy
    finally:
        assert libc.mprotect(last, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def code_unit(code: str) -> Any:
    return np.dtype(code).type(1j)


@pytest.mark.parametrize(
    ("of_A", "of_B", "of_X"), [("d", None, "f"), ("F", None, "d"), ("d", "D", "f"), ("i", "d", "f")]
)
def test_lobpcg_with_wider_matrices_has_the_dtype_of_all(of_A: str, of_B: str | None, of_X: str) -> None:
    A = sps.diags_array(np.arange(1.0, 101.0), format="csr").astype(of_A)
    B = None if of_B is None else sps.diags_array(np.linspace(1, 2, 100), format="csr").astype(of_B)
    X = np.random.default_rng(0).standard_normal((100, 3)).astype(of_X)
    how = {"maxiter": 100, "tol": 1e-3, "retLambdaHistory": True}
    wanted = scipys.lobpcg(A, X.copy(), B, **how)
    with asp.linalg.trace() as solves:
        found = asp.linalg.lobpcg(asp.csr(A), X.copy(), None if B is None else asp.csr(B), **how)
    assert len(solves) == 1, "SciPy's function ran"
    assert [found[0].dtype, found[1].dtype, found[2][0].dtype] == [
        wanted[0].dtype, wanted[1].dtype, wanted[2][0].dtype,
    ]  # fmt: skip
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-5)
