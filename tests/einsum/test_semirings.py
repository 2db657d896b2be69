"""Tests of `einsum` in other semirings, against loops over dense arrays with the semiring's zero for absent entries."""

from __future__ import annotations

import functools
import shutil
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sps
from hypothesis import given, settings

import autosparse as asp
from autosparse.contraction.choice import choose
from autosparse.contraction.expressions.semirings import SEMIRINGS
from autosparse.contraction.lower import numba_kernel
from autosparse.contraction.operands import Sparse, prepare
from autosparse.contraction.results import dense
from autosparse.contraction.subscripts import read
from autosparse.errors import EinsumError

OTHERS = tuple(name for name in SEMIRINGS if name != "plus_times")
EXTENTS = {"i": 4, "j": 5, "k": 3, "l": 2}
EXPRESSIONS = (
    "ij,jk->ik", "ij,kj->ik", "ij,jk,kl->il", "ij,jk,ik->ik", "ij,ij->ij", "ij,ij->i", "ij,ij->", "ij,j->i", "ij,i->j",
    "ij->j", "ij->ji", "ij->", "ij,kl->ik", "ij,jk,kl,il->il", "ij,jk,kl,il,ik->j", "i,j->ij",
)  # fmt: skip
has_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def reference(text: str, arrays: list[Any], name: str) -> Any:
    """Return the einsum by NumPy: products broadcast over all indices, then reduced."""
    semiring = SEMIRINGS[name]
    left, _, output = text.partition("->")
    letters = "".join(dict.fromkeys(output + left.replace(",", "")))
    parts = []
    for indices, array in zip(left.split(","), arrays, strict=True):
        order = sorted(range(len(indices)), key=lambda mode: letters.index(indices[mode]))
        shape = [EXTENTS[index] if index in indices else 1 for index in letters]
        parts.append(array.transpose(order).reshape(shape))
    terms = functools.reduce(semiring.multiply, parts)
    whole = np.broadcast_to(terms, [EXTENTS[index] for index in letters])
    return semiring.add.reduce(whole, axis=tuple(range(len(output), len(letters))), initial=semiring.zero)


def operand(rng: np.random.Generator, indices: str, name: str, dtype: str, kind: str) -> tuple[Any, Any]:
    """Return an operand of the given kind, and the array of its values with the semiring's zero for absent entries."""
    shape = tuple(EXTENTS[index] for index in indices)
    stored = rng.random(shape) < rng.choice((0.0, 0.3, 0.7))
    values = rng.integers(0, 5, shape).astype(dtype)
    zero = SEMIRINGS[name].zero
    array = np.where(stored, values.astype(SEMIRINGS[name].dtype(np.dtype(dtype))), zero)
    if kind == "dense":
        return (array if not np.isinf(zero) or np.dtype(dtype).kind == "f" else array.astype(float)), array
    coords = np.nonzero(stored)
    if kind == "tensor" or len(shape) != 2 or dtype == "float16":  # SciPy has no half precision
        return asp.tensor(np.stack(coords), values[coords], shape), array
    return sps.coo_array((values[coords], coords), shape=shape).asformat(kind), array


def as_array(result: Any, name: str) -> Any:
    """Return a result as an array with the semiring's zero for absent entries."""
    if isinstance(result, np.ndarray) or np.isscalar(result):
        return np.asarray(result)
    coo = result.tocoo() if hasattr(result, "tocoo") else result
    found = SEMIRINGS[name].filled(result.shape, result.dtype)
    found[tuple(np.asarray(row) for row in coo.coords)] = coo.data if hasattr(coo, "data") else coo.values
    return found


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    text=st.sampled_from(EXPRESSIONS),
    kinds=st.lists(st.sampled_from(("csr", "csc", "coo", "tensor", "dense")), min_size=5, max_size=5),
    dtype=st.sampled_from(("float32", "float64", "int16", "int64", "bool", "float16")),
    fmt=st.sampled_from((None, "dense")),
)
def test_einsum_equals_loops_over_arrays(
    name: str, seed: int, text: str, kinds: list[str], dtype: str, fmt: Any
) -> None:
    rng = np.random.default_rng(seed)
    inputs = text.split("->", maxsplit=1)[0].split(",")
    pairs = [operand(rng, one, name, dtype, kind) for one, kind in zip(inputs, kinds, strict=False)]
    result = asp.einsum(text, *(one for one, _ in pairs), format=fmt, semiring=name)
    wanted = reference(text, [array for _, array in pairs], name)
    np.testing.assert_array_equal(as_array(result, name), wanted)
    assert result.dtype == SEMIRINGS[name].dtype(np.result_type(*(one.dtype for one, _ in pairs)))


@has_compiler
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk,ik->", "ij,j->i", "ij,i->j"])
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.usefixtures("kernels_at_once")
def test_compiled_kernels_equal_loops_over_arrays(name: str, text: str) -> None:
    rng = np.random.default_rng(sum(map(ord, name + text)))
    for fmt, dtype in ((None, "float32"), ("dense", "int32")):
        pairs = [operand(rng, one, name, dtype, "csr") for one in text.split("->", maxsplit=1)[0].split(",")]
        result = asp.einsum(text, *(one for one, _ in pairs), format=fmt, semiring=name)
        wanted = reference(text, [array for _, array in pairs], name)
        np.testing.assert_array_equal(as_array(result, name), wanted)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk,ik->", "ij,j->i"])
def test_python_kernels_equal_loops_over_arrays(name: str, text: str) -> None:
    rng = np.random.default_rng(7)
    pairs = [operand(rng, one, name, "float64", "csr") for one in text.split("->", maxsplit=1)[0].split(",")]
    subscripts = read(text, [one.shape for one, _ in pairs])._replace(semiring=name)
    prepared = prepare([one for one, _ in pairs], subscripts, SEMIRINGS[name].dtype(np.dtype(float)))
    named = {f"T{n}": one for n, one in enumerate(prepared)}
    wanted = reference(text, [array for _, array in pairs], name)
    for _, plan, _ in choose(prepared, subscripts, is_dense_output=False).plans:
        result = numba_kernel.run(plan, named, EXTENTS, is_compiled=False)
        found = dense(result, SEMIRINGS[name]) if isinstance(result, Sparse) else result
        np.testing.assert_array_equal(found, wanted)


def test_infinity_and_nan_follow_numpy() -> None:
    A = sps.csr_array(np.array([[1.0, np.nan], [np.inf, 2.0]]))
    x = np.array([1.0, -np.inf])
    for name in ("min_plus", "max_plus"):
        wanted = SEMIRINGS[name].add.reduce(A.toarray() + x, axis=1)
        np.testing.assert_array_equal(asp.einsum("ij,j->i", A, x, semiring=name), wanted)


def test_duplicates_are_summed_and_stored_zeros_are_values() -> None:
    A = sps.coo_array(([1.0, -1.0, 3.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    D = asp.einsum("ij->ij", A, semiring="min_plus")
    assert D.nnz == 2
    np.testing.assert_array_equal(asp.einsum("ij->i", A, semiring="min_plus"), [0.0, 3.0])
    np.testing.assert_array_equal(asp.einsum("ij->ij", A, semiring="or_and").toarray(), [[False, False], [True, False]])
    np.testing.assert_array_equal(
        asp.einsum("ij->ij", A, semiring="min_plus", format="dense"), [[np.inf, 0], [3, np.inf]]
    )


def test_shortest_paths_and_reachability_are_scipys() -> None:
    G = sps.random_array((40, 40), density=0.08, random_state=np.random.default_rng(3), format="csr")
    D, R = G, G
    for _ in range(6):  # paths of up to 64 edges
        D = asp.einsum("ik + ij,jk -> ik", D, D, D, semiring="min_plus")
        R = asp.einsum("ik + ij,jk -> ik", R, R, R, semiring="or_and")
    wanted = sps.csgraph.shortest_path(G.toarray())
    found = as_array(D, "min_plus")
    np.fill_diagonal(found, 0)
    np.testing.assert_allclose(found, wanted)
    reached = R.toarray()
    np.fill_diagonal(reached, True)
    np.testing.assert_array_equal(reached, np.isfinite(wanted))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"semiring": "plus_min"}, "unknown semiring 'plus_min'"),
        ({"semiring": "min_plus", "dtype": "int64"}, "computes in float64, not in int64"),
        ({"semiring": None}, "unknown semiring None"),
    ],
)
def test_faults_of_the_semiring_raise(given: dict[str, Any], message: str) -> None:
    A = sps.csr_array(np.eye(2))
    with pytest.raises(EinsumError, match=message):
        asp.einsum("ij->ij", A, casting="unsafe", **given)


def test_values_outside_of_the_domain_raise() -> None:
    A = sps.csr_array(np.array([[0.0, -1.0], [2.0, 0.0]]))
    for fmt in ("csr", "dense"):
        with pytest.raises(EinsumError, match="values that are not negative"):
            asp.einsum("ij,jk->ik", A, A, semiring="max_times", format=fmt)
    for name in ("min_plus", "max_plus", "max_times"):
        with pytest.raises(EinsumError, match="has no order"):
            asp.einsum("ij->ij", A.astype(complex), semiring=name)


def test_dense_operands_and_interleaved_sublists() -> None:
    A = np.array([[0.0, 3.0], [np.inf, 1.0]])
    wanted = (A[:, :, None] + A[None]).min(axis=1)
    np.testing.assert_array_equal(asp.einsum("ij,jk", A, A, semiring="min_plus"), wanted)
    np.testing.assert_array_equal(asp.einsum(A, [0, 1], A, [1, 2], [0, 2], semiring="min_plus"), wanted)
    out = np.empty((2, 2))
    assert asp.einsum("ij,jk->ik", sps.csr_array(np.eye(2)), A, semiring="min_plus", out=out) is out
    np.testing.assert_array_equal(out, A + 1)
