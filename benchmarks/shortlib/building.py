"""Short programs that build and convert matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from shortlib.inputs import coo, grid, scattered, vector
from shortlib.program import dense, load, short


@short(lambda: {"entries": coo(500, 400, 3000)})
def coo_once(sp: Any, entries: Any) -> Any:
    """Build a matrix from entries by coordinates and multiply once."""
    values, rows, cols = entries
    A = load(sp, sp.coo_array((values, (rows, cols)), shape=(500, 400)).tocsr())
    return A @ np.ones(400)


@short(lambda: {"entries": coo(5000, 5000, 100_000)})
def coo_large(sp: Any, entries: Any) -> Any:
    """Build a matrix of 100,000 entries and compute its symmetric part."""
    values, rows, cols = entries
    A = load(sp, sp.csr_matrix((values, (rows, cols)), shape=(5000, 5000)))
    S = (A + A.T) / 2
    return S @ np.ones(5000)


@short(lambda: {"entries": coo(200, 200, 2000)})
def coo_each_step(sp: Any, entries: Any) -> Any:
    """Build a new matrix in each of thirty steps."""
    values, rows, cols = entries
    x = np.ones(200)
    for step in range(30):
        A = sp.coo_matrix((values * (1 + step % 3), (rows, cols)), shape=(200, 200)).tocsr()
        x = A @ x
        x /= x.max()
    return x


@short(lambda: {"entries": coo(300, 300, 3000)})
def triples_from_lists(sp: Any, entries: Any) -> Any:
    """Build a matrix from Python lists."""
    values, rows, cols = (part.tolist() for part in entries)
    A = sp.csr_matrix((values, (rows, cols)), shape=(300, 300))
    return np.asarray(A.sum(axis=1)).ravel()


@short(lambda: {"m": scattered(300, 200, 0.05).toarray()})
def from_dense(sp: Any, m: Any) -> Any:
    """Make a matrix from a dense array and compute with it."""
    A = sp.csr_array(m)
    return A @ np.ones(200), A.T @ np.ones(300), A.nnz


@short(lambda: {"rows": [[0, 1.5, 0, 2], [0, 0, 3, 0], [4, 0, 0, 5]]})
def tutorial(sp: Any, rows: Any) -> Any:
    """Type a small matrix as lists and print its parts."""
    A = sp.csr_matrix(rows)
    return A.toarray(), A.data, A.indices, A.indptr, A.dot(np.arange(4)), dense(A[1])


@short(lambda: {"n": 150})
def lil_rows(sp: Any, n: int) -> Any:
    """Fill rows of a LIL matrix and convert it."""
    A = sp.lil_array((n, n))
    for i in range(n):
        A[i, i] = 2.0
        A[i, (i * 7) % n] = 1.0
    return load(sp, A.tocsr()) @ np.arange(n)


@short(lambda: {"n": 100})
def dok_entries(sp: Any, n: int) -> Any:
    """Set elements of a DOK matrix and convert it."""
    A = sp.dok_matrix((n, n))
    for k in range(400):
        A[k * 13 % n, k * 7 % n] = k
    return np.asarray(load(sp, A.tocsr()).sum(axis=0)).ravel()


@short(lambda: {"A": grid(20, 20), "B": scattered(400, 100, 0.02)})
def blocks(sp: Any, A: Any, B: Any) -> Any:
    """Join blocks to a saddle point matrix."""
    A, B = load(sp, A), load(sp, B)
    K = sp.bmat([[A, B], [B.T, None]], format="csr")
    return K @ np.ones(K.shape[1]), K.nnz


@short(lambda: {"A": scattered(300, 200, 0.03)})
def stacks(sp: Any, A: Any) -> Any:
    """Stack a matrix below and beside itself."""
    A = load(sp, A)
    V, H = sp.vstack([A, A, 2 * A]), sp.hstack([A, A], format="csr")
    return V.tocsr() @ np.ones(200), H @ np.ones(400)


@short(lambda: {"A": scattered(50, 50, 0.1), "B": scattered(20, 20, 0.1)})
def kronecker(sp: Any, A: Any, B: Any) -> Any:
    """Compute a Kronecker product and multiply by it."""
    K = sp.kron(load(sp, A), load(sp, B), format="csr")
    return K @ np.ones(1000)


@short(lambda: {"A": scattered(40, 30, 0.2)})
def block_diagonal(sp: Any, A: Any) -> Any:
    """Repeat a block along the diagonal."""
    D = sp.block_diag([load(sp, A)] * 12, format="csr")
    return D @ np.ones(360)


@short(lambda: {"A": scattered(800, 800, 0.01)})
def triangles_of(sp: Any, A: Any) -> Any:
    """Split a matrix into its triangles and its diagonal."""
    A = load(sp, A)
    L, U = sp.tril(A, k=-1, format="csr"), sp.triu(A, k=1, format="csr")
    return (L + U + sp.diags(A.diagonal(), format="csr") - A).nnz, L.sum(), U.sum()


@short(lambda: {"A": scattered(500, 400, 0.02)})
def formats(sp: Any, A: Any) -> Any:
    """Convert to every format and back."""
    A = load(sp, A)
    return tuple(A.asformat(name).tocsr() @ np.ones(400) for name in ("csc", "coo", "lil", "dia", "bsr", "dok"))


@short(lambda: {"A": scattered(2000, 2000, 0.01)})
def columns_of(sp: Any, A: Any) -> Any:
    """Convert to CSC and read columns through its arrays."""
    C = load(sp, A).tocsc()
    return np.array([C.data[C.indptr[j] : C.indptr[j + 1]].sum() for j in range(0, 2000, 10)]), C.T @ np.ones(2000)


@short(lambda: {"A": scattered(300, 300, 0.05)})
def coordinates(sp: Any, A: Any) -> Any:
    """Loop over the entries of a COO matrix."""
    M, total = load(sp, A).tocoo(), 0.0
    for i, j, v in zip(M.row, M.col, M.data, strict=True):
        total += v * (i - j)
    return total


@short(lambda: {"A": scattered(300, 200, 0.05)})
def nonzero_and_find(sp: Any, A: Any) -> Any:
    """List rows, columns and values of the entries."""
    A = load(sp, A)
    return *A.nonzero(), *sp.find(A)


@short(lambda: {"n": 400, "x": vector(400)})
def random_matrix(sp: Any, n: int, x: Any) -> Any:
    """Draw a random matrix and iterate with it."""
    A = sp.random(n, n, density=0.02, format="csr", random_state=0)
    for _ in range(20):
        x = A @ x
        x = x / np.linalg.norm(x)
    return x


@short(lambda: {"data": vector(500), "n": 500})
def identity_and_diagonal(sp: Any, data: Any, n: int) -> Any:
    """Compute with diagonal matrices and identities."""
    D = sp.diags_array(data)
    A = load(sp, (D + sp.eye_array(n)).tocsr())
    return A @ data, (A @ A).diagonal(), A.trace()


@short(lambda: {"A": scattered(600, 400, 0.02)})
def triple_constructor(sp: Any, A: Any) -> Any:
    """Make a matrix of the same structure with other values."""
    A = load(sp, A)
    B = sp.csr_array((np.sqrt(A.data), A.indices, A.indptr), shape=A.shape)
    return B @ np.ones(400), (A + B).sum()


@short(lambda: {"A": scattered(300, 300, 0.03)})
def permute(sp: Any, A: Any) -> Any:
    """Permute rows and columns by a permutation matrix."""
    A, p = load(sp, A), np.random.default_rng(0).permutation(300)
    P = sp.csr_array((np.ones(300), (np.arange(300), p)), shape=(300, 300))
    return dense(P @ A @ P.T)
