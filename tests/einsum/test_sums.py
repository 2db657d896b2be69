"""Tests of sums and differences of einsum terms, against NumPy's einsum of each term."""

from __future__ import annotations

import shutil
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from autosparse._native import runtime_api
from hypothesis import given, settings

import autosparse as asp
from autosparse.contraction.expressions import unions
from autosparse.contraction.expressions.terms import parse
from autosparse.contraction.routes import elementwise
from autosparse.errors import AutosparseError, EinsumError
from autosparse.explain import explain_einsum
from tests.light.test_light import run

EXTENTS = {"i": 4, "j": 5, "k": 3}
TEXTS = (
    "ij + ij -> ij", "ij - ij -> ij", "-ij + ij + ij -> ij", "ij,jk - ik -> ik", "ij,ij + ij,j -> ij", "i,j - ij -> ij",
    "ij + i -> ij", "ij + ji -> ij", "i + j -> ij", "ij,jk + ik,k - i,k -> ik", "ij - ij ->", "ij + ij -> j",
    "ijk + ij,jk -> ijk", "+i - i -> i", "ij,ij - ij -> ij", ",ij - ij -> ij", "-ij -> ij", "ij + ik,kj - ij -> ji",
)  # fmt: skip
has_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def reference(text: str, arrays: list[Any]) -> Any:
    """Return the sum of NumPy's einsums of the terms, each broadcast along the indices that it lacks."""
    expression = parse(text)
    output = expression.output
    total: Any = np.zeros([EXTENTS[index] for index in output], np.result_type(*arrays))
    arrays = list(arrays)
    for term in expression.terms:
        given, arrays = arrays[: len(term.inputs)], arrays[len(term.inputs) :]
        own = term.output(output)
        value = np.einsum(f"{','.join(term.inputs)}->{own}", *(one.astype(total.dtype) for one in given))
        value = np.expand_dims(value, tuple(mode for mode, index in enumerate(output) if index not in own))
        total = total - value if term.sign == "-" else total + value
    return total


def operands(rng: np.random.Generator, text: str, kinds: list[str], dtypes: list[str]) -> list[Any]:
    """Return random operands of the given kinds, `ji` of the shape of `ij`."""
    found = []
    inputs = [letters for term in parse(text).terms for letters in term.inputs]
    for indices, kind, dtype in zip(inputs, kinds, dtypes, strict=False):
        shape = tuple(EXTENTS[index] for index in indices)
        array = (rng.random(shape) < rng.choice((0.0, 0.4, 0.8))) * rng.integers(-3, 4, shape)
        array = np.asarray(array).astype(dtype)
        if kind == "dense" or not indices:
            found.append(array)
        elif kind == "tensor" or len(shape) != 2:
            coords = np.nonzero(array)
            found.append(asp.tensor(np.stack(coords), array[coords], shape))
        else:
            found.append(sps.csr_array(array).asformat(kind))
    return found


def as_array(obj: Any) -> Any:
    for name in ("toarray", "todense"):
        if hasattr(obj, name):
            return np.asarray(getattr(obj, name)())
    return np.asarray(obj)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    text=st.sampled_from([text for text in TEXTS if "ji" not in text]),
    kinds=st.lists(st.sampled_from(("csr", "csc", "coo", "tensor", "dense")), min_size=6, max_size=6),
    dtypes=st.lists(st.sampled_from(("float32", "float64", "int32", "uint8", "complex64")), min_size=6, max_size=6),
    fmt=st.sampled_from((None, "dense")),
)
def test_sums_equal_numpys(seed: int, text: str, kinds: list[str], dtypes: list[str], fmt: str | None) -> None:
    given = operands(np.random.default_rng(seed), text, kinds, dtypes)
    result = asp.einsum(text, *given, format=fmt)
    wanted = reference(text, list(map(as_array, given)))
    assert result.dtype == wanted.dtype
    assert result.shape == wanted.shape
    np.testing.assert_allclose(as_array(result), wanted)


@has_compiler
@pytest.mark.usefixtures("kernels_at_once")
@pytest.mark.parametrize("text", ["-ij + ij + ij -> ij", "ij,jk - ik -> ik", "i,j - ij -> ij", "ijk + ij,jk -> ijk"])
def test_kernels_of_sums_equal_numpys(text: str) -> None:
    for kind, dtype in (("csr", "uint8"), ("tensor", "complex128")):
        given = operands(np.random.default_rng(11), text, [kind] * 6, [dtype] * 6)
        np.testing.assert_allclose(as_array(asp.einsum(text, *given)), reference(text, list(map(as_array, given))))


@pytest.mark.parametrize("at_once", [False, True])
def test_the_pattern_is_the_union_whatever_cancels(request: pytest.FixtureRequest, at_once: bool) -> None:
    if at_once:
        request.getfixturevalue("kernels_at_once")
    rng = np.random.default_rng(0)
    A, B = (sps.random_array((40, 30), density=0.1, random_state=rng, format="csr") for _ in range(2))
    result = asp.einsum("ij + ij - ij -> ij", A, B, A)
    union = sps.csr_array(abs(A) + abs(B))
    union.sort_indices()
    np.testing.assert_array_equal(result.indptr, union.indptr)
    np.testing.assert_array_equal(result.indices, union.indices)
    np.testing.assert_allclose(result.toarray(), B.toarray())
    assert type(result) is asp.csr_array


@pytest.mark.parametrize(
    "text", ["ij + ij -> ij", "-ij - ij + ij -> ij", "ij - ji -> ij", "ij,jk - ik,k -> ik", "i - ij,j -> i"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_first_calls_merge_rows_instead_of_sorting(text: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Light matrices and complete ones have the same result, with an entry wherever a term has one."""
    monkeypatch.setattr(unions, "union", None)
    rng, extents = np.random.default_rng(0), {"i": 6, "j": 6, "k": 6}
    names = [letters for term in parse(text).terms for letters in term.inputs]
    dense = [((rng.random([*map(extents.get, one)]) < 0.4) * 2).astype(dtype) for one in names]
    given = [sps.csr_array(one) if one.ndim == 2 else one for one in dense]
    wanted = asp.einsum(text, *given)
    lines = f"""
given = [np.array(one, {dtype!r}) for one in {[one.tolist() for one in dense]!r}]
made = asp.einsum({text!r}, *(sps.csr_array(one) if one.ndim == 2 else one for one in given))
is_sparse = sps.issparse(made)
arrays = [made.indptr.tolist(), made.indices.tolist()] if is_sparse else []
print([type(made).__name__, made.dtype.name, light.is_complete, *arrays])
print((made.data if is_sparse else made).tolist())
"""
    facts, values = map(eval, run(lines).splitlines())
    assert facts[:3] == [type(wanted).__name__, dtype, False]
    assert facts[3:] == ([wanted.indptr.tolist(), wanted.indices.tolist()] if sps.issparse(wanted) else [])
    np.testing.assert_allclose(values, wanted.data if sps.issparse(wanted) else wanted)
    if sps.issparse(wanted) and "ji" not in text and "," not in text:
        union = sps.csr_array(sum(abs(one) for one in given))
        assert (wanted.indices.tolist(), wanted.indptr.tolist()) == (union.indices.tolist(), union.indptr.tolist())


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int64", "bool"])
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_long_light_transposes_are_those_of_complete_matrices(kind: str, dtype: str) -> None:
    """Both have sorted and distinct entries, whatever the operand has."""
    values, indices, indptr = [1, 2, 0, 4, 1], [2, 0, 2, 2, 1], [0, 4, 4, 5]
    m = getattr(sps, f"{kind}_array")((np.array(values, dtype), indices, indptr), shape=(3, 3))
    wanted = asp.einsum("ij->ji", m)
    lines = f"""
light.LONG_SUM = 0
m = sps.{kind}_array((np.array({values}, {dtype!r}), {indices}, {indptr}), shape=(3, 3))
made = asp.einsum("ij->ji", asp.{kind}(m))
arrays = made.toarray(), made.indices, made.indptr
print([type(made).__name__, made.dtype.name, *(array.tolist() for array in arrays)])
print(light.is_complete)
"""
    facts, is_complete = map(eval, run(lines).splitlines())
    assert facts[:3] == [type(wanted).__name__, dtype, wanted.toarray().tolist()]
    assert facts[3:] == [wanted.indices.tolist(), wanted.indptr.tolist()]
    assert not is_complete


@pytest.mark.skipif(not runtime_api.available, reason="the C runtime was not built")
@pytest.mark.parametrize("formats", [("csr", "csr"), ("csc", "csr"), ("csc", "csc")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elementwise_products_are_merged_by_the_runtime(
    monkeypatch: pytest.MonkeyPatch, formats: tuple[str, str], dtype: str
) -> None:
    """The result has SciPy's bits, and SciPy's pattern without products that are 0."""
    rng = np.random.default_rng(0)
    dense = [((rng.random((70, 50)) < 0.3) * rng.integers(0, 4, (70, 50))).astype(dtype) for _ in range(2)]
    A, B = (sps.csr_array(one) for one in dense)
    A.data[:9] = 0
    wanted = sps.csr_array(A.multiply(B))
    monkeypatch.setattr(elementwise, "_plain", None)  # SciPy's product
    with asp.options(threads=2):  # on one thread SciPy's loop takes less time
        found = elementwise.product(*(getattr(asp, fmt)(one) for fmt, one in zip(formats, (A, B), strict=True)))
    assert type(found) is asp.csr_array
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    monkeypatch.undo()
    A = sps.csr_array((A.data[::-1].copy(), A.indices[::-1].copy(), A.indptr), shape=A.shape)  # unsorted rows
    np.testing.assert_array_equal(elementwise.product(A, B).toarray(), A.toarray() * B.toarray())


def test_duplicates_and_unsorted_entries() -> None:
    A = sps.csr_array(([1.0, 2.0, 3.0, 4.0], [2, 0, 2, 1], [0, 3, 4]), shape=(2, 3))
    np.testing.assert_array_equal(as_array(asp.einsum("ij - ij -> ij", A, A)), np.zeros((2, 3)))
    np.testing.assert_array_equal(as_array(asp.einsum("ij,ij + ij -> ij", A, A, A)), A.toarray() ** 2 + A.toarray())


def test_broadcast_extents_of_one() -> None:
    rng = np.random.default_rng(5)
    A, row = rng.random((4, 5)), rng.random((1, 5))
    for X, y in ((sps.csr_array(A), row), (sps.csr_array(A), sps.csr_array(row)), (A, sps.csr_array(row))):
        np.testing.assert_allclose(as_array(asp.einsum("ij + ij -> ij", X, y)), A + row)
        np.testing.assert_allclose(as_array(asp.einsum("ij - ij,ij -> ij", X, X, y)), A - A * row)


def test_formats_out_and_dtype() -> None:
    A = sps.csr_array(np.diag([1.0, 2.0, 3.0]))
    for fmt in ("csr", "csc", "coo", "tensor", "dcsr", "csf"):
        assert as_array(asp.einsum("ij + ij -> ij", A, A, format=fmt)).trace() == 12
    out = np.empty((3, 3), np.float64)
    assert asp.einsum("ij + ij -> ij", A, A, out=out) is out
    assert out.trace() == 12
    assert asp.einsum("ij - ij -> ij", A, A, dtype="complex128").dtype == np.complex128
    assert as_array(asp.einsum("ij + j -> ij", A, np.ones(3), format="csr")).sum() == 15


FAULTS = {
    "ij + -> ij": "a term of the sum is missing, at position 5",
    "+ -> ij": "a term of the sum is missing, at position 2",
    "ij ++ ij -> ij": "a term of the sum is missing, at position 4",
    "ij + ij": "sign at position 3 makes a sum of terms, which has no output subscripts",
    "ij + ij -> i+j": r"invalid subscript '\+' in the output of a sum, at position 12",
    "ij + (ij) -> ij": r"invalid subscript '\(' in a sum of terms, at position 5",
    "...j + ij -> ij": r"invalid subscript '\.' in a sum of terms, at position 0",
    "ij + ij + ij -> ij": "operands provided to einstein sum function",
    "ij + jk -> ij": "could not be broadcast|mismatch",
    "ij + ij -> ijk": "output subscript",
}


@pytest.mark.parametrize("text", FAULTS)
def test_faults_raise_and_name_the_position(text: str) -> None:
    with pytest.raises(EinsumError, match=FAULTS[text]):
        asp.einsum(text, sps.csr_array(np.ones((2, 3))), sps.csr_array(np.ones((2, 3))))


def test_light_sums_leave_faults_to_the_library() -> None:
    lines = f"""
from autosparse.light.expressions import _by_products
A, v = asp.csr(np.eye(3)), sps.coo_array(np.ones(3))
wrong = {tuple(text for text in FAULTS if "jk" not in text)!r}
wrong += "ii + ii -> ii", "i. + i. -> i.", "..+..->..", "- -> ij"
found = [_by_products((text, A, A)) for text in wrong] + [_by_products(("i + i -> i", v, v))]
print([one for one in found if one is not None], light.is_complete)
print([type(asp.einsum("ij - ij,ij ->", A, A, A)).__name__, light.is_complete])
"""
    assert run(lines).splitlines() == ["[] False", "['float64', False]"]


def test_booleans_have_sums_but_no_differences() -> None:
    A = sps.csr_array(np.eye(3, dtype=bool))
    np.testing.assert_array_equal(as_array(asp.einsum("ij + ij -> ij", A, A)), np.eye(3, dtype=bool))
    with pytest.raises(TypeError, match="boolean subtract"):
        asp.einsum("ij - ij -> ij", A, A)
    with pytest.raises(AutosparseError, match="has no differences"):
        asp.einsum("ij - ij -> ij", A, A, semiring="or_and")


def test_the_path_and_the_explanation_name_every_term() -> None:
    A = sps.csr_array(np.eye(3))
    path = asp.einsum_path("ij,jk - ik -> ik", A, A, A)
    assert path.splitlines()[0] == "ij,jk - ik -> ik: the union of the entries of 2 terms"
    assert "A @ B" in path
    text = str(explain_einsum("ij,jk + ik -> ik", A, A, A, semiring="min_plus"))
    assert "min_plus: minimum of sums" in text
    assert "ij,jk->ik" in text


def test_torch_sums_have_gradients() -> None:
    torch = pytest.importorskip("torch")
    A = sps.random_array((4, 5), density=0.5, random_state=np.random.default_rng(1), format="csr")
    X, y = (
        torch.ones((5, 2), dtype=torch.float64, requires_grad=True),
        torch.ones(2, dtype=torch.float64, requires_grad=True),
    )
    result = asp.einsum("ij,jk - k -> ik", A, X, y)
    result.sum().backward()
    np.testing.assert_allclose(result.detach().numpy(), A @ np.ones((5, 2)) - 1)
    np.testing.assert_allclose(y.grad.numpy(), [-4, -4])
    np.testing.assert_allclose(X.grad.numpy(), np.repeat(A.sum(axis=0)[:, None], 2, axis=1))
