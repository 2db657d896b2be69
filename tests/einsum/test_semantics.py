"""Tests that `einsum` of sparse operands equals NumPy's of dense ones: values, dtypes, errors."""

from __future__ import annotations

import itertools
import shutil

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction.results import FORMATS
from autosparse.contraction.routes.chain import is_right_first
from tests.covering import in_turn
from tests.scipy_versions import IS_RECENT

EXPRESSIONS = (
    *("ij,jk->ik", "ij,ij->ij", "ij->i", "ij->ji", "ii->i", "ii->", "ij,j->i", "ij,jk,kl->il", "ij,jk,ik->"),
    *("ij,jk,kl,il->", "ij,kl->ijkl", "i,j->ij", "ij,jk,kl,lm,mn->in", "ij,k->ij", "ij,ik,kj->ij", ",ij->ij"),
    *(
        "ij,jk",
        "iij,jk->ik",
        "...j,jk->...k",
        "ij,kj,lj->ikl",
        "ikl,kj,lj->ij",
        "ij->",
        "ij,ji->",
        "ij,kj->ik",
        "ji,jk->ik",
    ),
)
JOINS = {"compiler": "/no/such/compiler"}
"""Options without a compiler, so that NumPy joins the operands. Compiled programs are tested in test_programs."""

pytestmark = pytest.mark.filterwarnings("ignore:einsum")
DTYPES = (np.float64, np.float32, np.int32, np.complex128, np.bool_, np.int8)


def array(seed, shape, dtype=np.float64, density=0.4):
    rng = np.random.default_rng(seed)
    return ((rng.random(shape) < density) * rng.integers(1, 4, shape)).astype(dtype)


def sparse(dense):
    if dense.ndim == 2:
        return sps.csr_array(dense)
    return asp.tensor(np.stack(np.nonzero(dense)), dense[dense != 0], dense.shape)


def as_dense(result):
    for name in ("toarray", "todense"):
        if hasattr(result, name):
            return np.asarray(getattr(result, name)())
    return np.asarray(result)


@in_turn("expression", "dtype", first=EXPRESSIONS, second=DTYPES)
def test_every_mix_of_sparse_and_dense_is_numpys(expression, dtype):
    operands = [
        array(n, (4,) * len(letters.replace("...", "i")), dtype)
        for n, letters in enumerate(expression.split("->", maxsplit=1)[0].split(","))
    ]
    wanted = np.einsum(expression, *operands)
    for mask in itertools.islice(itertools.product((True, False), repeat=len(operands)), 8 if len(operands) < 4 else 2):
        mixed = [
            sparse(operand) if is_sparse and operand.ndim else operand
            for is_sparse, operand in zip(mask, operands, strict=True)
        ]
        with asp.options(**JOINS):
            found = as_dense(asp.einsum(expression, *mixed))
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("expression", "shapes"),
    [
        ("ij,jk->ik", [(3, 4)]),
        ("ij->ik", [(3, 4)]),
        ("ij->ii", [(3, 4)]),
        ("ij,jk->ik", [(3, 4), (5, 6)]),
        ("ii->i", [(3, 4)]),
        ("ijk->i", [(3, 4)]),
        ("i->i", [(3, 4)]),
        ("i!->i", [(3, 4)]),
        ("ij", [(3, 4), (3, 4)]),
        ("ij,jk->ik", [(3, 4), (4, 5), (5, 6)]),
        ("ij,jk-ik", [(3, 4), (4, 5)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (6, 7)]),
        (". . .ij->ij", [(3, 4)]),
    ],
)
def test_mistakes_are_value_errors_in_numpys_words(expression, shapes):
    operands = [np.zeros(shape) for shape in shapes]
    with pytest.raises(ValueError, match=r"\w") as numpys:
        np.einsum(expression, *operands)
    with pytest.raises(ValueError, match=r"\w") as ours:
        asp.einsum(expression, *map(sps.csr_array, operands))
    assert str(numpys.value) in str(ours.value)
    assert str(shapes[0]) in str(ours.value)


@pytest.mark.parametrize("lists", [([0, 60],), ([0, -1],), ([0, "a"],), ([0, 1], 3), (), ([0, 1], [0, 7])])
def test_mistakes_in_index_lists_are_numpys(lists):
    with pytest.raises((ValueError, TypeError)) as numpys:
        np.einsum(np.zeros((3, 4)), *lists)
    with pytest.raises(type(numpys.value)) as ours:
        asp.einsum(sps.csr_array((3, 4)), *lists)
    assert str(numpys.value) in str(ours.value)


def test_outputs_that_are_not_given_list_indices_in_their_order():
    A = array(1, (3, 4))
    for numbers in ([0, 30], [30, 0], [51, 26], [1, 0]):
        found = asp.einsum(sps.csr_array(A), numbers)
        np.testing.assert_array_equal(as_dense(found), np.einsum(A, numbers))


def test_results_are_sparse_where_operands_are():
    A, d = sps.csr_array(array(1, (4, 4))), np.ones(4)
    assert isinstance(asp.einsum("ij,jk->ik", A, A), asp.csr_array)
    assert asp.einsum("ij,jk->ik", A, A, format="csc").format == "csc"
    assert isinstance(asp.einsum("ij,j->i", A, d), np.ndarray)
    assert isinstance(asp.einsum("ij,j->ij", A, d), asp.csr_array)
    assert isinstance(asp.einsum("ij,jk->ik", A, np.ones((4, 3))), np.ndarray)
    assert np.isscalar(asp.einsum("ij->", A))
    assert asp.einsum("ij,kl->ijkl", A, A).shape == (4, 4, 4, 4)


def test_out_takes_the_result():
    A = sps.csr_array(array(1, (4, 4)))
    out = np.empty((4, 4))
    assert asp.einsum("ij,jk->ik", A, A, out=out) is out
    np.testing.assert_array_equal(out, (A @ A).toarray())
    with pytest.raises(ValueError, match="out has shape"):
        asp.einsum("ij,jk->ik", A, A, out=np.empty(3))


def test_index_lists_and_extents_of_one():
    A, B = array(1, (4, 1)), array(2, (5, 3))
    wanted = np.einsum("ij,jk->ik", A, B)
    np.testing.assert_array_equal(as_dense(asp.einsum("ij,jk->ik", sps.csr_array(A), sps.csr_array(B))), wanted)
    found = asp.einsum(sps.csr_array(A), [0, 1], sps.csr_array(B), [1, 2], [0, 2])
    np.testing.assert_array_equal(as_dense(found), wanted)


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name):
    A = array(3, (4, 5))
    found = asp.einsum("ij,jk->ik", sps.csr_array(A), A.T, format=name)
    np.testing.assert_array_equal(as_dense(found), A @ A.T)
    with pytest.raises(ValueError, match="format"):
        asp.einsum("ij->", sps.csr_array(A), format="nonsense" if name == "dense" else name)


@pytest.mark.parametrize(("expression", "name"), [("ij,kj->ikj", "csf"), ("ij,jk->ik", "dcsr"), ("ij->ji", "csf")])
def test_formats_by_levels_have_distinct_entries_in_the_order_of_modes(expression, name):
    A = array(4, (5, 5))
    operands = [A] * (1 + expression.count(","))
    found = asp.einsum(expression, *map(sps.csr_array, operands), format=name)
    places = list(zip(*found.coords.tolist(), strict=True))
    assert places == sorted(set(places))
    np.testing.assert_array_equal(found.todense(), np.einsum(expression, *operands))


def test_formats_that_do_not_fit_are_refused_with_both_facts():
    A = sps.csr_array(array(3, (4, 4)))
    with pytest.raises(ValueError, match=r"(?s)'csr' holds 2 dimensions, the result has 3.*'csf'"):
        asp.einsum("ij,kj->ikj", A, A, format="csr")
    with pytest.raises(ValueError, match=r"(?s)'tensor' holds 1 dimensions or more, the result has 0.*'dense'"):
        asp.einsum("ij->", A, format="tensor")
    with pytest.raises(ValueError, match=r"(?s)'nonsense'.*use one of csr"):
        asp.einsum_path("ij,jk->ik", A, A, format="nonsense")
    with pytest.raises(ValueError, match="out is an ndarray, format='csr'"):
        asp.einsum("ij,jk->ik", A, A, format="csr", out=np.empty((4, 4)))


def test_dense_results_have_as_many_dimensions_as_numpys():
    T = asp.tensor(np.zeros((10, 1), np.int64), np.array([3.0]), (1,) * 9 + (2,))
    found = asp.einsum("abcdefghij->jabcdefghi", T, format="dense")
    np.testing.assert_array_equal(found, np.moveaxis(T.todense(), -1, 0))


def test_duplicates_and_unsorted_entries_add_up():
    A = sps.coo_array((np.ones(4), ([0, 0, 2, 0], [1, 1, 0, 1])), shape=(3, 3)).tocsr()
    B = sps.csr_array((np.arange(1.0, 5), [1, 1, 0, 2], [0, 2, 2, 4]), shape=(3, 3))
    np.testing.assert_array_equal(as_dense(asp.einsum("ij,jk->ik", A, B)), A.toarray() @ B.toarray())


def test_no_operand_is_a_mistake():
    for arguments in ((), ("ij",)):
        with pytest.raises(
            ValueError, match="must specify the einstein sum subscripts string and at least one operand"
        ):
            asp.einsum(*arguments)


@pytest.mark.parametrize("make", [sps.csr_array, sps.csr_matrix, asp.csr_array, asp.csr_matrix])
def test_products_of_two_see_every_write_and_stay_in_bounds(make):
    A, B = make(array(1, (5, 5))), sps.csr_array(array(2, (5, 5)))
    for _ in range(3):
        for other in (A, B):
            found, wanted = asp.einsum("ij,jk->ik", A, other), sps.csr_array(A) @ sps.csr_array(other)
            np.testing.assert_array_equal(found.toarray(), wanted.toarray())
            assert type(found) is asp.csr_array
        A.data *= 2.0
        A.indices[:] = np.roll(A.indices, 1)
    A.indices[0] = 5
    for operands in ((A, A), (A, B), (B, A)):
        with pytest.raises(ValueError, match="indices must be < 5"):
            asp.einsum("ij,jk->ik", *operands)


@pytest.mark.parametrize("index_types", [(np.int32, np.int64), (np.int64, np.int64)])
def test_products_of_two_with_other_index_types_or_no_entries(index_types):
    dense = [array(1, (4, 5)), array(2, (5, 3))]
    A, B = map(sps.csr_array, dense)
    for one, index_type in zip((A, B), index_types, strict=True):
        one.indices, one.indptr = one.indices.astype(index_type), one.indptr.astype(index_type)
    np.testing.assert_array_equal(as_dense(asp.einsum("ij,jk->ik", A, B)), dense[0] @ dense[1])
    nothing = asp.einsum("ij,jk->ik", sps.csr_array((4, 5)), B)
    assert (nothing.shape, nothing.nnz, nothing.dtype) == ((4, 3), 0, np.float64)


@pytest.mark.parametrize(
    ("expression", "shapes", "facts"),
    [
        ("ij,jk->ik", [(3, 4), (5, 6)], "'j' has extent 4, and 5 in operand 1"),
        ("ii->i", [(3, 4)], "'i' has the extents 3 and 4 of operand 0"),
        ("ijk->i", [(3, 4)], "Operand 0 has 2 dimensions, 'ijk' has 3 subscripts"),
        ("ij,jk->ik", [(3, 4), (4, 5), (5, 6)], "Number of operands: 3; of subscripts: 2"),
        ("ij->ik", [(3, 4)], "The inputs have 'i', 'j'"),
        ("ij->ii", [(3, 4)], "'i' comes 2 times"),
        ("...->", [(3, 4)], "'...' stands for 2 dimensions, which the output '' does not have"),
        ("...i...->i", [(3, 4)], "once in an operand"),
        ("i1->i", [(3, 4)], "letters from a to z"),
    ],
)
def test_errors_name_the_mismatch_and_a_hint(expression, shapes, facts):
    with pytest.raises(ValueError, match=r"\w") as numpys:
        np.einsum(expression, *map(np.zeros, shapes))
    with pytest.raises(ValueError, match=r"\w") as ours:
        asp.einsum(expression, *map(sps.csr_array, shapes))
    assert str(numpys.value) in str(ours.value)
    assert facts in str(ours.value)
    assert "Hint: " in str(ours.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_ellipsis_dimensions_get_valid_index_names():
    T, A = array(1, (2, 3, 4)), array(2, (4, 5))
    found = asp.einsum("...ij,...jk->...ik", sparse(T), sparse(A))
    np.testing.assert_array_equal(as_dense(found), np.einsum("...ij,...jk->...ik", T, A))
    assert "∀a" in asp.einsum_path("...ij,...jk->...ik", sparse(T), sparse(A))


def test_arguments_of_numpys_einsum_are_taken():
    A = array(1, (3, 3))
    S = sps.csr_array(A)
    found = asp.einsum(b"ij,jk->ik", S, S, dtype=np.complex64, casting="same_kind", optimize="greedy")
    wanted = np.einsum("ij,jk->ik", A, A, dtype=np.complex64, casting="same_kind")
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(as_dense(found), wanted)
    T = sparse(array(2, (3, 3, 3)))
    assert asp.einsum("ijk->i", T, dtype=complex).dtype == np.complex128
    for operands in ((S, S), (T, T)):
        with pytest.raises(TypeError, match=r"(?s)to float32 according to the rule 'safe'.*Hint: pass casting="):
            asp.einsum("...i,...i->...", *operands, dtype=np.float32)


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe", "any"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_the_rule_for_casting_holds_without_a_dtype(casting, dtype):
    A, B = array(1, (3, 3)), array(2, (3, 3), dtype)
    outcomes = []
    for function, one, other in ((asp.einsum, sps.csr_array(A), sps.csr_array(B)), (np.einsum, A, B)):
        try:
            outcomes.append(as_dense(function("ij,jk->ik", one, other, casting=casting)).tolist())
        except (TypeError, ValueError) as err:
            outcomes.append("refused" if isinstance(err, TypeError) else "unknown")
    assert outcomes[0] == outcomes[1]


def test_half_precision_gives_what_scipy_has_no_matrix_for():
    A = array(1, (4, 4), np.float16)
    T = asp.tensor(np.stack(np.nonzero(A)), A[A != 0], A.shape)
    found = asp.einsum("ij,jk->ik", T, T)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found.todense(), A @ A)
    with pytest.raises(ValueError, match=r"(?s)'csr' holds no float16.*Hint: pass format='tensor'"):
        asp.einsum("ij,jk->ik", T, T, format="csr")


@pytest.mark.parametrize("density", [0.01, 0.05, 0.2, 0.9])
def test_a_chain_of_one_matrix_is_ordered_as_one_of_its_copies(density):
    A = asp.csr(array(1, (30, 30), density=density))
    B = A.copy()
    assert is_right_first(A, A, A) == is_right_first(A, B, A) == is_right_first(B, A, A)
    np.testing.assert_allclose(as_dense(asp.einsum("ij,jk,kl->il", A, A, A)), as_dense(A @ A @ A))


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1), (3, 3)])
@pytest.mark.parametrize("expression", ["ii->i", "ii->", "ii,i->i", "i,ii->"])
def test_diagonals_take_the_extents_that_numpy_takes(expression, shape):
    square, x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape), np.arange(1.0, 4.0)
    given = [square if len(one) == 2 else x for one in expression.split("->")[0].split(",")]
    ours = [sps.coo_array(one) if one.ndim == 2 else one for one in given]
    refusal = ""
    try:
        wanted = np.einsum(expression, *given)
    except ValueError as err:
        refusal = str(err)
    if not refusal:
        np.testing.assert_allclose(asp.einsum(expression, *ours), wanted)
        return
    with pytest.raises(ValueError, match="collapsing index") as raised:
        asp.einsum(expression, *ours)
    assert refusal in str(raised.value)


@pytest.mark.parametrize("kind", [asp.csr, asp.csc])
def test_trailing_array_elements_are_ignored(kind):
    """Such entries remain after sum_duplicates() or eliminate_zeros() of a matrix that shares its arrays."""
    A = kind(sps.csr_array(np.arange(1.0, 13.0).reshape(4, 3)))
    A.indptr[-1] = A.indptr[-2]
    dense, B = A.toarray(), np.arange(6.0).reshape(3, 2)
    twice = dict.fromkeys(("ij,ij->", "ij,kj->ik"), (A, A))
    for text, operands in {"ij->": (A,), "ij->j": (A,), "ij,jk->ik": (A, B), **twice}.items():
        wanted = np.einsum(text, *(dense if one is A else one for one in operands))
        found = asp.einsum(text, *operands)
        np.testing.assert_allclose(found.toarray() if sps.issparse(found) else found, wanted, err_msg=text)


@pytest.mark.skipif(not IS_RECENT, reason="this SciPy has no vectors of compressed rows")
def test_trailing_array_elements_of_a_vector_are_ignored():
    v = sps.csr_array(np.array([0.0, 1, 0, 2, 0]))
    v.data, v.indices = np.append(v.data, 9.0), np.append(v.indices, np.int32(0))
    assert asp.einsum("j,j->", v, np.ones(5)) == 3


def test_half_precision_is_asked_for_where_scipy_has_none():
    A, dense = asp.csr(np.eye(2, dtype=np.int8)), np.eye(2, dtype=np.int8)
    for text, n in (("ij,jk->ik", 2), ("ij->", 1), ("ii->", 1), ("ij->ji", 1)):
        found = asp.einsum(text, *[A] * n, dtype=np.float16)
        assert found.dtype == np.float16
        wanted = np.einsum(text, *[dense] * n)
        np.testing.assert_array_equal(found.todense() if hasattr(found, "todense") else found, wanted)
