"""Tests that cg, cgs, bicgstab and minres equal SciPy's: iterations, results, info, dtypes, callbacks, errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import runtime_api
from hypothesis import given
from hypothesis import strategies as st

import autosparse as asp
from tests.covering import covering
from tests.scipy_versions import needs_recent

pytestmark = [
    pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime"),
    pytest.mark.filterwarnings("ignore:the matrix subclass"),
]

SOLVERS = ("cg", "cgs", "bicgstab", "minres")
WITH_ATOL = ("cg", "cgs", "bicgstab")


@pytest.fixture(autouse=True)
def untuned() -> Iterator[None]:
    """Compute all products by the default kernel: a tuned one, which adds in another order, may begin at any moment."""
    with asp.options(effort="off"):
        yield


def grid(n: int, shift: float = 2.05) -> sps.csr_array:
    """Return a symmetric positive definite matrix of n * n unknowns; it is indefinite for a small `shift`."""
    ones = np.ones(n)
    T = sps.diags_array([-ones[1:], shift * ones, -ones[1:]], offsets=[-1, 0, 1])
    return sps.csr_array(sps.kron(T, sps.eye_array(n)) + sps.kron(sps.eye_array(n), T))


def hermitian(n: int) -> sps.csr_array:
    S = grid(n).astype(complex)
    upper = sps.triu(S, 1)
    return sps.csr_array(upper * 1j + (upper * 1j).conj().T + sps.diags_array(S.diagonal()))


def right_side(n: int, code: str = "d") -> Any:
    rng = np.random.default_rng(n)
    b = rng.standard_normal(n)
    return (b + 1j * rng.standard_normal(n) if code in "FD" else b).astype(code)


def both(name: str, ours: Any, theirs: Any, b: Any, x0: Any = None, **how: Any) -> list[tuple[Any, int, list[Any]]]:
    """Return (x, info, every x that a callback was given) of our solver and of SciPy's."""
    found = []
    for module, A in ((asp.linalg, ours), (scipys, theirs)):
        seen: list[Any] = []
        x, info = getattr(module, name)(A, b, x0, callback=lambda xk, seen=seen: seen.append(xk.copy()), **how)
        found.append((x, info, seen))
    return found


def agree(name: str, ours: Any, theirs: Any, b: Any, x0: Any = None, slack: int = 0, **how: Any) -> None:
    """Check for the same info and dtype, iterations up to `slack`, and iterates that agree up to rounding."""
    (x, info, seen), (y, wanted, theirs_seen) = both(name, ours, theirs, b, x0, **how)
    assert info == wanted
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    assert abs(len(seen) - len(theirs_seen)) <= slack
    scale = np.abs(y).max(initial=0)
    rtol = (
        2e-3
        if np.finfo(np.result_type(x.dtype, getattr(theirs, "dtype", "d"))).eps > 1e-8 or b.dtype.char in "fF"
        else 1e-8
    )
    for one, other in list(zip(seen, theirs_seen, strict=False))[:5]:
        np.testing.assert_allclose(one, other, atol=rtol * np.abs(other).max(), rtol=rtol)
    if not slack:
        np.testing.assert_allclose(x, y, atol=100 * rtol * scale, rtol=0)
    again, info = getattr(asp.linalg, name)(ours, b, x0, **how)
    assert info == wanted
    assert again.tobytes() == x.tobytes(), "without a callback the bits are the same"


def preconditioners(S: Any) -> dict[str, Any]:
    d = 1 / S.diagonal().real
    return {
        "none": None,
        "diagonal": sps.diags_array(d),
        "old diagonal": sps.dia_matrix((d[None, :], [0]), shape=S.shape),
        "operator": scipys.LinearOperator(S.shape, matvec=lambda r: d * r, dtype=d.dtype),
        "matrix": sps.csr_array(sps.diags_array(d)),
    }


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", ["none", "diagonal", "old diagonal", "operator", "matrix"])
def test_preconditioners(name: str, kind: str) -> None:
    scale = sps.diags_array(np.linspace(1, 3, 225))
    # the shift makes iterations independent of the order of sums
    S = sps.csr_array(scale @ grid(15, shift=3.0) @ scale)
    M = preconditioners(S)[kind]
    for x0 in (None, np.linspace(0, 1, 225), "Mb"):
        agree(name, asp.csr(S), S, right_side(225), x0, slack=1 + (name in ("cgs", "bicgstab")), M=M, rtol=1e-6)


@covering(b=["f", "d", "F", "D", "i", ">f"], a=["f", "d", "F", "D", "i", "l"], name=SOLVERS)
def test_dtypes(name: str, a: str, b: str) -> None:
    if name == "minres" and {a, b} & set("FD"):
        return  # SciPy's function computes complex systems
    S = (hermitian(9) if a in "FD" else grid(9, shift=3.0)).astype(a)
    agree(name, asp.csr(S), S, right_side(81, "D" if b in "FD" else "d").astype(b), slack=1, rtol=1e-3)


def operands(S: sps.csr_array) -> dict[str, Any]:
    return {
        "ours": asp.csr(S),
        "ours, columns": asp.csc(S),
        "a matrix of ours": asp.csr(sps.csr_matrix(S)),
        "csr": S,
        "csc": S.tocsc(),
        "coo": S.tocoo(),
        "dia": sps.dia_array(S),
        "dense": S.toarray(),
        "np.matrix": S.todense() if isinstance(S.todense(), np.matrix) else np.asmatrix(S.toarray()),
        "operator": scipys.LinearOperator(S.shape, matvec=lambda x: S @ x, dtype=S.dtype),
        "operator of ours": scipys.aslinearoperator(asp.csr(S)),
        "sum": scipys.aslinearoperator(S) + 0.1 * scipys.LinearOperator(S.shape, matvec=lambda x: x, dtype=S.dtype),
    }


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("kind", operands(grid(2)))
def test_operands(name: str, kind: str) -> None:
    A = operands(grid(9))[kind]
    agree(name, A, A.to_scipy() if hasattr(A, "to_scipy") else A, right_side(81), slack=1, rtol=1e-6)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("maxiter", [0, 1, 3])
def test_iterations_end_at_maxiter(name: str, maxiter: int) -> None:
    agree(name, asp.csr(grid(9)), grid(9), right_side(81), maxiter=maxiter, rtol=1e-12)
    agree(name, asp.csr(grid(9)), grid(9), right_side(81)[:, None], np.ones((81, 1)), maxiter=maxiter, rtol=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_zero_right_side_is_returned_itself(name: str) -> None:
    b = np.zeros(9)
    for x0 in (None, np.ones(9)):
        x, info = getattr(asp.linalg, name)(asp.csr(grid(3)), b, x0)
        y, wanted = getattr(scipys, name)(grid(3), b, x0)
        assert info == wanted
        assert np.shares_memory(x, b) == np.shares_memory(y, b)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_right_side_that_is_not_finite(name: str, bad: float) -> None:
    b = np.ones(9)
    b[4] = bad
    found = []
    for module, A in ((asp.linalg, asp.csr(grid(3))), (scipys, grid(3))):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found.append(getattr(module, name)(A, b, maxiter=5))
    (x, info), (y, wanted) = found
    assert info == wanted
    np.testing.assert_array_equal(np.isfinite(x), np.isfinite(y))


@pytest.mark.parametrize("name", SOLVERS)
def test_right_sides_as_people_hold_them(name: str) -> None:
    """Right sides are unaligned, strided, read-only, an np.matrix, of a subclass of ndarray, a list."""
    plain = right_side(81)
    shifted = np.frombuffer(b"x" + plain.tobytes(), np.uint8)[1:].view(np.float64)
    apart, fixed = np.repeat(plain, 2)[::2], plain.copy()
    fixed.flags.writeable = False
    assert not shifted.flags.aligned
    for b in (shifted, apart, fixed, np.asmatrix(plain).T, np.array(plain).view(type("Sub", (np.ndarray,), {}))):
        agree(name, asp.csr(grid(9)), grid(9), b, slack=1, rtol=1e-6)
        agree(name, asp.csr(grid(9)), grid(9), plain, b, slack=1, rtol=1e-6)
    x, _ = getattr(asp.linalg, name)(asp.csr(grid(9)), plain.tolist())
    np.testing.assert_array_equal(x, getattr(asp.linalg, name)(asp.csr(grid(9)), plain)[0])


@needs_recent
@pytest.mark.parametrize("name", ["cgs", "bicgstab"])
def test_a_breakdown_has_scipys_info(name: str) -> None:
    for A in ([[0.0, 1.0], [-1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[1.0, 2.0], [3.0, -4.0]]):
        for b in ([1.0, 0.0], [1.0, 1.0], [1e-20, 0.0]):
            agree(name, asp.csr(A), np.array(A), np.array(b), rtol=1e-10)


@needs_recent
@pytest.mark.parametrize("name", [*SOLVERS, "gmres"])
@pytest.mark.parametrize("code", "gGO")
@pytest.mark.parametrize("who", ["A", "operator", "dense", "M"])
def test_wider_numbers_and_objects_give_what_scipy_gives(name: str, code: str, who: str) -> None:
    """Check values, dtype, warnings and errors where A or M has long double numbers or Python's objects."""
    S, b = grid(4), right_side(16)
    wide = S.toarray().astype(code)
    M = scipys.LinearOperator(S.shape, matvec=lambda r: r * wide[0, 0], dtype=code) if who == "M" else None
    operator = scipys.LinearOperator(S.shape, matvec=lambda x: wide @ x, dtype=code)
    theirs = {"A": S.astype("d" if code == "O" else code), "operator": operator, "dense": wide, "M": S}[who]
    ours = asp.csr(theirs) if who in ("A", "M") else theirs
    how = {"M": M, "maxiter": 6}
    found, told = outcome(getattr(asp.linalg, name), ours, b, **how)
    wanted, theirs_told = outcome(getattr(scipys, name), theirs, b, **how)
    assert (type(found), told) == (type(wanted), theirs_told)
    if isinstance(wanted, Exception):
        assert str(found) == str(wanted)
        return
    assert (found[0].dtype, found[1]) == (wanted[0].dtype, wanted[1])
    np.testing.assert_allclose(np.asarray(found[0], complex), np.asarray(wanted[0], complex), rtol=1e-6)


@needs_recent
@pytest.mark.parametrize("name", [*SOLVERS, "gmres", "qmr"])
@pytest.mark.parametrize("at", [0, 1])
def test_an_infinite_entry_gives_scipys_warnings_and_errors(name: str, at: int) -> None:
    S = grid(3)
    S.data[at] = np.inf  # on the diagonal or beside it
    for errors in ("warn", "raise"):
        with np.errstate(over=errors, invalid=errors, divide=errors):
            found, told = outcome(getattr(asp.linalg, name), asp.csr(S), right_side(9), maxiter=8)
            wanted, theirs_told = outcome(getattr(scipys, name), S, right_side(9), maxiter=8)
        assert (type(found), told) == (type(wanted), theirs_told)
        if isinstance(wanted, Exception):
            assert str(found) == str(wanted)
        else:
            assert found[1] == wanted[1]
            np.testing.assert_allclose(found[0], wanted[0], rtol=1e-6)


def outcome(solve: Callable[..., Any], *given: Any, **how: Any) -> tuple[Any, set[type[Warning]]]:
    """Return the result of a call, or the exception it raises, and the categories of its warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = solve(*given, **how)
        except (TypeError, ValueError, AttributeError, FloatingPointError) as error:
            found = error
    return found, {one.category for one in told}


def test_minres_with_a_long_double_shift_has_scipys_dtype() -> None:
    shift = np.longdouble("0.1")
    x, _ = asp.linalg.minres(asp.csr(grid(4)), right_side(16), shift=shift)
    y, _ = scipys.minres(grid(4), right_side(16), shift=shift)
    assert x.dtype == y.dtype
    np.testing.assert_allclose(x.astype(float), y.astype(float), rtol=1e-6)


@needs_recent
@pytest.mark.parametrize("name", WITH_ATOL)
@pytest.mark.parametrize("atol", [None, "legacy", -1.0])
def test_atol_is_refused_as_scipy_does(name: str, atol: Any) -> None:
    same_error(name, grid(3), np.ones(9), atol=atol)


def same_error(name: str, A: Any, b: Any, *more: Any, **how: Any) -> None:
    with pytest.raises(Exception) as wanted:  # noqa: PT011  (any exception that SciPy raises)
        getattr(scipys, name)(A, b, *more, **how)
    ours = asp.csr(A) if sps.issparse(A) else A
    with pytest.raises(TypeError if issubclass(wanted.type, TypeError) else wanted.type) as found:
        getattr(asp.linalg, name)(ours, b, *more, **how)
    if wanted.type is ValueError:
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    ("A", "b", "how"),
    [
        (grid(3)[:4], np.ones(4), {}),
        (grid(3), np.ones(8), {}),
        (grid(3), np.ones((1, 9)), {}),
        (grid(3), np.ones(9), {"x0": np.ones(8)}),
        (grid(3), np.ones(9), {"M": np.eye(8)}),
        (grid(3), np.ones(9), {"x0": "nonsense"}),
        (grid(3), np.ones(9), {"nonsense": 1}),
        (grid(3), np.ones(9), {"maxiter": 2.5}),
        ("no matrix", np.ones(9), {}),
        (lambda x: x, np.ones(9), {}),
        (scipys.LinearOperator((9, 9), matvec=lambda x: 1j * x, dtype="d"), np.ones(9), {}),
    ],
)
def test_errors_are_scipys(name: str, A: Any, b: Any, how: dict[str, Any]) -> None:
    if name == "minres" and ("maxiter" in how or isinstance(A, scipys.LinearOperator)):
        return  # SciPy's minres accepts both
    same_error(name, A, b, **how)


@pytest.mark.parametrize("name", SOLVERS)
def test_an_exception_of_a_callback_passes_and_leaves_nothing(name: str) -> None:
    class StopHereError(Exception):
        pass

    def stop(_: Any) -> None:
        raise StopHereError

    A, b = asp.csr(grid(9)), right_side(81)
    before = b.copy()
    with pytest.raises(StopHereError):
        getattr(asp.linalg, name)(A, b, callback=stop)
    np.testing.assert_array_equal(b, before)
    agree(name, A, grid(9), b, slack=1, rtol=1e-6)


@pytest.mark.parametrize("name", WITH_ATOL)
def test_callbacks_see_and_change_the_live_x(name: str) -> None:
    for module, A in ((asp.linalg, asp.csr(grid(9))), (scipys, grid(9))):
        every: list[Any] = []
        x, _ = getattr(module, name)(A, right_side(81), callback=every.append, maxiter=4)
        assert all(one is x for one in every)


def test_minres_gives_each_callback_an_array_of_its_own() -> None:
    every: list[Any] = []
    x, _ = asp.linalg.minres(asp.csr(grid(9)), right_side(81), callback=every.append, maxiter=4)
    assert every[-1] is x
    assert len({id(one) for one in every}) == 4
    _, _, seen = both("minres", asp.csr(grid(9)), grid(9), right_side(81), maxiter=4)[1]
    np.testing.assert_allclose(every, seen, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 0.3, -2])
@pytest.mark.parametrize("scale", [2.05, 0.7])
def test_minres_shifted_and_indefinite(shift: float, scale: float) -> None:
    agree("minres", asp.csr(grid(9, scale)), grid(9, scale), right_side(81), shift=shift, rtol=1e-9, slack=1)


def test_minres_singular_and_inconsistent() -> None:
    S = sps.csr_array(np.diag(np.r_[np.arange(1.0, 8.0), 0.0]))
    agree("minres", asp.csr(S), S, np.r_[np.ones(7), 0.0], rtol=1e-8)
    (_, info, seen), (_, wanted, theirs) = both("minres", asp.csr(S), S, np.ones(8), rtol=1e-8)
    assert info == wanted
    assert abs(len(seen) - len(theirs)) <= 1


@pytest.mark.parametrize(
    ("A", "M", "check"),
    [
        (np.array([[1.0, 2.0], [0.0, 1.0]]), None, True),
        (np.eye(2), np.array([[1.0, 2.0], [0.0, 1.0]]), True),
        (np.eye(2), -np.eye(2), False),
        (np.diag([1.0, 2.0]), np.diag([1.0, -0.1]), False),
        (np.eye(2), sps.diags_array([-1.0, -2.0]), False),
    ],
)
def test_minres_refuses_what_is_not_symmetric_or_definite(A: Any, M: Any, check: bool) -> None:
    same_error("minres", sps.csr_array(A), np.array([1.0, 2.0]), M=M, check=check)


def test_minres_accepts_what_is_symmetric() -> None:
    agree("minres", asp.csr(grid(5)), grid(5), right_side(25), M=sps.diags_array(1 / grid(5).diagonal()), check=True)


def test_minres_shows_what_scipy_shows(capsys: pytest.CaptureFixture[str]) -> None:
    scipys.minres(grid(3), np.ones(9), show=True)
    wanted = capsys.readouterr().out
    asp.linalg.minres(asp.csr(grid(3)), np.ones(9), show=True)
    assert capsys.readouterr().out[:200] == wanted[:200] != ""


@pytest.mark.parametrize("name", SOLVERS)
def test_bits_do_not_depend_on_threads(name: str) -> None:
    S, found = grid(70), []
    for threads in (1, 2, 3):
        with asp.options(threads=threads, effort="off"):
            found.append(getattr(asp.linalg, name)(asp.csr(S), right_side(4900), maxiter=20)[0].tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize("name", SOLVERS)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), density=st.floats(0.1, 1))
def test_small_systems(name: str, seed: int, n: int, density: float) -> None:
    """Use positive definite systems, and compare info and the true residual."""
    rng = np.random.default_rng(seed)
    B = sps.random_array((n, n), density=density, random_state=rng)
    S, b = sps.csr_array(B @ B.T + n * sps.eye_array(n)), rng.standard_normal(n)
    solve: Callable[..., Any] = getattr(asp.linalg, name)
    (x, info), (y, wanted) = solve(asp.csr(S), b, rtol=1e-9), getattr(scipys, name)(S, b, rtol=1e-9)
    assert info == wanted
    mine, theirs = np.linalg.norm(b - S @ x), np.linalg.norm(b - S @ y)
    assert mine <= 1.05 * max(theirs, (1e-9 if name != "minres" else 1e-7) * np.linalg.norm(b)) + 1e-14
