"""Tests of einsums that are computed by products of two operands at a time, with light and with complete matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse import light
from autosparse.contraction.expressions import request
from autosparse.contraction.routes import by_pairs, existing, joins
from autosparse.explain import explain_einsum
from autosparse.light import expressions, pairs
from tests.einsum.test_structures import as_dense
from tests.light.test_light import run

EXPRESSIONS = (
    "pi,sij,jq->pq", "ip,sij,jq->pq", "sij,sjk,k->i", "sij,sjk,skl,l->i", "pi,sij,pj->p", "sij,jp,jp->i",
    "ski,k,skj->ij", "sij,sjk,ski->i", "sij,sij,jp->ip", "sij,sjk->", "sij,skj->", "sij,j,j->i", "i,sij,sjk,k->k",
    "sij,skj,k->i", "ski,skl,slj->ij", "sij,sjk,slk->il", "sij,sjk->ki", "sii,i->", "sij,ij->ji", "sij,i,sjk->ik",
    "sij,jpq->ipq", "sij,jp,p->i", "j,sij->ij", "sij,sji->", "sij,sik,sjk->ij", "i,sij,j,jp->p", "sij,sij,sij,sij->j",
    "sij,ip,jp->ij", "sij,pi,pj,jq->iq", "sij,ip,pj,j->ij",
)  # fmt: skip
"""Subscripts; "s" before a pair of indices stands for a sparse matrix."""
EXTENTS = {"i": 6, "j": 6, "k": 6, "l": 6, "p": 3, "q": 4}
LIGHT = """
rng = np.random.default_rng(0)
kinds = sps.csr_array, asp.csc_array, asp.csr
for whole in {expressions!r}:
    text, names = whole.replace("s", ""), whole.split("->")[0].split(",")
    shapes = [[{extents!r}[one] for one in name.removeprefix("s")] for name in names]
    dense = [((rng.random(shape) < 0.4) * rng.integers(1, 3, shape)).astype({dtype!r}) for shape in shapes]
    given = [kinds[n % 3](one) if names[n][0] == "s" else one for n, one in enumerate(dense)]
    found, wanted = asp.einsum(text, *given), np.einsum(text, *dense)
    assert found.dtype == wanted.dtype, (whole, found.dtype)
    assert not sps.issparse(found) or type(found) is asp.csr_array, whole
    found = found.toarray() if sps.issparse(found) else found
    np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=whole)
print(light.is_complete)
"""


def operands(whole: str, dtype: type, seed: int = 0):
    """Return subscripts, sparse and dense operands, and the same operands as arrays."""
    rng, names = np.random.default_rng(seed), whole.split("->", maxsplit=1)[0].split(",")
    shapes = [tuple(EXTENTS[one] for one in name.removeprefix("s")) for name in names]
    dense = [((rng.random(shape) < 0.4) * rng.integers(1, 3, shape)).astype(dtype) for shape in shapes]
    kinds = (asp.csr, asp.csc, sps.csr_array, sps.csc_array)
    given = [kinds[n % 4](one) if names[n][0] == "s" else one for n, one in enumerate(dense)]
    return whole.replace("s", ""), given, dense


def spread(array, name: str, letters: str):
    """Return an operand with one axis for each of all letters, of extent 1 where it lacks one."""
    whole = "".join(dict.fromkeys(name))
    array = np.einsum(f"{name}->{''.join(sorted(whole, key=letters.index))}", array)
    return array.reshape([EXTENTS[one] if one in name else 1 for one in letters])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i1", "?", "c16"])
def test_light_matrices_stay_light(dtype):
    assert run(LIGHT.format(expressions=EXPRESSIONS, extents=EXTENTS, dtype=dtype)) == "False"


@pytest.mark.parametrize("whole", EXPRESSIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, np.complex128])
def test_complete_matrices_need_no_join(whole, dtype, monkeypatch):
    text, given, dense = operands(whole, dtype)
    for name in ("contract", "Join"):
        monkeypatch.setattr(joins, name, None)
    found, wanted = asp.einsum(text, *given), np.einsum(text, *dense)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(as_dense(found), wanted, rtol=1e-5)


@pytest.mark.parametrize("whole", EXPRESSIONS)
@pytest.mark.parametrize("value", [np.inf, np.nan, -np.inf])
def test_values_that_are_not_finite_meet_stored_entries_only(whole, value, monkeypatch):
    """The oracle adds up all products of the elements of all operands at whose places the sparse ones store entries."""
    text, given, _ = operands(whole, np.float64)
    for one in given:
        values = one.data if sps.issparse(one) else one.reshape(-1)
        values[len(values) // 2] = value
    names, output = text.split("->")[0].split(","), text.split("->")[1]
    letters = output + "".join(index for index in dict.fromkeys(text) if index.isalpha() and index not in output)
    terms, is_stored = np.ones([EXTENTS[one] for one in letters]), np.True_
    with np.errstate(invalid="ignore"):
        for name, one in zip(names, given, strict=True):
            terms = terms * spread(as_dense(one), name, letters)
            if sps.issparse(one):
                is_stored = is_stored & spread(as_dense(one) != 0, name, letters)
        wanted = np.where(is_stored, terms, 0.0).reshape([*map(EXTENTS.get, output), -1]).sum(axis=-1)
    served, result = [], by_pairs._result
    monkeypatch.setattr(by_pairs, "_result", lambda *one: served.append(result(*one)) or served[-1])
    request.signature_of.cache_clear()
    asp.einsum(text, *given)
    if served and served[0] is not None:
        np.testing.assert_allclose(as_dense(served[0]), wanted)


def test_mixed_types_are_promoted_before_the_first_product():
    A, B = (asp.csr(np.array([[1, 2], [0, 3]], dtype)) for dtype in (np.int8, np.float32))
    x = np.array([100.0, 1e-9])
    found = asp.einsum("ij,jk,k->i", A, B, x)
    np.testing.assert_array_equal(found, A.toarray().astype(float) @ (B.toarray().astype(float) @ x))
    assert found.dtype == np.float64


def test_large_intermediate_arrays_are_not_made():
    """A sampled product of two arrays must not multiply them completely."""
    n = 10_000
    shapes, n_bits = ((n, n), (n, 4), (n, 4)), (10, -1, -1)
    assert pairs.plan(("ij", "ik", "jk"), "ij", shapes, (30, -1, -1)) is None
    assert pairs.plan(("ij", "ik", "jk"), "ik", shapes, n_bits) is not None


def test_a_large_inner_product_is_left_to_the_joins(monkeypatch):
    text, given, dense = operands("sij,sjk,ski->i", np.float64)
    monkeypatch.setattr(existing, "MAX_PRODUCTS", 1)
    called, contract = [], joins.contract
    monkeypatch.setattr(joins, "contract", lambda *one, **more: called.append(1) or contract(*one, **more))
    np.testing.assert_allclose(asp.einsum(text, *given), np.einsum(text, *dense))
    assert called


def test_it_is_explained():
    text, given, _ = operands("pi,sij,pj->p", np.float64)
    assert "products and sums" in str(explain_einsum(text, *given))
    assert "products and sums" in asp.einsum_path(text, *given)


@pytest.mark.parametrize("key", list(expressions._PLANS), ids=" ".join)
def test_the_common_plans_are_those_of_the_planner(key):
    """Three sparse operands have equal extents and numbers of entries there."""
    text, kinds = key
    inputs, output = text.split("->")
    for extents in itertools.product((1, 2, 7, 5000), repeat=3):
        sizes, is_equal = dict(zip("abc", extents, strict=True)), kinds == "sss"
        if is_equal and len({*extents}) > 1:
            continue
        shapes = tuple(tuple(sizes[one] for one in letters) for letters in inputs.split(","))
        for bits in itertools.product((1, 10, 20), repeat=kinds.count("s")):
            given = iter(bits[:1] * 3 if is_equal else bits)
            n_bits = tuple(next(given) if kind == "s" else -1 for kind in kinds)
            assert pairs.plan(tuple(inputs.split(",")), output, shapes, n_bits) == expressions._PLANS[key]


def test_common_expressions_do_not_load_the_planner():
    code = """
A, x = asp.csr(np.eye(4)), np.ones(4)
for text in ("i,ij,j->", "ij,jk->ik", "ji,ki->kj", "ij,ij->i", "xj,ix->ij", "ij,jk,ki->", "ii->", "ji->ij"):
    given = [A if len(name) == 2 else x for name in text.split("->")[0].split(",")]
    found, wanted = asp.einsum(text, *given), np.einsum(text, *(np.eye(4) if one is A else one for one in given))
    np.testing.assert_array_equal(found.toarray() if sps.issparse(found) else found, wanted)
print("autosparse.light.pairs" in sys.modules, light.is_complete)
"""
    assert run(code) == "False False"


VECTORS = ("ij,j->i", "i,ij->j", "i,ij,j->", "i,i->", "i->", "i,i->i", "i,j->ij", "j,i->ij", "i,ij->ij", "ij,jk,k->i")


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.bool_, np.complex128])
@pytest.mark.parametrize("text", VECTORS)
def test_sparse_vectors(text, dtype, monkeypatch):
    """No join is needed where the result is dense, or the outer product of two vectors."""
    rng = np.random.default_rng(0)
    dense = [((rng.random((6,) * len(one)) < 0.5) * 2).astype(dtype) for one in text.split("->")[0].split(",")]
    given = [sps.csr_array(one) if one.ndim == 2 else sps.coo_array(one) for one in dense]
    if text != "i,ij->ij":
        monkeypatch.setattr(joins, "contract", None)
    found, wanted = asp.einsum(text, *given), np.einsum(text, *dense)
    assert sps.issparse(found) is (wanted.ndim == 2)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(as_dense(found), wanted)
    lines = f"""
given = [np.array(one, {np.dtype(dtype).str!r}) for one in {[one.tolist() for one in dense]!r}]
made = asp.einsum({text!r}, *(sps.csr_array(one) if one.ndim == 2 else sps.coo_array(one) for one in given))
print((made.toarray() if sps.issparse(made) else made).tolist(), made.dtype.str, sep=";")
print(type(made).__name__, light.is_complete, sep=";")
"""
    values, kind = (line.split(";") for line in run(lines).splitlines())
    assert (eval(values[0]), values[1]) == (wanted.tolist(), wanted.dtype.str)
    assert kind == [type(found).__name__, str(text == "i,ij->ij")]


def test_entries_of_sparse_vectors_meet_stored_entries_only():
    v = sps.coo_array((np.array([0.0, 2.0, 3.0]), (np.array([3, 1, 1]),)), shape=(5,))
    A = sps.csr_array(np.where(np.eye(5) > 0, np.inf, 0.0))
    np.testing.assert_array_equal(asp.einsum("ij,j->i", A, v), [0, np.inf, 0, np.nan, 0])
    found = asp.einsum("i,j->ij", v, v)
    assert (found.indices.tolist(), found.indptr.tolist()) == ([1, 3, 1, 3], [0, 0, 2, 2, 4, 4])
    assert found.data.tolist() == [25.0, 0.0, 0.0, 0.0]
    assert asp.einsum("i,i->i", v, v, format="coo").nnz == 2


@pytest.mark.parametrize("text", ["i,ij,j->", "ij,jk,k->i", "ij,jk,kp->ip"])
def test_an_infinity_does_not_multiply_sums(text):
    """A stored infinity times a dense zero is NaN, though the sum over that zero's index is not zero."""
    infinity, A, x = np.array([np.inf]), np.array([[1.0, 1.0]]), np.array([0.0, 3.0])
    dense = [infinity if text == "i,ij,j->" else infinity[:, None], A, x[:, None] if "p" in text else x]
    given = [sps.csr_array(one) if one.shape in ((1, 1), (1, 2)) else one for one in dense]
    with np.errstate(invalid="ignore"):
        wanted = np.einsum(text, *dense)
    assert np.isnan(wanted).all()
    np.testing.assert_array_equal(asp.einsum(text, *given), wanted)
    light.complete()
    np.testing.assert_array_equal(asp.einsum(text, *given), wanted)


def test_results_are_arrays_where_operands_are_matrices():
    A = sps.csr_matrix(np.eye(3))
    for text in ("ij,jk->ik", "ij,kj->ik", "ij->ji", "ij,ij->ij"):
        found = asp.einsum(text, *[A] * (1 + text.count(",")))
        assert type(found) is asp.csr_array
        np.testing.assert_array_equal(found.toarray(), np.eye(3))
