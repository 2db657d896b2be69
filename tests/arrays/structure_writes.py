"""Writes to indices and pointers, in place and by SciPy's methods; and reads that export arrays."""

from __future__ import annotations

import numpy as np

from tests.arrays.samples import N_COLUMNS, N_ROWS, World, spot, write

# -- writes to the structure


@write
def set_item(w: World, rng: np.random.Generator) -> None:
    i, j = rng.integers(w.A.shape[0]), rng.integers(w.A.shape[1])
    w.A[int(i), int(j)] = rng.random()


@write
def set_diagonal(w: World, rng: np.random.Generator) -> None:
    w.A.setdiag(rng.random())


@write
def index_in_place(w: World, rng: np.random.Generator) -> None:
    w.A.indices[spot(w.A.indices, rng)] = rng.integers(w.n_minor)
    w.A.has_sorted_indices = False


@write
def keep_indices(w: World, rng: np.random.Generator) -> None:
    w.kept["indices"] = w.A.indices


@write
def write_indices(w: World, rng: np.random.Generator) -> None:
    if "indices" in w.kept:
        w.kept["indices"][0] = rng.integers(min(N_ROWS, N_COLUMNS))
        w.A.has_sorted_indices = False


@write
def write_origin_indices(w: World, rng: np.random.Generator) -> None:
    if "origin_indices" in w.kept:
        w.kept["origin_indices"][-1] = rng.integers(min(N_ROWS, N_COLUMNS))
        w.A.has_sorted_indices = False


@write
def rebind_indices(w: World, rng: np.random.Generator) -> None:
    w.A.indices = rng.integers(w.n_minor, size=len(w.A.indices)).astype(w.A.indices.dtype)
    w.A.has_sorted_indices = False


@write
def widen_indices(w: World, rng: np.random.Generator) -> None:
    w.A.indices, w.A.indptr = w.A.indices.astype(np.int64), w.A.indptr.astype(np.int64)


@write
def pointer_in_place(w: World, rng: np.random.Generator) -> None:
    row = int(rng.integers(1, len(w.A.indptr) - 1))
    w.A.indptr[row] = w.A.indptr[row - 1]


@write
def keep_pointers(w: World, rng: np.random.Generator) -> None:
    w.kept["indptr"] = w.A.indptr[1:]


@write
def write_pointers(w: World, rng: np.random.Generator) -> None:
    if "indptr" in w.kept:
        w.kept["indptr"][0] = 0


@write
def rebind_pointers(w: World, rng: np.random.Generator) -> None:
    n_stored = int(w.A.indptr[-1])
    inner = np.sort(rng.integers(n_stored + 1, size=len(w.A.indptr) - 2))
    w.A.indptr = np.concatenate([[0], inner, [n_stored]]).astype(w.A.indptr.dtype)
    w.A.has_sorted_indices = False


@write
def sum_duplicates(w: World, rng: np.random.Generator) -> None:
    w.A.has_canonical_format = False
    w.A.has_sorted_indices = False
    w.A.sum_duplicates()


@write
def sort_indices(w: World, rng: np.random.Generator) -> None:
    w.A.has_sorted_indices = False
    w.A.sort_indices()


@write
def eliminate_zeros(w: World, rng: np.random.Generator) -> None:
    w.A.data[::4] = 0
    w.A.eliminate_zeros()


@write
def prune(w: World, rng: np.random.Generator) -> None:
    w.A.prune()


@write
def resize_and_back(w: World, rng: np.random.Generator) -> None:
    shape = w.A.shape
    w.A.resize(shape[0] - 1, shape[1] - 1)
    w.A.resize(*shape)


@write
def state_swap(w: World, rng: np.random.Generator) -> None:
    twin = w.A.copy()
    twin.data[0] = rng.random()
    w.A.__dict__ = dict(twin.__dict__)


# -- reads that export arrays


@write
def look(w: World, rng: np.random.Generator) -> None:
    w.A.data.sum()
    w.A.sum(axis=0)


@write
def look_at_structure(w: World, rng: np.random.Generator) -> None:
    _ = w.A.nnz, w.A.indices[0], w.A.has_sorted_indices


@write
def forget_everything(w: World, rng: np.random.Generator) -> None:
    w.kept.clear()
