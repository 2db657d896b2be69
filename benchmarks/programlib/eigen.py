"""Programs that compute eigenvalues and singular values."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from programlib import inputs
from programlib.program import Inputs, Program, csr


def social_graph(toy: bool) -> Inputs:
    A = inputs.graph("soc-brightkite", n=56_000, degree=3.8, toy=toy)
    return {"A": A, "v0": np.ones(A.shape[0])}


def eigsh(sp: Any, A: Any, v0: Any) -> Any:
    """Compute the largest eigenvalues of the normalised adjacency of a graph."""
    A = csr(sp, A)
    scale = sp.diags_array(1.0 / np.sqrt(np.maximum(A.sum(axis=1), 1.0)))
    A = csr(sp, scale @ A @ scale)
    return scipy.sparse.linalg.eigsh(A, k=20, which="LA", v0=v0, return_eigenvectors=False, tol=1e-6)


def surface(toy: bool) -> Inputs:
    L = inputs.real_or("cotan_nefertiti", lambda: inputs.laplacian(*((12, 10) if toy else (220, 210))), toy=toy)
    return {"L": L, "X": np.random.default_rng(0).standard_normal((L.shape[0], 3 if toy else 8))}


def lobpcg(sp: Any, L: Any, X: Any) -> Any:
    """Compute the highest frequencies of a surface by a block method."""
    L = csr(sp, L)
    values, _ = scipy.sparse.linalg.lobpcg(L, X, largest=True, tol=1e-4, maxiter=40)
    return values


def documents(toy: bool) -> Inputs:
    shape = (50, 30, 6) if toy else (5_000, 60_000, 800)
    X = inputs.real_or("rfc_docterm", lambda: inputs.heavy_rows(*shape), toy=toy)
    X.data = np.log1p(np.abs(X.data))
    return {"X": X, "v0": np.ones(min(X.shape))}


def svds(sp: Any, X: Any, v0: Any) -> Any:
    """Compute a latent semantic analysis."""
    X = csr(sp, X)
    return scipy.sparse.linalg.svds(X, k=6, v0=v0, return_singular_vectors=False)


PROGRAMS: Final = (
    Program(name="eigsh", what="eigsh, twenty largest, social graph", prepare=social_graph, run=eigsh, rtol=1e-5),
    Program(name="lobpcg", what="lobpcg, block of eight, surface", prepare=surface, run=lobpcg, rtol=1e-3),
    Program(name="svds", what="svds, bag of words", prepare=documents, run=svds, rtol=1e-5),
)
