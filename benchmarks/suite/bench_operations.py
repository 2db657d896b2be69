"""asv benchmarks of the operations beside ``A @ B``, each repeated, beside the usual way to compute it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

import autosparse
from autosparse.config import reload_options, set_options
from suite import cases

COLUMNS: Final = 32


def sddmm(m: Any, by: str) -> Callable[[], Any]:
    """Return m * (X @ Y) on the pattern of m, with 32 inner columns; SciPy's way gathers rows and columns."""
    X, Y = cases.dense(m.shape[0], COLUMNS), cases.dense(m.shape[1], COLUMNS)
    if by != "scipy":
        A, Yt = autosparse.csr(m), np.ascontiguousarray(Y.T)
        return lambda: autosparse.sddmm(A, X, Yt)
    coo = m.tocoo()
    row, col = coo.coords
    return lambda: m.data * np.einsum("ij,ij->i", X[row], Y[col])


def mttkrp(m: Any, by: str) -> Callable[[], Any]:
    """Return MTTKRP with rank 16 of a tensor with the entries of m in eight layers; NumPy's way adds rows."""
    coo = m.tocoo()
    row, col = coo.coords
    layers = (row + col) % 8
    shape = (*m.shape, 8)
    factors = [cases.dense(extent, 16) for extent in shape]
    if by != "scipy":
        T = autosparse.tensor(np.stack([row, col, layers]), m.data, shape=shape)
        return lambda: autosparse.mttkrp(T, factors, mode=0)

    def added() -> np.ndarray:
        result = np.zeros((m.shape[0], 16), m.dtype)
        np.add.at(result, row, m.data[:, None] * factors[1][col] * factors[2][layers])
        return result

    return added


def spgemm(m: Any, by: str) -> Callable[[], Any]:
    """Return m @ m of the leading square part."""
    n = min(m.shape)
    A = m[:n, :n].tocsr()
    A = A if by == "scipy" else autosparse.csr(A)
    return lambda: A @ A


def transposed(m: Any, by: str) -> Callable[[], Any]:
    """Return m.T @ x."""
    A, x = m if by == "scipy" else autosparse.csr(m), cases.dense(m.shape[0], 1)
    return lambda: A.T @ x


def triangular(m: Any, by: str) -> Callable[[], Any]:
    """Return the solution for the lower triangle of m with a dominant diagonal."""
    n = min(m.shape)
    lower = scipy.sparse.tril(m[:n, :n], -1, format="csr")
    lower = (lower / max(1.0, float(abs(lower).sum(axis=1).max())) + scipy.sparse.eye_array(n, dtype=m.dtype)).tocsr()
    b, module = cases.dense(n, 1), scipy.sparse.linalg if by == "scipy" else autosparse.linalg
    L = lower if by == "scipy" else autosparse.csr(lower)
    return lambda: module.spsolve_triangular(L, b, lower=True)


OPERATIONS: Final[Mapping[str, Callable[[Any, str], Callable[[], Any]]]] = {
    function.__name__: function for function in (sddmm, mttkrp, spgemm, transposed, triangular)
}


class Operation:
    """Repeated operation, untuned and tuned as the library decides, beside SciPy or NumPy."""

    params = (cases.names(), tuple(OPERATIONS), ("scipy", "off", "measure"))
    param_names = ("matrix", "operation", "by")

    def setup(self, matrix: str, operation: str, by: str) -> None:
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # threads may still write plans
        set_options(cache_dir=self.folder.name, effort="off" if by == "scipy" else by)
        self.run = OPERATIONS[operation](cases.matrix(matrix), by)
        self.run()

    def teardown(self, matrix: str, operation: str, by: str) -> None:
        reload_options()
        self.folder.cleanup()

    def time_operation(self, matrix: str, operation: str, by: str) -> None:
        self.run()
