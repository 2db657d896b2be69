"""Short programs with products of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from shortlib.inputs import graph, grid, scattered, vector
from shortlib.program import dense, is_ours, load, short


@short(lambda: {"A": scattered(200, 150, 0.05), "x": vector(150)})
def one_product(sp: Any, A: Any, x: Any) -> Any:
    """Compute one small product."""
    return load(sp, A) @ x


@short(lambda: {"A": scattered(5000, 5000, 0.004), "x": vector(5000)})
def three_products(sp: Any, A: Any, x: Any) -> Any:
    """Compute three products with 100,000 entries."""
    A = load(sp, A)
    return A @ (A @ (A @ x))


@short(lambda: {"A": scattered(5000, 5000, 0.008), "x": vector(5000)})
def one_large_product(sp: Any, A: Any, x: Any) -> Any:
    """Compute one product with 200,000 entries."""
    return load(sp, A) @ x


@short(lambda: {"A": scattered(5000, 5000, 0.004), "x": vector(5000)})
def many_products(sp: Any, A: Any, x: Any) -> Any:
    """Compute a hundred products with 100,000 entries."""
    A = load(sp, A)
    for _ in range(100):
        x = A @ x
        x /= np.abs(x).max()
    return x


@short(lambda: {"A": scattered(2000, 1500, 0.01), "X": vector(1500, 16)})
def block_product(sp: Any, A: Any, X: Any) -> Any:
    """Multiply by sixteen columns, three times."""
    A = load(sp, A)
    for _ in range(3):
        X = A.T @ (A @ X)
        X /= np.abs(X).max()
    return X


@short(lambda: {"A": scattered(1000, 800, 0.02, dtype="float32"), "X": vector(800, 32, dtype="float32")}, rtol=1e-4)
def single_precision(sp: Any, A: Any, X: Any) -> Any:
    """Multiply in single precision by 32 columns."""
    A = load(sp, A)
    return A @ X, A @ X[:, 0], A.T @ (A @ X)


@short(lambda: {"A": scattered(1000, 800, 0.02), "X": vector(800, 8)})
def fortran_order(sp: Any, A: Any, X: Any) -> Any:
    """Multiply by columns in Fortran's order and by single columns."""
    A = load(sp, A)
    return A @ np.asfortranarray(X), np.stack([A @ X[:, j] for j in range(8)])


@short(lambda: {"A": scattered(1000, 800, 0.02), "y": vector(1000)})
def from_the_left(sp: Any, A: Any, y: Any) -> Any:
    """Multiply from the left."""
    A = load(sp, A)
    return y @ A, np.stack([y, 2 * y]) @ A, A.T @ y


@short(lambda: {"A": scattered(600, 500, 0.02), "B": scattered(500, 400, 0.02)})
def sparse_product(sp: Any, A: Any, B: Any) -> Any:
    """Multiply two sparse matrices and sum the result."""
    C = load(sp, A) @ load(sp, B)
    return C.sum(axis=0), C.nnz


@short(lambda: {"A": scattered(3000, 3000, 0.003)})
def sparse_square(sp: Any, A: Any) -> Any:
    """Square a matrix of 27,000 entries."""
    A = load(sp, A)
    return (A @ A).sum(axis=1)


@short(lambda: {"A": scattered(600, 400, 0.02)})
def gram(sp: Any, A: Any) -> Any:
    """Compute A.T @ A and A @ A.T."""
    A = load(sp, A)
    return dense(A.T @ A), (A @ A.T).sum(axis=0)


@short(lambda: {"A": scattered(300, 300, 0.02, matrix=True)})
def matrix_powers(sp: Any, A: Any) -> Any:
    """Compute A**3 of a csr_matrix."""
    return (load(sp, A) ** 3).toarray()


@short(lambda: {"A": scattered(300, 300, 0.02, matrix=True), "x": vector(300)})
def star_products(sp: Any, A: Any, x: Any) -> Any:
    """Multiply csr_matrix objects by `*`."""
    A = load(sp, A)
    return A * x, (A * A).toarray(), A * 2 * x


@short(lambda: {"A": grid(40, 40), "x": vector(1600), "y": vector(1600, seed=1)})
def quadratic_form(sp: Any, A: Any, x: Any, y: Any) -> Any:
    """Compute a quadratic form by einsum, or by two products."""
    A = load(sp, A)
    return sp.einsum("i,ij,j->", x, A, y) if is_ours(sp) else x @ (A @ y)


@short(lambda: {"A": scattered(500, 400, 0.02), "X": vector(400, 8)})
def einsum_product(sp: Any, A: Any, X: Any) -> Any:
    """Multiply by einsum."""
    A = load(sp, A)
    return sp.einsum("ij,jk->ik", A, X) if is_ours(sp) else A @ X


@short(lambda: {"A": scattered(500, 400, 0.02), "B": scattered(500, 400, 0.02, seed=1)})
def einsum_row_sums(sp: Any, A: Any, B: Any) -> Any:
    """Sum rows of an elementwise product by einsum."""
    A, B = load(sp, A), load(sp, B)
    return np.asarray(sp.einsum("ij,ij->i", A, B) if is_ours(sp) else A.multiply(B).sum(axis=1)).ravel()


@short(lambda: {"A": graph(400, 8.0), "X": vector(400, 8)})
def sampled(sp: Any, A: Any, X: Any) -> Any:
    """Compute inner products of nodes that have an edge."""
    A = load(sp, A)
    rows, cols = A.nonzero()
    values = np.einsum("ij,ij->i", X[rows], X[cols])
    return sp.csr_array((values, (rows, cols)), shape=A.shape).sum(axis=1)


@short(lambda: {"A": scattered(300, 300, 0.05, dtype="int64"), "x": vector(300)})
def mixed_types(sp: Any, A: Any, x: Any) -> Any:
    """Multiply integers by floats and booleans by integers."""
    A = load(sp, A)
    return A @ x, (A > 4) @ np.arange(300), (A > 4).astype(int) @ A.T @ np.ones(300)


@short(lambda: {"A": graph(500, 6.0)})
def boolean_reach(sp: Any, A: Any) -> Any:
    """Compute which nodes are three steps away by boolean products."""
    A = load(sp, A).astype(bool)
    R = A
    for _ in range(2):
        R = (R @ A) + R
    return R.sum(axis=1)


@short(lambda: {"systems": [scattered(60, 60, 0.1, seed=k) for k in range(20)]})
def many_small(sp: Any, systems: Any) -> Any:
    """Run ten products on each of twenty small matrices."""
    found = []
    for m in systems:
        A, x = load(sp, m), np.ones(60)
        for _ in range(10):
            x = A @ x
            x = x / np.linalg.norm(x)
        found.append(x)
    return np.array(found)


@short(lambda: {"A": grid(30, 30)})
def changing_values(sp: Any, A: Any) -> Any:
    """Change the values between products."""
    A, x = load(sp, A).copy(), np.ones(900)
    for step in range(20):
        A.data *= 0.99 + 0.001 * step
        x = A @ x
        x /= np.linalg.norm(x)
    return x


@short(lambda: {"A": scattered(300, 200, 0.05)})
def outer_products(sp: Any, A: Any) -> Any:
    """Sum outer products of rows."""
    A = load(sp, A)
    S = A[[0]].T @ A[[0]]
    for i in range(1, 30):
        S = S + A[[i]].T @ A[[i]]
    return S.sum(axis=0), S.nnz
