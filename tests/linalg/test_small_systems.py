"""Tests of small systems, some singular or inconsistent: `info`, iterations and residuals are SciPy's."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import autosparse as asp
from autosparse.linalg.operators import product_of
from tests.scipy_versions import needs_recent

SOLVERS = {
    "cg": "definite", "minres": "symmetric", "gmres": "general", "bicgstab": "general", "cgs": "general",
    "qmr": "general", "lsqr": "general", "lsmr": "general",
}  # fmt: skip
"""Solver -> the most general class of matrices that it supports."""
LEAST_SQUARES = ("lsqr", "lsmr", "minres")
"""Solvers that minimise a norm of the residual if there is no solution."""
SENSITIVE = ("bicgstab", "cgs", "qmr")
"""Solvers whose number of iterations depends on the rounding of sums."""


@st.composite
def systems(draw: st.DrawFn, kind: str) -> tuple[Any, Any, dict[str, Any]]:
    """Draw A, b and tolerances.

    If A is singular, b may be outside its range. The Hermitian part of the nonsingular block has eigenvalues of
    magnitude 1 to 20.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_zeros = draw(st.integers(1, 12)), draw(st.sampled_from([0, 0, 1, 2]))
    code = draw(st.sampled_from("dfDF" if kind != "symmetric" else "df"))
    X = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if code in "DF" else 0)
    Q = np.linalg.qr(X)[0]
    d = rng.uniform(1, 20, n)
    if kind == "symmetric":
        d *= rng.choice([-1, 1], n)
    A = (Q * d) @ Q.conj().T
    if kind == "symmetric":
        A = (A + A.T) / 2
    if kind == "general":
        A = A + 2 * (X - X.conj().T)  # skew part: the eigenvalues keep positive real parts
    m = n + n_zeros
    order = rng.permutation(m)
    whole = np.zeros((m, m), A.dtype)
    whole[:n, :n] = A
    b = rng.standard_normal(m).astype(code)
    if draw(st.booleans()):
        b[n:] = 0  # consistent
    how = {"rtol": draw(st.sampled_from([1e-2, 1e-4] if code in "fF" else [1e-5, 1e-9]))}
    return sps.csr_array(whole[np.ix_(order, order)].astype(code)), b[order], how


def solved(linalg: Any, solver: str, A: Any, b: Any, rtol: float) -> tuple[Any, int, int]:
    """Return x, info and the number of iterations."""
    seen: list[Any] = []
    function, limit = getattr(linalg, solver), 10 * b.size
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        if solver in ("lsqr", "lsmr"):
            how = {"atol": rtol, "btol": rtol, "iter_lim" if solver == "lsqr" else "maxiter": limit}
            x, info, n_iterations = function(A, b, **how)[:3]
            return x, info, n_iterations
        how = {"rtol": rtol, "maxiter": limit, "callback": lambda _: seen.append(None)}
        if solver == "gmres":
            how |= {"restart": 5, "callback_type": "pr_norm"}
        x, info = function(A, b, **how)
    return x, info, len(seen)


def norm_of_residual(A: Any, x: Any, b: Any) -> float:
    return float(np.linalg.norm(b.astype("D") - A.astype("D") @ x.astype("D")))


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_small_system_is_solved_as_by_scipy(solver: str) -> None:
    @settings(max_examples=60)
    @given(case=systems(SOLVERS[solver]))
    def law(case: Any) -> None:
        A, b, how = case
        x, info, n_iterations = solved(scipy.sparse.linalg, solver, A, b, **how)
        found, our_info, our_iterations = solved(asp.linalg, solver, asp.csr(A), b, **how)
        assert found.dtype == x.dtype
        assert found.shape == x.shape
        assert type(our_info) is type(info)
        limit = how["rtol"] * (np.linalg.norm(b) + scale(A, found) * (solver in LEAST_SQUARES))
        if is_consistent(A, b) or solver in LEAST_SQUARES:
            assert our_info == info
            assert solver in SENSITIVE or abs(our_iterations - n_iterations) <= 1
            limit = max(norm_of_residual(A, x, b), limit)
        else:  # without a solution, the result of a recurrence depends on rounding errors
            assert (our_info == 0) == (info == 0)
        if our_info == 0 or solver in LEAST_SQUARES:
            attainable = 20 * np.finfo(A.dtype).eps * scale(A, found)
            assert norm_of_residual(A, found, b) <= 1.05 * limit + attainable

    law()


def is_consistent(A: Any, b: Any) -> bool:
    """Return whether rows of A that are zero belong to zeros of b."""
    return bool((b[np.diff(A.indptr) == 0] == 0).all())


def scale(A: Any, x: Any) -> float:
    return float(np.linalg.norm(A.toarray()) * np.linalg.norm(x))


@pytest.mark.parametrize("code", "dD")
@pytest.mark.parametrize("A", [np.zeros((3, 3)), np.diag([np.nan, 1.0, 1.0]), np.diag([0.0, 0.0, 1.0])])
def test_breakdowns_of_cg_emit_the_warnings_of_scipy(code: str, A: Any) -> None:
    found = []
    for library, S in ((scipy.sparse.linalg, sps.csr_array(A.astype(code))), (asp.linalg, asp.csr(A.astype(code)))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            library.cg(S, np.array([1.0, 2.0, 0.0]), maxiter=3)
        found.append({(one.category, str(one.message)) for one in caught})
    assert found[0] == found[1]


DEFINITE = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 5.0]])
FACTORS = np.array([0.5, 1.0, 2.0])
UNUSUAL: dict[str, tuple[tuple[str, ...], Any, Any, dict[str, Any]]] = {
    "infinite right side": (
        ("cg", "cgs", "bicgstab", "minres", "gmres", "qmr", "lsqr", "lsmr", "expm_multiply"),
        DEFINITE, [np.inf, 1, 2], {},
    ),
    "infinite block, times": (("expm_multiply",), DEFINITE, [np.inf, 1, 2], {"start": 0, "stop": 1, "num": 5}),
    "infinite entry": (("lsqr", "lsmr"), np.diag([np.inf, 1, 2]), [1, 2, 3], {}),
    "not a number": (("cg", "cgs", "bicgstab", "minres", "gmres", "qmr"), DEFINITE, [1, np.nan, 2], {}),
    "infinite right side and no matrix": (("cg", "cgs", "bicgstab"), np.zeros((3, 3)), [np.inf, 1, 2], {}),
    "complex preconditioner": (
        ("cg", "cgs", "bicgstab", "minres", "gmres"), DEFINITE, [1, 2, 3], {"M": np.diag(FACTORS * (1 + 1j))},
    ),
    "complex preconditioner and guess": (
        ("cg", "cgs", "bicgstab", "gmres"), DEFINITE, [1, 2, 3], {"M": np.diag(FACTORS * (1 + 1j)), "x0": "Mb"},
    ),
    "guess of a wider type": (
        ("cg", "cgs", "bicgstab", "gmres"), DEFINITE.astype("f"), np.ones(3, "f"),
        {"M": np.diag(FACTORS), "x0": "Mb", "maxiter": 1},
    ),
    "no whole number of cycles": (("gmres",), DEFINITE, [1e-3, 0, 0], {"atol": 1.0, "maxiter": 2.0}),
    "complex damping": (("lsqr", "lsmr"), DEFINITE, [1.0, 2, 3], {"damp": 1j}),
    "guess in a list": (("lsqr", "lsmr"), DEFINITE, [1.0, 2, 3], {"x0": [1.0, 1.0, 1.0]}),
    "guess of whole numbers": (("lsqr", "lsmr"), DEFINITE, [1.0, 2, 3], {"x0": np.array([1, 1, 1])}),
    "narrow guess, small numbers": (
        ("lsqr", "lsmr"), DEFINITE.astype("b"), np.array([1, 2, 3], "b"), {"x0": np.ones(3, "f")},
    ),
}  # fmt: skip
"""Name -> solvers, A, b, and further arguments."""


def outcome(function: Any, A: Any, b: Any, how: dict[str, Any]) -> tuple[Any, ...]:
    """Return x, and the other results, the error and the warnings of a solver in a form that can be compared."""
    x, told, error = None, None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            x, info, *_ = found if isinstance(found := function(A, b, **how), tuple) else (found, None)
            told = x.dtype, x.shape, info
        except (TypeError, ValueError) as failure:
            error = f"{type(failure).__name__}: {failure}"
    package = Path(asp.__file__).parent
    seen = {(one.category, str(one.message), package in Path(one.filename).parents) for one in caught}
    return x, told, error, seen


@needs_recent
@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_arguments_have_the_outcome_of_scipy(case: str) -> None:
    solvers, A, b, how = UNUSUAL[case]
    for solver in solvers:
        x, *wanted = outcome(getattr(scipy.sparse.linalg, solver), sps.csr_array(A), np.asarray(b), how)
        y, *found = outcome(getattr(asp.linalg, solver), asp.csr(A), np.asarray(b), how)
        assert found == wanted, solver
        if x is not None:
            np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-6)


def test_products_with_dense_matrices_emit_the_warnings_of_scipy() -> None:
    A, x, out = np.array([[np.inf, 1.0], [1.0, 1.0]]), np.array([0.0, 1.0]), np.empty(2)
    found = []
    for product in (scipy.sparse.linalg.aslinearoperator(A).matvec, functools.partial(product_of(A, A.dtype), out=out)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            product(x)
        found.append({(one.category, str(one.message)) for one in caught})
    assert found[0] == found[1]


class Count:
    """Number of Python's protocol `__index__`, and nothing else."""

    def __index__(self) -> int:
        return 3


@needs_recent
@pytest.mark.parametrize("name", ["bicgstab", "cg", "cgs", "gmres", "qmr"])
@pytest.mark.parametrize("maxiter", [Count(), np.int8(3), np.array(3), True])
def test_maxiter_is_any_number_that_range_takes_and_is_returned(name: str, maxiter: Any) -> None:
    S, b = sps.diags_array([-np.ones(80), np.full(81, 2.1), -np.ones(80)], offsets=[-1, 0, 1]).tocsr(), np.ones(81)
    for callback in (None, len):
        how = {"rtol": 1e-12, "maxiter": maxiter, "callback": callback}
        how |= {"callback_type": "x", "restart": 5} if name == "gmres" else {}
        x, info = getattr(asp.linalg, name)(asp.csr(S), b, **how)
        y, wanted = getattr(scipy.sparse.linalg, name)(S, b, **how)
        np.testing.assert_allclose(x, y, rtol=1e-8)
        assert info is wanted is maxiter
