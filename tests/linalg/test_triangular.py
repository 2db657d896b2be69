"""Tests that `spsolve_triangular` equals SciPy's function, whatever the pattern, the layout and the threads."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps
import scipy.sparse.linalg
from autosparse._native import runtime_api
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import LinAlgError

import autosparse as asp
from autosparse.linalg.triangular import triangle
from tests.native.hooks import needs_hooks
from tests.scipy_versions import needs_recent

pytestmark = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")
SCIPYS = scipy.sparse.linalg.spsolve_triangular
COLUMNS = (None, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33)


def system(n: int, code: str, density: float = 0.1, seed: int = 0) -> sps.csr_array:
    """Return a full matrix with a dominant diagonal."""
    rng = np.random.default_rng(seed)
    S = sps.random_array((n, n), density=density, random_state=rng, data_sampler=lambda size: rng.uniform(-1, 1, size))
    S = S + (1j * S.T if code in "FD" else 0 * S)
    return sps.csr_array(S + sps.diags_array(np.linspace(2, 4, n) * (1 + density * n))).astype(code)


def half(S: Any, *, lower: bool, fmt: str = "csr") -> Any:
    return (sps.tril if lower else sps.triu)(S).asformat(fmt)


def right_side(n: int, k: int | None, code: str, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    b = rng.standard_normal((n,) if k is None else (n, k))
    return (b + 1j * rng.standard_normal(b.shape) if code in "FD" else b).astype(code)


def assert_same(x: Any, wanted: Any) -> None:
    assert (x.shape, x.dtype) == (wanted.shape, wanted.dtype)
    scale = np.abs(wanted).max(initial=1, where=np.isfinite(wanted))
    np.testing.assert_allclose(x, wanted, rtol=0, atol=500 * np.finfo(x.dtype).eps * scale)


@needs_recent
@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("code", "fdFD")
@pytest.mark.parametrize("lower", [True, False])
def test_solutions_equal_scipys(lower: bool, code: str, fmt: str) -> None:
    T = half(system(60, code), lower=lower, fmt=fmt)
    for k in COLUMNS:
        for unit in (False, True):
            b, how = right_side(60, k, code), {"lower": lower, "unit_diagonal": unit}
            wanted = SCIPYS(T, b, **how)
            assert_same(asp.linalg.spsolve_triangular(T, b, **how), wanted)
            A = getattr(asp, fmt)(T)
            assert_same(asp.linalg.spsolve_triangular(A, b, **how), wanted)
            assert_same(asp.linalg.spsolve_triangular(A.T, b, lower=not lower, unit_diagonal=unit), SCIPYS(
                T.T, b, lower=not lower, unit_diagonal=unit
            ))  # fmt: skip


@needs_recent
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("code", "?bBhHiIlLqQfdFD")
def test_dtypes_equal_scipys(code: str, unit: bool) -> None:
    L = sps.csr_array(np.eye(4) if code == "?" else np.tril(np.ones((4, 4)))).astype(code)
    for other in "?bhlQfdFDe":
        b = np.arange(4).astype(other)
        wanted = SCIPYS(L, b, unit_diagonal=unit)
        for A in (L, asp.csr(L), asp.csc(L.tocsc())):
            assert_same(asp.linalg.spsolve_triangular(A, b, unit_diagonal=unit), wanted)


@needs_recent
@pytest.mark.parametrize(("a", "b"), [("g", "d"), ("d", "g"), ("G", "d")])
def test_long_doubles_are_refused_as_by_scipy(a: str, b: str) -> None:
    L = sps.eye_array(3, format="csr").astype(a)
    with pytest.raises(TypeError, match="SuperLU"):
        asp.linalg.spsolve_triangular(L, np.ones(3).astype(b))


@needs_recent
def test_one_warning_where_scipys_function_computes() -> None:
    with pytest.warns(sps.SparseEfficiencyWarning) as seen, pytest.raises(TypeError):
        asp.linalg.spsolve_triangular(np.eye(2), np.ones(2).astype("g"))
    assert len(seen) == 1


def same_error(*arguments: Any, **how: Any) -> None:
    with pytest.raises((ValueError, LinAlgError)) as theirs:
        SCIPYS(*arguments, **how)
    with pytest.raises(type(theirs.value)) as ours:
        asp.linalg.spsolve_triangular(*arguments, **how)
    assert str(ours.value) == str(theirs.value)


@needs_recent
@pytest.mark.filterwarnings("ignore:CSC or CSR matrix format:scipy.sparse.SparseEfficiencyWarning")
def test_errors_are_scipys() -> None:
    L = sps.csr_array(np.tril(np.ones((3, 3))))
    same_error(L[:, :2].tocsc(), np.ones(3))
    same_error(sps.csr_array([1.0, 2.0]), np.ones(2))
    for b in (np.ones(4), np.ones((3, 1, 1)), np.float64(1)):
        same_error(L, b)
    for fmt in ("csr", "csc"):
        for lower in (True, False):
            same_error(sps.csr_array((3, 3)).asformat(fmt), np.ones(3), lower=lower)
            zero = half(sps.csr_array(np.ones((3, 3))), lower=lower, fmt=fmt)
            zero[1, 1] = 0
            same_error(zero, np.ones(3), lower=lower)
            same_error(asp.csr(zero.tocsr()), np.ones(3), lower=lower)


@pytest.mark.parametrize("fmt", ["csr", "csc"])
@pytest.mark.parametrize("lower", [True, False])
def test_entries_on_the_other_side_are_refused_unless_they_are_zero(lower: bool, fmt: str) -> None:
    S = sps.csr_array(np.ones((3, 3))).asformat(fmt)
    with pytest.raises(LinAlgError, match=r"is not (lower|upper) triangular"):
        asp.linalg.spsolve_triangular(S, np.ones(3), lower=lower)
    S.data[:] = (np.tril if lower else np.triu)(np.ones((3, 3))).ravel("C" if fmt == "csr" else "F")
    T = half(S, lower=lower)
    assert_same(asp.linalg.spsolve_triangular(S, np.ones(3), lower=lower), SCIPYS(T, np.ones(3), lower=lower))


@pytest.mark.parametrize("A", [sps.coo_array(np.eye(2)), np.eye(2), [[1.0, 0.0], [0.0, 1.0]]])
def test_other_formats_warn_as_scipy_does(A: Any) -> None:
    with pytest.warns(sps.SparseEfficiencyWarning, match="CSC or CSR matrix format is required") as seen:
        x = asp.linalg.spsolve_triangular(A, np.ones(2))
    assert [one.filename for one in seen] == [__file__]
    np.testing.assert_array_equal(x, np.ones(2))


def test_compressed_formats_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asp.linalg.spsolve_triangular(sps.eye_array(3, format="csr"), np.ones(3))
        asp.linalg.spsolve_triangular(asp.csc(sps.eye_array(3, format="csc")), np.ones(3), unit_diagonal=True)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("unit", [False, True])
def test_tiny_systems(n: int, unit: bool) -> None:
    L = 2 * sps.eye_array(n, format="csr")
    for shape in ((n,), (n, 0), (n, 3)):
        wanted = np.ones(shape) / (1 if unit else 2)
        np.testing.assert_array_equal(asp.linalg.spsolve_triangular(L, np.ones(shape), unit_diagonal=unit), wanted)


def test_nan_and_infinity_pass_through() -> None:
    L = sps.csr_array(np.tril(np.ones((4, 4))))
    L[1, 1] = np.nan
    with np.errstate(all="ignore"):
        for b in (np.ones(4), np.array([1, np.inf, 0, 0])):
            np.testing.assert_array_equal(asp.linalg.spsolve_triangular(L, b), SCIPYS(L, b))


@needs_recent
@pytest.mark.parametrize("unit", [False, True])
def test_solutions_are_of_the_class_of_b_as_scipys(unit: bool) -> None:
    class Own(np.ndarray):
        pass

    T, b = half(system(9, "d"), lower=True), right_side(9, None, "d").view(Own)
    found, wanted = (f(T, b, unit_diagonal=unit) for f in (asp.linalg.spsolve_triangular, SCIPYS))
    assert type(found) is type(wanted)
    assert_same(found, wanted)


@needs_recent
@pytest.mark.parametrize("code", "fdD")
def test_layouts_of_b(code: str) -> None:
    T, b = half(system(30, code), lower=True), right_side(30, 6, code)
    wanted = SCIPYS(T, b)
    read_only = b.copy()
    read_only.flags.writeable = False
    spread = np.zeros((60, 12), code)
    spread[::2, ::2] = b
    for one in (
        np.asfortranarray(b),
        spread[::2, ::2],
        read_only,
        b[::-1].copy()[::-1],
        b.astype(b.dtype.newbyteorder()),
    ):
        before = one.copy()
        assert_same(asp.linalg.spsolve_triangular(asp.csr(T), one, overwrite_b=not one.flags.c_contiguous), wanted)
        np.testing.assert_array_equal(one, before)
    x = asp.linalg.spsolve_triangular(T, b, overwrite_b=True)
    assert_same(x, wanted)
    if code != "f":  # SciPy divides by a diagonal in float32 there
        assert_same(asp.linalg.spsolve_triangular(T, wanted.real.tolist()), SCIPYS(T, wanted.real.tolist()))


@st.composite
def triangles(draw: st.DrawFn) -> tuple[Any, bool, bool]:
    """Draw (matrix, lower, unit); some have duplicates, unsorted or wide indices, or missing diagonal entries."""
    n, code = draw(st.integers(0, 12)), draw(st.sampled_from("fdFD"))
    lower, unit, fmt = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from(["csr", "csc"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = rng.integers(-3, 4, (n, n)) * (rng.random((n, n)) < draw(st.sampled_from([0, 0.2, 0.6, 1]))) / 4
    np.fill_diagonal(dense, rng.integers(-2, 3, n) if draw(st.booleans()) else rng.integers(1, 3, n))
    rows, columns = np.nonzero((np.tril if lower else np.triu)(dense))
    values = dense[rows, columns]
    if draw(st.booleans()):  # each entry in two parts
        rows, columns, values = np.tile(rows, 2), np.tile(columns, 2), np.tile(values / 2, 2)
    if fmt == "csc":
        rows, columns = columns, rows
    order = rng.permutation(rows.size) if draw(st.booleans()) else np.lexsort((columns, rows))
    order = order[np.argsort(rows[order], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    index = draw(st.sampled_from([np.int32, np.int64]))
    arrays = values[order].astype(code), columns[order].astype(index), indptr.astype(index)
    return (sps.csr_array if fmt == "csr" else sps.csc_array)(arrays, shape=(n, n)), lower, unit


@given(triangles(), st.sampled_from([None, 1, 2, 5]))
def test_any_pattern(drawn: tuple[Any, bool, bool], k: int | None) -> None:
    S, lower, unit = drawn
    n, how = S.shape[0], {"lower": lower, "unit_diagonal": unit}
    b = right_side(n, k, S.dtype.char)
    dense = S.toarray()
    if unit:
        np.fill_diagonal(dense, 1)
    A = getattr(asp, S.format)(S, copy=True)
    if not np.diagonal(dense).all():
        for one in (S, A):
            with pytest.raises(LinAlgError, match="singular"):
                asp.linalg.spsolve_triangular(one, b, **how)
        return
    for one in (S, A, A):
        x = asp.linalg.spsolve_triangular(one, b, **how)
        assert x.shape == b.shape
        residual = np.abs(dense @ x - b)
        scale = np.abs(dense) @ np.abs(x) + np.abs(b)
        assert (residual <= 30 * np.finfo(S.dtype).eps * scale).all()


def shared_patterns(n: int, side: int) -> dict[str, Any]:
    """Return triangles of `n` rows (wide levels, one chain, both) and of a grid (small levels)."""
    wide = sps.random_array((n, n), density=8 / n, random_state=np.random.default_rng(3))
    chain = sps.diags_array([np.full(n - 1, 0.5)], offsets=[-1])
    grid = sps.kronsum(*[sps.diags_array([np.ones(side - 1)], offsets=[-1], shape=(side, side))] * 2)
    mixed = sps.block_diag([wide, chain])
    return {
        name: sps.csr_array(sps.tril(one, -1) * 0.3 + sps.diags_array(np.linspace(1, 2, one.shape[0])))
        for name, one in {"wide": wide, "chain": chain, "grid": grid, "mixed": mixed}.items()
    }


# A race detector runs the small patterns alone: on the large ones it takes minutes.
@pytest.fixture(scope="module", params=[(600, 40), (30_000, 250)], ids=["few_rows", "many_rows"])
def patterns(request: pytest.FixtureRequest) -> dict[str, Any]:
    return shared_patterns(*request.param)


@pytest.mark.parametrize("name", ["wide", "chain", "grid", "mixed"])
@pytest.mark.parametrize("code", "fD")
def test_threads_and_forms_do_not_change_bits(patterns: dict[str, Any], name: str, code: str) -> None:
    """Solve by rows, by columns and with any number of threads: each sees the same operations in the same order."""
    S = patterns[name].astype(code)
    for lower, T in ((True, S), (False, S.T.tocsr())):
        for k in (None, 3):
            b, found = right_side(S.shape[0], k, code), []
            for threads in (1, 2, 3):
                for A in (asp.csr(T), asp.csc(T.tocsc()), T):
                    with asp.options(threads=threads):
                        found += [asp.linalg.spsolve_triangular(A, b, lower=lower).tobytes() for _ in range(2)]
            assert len(set(found)) == 1


@needs_hooks
def test_stages_run_on_helpers(patterns: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triangle, "MAX_SHARE", np.inf)  # also where sharing does not pay
    monkeypatch.setattr(triangle, "SYNCHRONIZATION", 0)
    monkeypatch.setattr(triangle, "MIN_WORK", 0)
    runtime_api.lib.asp_force_helpers(1)
    try:
        for T in patterns.values():
            b, columns = right_side(T.shape[0], None, "d"), right_side(T.shape[0], 3, "d")
            wanted = [asp.linalg.spsolve_triangular(T, one) for one in (b, columns)]
            for threads in (2, 3):
                with asp.options(threads=threads):
                    for A in (asp.csr(T), asp.csc(T.tocsc())):
                        for _ in range(5):
                            found = [asp.linalg.spsolve_triangular(A, one) for one in (b, columns)]
                            np.testing.assert_array_equal(found[0], wanted[0])
                            np.testing.assert_array_equal(found[1], wanted[1])
    finally:
        runtime_api.lib.asp_force_helpers(-1)


def test_the_analysis_is_kept_until_the_matrix_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from autosparse.linalg.triangular import substitution

    calls: list[str] = []

    def counted(name: str) -> Any:
        made = getattr(substitution, name)
        return lambda *given: (calls.append(name), made(*given))[1]

    for name in ("_plan_of", "_values_of"):
        monkeypatch.setattr(substitution, name, counted(name))
    T, b = half(system(50, "d"), lower=True), right_side(50, None, "d")
    A = asp.csr(T, copy=True)
    for _ in range(3):
        assert_same(asp.linalg.spsolve_triangular(A, b), SCIPYS(T, b))
    assert calls == ["_plan_of", "_values_of"]
    A.data[:] *= 2
    assert_same(asp.linalg.spsolve_triangular(A, b), SCIPYS(T, b) / 2)
    assert calls == ["_plan_of", "_values_of", "_values_of"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sps.SparseEfficiencyWarning)
        A[40, 2] = 7.0
    assert_same(asp.linalg.spsolve_triangular(A, b), SCIPYS(sps.csr_array(A), b))
    assert calls[-2:] == ["_plan_of", "_values_of"]
    A.data[A.indptr[5] - 1] = 0
    with pytest.raises(LinAlgError, match="singular"):
        asp.linalg.spsolve_triangular(A, b)


def test_structures_out_of_bounds_are_refused() -> None:
    T = half(system(5, "d"), lower=True)
    A = asp.csr(T, copy=True)
    A.indices[0] = 99
    with pytest.raises(ValueError, match="indices must be <"):
        asp.linalg.spsolve_triangular(A, np.ones(5))


def test_a_trace_says_in_which_order_rows_are_eliminated(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = shared_patterns(30_000, 2)
    monkeypatch.setattr(triangle, "MAX_SHARE", np.inf)
    A, b = asp.csr(patterns["chain"]), np.ones(patterns["chain"].shape[0])
    with asp.linalg.trace() as solves, asp.options(threads=2):
        asp.linalg.spsolve_triangular(A, b)
        asp.linalg.spsolve_triangular(asp.csr(patterns["wide"]), b)
    assert "30,000 levels, too many for threads" in str(solves[0])
    assert "stages" in str(solves[1])
    assert solves[0].solver == "spsolve_triangular"


def test_without_the_runtime_scipys_function_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_api, "available", False)
    T, b = half(system(9, "d"), lower=True), right_side(9, None, "d")
    np.testing.assert_array_equal(asp.linalg.spsolve_triangular(T, b), SCIPYS(T, b))


def test_install_leads_scipys_name_here() -> None:
    asp.install()
    try:
        assert scipy.sparse.linalg.spsolve_triangular is not SCIPYS
        T, b = half(system(9, "d"), lower=True), right_side(9, None, "d")
        assert_same(scipy.sparse.linalg.spsolve_triangular(T, b), SCIPYS(T, b))
    finally:
        asp.uninstall()
    assert scipy.sparse.linalg.spsolve_triangular is SCIPYS
