"""Tests that lsqr and lsmr equal SciPy's: returned values, iterations, printed lines, errors."""

from __future__ import annotations

import re
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
from autosparse.linalg.least_squares.bidiagonal import LeastSquaresSystem
from tests.scipy_versions import needs_recent

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

SOLVERS = ("lsqr", "lsmr")
LIMIT = {"lsqr": "iter_lim", "lsmr": "maxiter"}
VAGUE = {"lsqr": {5, 6, 7, 9}, "lsmr": {4, 5, 6}}
"""Positions of results that rounding changes: norm and condition of A, gradient norm near 0, variances."""


def matrix(m: int, n: int, code: str = "d") -> sps.csr_array:
    """Return a well-conditioned matrix, for which rounding does not change iterations."""
    rng = np.random.default_rng(m * n)
    S = sps.random_array((m, n), density=0.2, random_state=rng) + 4 * sps.eye_array(m, n)
    return sps.csr_array(
        S + 1j * sps.random_array((m, n), density=0.2, random_state=rng) if code in "FD" else S
    ).astype(code)


def right_side(m: int, code: str = "d") -> Any:
    rng = np.random.default_rng(m)
    b = rng.standard_normal(m)
    return (b + 1j * rng.standard_normal(m) if code in "FD" else b).astype(code)


def agree(name: str, ours: Any, theirs: Any, b: Any, **how: Any) -> None:
    """Check for equal results of the same types."""
    found, wanted = getattr(asp.linalg, name)(ours, b, **how), getattr(scipys, name)(theirs, b, **how)
    single = np.result_type(b.dtype, theirs.dtype).char in "fF"
    assert len(found) == len(wanted)
    assert found[1] == wanted[1], "istop"
    assert abs(found[2] - wanted[2]) <= single, "itn"
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if not single or place == 0:  # SciPy's types of float32 results depend on the values
            assert type(one) is type(other), (place, one, other)
            assert np.asarray(one).dtype == np.asarray(other).dtype
        if found[2] == wanted[2] and not (single and place in VAGUE[name]):
            rtol = 2e-2 if single or place in VAGUE[name] else 1e-6
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-3 * rtol * (1 + np.abs(other).max(initial=0)))


NUMBER = re.compile(r"[-+]?\d+\.(\d+)(?:e([-+]\d+))?")
"""A printed number with a fraction: its decimals and its exponent."""


def assert_printed_alike(found: str, wanted: str) -> None:
    """Check for equal texts whose numbers differ by no more than a unit of the last digit, which rounding changes."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", wanted)
    for one, other in zip(NUMBER.finditer(found), NUMBER.finditer(wanted), strict=True):
        units = [10.0 ** (int(each[2] or 0) - len(each[1])) for each in (one, other)]
        assert len(one[0]) == len(other[0])
        assert abs(float(one[0]) - float(other[0])) < 1.5 * max(units), (one[0], other[0])


@needs_recent
def test_types_in_single_precision() -> None:
    for code in "fF":
        S, b = matrix(30, 20, code), right_side(30, code)
        for name in SOLVERS:
            for side in (b, 0 * b):
                found, wanted = getattr(asp.linalg, name)(asp.csr(S), side), getattr(scipys, name)(S, side)
                assert [type(one) for one in found] == [type(one) for one in wanted]


SHAPES = [(30, 20), (20, 30), (25, 25), (3, 1), (1, 3), (1, 1), (200, 90)]


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize("shape", SHAPES)
def test_all_results(name: str, code: str, shape: tuple[int, int]) -> None:
    S, b = matrix(*shape, code), right_side(shape[0], code)
    tight = {"atol": 1e-3, "btol": 1e-3} if code in "fF" else {}
    x0 = np.linspace(0, 1, shape[1]).astype(np.result_type(code, np.float64))
    assert LeastSquaresSystem.of(S, b, None, None) is not None, "the solver is ours, not SciPy's"
    for how in (
        {},
        {"damp": 0.3},
        {"x0": x0},
        {"x0": x0, "damp": 0.1},
        {LIMIT[name]: 3},
        {"conlim": 1.5},
        {"conlim": 0},
    ):
        agree(name, asp.csr(S), S, b, **{**tight, **how})
    if shape[0] > 1:
        agree(name, asp.csr(S), S, b[:, None], **tight)


@pytest.mark.parametrize("code", "dD")
@pytest.mark.parametrize("damp", [0.0, 0.5])
def test_estimated_variances(code: str, damp: float) -> None:
    agree("lsqr", asp.csr(matrix(30, 20, code)), matrix(30, 20, code), right_side(30, code), calc_var=True, damp=damp)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("a", ["f", "d", "F", "D", "i"])
@pytest.mark.parametrize("b", ["f", "d", "F", "D", "i", ">d"])
def test_mixed_dtypes(name: str, a: str, b: str) -> None:
    S = sps.csr_array(matrix(30, 20, "D" if a in "FD" else "d").astype(a))
    side = (right_side(30, "D" if b in "FD" else "d") * 10).astype(b)
    if name == "lsmr" and a in "FD" and b not in "FD":
        return same_error(name, S, side)  # SciPy adds to the real b in place and raises
    return agree(name, asp.csr(S), S, side, atol=1e-3, btol=1e-3)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("code", "fF")
def test_dtype_of_damped_solves_from_a_guess_in_single_precision(name: str, code: str) -> None:
    S, b, x0 = matrix(30, 20, code), right_side(30, code), np.ones(20, code)
    agree(name, asp.csr(S), S, b, x0=x0, damp=0.5, atol=1e-3, btol=1e-3)


def operands(S: sps.csr_array) -> dict[str, Any]:
    return {
        "ours": asp.csr(S),
        "ours, columns": asp.csc(S),
        "ours, transposed": asp.csr(sps.csr_array(S.T)).T,
        "csr": S,
        "coo": S.tocoo(),
        "dense": S.toarray(),
        "operator": scipys.LinearOperator(
            S.shape, matvec=lambda x: S @ x, rmatvec=lambda x: S.conj().T @ x, dtype=S.dtype
        ),
        "operator of ours": scipys.aslinearoperator(asp.csr(S)),
    }


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("code", "dD")
@pytest.mark.parametrize("kind", operands(matrix(2, 2)))
def test_operands(name: str, code: str, kind: str) -> None:
    S = matrix(40, 30, code)
    agree(name, operands(S)[kind], S, right_side(40, code))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("code", "fdFD")
def test_zero_right_sides_and_zero_matrices(name: str, code: str) -> None:
    S, b, x0 = matrix(30, 20, code), right_side(30, code), np.ones(20, np.result_type(code, np.float64))
    agree(name, asp.csr(S), S, 0 * b)
    agree(name, asp.csr(S), S, 0 * b, x0=x0)
    agree(name, asp.csr(0 * S), 0 * S, b)
    agree(name, asp.csr(0 * S), 0 * S, b, x0=x0)
    whole = sps.csr_array(np.round(S.toarray() * 8)).astype(code)  # small integers, so that products are exact
    agree(name, asp.csr(whole), whole, whole @ x0.astype(code), x0=x0)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    "how", [{}, {"damp": 0.5}, {"x0": np.ones(40)}, {"atol": 1e-3}, {"calc_var": True}, {"limit": 4}]
)
@pytest.mark.parametrize("factor", [0, 1])
def test_show_prints_the_output_of_scipy(
    name: str, how: dict[str, Any], factor: int, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "lsmr" and "calc_var" in how:
        return
    how = {LIMIT[name] if key == "limit" else key: value for key, value in how.items()}
    S, b = matrix(300, 40), right_side(300) * factor
    getattr(scipys, name)(S, b, show=True, **how)
    wanted = capsys.readouterr().out
    getattr(asp.linalg, name)(asp.csr(S), b, show=True, **how)
    assert_printed_alike(capsys.readouterr().out, wanted)
    getattr(asp.linalg, name)(asp.csr(S), b, **how)
    assert capsys.readouterr().out == ""


def same_error(name: str, A: Any, b: Any, **how: Any) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  (any exception that SciPy raises)
        getattr(scipys, name)(A, b, **how)
    with pytest.raises(wanted.type) as found:
        getattr(asp.linalg, name)(A, b, **how)
    assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize(("a", "b"), ["df", "ff", "dd", "DF", "FF"])
@pytest.mark.parametrize("shape", [(30, 30), (40, 25)])
@pytest.mark.parametrize("name", SOLVERS)
def test_solves_without_tolerances_end_at_the_precision_of_b(name: str, shape: tuple[int, int], a: str, b: str) -> None:
    """Check the length of solves that only the precision ends: SciPy computes the norm of b in the dtype of b."""
    m, right = matrix(*shape, a), right_side(shape[0], b)
    how = {"atol": 0, "btol": 0, "conlim": 0, LIMIT[name]: 400}
    wanted = getattr(scipys, name)(m, right, **how)
    found = getattr(asp.linalg, name)(asp.csr(m), right, **how)
    assert found[1] == wanted[1] < 7
    assert abs(found[2] - wanted[2]) <= 2


@pytest.mark.parametrize("name", SOLVERS)
def test_errors_are_scipys(name: str) -> None:
    S = matrix(30, 20)
    same_error(name, S, np.ones(29))
    same_error(name, S, np.ones((30, 2)))
    same_error(name, S, np.ones(30), x0=np.ones(19))
    same_error(name, "no matrix", np.ones(30))
    same_error(name, lambda x: x, np.ones(30))
    same_error(name, S, np.ones(30), nonsense=1)
    same_error(name, scipys.LinearOperator((30, 20), matvec=lambda x: S @ x, dtype="d"), np.ones(30))


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("factor", [1e-200, 1e-160, 1e160, 1e200, np.inf, np.nan])
@pytest.mark.parametrize("part", ["A", "b"])
def test_numbers_at_the_ends_of_the_range(name: str, factor: float, part: str) -> None:
    """Python's floats raise in this range, so SciPy's function computes."""
    S, b = matrix(20, 10), right_side(20)
    S, b = (S * factor, b) if part == "A" else (S, b * factor)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = getattr(scipys, name)(S, b)
        found = getattr(asp.linalg, name)(asp.csr(S), b)
    assert found[1:3] == wanted[1:3]
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-3, atol=1e-3 * np.abs(wanted[0]).max())


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("code", "fdFD")
def test_bits_do_not_depend_on_threads(name: str, code: str) -> None:
    rng = np.random.default_rng(0)
    S = sps.csr_array(
        sps.random_array((9000, 6000), density=1e-3, random_state=rng) + 4 * sps.eye_array(9000, 6000)
    ).astype(code)
    b, found = right_side(9000, code), []
    for threads in range(1, 6):
        with asp.options(threads=threads, effort="off", deterministic=True):
            results = getattr(asp.linalg, name)(asp.csr(S), b, **{LIMIT[name]: 6})
        found.append(b"".join(np.asarray(one).tobytes() for one in results))
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", SOLVERS)
def test_arguments_are_left_alone(name: str) -> None:
    S, b, x0 = matrix(30, 20), right_side(30), np.ones(20)
    before = S.copy(), b.copy()
    x, *_ = getattr(asp.linalg, name)(S, b, x0=x0)
    assert not np.shares_memory(x, x0)
    assert (x0 == 1).all()
    assert (b == before[1]).all()
    assert (before[0] != S).nnz == 0


@pytest.mark.parametrize("name", SOLVERS)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 10), n=st.integers(1, 10), density=st.floats(0.1, 1))
def test_small_systems(name: str, seed: int, m: int, n: int, density: float) -> None:
    """Use systems that may be singular or inconsistent.

    Iterations may differ by 3 from SciPy's for some order of rows and columns, the residual by 5 %. Five orders are
    solved, and more where these do not show SciPy's range.
    """
    rng = np.random.default_rng(seed)
    A, b = sps.random_array((m, n), density=density, random_state=rng).toarray(), rng.standard_normal(m)
    how: dict[str, Any] = {"atol": 1e-8, "btol": 1e-8, "conlim": 0, LIMIT[name]: 60}
    itns, sizes = [], [1e-6 * np.linalg.norm(b)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        x, _, itn, *_ = getattr(asp.linalg, name)(asp.csr(A), b, **how)
        size = np.linalg.norm(b - A @ x)
        for at in range(100):
            rows, columns = rng.permutation(m), rng.permutation(n)
            y, _, found, *_ = getattr(scipys, name)(A[np.ix_(rows, columns)], b[rows], **how)
            itns.append(found)
            sizes.append(np.linalg.norm(b[rows] - A[np.ix_(rows, columns)] @ y))
            is_within = min(itns) - 3 <= itn <= max(itns) + 3 and size <= 1.05 * max(sizes)
            if at >= 4 and is_within:
                break
    assert is_within, (itns, itn, sizes, size)


@pytest.mark.parametrize("name", SOLVERS)
def test_without_the_runtime_scipy_solves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_api, "available", False)
    monkeypatch.setattr(python_objects, "has_runtime", False)
    assert LeastSquaresSystem.of(matrix(30, 20), np.ones(30), None, None) is None
    found, wanted = (getattr(one, name)(matrix(30, 20), np.ones(30)) for one in (asp.linalg, scipys))
    np.testing.assert_array_equal(found[0], wanted[0])


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("x0", [None, np.zeros(3, int), np.ones(3, "f")])
@pytest.mark.parametrize("b", [np.zeros(3), np.ones(3), np.ones(3, "f"), np.ones(3, "F")])
def test_types_where_no_iteration_runs(name: str, x0: Any, b: Any) -> None:
    S = sps.csr_array((3, 3), dtype="d")
    found, wanted = (getattr(library, name)(A, b, x0=x0) for library, A in ((asp.linalg, asp.csr(S)), (scipys, S)))
    assert [(type(one), np.asarray(one).dtype) for one in found] == [
        (type(one), np.asarray(one).dtype) for one in wanted
    ]
    np.testing.assert_array_equal(found[0], wanted[0])


def warned(solver: Any, A: Any, b: Any, **how: Any) -> set[tuple[type[Warning], str]]:
    """Return class and text of the warnings of a solve."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solver(A, b, **how)
    return {(one.category, str(one.message)) for one in caught}


@pytest.mark.parametrize("code", ["f", "d", "F", "D"])
@pytest.mark.parametrize("maxiter", [0, 1, 2, 50])
def test_lsmr_warns_as_scipys_does(code: str, maxiter: int) -> None:
    m = sps.random_array((30, 20), density=0.3, random_state=np.random.default_rng(8), format="csr").astype(code)
    b = np.random.default_rng(9).standard_normal(30).astype(code)
    expected = warned(scipys.lsmr, m, b, maxiter=maxiter)
    assert warned(asp.linalg.lsmr, asp.csr(m, copy=True), b, maxiter=maxiter) == expected
