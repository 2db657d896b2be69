"""Law: functions of `scipy.sparse` in our namespace return what SciPy returns, in our class, for all operands."""

from __future__ import annotations

import inspect
import io
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.light import namespace
from autosparse.light.formats import COMPRESSED, OF_SCIPYS, OTHERS, as_ours
from tests.covering import in_turn

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
VALUES = np.array([[0.0, 2.0, 0.0, 1.0], [3.0, 0.0, 0.0, 4.0], [0.0, 5.0, 6.0, 0.0], [0.0, 0.0, 0.0, 7.0]])
FULL = np.arange(1.0, 5.0).reshape(2, 2)

Call = Callable[[Any, Any, Any], Any]
"""A call of the namespace in the first argument, with two sparse operands."""

WITHOUT_OPERANDS: dict[str, list[Call]] = {
    "eye_array": [lambda sp, A, B, f=f: sp.eye_array(4, 5, k=1, dtype="f4", format=f) for f in (None, *FORMATS)]
    + [lambda sp, A, B, f=f: sp.eye_array(4, format=f) for f in (None, *FORMATS)],
    "eye": [lambda sp, A, B, f=f: sp.eye(4, format=f) for f in (None, "csr", "csc", "coo")],
    "identity": [lambda sp, A, B, f=f: sp.identity(4, dtype="i1", format=f) for f in (None, "csr", "lil")],
    "diags_array": [
        lambda sp, A, B, f=f: sp.diags_array([[1.0, 2.0], [3.0]], offsets=[0, 1], format=f) for f in (None, *FORMATS)
    ],
    "diags": [lambda sp, A, B, f=f: sp.diags([1.0, 2.0, 3.0], format=f) for f in (None, *FORMATS)],
    "spdiags": [lambda sp, A, B, f=f: sp.spdiags(FULL, [0, 1], 3, 4, format=f) for f in (None, "csr")],
    "random_array": [
        lambda sp, A, B, f=f: sp.random_array((5, 4), density=0.4, random_state=3, format=f) for f in FORMATS
    ]
    + [
        lambda sp, A, B: sp.random_array((5, 4), random_state=3),
        lambda sp, A, B: sp.random_array((6,), random_state=3),
    ],
    "random": [lambda sp, A, B, f=f: sp.random(5, 4, 0.4, f, random_state=3) for f in FORMATS],
    "rand": [lambda sp, A, B, f=f: sp.rand(5, 4, density=0.4, format=f, random_state=3) for f in FORMATS],
    "load_npz": [lambda sp, A, B, f=f, k=k: sp.load_npz(_file(f, k)) for f in FORMATS[:5] for k in ("array", "matrix")],
}
_WITH_OPERANDS: dict[str, list[Call]] = {
    "vstack": [lambda sp, A, B, f=f: sp.vstack([A, B], format=f) for f in (None, "csr", "csc", "lil")]
    + [lambda sp, A, B: sp.vstack([A, B], dtype="f4"), lambda sp, A, B: sp.vstack([A])],
    "hstack": [lambda sp, A, B, f=f: sp.hstack([A, B], format=f) for f in (None, "csr", "csc", "dok")],
    "bmat": [lambda sp, A, B, f=f: sp.bmat([[A, None], [None, B]], format=f) for f in (None, "csr")]
    + [lambda sp, A, B: sp.bmat([[A, B], [B, A]])],
    "block_array": [lambda sp, A, B, f=f: sp.block_array([[A, B], [B, A]], format=f) for f in (None, "csc")]
    + [lambda sp, A, B: sp.block_array([[A, None], [None, B]])],
    "block_diag": [lambda sp, A, B, f=f: sp.block_diag([A, B, FULL], format=f) for f in (None, "csr")],
    "kron": [lambda sp, A, B, f=f: sp.kron(A, B, format=f) for f in (None, "csr", "bsr", "dia")]
    + [lambda sp, A, B: sp.kron(A, FULL), lambda sp, A, B: sp.kron(FULL, B), lambda sp, A, B: sp.kron(A, B * 0)],
    "kronsum": [lambda sp, A, B, f=f: sp.kronsum(A, B, format=f) for f in (None, "csr", "coo")],
    "tril": [lambda sp, A, B, f=f: sp.tril(A, k=1, format=f) for f in (None, "csr")],
    "triu": [lambda sp, A, B, f=f: sp.triu(B, format=f) for f in (None, "csc")],
    "expand_dims": [lambda sp, A, B: sp.expand_dims(A, axis=1)],
    "permute_dims": [
        lambda sp, A, B: sp.permute_dims(A),
        lambda sp, A, B: sp.permute_dims(B, (0, 1)),
        lambda sp, A, B: sp.permute_dims(A, (0, 1), copy=True),
    ],
    "swapaxes": [lambda sp, A, B: sp.swapaxes(A, 0, 1)],
    "matrix_transpose": [lambda sp, A, B: sp.matrix_transpose(A)],
}
WITH_OPERANDS = {name: calls for name, calls in _WITH_OPERANDS.items() if name in sps.__all__}
"""Calls of the functions that this version of SciPy has."""


def _file(fmt: str, kind: str) -> io.BytesIO:
    file = io.BytesIO()
    sps.save_npz(file, getattr(sps, f"{fmt}_{kind}")(VALUES))
    file.seek(0)
    return file


def operands(fmt: str, kind: str) -> Iterator[tuple[Any, Any]]:
    """Yield the two operands: both SciPy's, both ours, and mixed."""
    name = f"{fmt}_{kind}"
    theirs = getattr(sps, name)(VALUES), getattr(sps, name)(VALUES.T.astype("f4"))
    ours = as_ours(theirs[0]), as_ours(theirs[1])
    yield from (theirs, ours, (ours[0], theirs[1]), (theirs[0], ours[1]))


def facts(found: Any) -> dict[str, Any]:
    """Return what a result of ours and of SciPy must have in common."""
    names = ("data", "indices", "indptr", "offsets", "row", "col", "rows")
    arrays = {name: getattr(found, name) for name in names if hasattr(found, name) and found.ndim == 2}
    flags = {flag: getattr(found, flag, None) for flag in ("has_canonical_format", "has_sorted_indices")}
    return {
        "class": type(found).__name__, "format": found.format, "shape": found.shape, "dtype": found.dtype, **flags,
        "arrays": {name: (one.dtype, one.tolist()) for name, one in arrays.items()},
        "values": found.toarray().tolist(),
        "state": sorted(vars(found)),
    }  # fmt: skip


def check(call: Call, theirs: tuple[Any, Any], given: tuple[Any, Any]) -> None:
    expected, found = call(sps, *theirs), call(asp, *given)
    assert type(found) is getattr(asp, type(expected).__name__)
    assert facts(found) == facts(expected)


@pytest.mark.parametrize("name", WITHOUT_OPERANDS)
def test_constructors_equal_scipys_and_are_ours(name: str) -> None:
    for call in WITHOUT_OPERANDS[name]:
        check(call, (None, None), (None, None))


@in_turn("name", "fmt", first=WITH_OPERANDS, second=("csr", "coo", "csc", "dia", "bsr", "lil", "dok"))
def test_functions_of_matrices_equal_scipys_and_are_ours(name: str, fmt: str) -> None:
    for kind in ("array", "matrix"):
        if kind == "matrix" and name in ("expand_dims", "matrix_transpose"):
            continue  # for arrays only: a matrix would have three dimensions, or has no `mT`
        theirs, *others = operands(fmt, kind)
        for given in (theirs, *others):
            for call in WITH_OPERANDS[name]:
                check(call, theirs, given)


def test_the_tables_name_every_function_that_returns_a_sparse_object() -> None:
    functions = {name for name in sps.__all__ if inspect.isfunction(getattr(sps, name))}
    assert functions - {*WITHOUT_OPERANDS, *WITH_OPERANDS} == namespace.WITHOUT_SPARSE_RESULT & {*dir(sps)}


def test_other_names_are_scipys_own() -> None:
    others = set(sps.__all__) - {*WITHOUT_OPERANDS, *WITH_OPERANDS, "csr", "csc", "linalg"}
    for name in others - {kind.__name__ for kind in OF_SCIPYS}:
        assert getattr(asp, name) is getattr(sps, name), name


@pytest.mark.parametrize("name", [*WITHOUT_OPERANDS, *WITH_OPERANDS])
def test_signature_docstring_and_pickles(name: str) -> None:
    ours, theirs = getattr(asp, name), getattr(sps, name)
    assert inspect.signature(ours) == inspect.signature(theirs)
    assert ours.__doc__ == theirs.__doc__
    assert ours.__name__ == theirs.__name__
    assert pickle.loads(pickle.dumps(ours)) is ours
    assert pickle.loads(pickle.dumps(theirs)) is theirs


ERRORS: dict[str, Call] = {
    "hstack": lambda sp, A, B: sp.hstack([A, sp.eye_array(7)]),
    "vstack": lambda sp, A, B: sp.vstack([]),
    "diags_array": lambda sp, A, B: sp.diags_array([[1.0], [2.0]], offsets=[0]),
    "diags_array of length": lambda sp, A, B: sp.diags_array([[1.0, 2.0]], offsets=[0], shape=(3, 3)),
    "kronsum": lambda sp, A, B: sp.kronsum(A[:2], B),
    "random_array": lambda sp, A, B: sp.random_array((3, 3), density=2),
    "eye_array": lambda sp, A, B: sp.eye_array(3, wrong=1),
    "format": lambda sp, A, B: sp.eye_array(3, format="nothing"),
    "load_npz": lambda sp, A, B: sp.load_npz("no such file"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_scipys(name: str) -> None:
    A = sps.csr_array(VALUES)
    with pytest.raises(Exception) as expected:  # noqa: PT011  # whatever SciPy raises
        ERRORS[name](sps, A, A)
    with pytest.raises(expected.type) as found:
        ERRORS[name](asp, asp.csr(A), A)
    assert str(found.value) == str(expected.value)


WARNINGS: dict[str, Call] = {
    "diags_array": lambda sp, A, B: sp.diags_array([1, 2, 3]),
    "diags": lambda sp, A, B: sp.diags([1, 2, 3]),
    "todia": lambda sp, A, B: sp.eye_array(200, format="coo").__class__(np.fliplr(np.eye(200))).todia(),
    "comparison": lambda sp, A, B: sp.eye_array(3, format="csr") == 0,
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_name_the_line_that_scipys_name(name: str) -> None:
    found = []
    for sp in (sps, asp):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            WARNINGS[name](sp, None, None)
        found.append([(one.category, str(one.message), one.filename, one.lineno) for one in caught])
    assert found[0] == found[1]


def test_results_share_the_arrays_that_they_wrap() -> None:
    for theirs in OF_SCIPYS:
        m = theirs(VALUES)
        made = as_ours(m)
        assert type(made) is OF_SCIPYS[theirs]
        for name in ("data", "indices", "offsets", "row", "_dict"):
            if hasattr(m, name):
                assert getattr(made, name) is getattr(m, name)
    assert as_ours(made) is made
    assert as_ours(FULL) is FULL
    assert set(OF_SCIPYS.values()) == {*OTHERS, *COMPRESSED}


EVERYDAY = """
A = sp.random_array((60, 50), density=0.1, format="csr", random_state=rng)
A = sp.diags_array(rng.random(60)) @ A
A = A @ sp.diags_array(rng.random(50))
A = A + sp.coo_array((rng.random(9), (np.arange(9), np.arange(9))), shape=(60, 50)).tocsr()
G = A.T @ A
G = G + 0.5 * sp.eye_array(50).tocsr()
G = sp.eye_array(50) + G
G = sp.eye_array(50) - G
G = G - sp.diags_array(G.diagonal())
L = sp.tril(G).tocsr()
G = sp.vstack([L, sp.triu(G)]).tocsr()
G = sp.hstack([G, G], format="csr")[:, 10:60]
K = sp.kron(sp.eye_array(2), G).tocsr()
K = sp.block_diag([K, K], format="csr")
K = sp.block_array([[K, None], [None, K]], format="csr")
W = sp.lil_array((50, 50)); W[3, 4] = 1.0; W = W.tocsr()
D = sp.dok_array((50, 50)); D[3, 4] = 1.0; D = D.tocsc()
S = W.tocoo().reshape(25, 100).tocsr() @ sp.bsr_array(np.eye(100)).tocsr()
M = sp.csr_matrix(sp.spdiags(rng.random((1, 50)), 0, 50, 50)) * sp.identity(50)
P = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 1, 2])), shape=(50, 50)).multiply(sp.eye_array(50)).maximum(W)
"""


def test_everyday_lines_keep_the_class() -> None:
    states: dict[Any, dict[str, Any]] = {}
    for sp in (asp, sps):
        names = states[sp] = {"sp": sp, "np": np, "rng": np.random.default_rng(0)}
        for line in EVERYDAY.strip().splitlines():
            exec(line, names)
            if sp is asp:
                made = names[line[0]]
                assert made.format not in ("csr", "csc") or type(made) in COMPRESSED, line
                assert type(made) in OF_SCIPYS.values(), line
                assert made.format not in ("csr", "csc") or made.owns_arrays, line  # tuned products need no look
    for name in set("AGLKWDSMP"):
        ours, theirs = states[asp][name], states[sps][name]
        assert (ours.format, ours.shape, ours.dtype) == (theirs.format, theirs.shape, theirs.dtype)
        np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-12)


def n_calls(function: Callable[[], Any]) -> int:
    """Return the number of Python functions that a call enters."""
    function()
    counted = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event == "call"

    previous = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(previous)
    return counted


@pytest.mark.parametrize("fmt", ["csr", "csc", "coo"])
@pytest.mark.parametrize("name", ["vstack", "hstack", "kron", "block_diag", "tril", "eye_array", "diags_array"])
def test_functions_enter_hardly_more_functions_than_scipys(name: str, fmt: str) -> None:
    m = sps.random_array((50, 60), density=0.1, format=fmt, random_state=np.random.default_rng(0))
    calls: dict[str, Call] = {
        "vstack": lambda sp, A, B: sp.vstack([A, A]),
        "hstack": lambda sp, A, B: sp.hstack([A, A]),
        "kron": lambda sp, A, B: sp.kron(A, A),
        "block_diag": lambda sp, A, B: sp.block_diag([A, A], format=fmt),
        "tril": lambda sp, A, B: sp.tril(A, format=fmt),
        "eye_array": lambda sp, A, B: sp.eye_array(300, format=fmt),
        "diags_array": lambda sp, A, B: sp.diags_array(np.ones(300), format=fmt),
    }
    A = as_ours(m)
    assert n_calls(lambda: calls[name](asp, m, None)) <= 1.05 * n_calls(lambda: calls[name](sps, m, None)) + 4
    assert n_calls(lambda: calls[name](asp, A, None)) <= 1.25 * n_calls(lambda: calls[name](sps, m, None)) + 4
