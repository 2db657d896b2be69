"""Short programs that select and assign parts of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from shortlib.inputs import graph, scattered, vector
from shortlib.program import dense, load, short


@short(lambda: {"A": scattered(300, 200, 0.05)})
def row_loop(sp: Any, A: Any) -> Any:
    """Sum each row A[[i]] in a loop."""
    A = load(sp, A)
    return np.array([A[[i]].sum() for i in range(A.shape[0])])


@short(lambda: {"A": scattered(200, 150, 0.05, matrix=True)})
def getrow_loop(sp: Any, A: Any) -> Any:
    """Compute norms of rows by getrow."""
    A = load(sp, A)
    return np.array([np.sqrt(A.getrow(i).multiply(A.getrow(i)).sum()) for i in range(A.shape[0])])


@short(lambda: {"A": scattered(150, 200, 0.05, matrix=True)})
def iterate_rows(sp: Any, A: Any) -> Any:
    """Iterate over a matrix row by row."""
    return np.array([row.max() for row in load(sp, A)])


@short(lambda: {"A": scattered(200, 150, 0.05)})
def first_row(sp: Any, A: Any) -> Any:
    """Look at the first row that an iterator returns."""
    row = next(iter(load(sp, A)))
    return dense(row), row.nnz


@short(lambda: {"A": scattered(300, 200, 0.05, matrix=True)})
def column_loop(sp: Any, A: Any) -> Any:
    """Compute the largest entry of each column of a CSC matrix."""
    C = load(sp, A).tocsc()
    return np.array([C[:, j].max() for j in range(C.shape[1])])


@short(lambda: {"A": scattered(400, 300, 0.03)})
def elements_by_number(sp: Any, A: Any) -> Any:
    """Read single elements."""
    A = load(sp, A)
    return np.array([A[i, (i * 7) % 300] for i in range(300)])


@short(lambda: {"A": scattered(1000, 500, 0.02)})
def fancy_rows(sp: Any, A: Any) -> Any:
    """Select rows by arrays of numbers and by masks."""
    A, rng = load(sp, A), np.random.default_rng(0)
    part = A[rng.permutation(1000)[:200]]
    mask = rng.random(1000) < 0.3
    return part @ np.ones(500), A[mask] @ np.ones(500)


@short(lambda: {"A": scattered(500, 500, 0.02)})
def fancy_columns(sp: Any, A: Any) -> Any:
    """Select columns by arrays of numbers, slices and masks."""
    A = load(sp, A)
    return A[:, [3, 1, 4]].toarray(), A[:, ::5].sum(axis=1), A[:, np.arange(500) % 3 == 0].sum(axis=0)


@short(lambda: {"A": scattered(500, 500, 0.02)})
def submatrix(sp: Any, A: Any) -> Any:
    """Select a block and its complement by np.ix_."""
    A, rows = load(sp, A), np.arange(0, 500, 3)
    return A[np.ix_(rows, rows)].toarray(), A[100:200, 50:150].sum()


@short(lambda: {"A": graph(400, 6.0)})
def largest_component(sp: Any, A: Any) -> Any:
    """Keep the nodes with an edge to a chosen group."""
    A = load(sp, A)
    near = np.asarray(A[:, :20].sum(axis=1)).ravel() > 0
    B = A[near][:, near]
    return B.shape, B.sum(axis=0)


@short(lambda: {"A": scattered(300, 200, 0.05)})
def split(sp: Any, A: Any) -> Any:
    """Split a matrix into parts for training and testing."""
    A, order = load(sp, A), np.random.default_rng(0).permutation(300)
    train, test = A[order[:240]], A[order[240:]]
    return train.sum(axis=0), dense(test @ train.T)


@short(lambda: {"A": scattered(500, 500, 0.02)})
def masked_values(sp: Any, A: Any) -> Any:
    """Set small values to zero and remove them."""
    A = load(sp, A).copy()
    A.data[A.data < 0.5] = 0
    A.eliminate_zeros()
    return A.nnz, A @ np.ones(500)


@short(lambda: {"A": scattered(300, 300, 0.03)})
def masked_assignment(sp: Any, A: Any) -> Any:
    """Assign to the elements that a comparison selects."""
    A = load(sp, A).copy()
    A[A > 0.5] = 1.0
    return A.sum(), A @ np.ones(300)


@short(lambda: {"A": scattered(200, 200, 0.05)})
def assign_elements(sp: Any, A: Any) -> Any:
    """Assign to elements that have an entry."""
    A = load(sp, A).copy()
    rows, cols = A.nonzero()
    for i, j in zip(rows[:60], cols[:60], strict=True):
        A[i, j] = 2.0
    return A.sum(axis=0)


@short(lambda: {"A": scattered(300, 300, 0.03)})
def set_diagonal(sp: Any, A: Any) -> Any:
    """Replace the diagonal."""
    A = load(sp, A).tolil()
    A.setdiag(5.0)
    return A.tocsr() @ np.ones(300)


@short(lambda: {"A": scattered(400, 400, 0.02, matrix=True)})
def zero_rows(sp: Any, A: Any) -> Any:
    """Zero rows by indptr and put ones on their diagonal, as for boundary conditions."""
    A = load(sp, A).copy()
    for i in range(0, 400, 10):
        A.data[A.indptr[i] : A.indptr[i + 1]] = 0
    A = A + sp.diags((np.arange(400) % 10 == 0).astype(float), format="csr")
    A.eliminate_zeros()
    return A @ np.ones(400), A.nnz


@short(lambda: {"A": scattered(300, 200, 0.1)})
def top_of_rows(sp: Any, A: Any) -> Any:
    """Keep the three largest entries of each row."""
    A, rows, cols, values = load(sp, A), [], [], []
    for i in range(A.shape[0]):
        start, end = A.indptr[i], A.indptr[i + 1]
        best = start + np.argsort(-A.data[start:end], kind="stable")[:3]
        rows += [i] * best.size
        cols.append(A.indices[best])
        values.append(A.data[best])
    T = sp.csr_array((np.concatenate(values), (rows, np.concatenate(cols))), shape=A.shape)
    return T.sum(axis=0)


@short(lambda: {"A": scattered(500, 300, 0.03), "x": vector(300)})
def sliding_windows(sp: Any, A: Any, x: Any) -> Any:
    """Multiply slices of rows that overlap."""
    A = load(sp, A)
    return np.array([np.linalg.norm(A[i : i + 50] @ x) for i in range(0, 450, 10)])


@short(lambda: {"A": scattered(100, 100, 0.1)})
def dense_rows(sp: Any, A: Any) -> Any:
    """Convert rows to dense arrays one by one."""
    A = load(sp, A)
    return np.array([A[[i]].toarray().ravel() @ np.arange(100) for i in range(100)])
