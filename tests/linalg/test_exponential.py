"""Tests that `expm_multiply` equals SciPy's within its error bounds, for matrices, operators, times and dtypes."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sps
import scipy.sparse.linalg as scipys
from autosparse._native import python_objects, runtime_api

import autosparse as asp
from autosparse.dispatch import state as dispatch_state
from autosparse.linalg import exponential
from tests.covering import covering
from tests.native.hooks import on_several_threads

needs_runtime = pytest.mark.skipif(not runtime_api.available, reason="needs the C runtime")

TIMES: list[dict[str, Any]] = [
    {},
    {"traceA": 0.3},
    {"start": 0, "stop": 1, "num": 3},
    {"start": 0.5, "stop": 2, "num": 7, "endpoint": False},
    {"start": 0, "stop": 0.5, "num": 40},
    {"start": -0.2, "stop": 0.3, "num": 11},
]


def matrix(n: int, code: str, scale: float = 1.0) -> sps.csr_array:
    S = sps.random_array((n, n), density=0.3, random_state=np.random.default_rng(n)) * scale
    S = S * (1 + 0.5j) if code in "FD" else S
    return sps.csr_array(sps.csr_array(np.round(S.toarray() % 1)) if code == "l" else S).astype(code)


def block(shape: tuple[int, ...], code: str) -> Any:
    rng = np.random.default_rng(7)
    B = rng.standard_normal(shape)
    return (B + 1j * rng.standard_normal(shape) if code in "FD" else B * (10 if code == "l" else 1)).astype(code)


def agree(A: Any, theirs: Any, B: Any, **times: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found, wanted = asp.linalg.expm_multiply(A, B, **times), scipys.expm_multiply(theirs, B, **times)
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    eps = max(np.finfo(one).eps for one in (wanted.dtype, theirs.dtype, B.dtype) if np.dtype(one).kind in "fc")
    size = max(np.abs(wanted).max(initial=0), np.abs(B).max(initial=0))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=300 * eps * size)


@needs_runtime
@covering(of_A="fdFDl", of_B="fdDl", times=range(len(TIMES)))
def test_equals_scipy(of_A: str, of_B: str, times: int) -> None:
    for n, scale in ((1, 1.0), (5, 0.0), (12, 0.01), (30, 3.0)):
        S = matrix(n, of_A, scale)
        for shape in ((n,), (n, 1), (n, 3)):
            B = block(shape, of_B)
            agree(asp.csr(S), S, B, **TIMES[times])
            agree(S.toarray(), S.toarray(), B, **TIMES[times])


@needs_runtime
@pytest.mark.parametrize("times", TIMES)
def test_operators_equal_scipy(times: dict[str, Any]) -> None:
    S = matrix(20, "d", 2.0)
    operator = scipys.aslinearoperator(S)
    agree(operator, operator, block((20, 3), "d"), **{**times, "traceA": S.trace()})
    with pytest.warns(UserWarning, match="Trace of LinearOperator not available"):
        found = asp.linalg.expm_multiply(operator, block((20,), "d"))
    np.testing.assert_allclose(found, scipy.linalg.expm(S.toarray()) @ block((20,), "d"), rtol=1e-10)


@needs_runtime
@pytest.mark.parametrize("convert", [sps.csr_array, sps.csc_array, sps.coo_array, sps.csr_matrix, sps.dia_array])
def test_formats_equal_scipy(convert: Any) -> None:
    S = convert(matrix(15, "d"))
    agree(S, S, block((15, 2), "d"))
    agree(S, S, block((15,), "d"), start=0, stop=2, num=9)


@needs_runtime
def test_a_large_shift_is_subtracted_from_the_matrix() -> None:
    """Eigenvalues near 1e6 differ by 1: a shift within the products would lose six digits."""
    S = sps.csr_array(matrix(30, "d") - sps.eye_array(30) * 1e6)
    B = block((30,), "d")
    found = asp.linalg.expm_multiply(asp.csr(S), B, traceA=-30e6) * np.exp(100.0)
    wanted = scipys.expm_multiply(S, B, traceA=-30e6) * np.exp(100.0)
    np.testing.assert_array_equal(found, wanted)
    shifted = exponential._Shifted.of(asp.csr(S), None, n_probes=1)
    assert shifted.shift == 0
    assert abs(shifted.A.trace()) < 1


@needs_runtime
@pytest.mark.parametrize("code", ["b", "f", "d", "D"])
def test_norms_are_those_of_the_difference_and_one_pass_reads_the_diagonal(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exponential, "COLUMN_SUM_BLOCK", 1)
    S = sps.csr_array(np.random.default_rng(3).integers(-128, 5, (40, 40)).astype(code))
    S.setdiag(np.full(40, -128, code))
    A, reads, diagonal = asp.csr(S), [], asp.csr_array.diagonal
    monkeypatch.setattr(asp.csr_array, "diagonal", lambda *given: reads.append(1) or diagonal(*given))
    shifted = exponential._Shifted.of(A, None, n_probes=1)
    wide = S.toarray().astype(np.result_type(code, float))
    assert shifted.mu == pytest.approx(np.trace(wide) / 40, rel=1e-6)
    assert shifted.one_norm == pytest.approx(np.abs(wide - shifted.mu * np.eye(40)).sum(axis=0).max(), rel=1e-6)
    assert len(reads) == 1


@needs_runtime
def test_parameters_are_scipys_where_norms_must_be_estimated() -> None:
    """With many columns and a large norm, m and s follow from estimated norms of powers."""
    n = 400
    S = sps.csr_array(sps.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))) * 40
    B = block((n, 6), "d")
    norms = exponential._Norms(exponential._Shifted.of(asp.csr(S), None, n_probes=1), 1.0)
    terms, steps = exponential._terms_and_steps(norms, 6)
    assert norms._d
    assert terms * steps < 55 * np.ceil(160 / 9.9) * 1.5
    agree(asp.csr(S), S, B)


@needs_runtime
@pytest.mark.parametrize("code", "fdFD")
def test_same_bits_for_any_number_of_threads(code: str) -> None:
    n = 6000
    S = sps.csr_array(sps.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))).astype(code)
    A, B, found = asp.csr(S), block((n, 3), code), []
    for threads in (1, 2, 3):
        with asp.options(threads=threads, deterministic=True, effort="off"), on_several_threads():
            found.append(asp.linalg.expm_multiply(A, B).tobytes())
    assert found[0] == found[1] == found[2]


@needs_runtime
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("code", "fdFD")
def test_taylor_steps_equal_numpy(code: str, k: int) -> None:
    for n in (0, 1, 31, 33, 5000):
        Q, B, F = (block((n, k), code) + i for i in range(3))
        Q, B, F = (one.astype(code) for one in (Q, B, F))
        shift = 0.5 + (0.25j if code in "FD" else 0)
        want_Q = (0.3 * (Q - shift * B)).astype(code)
        want_F = F + want_Q
        ffi, lib, pointer = runtime_api.ffi, runtime_api.lib, runtime_api.pointer
        norms = ffi.new("double[2]")
        pair, dtype = ffi.new("double[2]", [shift.real, complex(shift).imag]), runtime_api.DTYPE_CODES[Q.dtype.name]
        assert lib.asp_taylor_step(dtype, n, k, pointer(Q), pointer(B), pointer(F), 0.3, pair, norms, 2) == 0
        eps = np.finfo(code).eps
        np.testing.assert_allclose(Q, want_Q, rtol=10 * eps, atol=10 * eps)
        np.testing.assert_allclose(F, want_F, rtol=10 * eps, atol=10 * eps)
        wanted = [np.abs(one).sum(axis=1).max(initial=0) for one in (want_Q, want_F)]
        np.testing.assert_allclose(list(norms), wanted, rtol=100 * eps)
        if n:
            Q[-1, 0] = np.nan
            assert lib.asp_taylor_add(dtype, n, k, pointer(Q), pointer(B), pointer(F), 2.0, norms, 2) == 0
            assert np.isnan(norms[0])


@pytest.mark.skipif(python_objects.FastCall is None, reason="needs the extension module")
@pytest.mark.parametrize("k", [None, 1, 3])
def test_terms_are_products_by_fast_calls(monkeypatch: pytest.MonkeyPatch, k: int | None) -> None:
    monkeypatch.setattr(dispatch_state, "FIRST_FAST_PATH", 2)
    S = matrix(60, "d")
    A, B = asp.csr(S), block((60,) if k is None else (60, k), "d")
    with asp.options(effort="off"):
        for _ in range(2):
            found = asp.linalg.expm_multiply(A, B)
    state = A._cell.dispatcher.hot[k or 1, False]
    assert state.fast_path.run is A._cell.fast_path
    assert state.fast_path.has_served
    np.testing.assert_allclose(found, scipys.expm_multiply(S, B), rtol=1e-10)


@pytest.mark.parametrize("code", "fdFDi")
def test_a_multiple_of_the_identity_gives_scipys_dtype(code: str) -> None:
    """The series then has no terms, and only the trace and B decide."""
    for A, trace, B in itertools.product((np.zeros((3, 3)), 2 * np.eye(3)), (None, 0, 6.0, 6j), "fdFi"):
        S, right = sps.csr_array(A.astype(code)), np.arange(3).astype(B)
        if trace is None or abs(trace) == abs(A.trace()):
            wanted = scipys.expm_multiply(S, right, traceA=trace)
            found = asp.linalg.expm_multiply(asp.csr(S), right, traceA=trace)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_unsupported_calls_go_to_scipy() -> None:
    S = matrix(6, "d")
    B = sps.csr_array(block((6, 2), "d"))
    np.testing.assert_allclose(asp.linalg.expm_multiply(S, B).toarray(), scipys.expm_multiply(S, B).toarray())
    for A, right in ((S[:4], B.toarray()), (S, np.ones(5)), (S, np.ones((6, 1, 1)))):
        with pytest.raises(ValueError, match=r"expected|incompatible") as ours:
            asp.linalg.expm_multiply(A, right)
        with pytest.raises(ValueError, match=r"expected|incompatible") as theirs:
            scipys.expm_multiply(A, right)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(ValueError, match="at least two time points"):
        asp.linalg.expm_multiply(S, np.ones(6), start=0, stop=1, num=1)
