"""Matrices of the GPU comparison: real matrices, attention masks and block-pruned weights."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps

Matrix = Any  # scipy.sparse.csr_array, which is not generic at run time
MAX_PER_KIND = 2
"""Number of real matrices per kind: the largest ones, from distinct groups."""


def log_sparse(n: int) -> Matrix:
    """Make the LogSparse attention mask: each position attends to itself and to positions a power of 2 before it."""
    rows, cols = [np.arange(n)], [np.arange(n)]
    for distance in (2**k for k in range(int(math.log2(n)) + 1)):
        rows.append(np.arange(distance, n))
        cols.append(np.arange(n - distance))
    return sps.csr_array((np.ones(sum(map(len, rows))), (np.concatenate(rows), np.concatenate(cols))), shape=(n, n))


def strided(n: int) -> Matrix:
    """Make the strided attention mask: a band of sqrt(n) positions and every sqrt(n)-th position before it."""
    step = math.isqrt(n)
    i, j = np.arange(n)[:, None], np.arange(n)[None, :]
    return sps.csr_array(((i >= j) & ((i - j < step) | ((i - j) % step == 0))).astype(float))


def pruned(n: int, block: int, density: float) -> Matrix:
    """Make weights whose blocks are pruned at random (STile, Table 4)."""
    kept = np.random.default_rng(0).random((n // block, n // block)) < density
    return sps.csr_array(np.kron(kept, np.ones((block, block))))


def loaded(path: Path) -> Matrix:
    """Load the matrix in one file."""
    return sps.csr_array(sps.load_npz(path))


def real(folder: Path) -> Iterator[tuple[str, Matrix]]:
    """Yield the largest matrices of FEM, graph, block and mask kinds by the folder's `index.csv`, one per group."""
    with (folder / "index.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["is_tensor"] == "0"]
    groups: set[str] = set()
    for word in ("FEM", "graph", "block", "mask"):
        taken = 0
        for row in sorted(rows, key=lambda row: -int(row["nnz"])):
            path = folder / f"{row['name']}.npz"
            if word in row["kind"] and row["group"] not in groups and path.exists() and taken < MAX_PER_KIND:
                groups.add(row["group"])
                taken += 1
                yield row["name"], loaded(path)


def matrices(folder: Path | None, *, dry: bool) -> Iterator[tuple[str, Matrix]]:
    """Yield (name, matrix) of all inputs; tiny generated ones only if `dry`."""
    n = 64 if dry else 4096
    yield "LogSparse", log_sparse(n)
    yield "Strided", strided(n)
    for block in (16, 32):
        yield f"pruned {block}", pruned(n, block, 0.1)
    if folder is not None and not dry:
        yield from real(folder)
