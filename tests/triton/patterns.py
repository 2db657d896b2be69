"""Small irregular patterns: (crow, col, shape) of matrices, CSF levels of tensors."""

from __future__ import annotations

import numpy as np

Matrix = tuple[list[int], list[int], tuple[int, int]]


def _of_lengths(lengths: list[int], n_cols: int, *, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    rows = [sorted(rng.choice(n_cols, size=length, replace=False).tolist()) for length in lengths]
    return [0, *np.cumsum(lengths).tolist()], [c for row in rows for c in row], (len(lengths), n_cols)


def mixed() -> Matrix:
    """Return a matrix with empty rows at both ends and inside, short rows and long ones."""
    return _of_lengths([0, 3, 1, 0, 17, 5, 2, 9, 4, 1, 1, 0, 21, 3, 2, 6, 0, 7, 0], 23, seed=1)


def huge_row() -> Matrix:
    """Return a matrix with one row that is longer than all the others together."""
    return _of_lengths([1, 0, 61, 2, 1], 67, seed=2)


def all_empty() -> Matrix:
    """Return a matrix with rows and columns, but no entries."""
    return [0] * 8, [], (7, 5)


def no_rows() -> Matrix:
    """Return a matrix with columns only."""
    return [0], [], (0, 5)


def duplicates() -> Matrix:
    """Return a matrix with repeated entries, adjacent and not."""
    return [0, 5, 5, 8, 9], [2, 2, 0, 3, 2, 1, 1, 1, 3], (4, 4)


def dense_block() -> Matrix:
    """Return a matrix with full blocks of 8 × 8, which are not aligned to blocks of 16."""
    lengths = [8] * 16 + [0, 1]
    cols = [c for row in range(16) for c in range(8 * (row // 8), 8 * (row // 8) + 8)]
    return [0, *np.cumsum(lengths).tolist()], [*cols, 17], (18, 18)


MATRICES = {
    "mixed": mixed,
    "one huge row": huge_row,
    "no entries": all_empty,
    "no rows": no_rows,
    "duplicates": duplicates,
    "dense blocks": dense_block,
}

Tensor = tuple[list[int], list[int], list[int], list[int], tuple[int, int, int]]


def fibers() -> Tensor:
    """Return a tensor with roots without fibers, fibers of several lengths, and a root that is divided."""
    return (
        [0, 2, 2, 7, 8, 8],
        [0, 3, 1, 2, 3, 4, 0, 4],
        [0, 3, 4, 6, 7, 12, 13, 14, 15],
        [*list(range(12)), 1, 2, 0],
        (5, 5, 12),
    )


def empty_tensor() -> Tensor:
    """Return a tensor without entries."""
    return [0, 0, 0], [], [0], [], (2, 3, 4)


TENSORS = {"fibers": fibers, "empty": empty_tensor}
