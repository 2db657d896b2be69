"""Tests of `matmul(A, B, out=)`, which writes SciPy's result to the caller's memory, and of `tune` and `explain`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse import errors
from autosparse.dispatch import executor
from tests.covering import covering

CLASSES = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")


def matrix(name: str = "csr_array", dtype: str = "f8") -> Any:
    m = sps.random(7, 9, 0.4, format="csr", random_state=np.random.RandomState(0))
    return getattr(autosparse, name)(m.astype(dtype))


OUTS = {
    "C order": lambda shape, dtype: np.full(shape, np.nan, dtype),
    "rows of a wider array": lambda shape, dtype: np.full((shape[0], *(e + 3 for e in shape[1:])), np.nan, dtype)[
        (slice(None), *(slice(0, e) for e in shape[1:]))
    ],
    "every second row": lambda shape, dtype: np.full((2 * shape[0], *shape[1:]), np.nan, dtype)[::2],
    "subclass": lambda shape, dtype: np.full(shape, np.nan, dtype).view(np.recarray),
}


@covering(columns=[None, 0, 1, 5], dtype=["f4", "f8", "c8", "i4", "g"], layout=OUTS, name=CLASSES)
def test_out_holds_the_product_and_is_returned(name: str, layout: str, dtype: str, columns: int | None) -> None:
    A = matrix(name, dtype)
    B = (np.random.default_rng(0).random((9,) if columns is None else (9, columns)) * 9).astype(dtype)
    shape = (7, *B.shape[1:])
    dtype = "f8" if dtype == "i4" else dtype
    A, B = A.astype(dtype), B.astype(dtype)
    out = OUTS[layout](shape, dtype)
    assert autosparse.matmul(A, B, out=out) is out
    np.testing.assert_allclose(out, A.base @ B, rtol=1e-5)
    np.testing.assert_allclose(autosparse.matmul(A, B), out)


def test_rows_beside_out_are_not_touched() -> None:
    A, B = matrix(), np.random.default_rng(0).random((9, 2))
    whole = np.zeros((9, 6))
    autosparse.matmul(A, B, out=whole[1:8, 2:4])
    np.testing.assert_allclose(whole[1:8, 2:4], A.base @ B)
    whole[1:8, 2:4] = 0
    assert not whole.any()


@pytest.mark.parametrize("name", CLASSES)
def test_out_may_overlap_the_operands(name: str) -> None:
    A = getattr(autosparse, name)(sps.random(9, 9, 0.4, random_state=np.random.RandomState(0)))
    B = np.random.default_rng(0).random((9, 3))
    expected = A @ B
    np.testing.assert_allclose(autosparse.matmul(A, B, out=B), expected)
    wide = np.random.default_rng(1).random((10, 3))
    expected = A @ wide[:9]
    np.testing.assert_allclose(autosparse.matmul(A, wide[:9], out=wide[1:]), expected)
    x = np.random.default_rng(2).random(9)
    expected = A @ x
    values = A.data[:9]
    np.testing.assert_allclose(autosparse.matmul(A, x, out=values), expected)


@pytest.mark.parametrize("B", [np.ones(9, "f4"), [1.0] * 9, np.ones((9, 2), order="F"), np.ones((9, 4))[:, ::2]])
def test_out_accepts_any_kind_of_dense_operand(B: Any) -> None:
    A = matrix()
    out = np.empty((7, *np.shape(B)[1:]))
    np.testing.assert_allclose(autosparse.matmul(A, B, out=out), A.base @ B)


@pytest.mark.parametrize("dtype", ["i4", "f4", "?"])
def test_out_where_scipy_computes(dtype: str) -> None:
    A, B = matrix(dtype=dtype), np.random.default_rng(0).random((9, 2))
    np.testing.assert_allclose(autosparse.matmul(A, B, out=np.empty((7, 2))), A.base @ B)


def test_other_sparse_operands_are_wrapped() -> None:
    A = matrix()
    x = np.ones(9)
    for fmt in ("csr", "csc", "coo", "lil", "dia"):
        for kind in ("array", "matrix"):
            other = getattr(sps, f"{fmt}_{kind}")(A.base)
            np.testing.assert_allclose(autosparse.matmul(other, x, out=np.empty(7)), A.base @ x)
            np.testing.assert_allclose(autosparse.matmul(other, x), A.base @ x)
    np.testing.assert_allclose(autosparse.matmul(np.ones((2, 7)), A, out=np.empty((2, 9))), np.ones((2, 7)) @ A.base)
    assert sps.issparse(autosparse.matmul(A, A.T))


def _read_only() -> Any:
    out = np.empty(7)
    out.flags.writeable = False
    return out


WRONG_OUT = {
    "shape": (lambda: np.empty(9), errors.ShapeError, r"out has shape \(9,\), but the product has shape \(7,\)\."),
    "dimensions": (lambda: np.empty((7, 1)), errors.ShapeError, r"out has shape \(7, 1\), but .* \(7,\)"),
    "dtype": (
        lambda: np.empty(7, "f4"),
        errors.DtypeError,
        r"out has dtype float32, but the product has dtype float64",
    ),
    "byte order": (lambda: np.empty(7, ">f8"), errors.DtypeError, r"out has dtype >f8, but .* float64"),
    "read-only": (_read_only, errors.LayoutError, r"output array is read-only"),
    "list": (lambda: [0.0] * 7, errors.InputTypeError, r"return arrays must be of ArrayType\n  Given: list"),
    "sparse": (lambda: matrix(), errors.InputTypeError, r"return arrays must be of ArrayType\n  Given: csr_array"),
}


@pytest.mark.parametrize("case", WRONG_OUT)
def test_an_out_that_does_not_fit(case: str) -> None:
    make, kind, message = WRONG_OUT[case]
    for B in (np.ones(9), np.ones(9, "f4")):  # directly, and by way of SciPy's dispatch
        with pytest.raises(kind, match=rf"(?s)^{message}.*Hint: "):
            autosparse.matmul(matrix(), B, out=make())


def test_an_out_with_gaps_inside_rows() -> None:
    A, B = matrix(), np.ones((9, 2))
    for out in (np.empty((7, 2), order="F"), np.empty((7, 4))[:, ::2], np.empty((7, 2))[:, ::-1]):
        with pytest.raises(errors.LayoutError, match=r"(?s)^out has strides \(-?\d+, -?\d+\), but .* 8 bytes.*Hint: "):
            autosparse.matmul(A, B, out=out)
    unaligned = np.empty(7 * 8 + 1, np.uint8)[1:].view("f8")
    with pytest.raises(errors.LayoutError, match=r"(?s)Hint: "):
        autosparse.matmul(A, np.ones(9), out=unaligned)


def test_wrong_operands_raise_as_without_out() -> None:
    with pytest.raises(errors.ShapeError, match=r"(?s)dimension mismatch.*9 columns.*8 rows.*Hint: "):
        autosparse.matmul(matrix(), np.ones(8), out=np.empty(7))
    with pytest.raises(errors.InputTypeError, match=r"(?s)out= needs a dense product.*Hint: "):
        autosparse.matmul(matrix(), sps.eye_array(9), out=np.empty((7, 9)))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("transposed", [False, True])
def test_tune_and_explain_name_the_problem_of_the_compressed_rows(
    name: str, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def remember(operand: Any, **arguments: Any) -> str:
        asked.append({"operand": operand, **arguments})
        return "plan"

    monkeypatch.setattr(executor, "tune", remember)
    A = matrix(name)
    assert A.tune("matmul", columns=8, runs=10, effort="measure", budget_s=0.5, transposed=transposed) == "plan"
    (arguments,) = asked
    assert arguments["operand"] is A._cell
    assert arguments["transposed"] is (name.startswith("csc") is not transposed)
    assert arguments["columns"] == 8
    assert arguments["effort"] == "measure"
    assert "7 x 9" in str(A.explain(8)) or "9 x 7" in str(A.explain(8))
