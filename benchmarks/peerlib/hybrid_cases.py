"""Matrices for benchmarks of hybrid formats: planted parts, and the paper's masks, pruned weights and case study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from peerlib.environment import matrices_folder
from peerlib.matrices import find_matrices, load

Matrix = Any  # sp.csr_matrix of float32


def from_entries(rows: Any, columns: Any, shape: tuple[int, int], seed: int = 0) -> Matrix:
    """Make a matrix of random values at these places; duplicates are merged. Needs 32 bytes for each place."""
    keys = np.asarray(rows, np.int64) * shape[1]
    keys += columns
    keys.sort()
    keys = keys[np.diff(keys, prepend=-1) > 0]
    values = np.random.default_rng(seed).standard_normal(keys.size).astype(np.float32)
    indptr = np.searchsorted(keys, np.arange(shape[0] + 1) * shape[1]).astype(np.int32)
    keys %= shape[1]
    return sp.csr_matrix((values, keys.astype(np.int32), indptr), shape=shape)


def typed(made: Matrix) -> Matrix:
    """Convert to float32 values and int32 indices, with sorted columns."""
    made = sp.csr_matrix(made)
    made.sort_indices()
    arrays = (made.data.astype(np.float32), made.indices.astype(np.int32), made.indptr.astype(np.int32))
    return sp.csr_matrix(arrays, shape=made.shape)


def planted_blocks(n: int = 6000, side: int = 4, per_row: int = 10, scatter: float = 0.25, seed: int = 0) -> Matrix:
    """Make a matrix of `per_row` full blocks per block row; a fraction `scatter` of all entries is at random places."""
    rng = np.random.default_rng(seed)
    m = n // side
    down = np.repeat(np.arange(m), per_row)
    across = np.concatenate([rng.choice(m, per_row, replace=False) for _ in range(m)])
    inner = np.arange(side)
    rows = (down[:, None, None] * side + inner[:, None] + 0 * inner).ravel()
    columns = (across[:, None, None] * side + 0 * inner[:, None] + inner).ravel()
    extra = int(rows.size * scatter / (1.0 - scatter))
    rows = np.concatenate([rows, rng.integers(0, n, extra)])
    columns = np.concatenate([columns, rng.integers(0, n, extra)])
    return from_entries(rows, columns, (n, n), seed)


def with_dense_rows(base: Matrix, n_rows: int = 40, density: float = 0.5, seed: int = 1) -> Matrix:
    """Return `base` with some rows filled up to `density`."""
    rng = np.random.default_rng(seed)
    n, width = base.shape
    chosen = np.sort(rng.choice(n, min(n, n_rows), replace=False))
    dense = sp.random_array((chosen.size, width), density=density, format="csr", dtype=np.float32, random_state=rng)
    places = sp.csr_matrix((np.ones(chosen.size, np.float32), (chosen, np.arange(chosen.size))), shape=(n, chosen.size))
    return typed(base + places @ sp.csr_matrix(dense))


def power_law(n: int = 40_000, mean: float = 8.0, exponent: float = 1.6, seed: int = 0) -> Matrix:
    """Make a graph whose degrees follow a power law; columns are also drawn with unequal probability."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum(n // 4, (rng.pareto(exponent, n) + 0.5) * mean * (exponent - 1.0) / exponent).astype(np.int64)
    rows = np.repeat(np.arange(n), degrees)
    popular = rng.random(rows.size)  # in place from here on: graphs have up to 10^8 edges
    popular **= 2.0
    popular *= n
    columns = popular.astype(np.int32)
    return from_entries(rows, rng.permutation(n)[columns], (n, n), seed)


def log_sparse(n: int = 4096) -> Matrix:
    """Make the LogSparse attention mask: row i has i, every i - 2^j inside, and i + 2^j if i + 2^(j + 1) is inside
    too.

    It has 90,115 entries for n = 4,096, as in the paper: its authors' generator omits the last step to the right.
    """
    i = np.arange(n)
    rows, columns = [i], [i]
    for j in range(n.bit_length()):
        for inside, offset in ((i >= 2**j, -(2**j)), (i + 2 ** (j + 1) < n, 2**j)):
            rows.append(i[inside])
            columns.append(i[inside] + offset)
    return from_entries(np.concatenate(rows), np.concatenate(columns), (n, n))


def strided(n: int = 4096, stride: int = 64) -> Matrix:
    """Make the strided attention mask: 63 neighbours on each side, and every 64th position further on.

    It has 766,144 entries for n = 4,096.
    """
    i = np.arange(n)
    rows, columns = [], []
    for offset in range(-stride + 1, stride):
        inside = (i + offset >= 0) & (i + offset < n)
        rows.append(i[inside])
        columns.append(i[inside] + offset)
    for sign, room in ((1, (n - 1 - i) // stride), (-1, i // stride)):
        for j in range(1, n // stride):
            inside = room - 1 >= j
            rows.append(i[inside])
            columns.append(i[inside] + sign * stride * j)
    return from_entries(np.concatenate(rows), np.concatenate(columns), (n, n))


def pruned(n: int = 1024, density: float = 0.1, block: int = 1, seed: int = 0) -> Matrix:
    """Make weights pruned at random, entry by entry or in blocks of `block` x `block`."""
    rng = np.random.default_rng(seed)
    kept = np.flatnonzero(rng.random((n // block) ** 2) < density)
    down, across, inner = kept // (n // block), kept % (n // block), np.arange(block)
    rows = (down[:, None, None] * block + inner[:, None] + 0 * inner).ravel()
    columns = (across[:, None, None] * block + 0 * inner[:, None] + inner).ravel()
    return from_entries(rows, columns, (n, n), seed)


def case_study(n_blocks: int = 64, side: int = 16, tail: int = 48) -> Matrix:
    """Make the paper's case study (Section 5.4): diagonal blocks whose first rows continue to the right."""
    n = n_blocks * side + tail
    rows, columns = [], []
    for block in range(n_blocks):
        first = block * side
        inner = np.arange(side)
        rows += [np.repeat(first + inner, side), np.full(tail, first)]
        columns += [np.tile(first + inner, side), first + side + np.arange(tail)]
    return from_entries(np.concatenate(rows), np.concatenate(columns), (n, n))


def real(name: str) -> Matrix:
    """Load a matrix of the folder of real ones; raise ValueError if it is missing."""
    folder = matrices_folder()
    files = find_matrices(folder, only=(name,)) if folder is not None else []
    if not files:
        raise ValueError(f"no matrix {name} in {folder}: set AUTOSPARSE_MATRICES to a folder that has it")
    return load(files[0].path, dtype="float32")


def transposed(name: str) -> Matrix:
    """Return the transpose of a real matrix, in CSR."""
    return typed(real(name).T)


Products = tuple[tuple[str, int], ...]  # operations with the columns of their dense operands
LONG_ROWS: Final = (
    "citeseer_shchur_attr", "musae_feat_squirrel", "musae_feat_ENGB", "musae_feat_DE", "musae_feat_FR",
)  # fmt: skip
"""Feature matrices and bags of words. Their transposes have long rows, and composites beat a fixed list of formats."""
GENERATED: Final[Mapping[str, tuple[Callable[[], Matrix], Products]]] = {
    "planted 4x4 + 25 % scatter": (planted_blocks, (("matmul", 256), ("sddmm", 256))),
    "FEM + 40 dense rows": (lambda: with_dense_rows(real("elast_cube_sphere_r1")), (("matmul", 256),)),
    "power law 1.6": (power_law, (("matmul", 32),)),
    "power law 1.3": (partial(power_law, exponent=1.3, seed=1), (("matmul", 32),)),
    "power law 2.0": (partial(power_law, exponent=2.0, seed=2), (("matmul", 32),)),
    "LogSparse": (log_sparse, (("matmul", 64), ("sddmm", 64))),
    "Strided": (strided, (("matmul", 64), ("sddmm", 64))),
    "unstructured": (pruned, (("matmul", 128), ("sddmm", 128))),
    "structured": (partial(pruned, block=32), (("matmul", 128), ("sddmm", 128))),
    "gene_ontology_closure": (partial(real, "gene_ontology_closure"), (("matmul", 256),)),
    "musae_crocodile": (partial(real, "musae_crocodile"), (("matmul", 256),)),
    **{f"{name}, transposed": (partial(transposed, name), (("matmul", 256),)) for name in LONG_ROWS},
    "case study": (case_study, (("matmul", 32),)),
    **{name: (partial(real, name), (("matmul", 128), ("sddmm", 128))) for name in ("cora", "citeseer", "pubmed")},
}
"""Function that makes the matrix, and its products, by name."""


def generated(name: str) -> Matrix:
    """Make the matrix of this name in `GENERATED`."""
    return GENERATED[name][0]()


def scattered(n: int = 100_000, nnz: int = 1_000_000) -> Matrix:
    """Make a matrix with entries at random places."""
    rng = np.random.default_rng(0)
    return from_entries(rng.integers(0, n, nnz), rng.integers(0, n, nnz), (n, n))


MILLION: Final[Mapping[str, Callable[[], Matrix]]] = {
    "scattered": scattered,
    "power law": partial(power_law, n=170_000),
    "planted 4x4": partial(planted_blocks, n=19_000),
    "35 dense rows": lambda: with_dense_rows(power_law(n=40_000, exponent=2.0), 35),
}
"""Matrices of about a million entries, for timing the proposal of composites."""
