"""Tests of the trees of entries that a tensor keeps between calls: writes are noticed, memory is within the option."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse as asp
from autosparse.contraction import remembered
from autosparse.contraction.lower.ordered_entries import OrderedEntries

EXPRESSIONS = ("ikl,jk,jl->ij", "ikl,k->il", "ikl,lm->mki", "ikl,kil->", "ikl,ikl->l")
CALLS = 4

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.usefixtures("kernels_at_once"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Return one cache folder for all tests, so that each program is compiled once."""
    return tmp_path_factory.mktemp("cache")


def entries(kind: str, n: int = 60) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return coordinates, values and shape; coordinates are sorted, distinct in any order, or partly repeated."""
    rng = np.random.default_rng(len(kind))
    shape = (5, 6, 7)
    places = rng.permutation(np.prod(shape))[:n]
    if kind == "sorted":
        places = np.sort(places)
    elif kind == "repeated":
        places[n // 2 :] = places[: n - n // 2]
    return np.stack(np.unravel_index(places, shape)), rng.standard_normal(n), shape


def others(expression: str, T: asp.AutoSparseTensor) -> list[object]:
    """Return the second and further operands, of fitting extents."""
    extents = dict(zip(expression.split(",", maxsplit=1)[0], T.shape, strict=True)) | {"j": 4, "m": 3}
    rng = np.random.default_rng(3)
    found: list[object] = []
    for letters in expression.split("->", maxsplit=1)[0].split(",")[1:]:
        shape = tuple(extents[one] for one in letters)
        dense = np.where(rng.random(shape) < 0.5, rng.standard_normal(shape), 0.0)
        if len(shape) == 2:
            found.append(sps.csr_array(dense))
        elif len(shape) == 3:
            found.append(asp.tensor(np.stack(np.nonzero(dense)), dense[np.nonzero(dense)], shape))
        else:
            found.append(dense)
    return found


def plain(one: object) -> np.ndarray:
    return np.asarray(one.todense() if hasattr(one, "todense") else one)


def check(expression: str, T: asp.AutoSparseTensor, rest: list[object], dtype: type | None = None) -> None:
    wanted = np.einsum(expression, *(plain(one) for one in (T, *rest)))
    got = plain(asp.einsum(expression, T, *rest, dtype=dtype))
    np.testing.assert_allclose(got, wanted, rtol=1e-5 if T.dtype == np.float32 else 1e-10, atol=1e-6)


@pytest.mark.parametrize("kind", ["sorted", "in any order", "repeated"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_write_to_the_values_is_seen(expression: str, kind: str, cache, monkeypatch) -> None:
    monkeypatch.setattr(remembered, "RACE_S", 0.0)
    monkeypatch.setattr(remembered, "CALLS_BEFORE_TIMING", CALLS)
    remembered._choices.clear()
    coords, values, shape = entries(kind)
    for extra_memory in (1.5, 100.0, 0.0):
        T = asp.tensor(coords, values.copy(), shape)
        rest = others(expression, T)
        with asp.options(cache_dir=cache, extra_memory=extra_memory):
            for _ in range(CALLS + 2):
                check(expression, T, rest)
            T.values[:] = np.arange(T.nnz)  # in place
            check(expression, T, rest)
            alias = T.values
            check(expression, T, rest)
            alias[3] = 100.0  # through an array obtained before
            check(expression, T, rest)
            T.values = values[::-1]  # by assigning another array, which is not contiguous
            check(expression, T, rest)
            T.values = values.astype(np.float32)
            check(expression, T, rest)
            check(expression, T, rest, np.float64)


@pytest.mark.parametrize("kind", ["sorted", "in any order", "repeated"])
def test_cached_data_stay_within_the_extra_memory_option(kind: str, cache) -> None:
    coords, values, shape = entries(kind, 200)
    for extra_memory in (0.0, 1.5, 3.0, 100.0):
        T = asp.tensor(coords, values, shape)
        with asp.options(cache_dir=cache, extra_memory=extra_memory):
            for expression in EXPRESSIONS * 3:
                check(expression, T, others(expression, T))
            kept = OrderedEntries.of(T._entries)
            n_bytes = sum(one.n_bytes for one in kept._kept.values()) + (
                0 if kept._place is None else kept._place.nbytes
            )
            # The permutation of unsorted entries is kept whatever the option says, because sorting takes longest.
            least = 0 if kept._place is None else kept._place.nbytes
            assert n_bytes <= max(least, extra_memory * (T.coords.nbytes + values.nbytes))
            assert kept._kept or extra_memory < 100.0


def test_trees_are_made_once_and_one_call_keeps_none(cache) -> None:
    coords, values, shape = entries("sorted")
    T = asp.tensor(coords, values, shape)
    rest = others("ikl,jk,jl->ij", T)
    remembered._choices.clear()
    with asp.options(cache_dir=cache, extra_memory=100.0, effort="estimate"):
        check("ikl,jk,jl->ij", T, rest)
        kept = OrderedEntries.of(T._entries)
        assert not kept._kept
        check("ikl,jk,jl->ij", T, rest)
        made = dict(kept._kept)
        assert made
        check("ikl,jk,jl->ij", T, rest)
        assert all(kept._kept[name].tree.crd is one.tree.crd for name, one in made.items())
