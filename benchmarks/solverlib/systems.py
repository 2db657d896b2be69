"""Linear systems of solvers.py: five grids, twenty real matrices, and small ones.

A real matrix is listed if it has at least 15 entries per row and is the largest of its group in the index of the
folder. Solvers for definite systems get the shifted graph Laplacian of the matrix, solvers for unsymmetric systems the
matrix with a dominant diagonal, and least squares solvers the matrix itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import matrices_folder

GRIDS: Final[Mapping[str, tuple[int, int]]] = {
    "grid 20^3": (20, 3), "grid 40^3": (40, 3), "grid 80^3": (80, 3), "grid 500^2": (500, 2), "grid 120^3": (120, 3),
}  # fmt: skip
"""Points along each side, and number of dimensions."""
REAL: Final = (
    "bcsstk16", "elast_bunny_r1", "elast_cube_sphere_r1", "elast_elbow_r1", "elast_indheat_r1",
    "elast_perfusion_micro3d_r1", "gene_ontology_closure", "kg_FB15K237_adj", "lp_maros-r7", "muelu_maxwell_M1",
    "musae_DE", "musae_FR", "musae_crocodile", "musae_facebook", "musae_squirrel", "pushpull", "qp_QSHIP12L_P",
    "rfc_docterm", "szdMat", "teko_AddMultiplyPrecs_modified",
)  # fmt: skip
SMALL: Final = (10, 30, 100, 300, 1000)
"""Numbers of unknowns of tridiagonal systems."""
KINDS: Final = ("definite", "unsymmetric", "rectangular", "decaying")
DECAY: Final = 8.0
"""Largest row sum of absolute values of a matrix whose exponential is applied."""
DOMINANCE: Final = 1.001
"""Diagonal entry over the sum of absolute values of the other entries of its row."""


@dataclass(frozen=True, slots=True)
class System:
    """One matrix as one kind of solver needs it, and right-hand sides."""

    m: Any  # scipy.sparse.csr_array
    b: Any
    B: Any  # eight right-hand sides

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.m.shape[0])

    def permuted(self, rng: np.random.Generator) -> System:
        """Return the system with equations and unknowns in a random order, the same for both if A is square."""
        n_rows, n_columns = self.m.shape
        rows = rng.permutation(n_rows)
        columns = rows if n_rows == n_columns else rng.permutation(n_columns)
        m = scipy.sparse.csr_array(self.m[rows][:, columns])
        m.sort_indices()
        return System(m, self.b[rows], np.ascontiguousarray(self.B[rows]))


def families() -> dict[str, tuple[str, ...]]:
    """Return the names of systems by family; real matrices only if their folder exists."""
    folder = matrices_folder()
    real = tuple(name for name in REAL if folder is not None and (folder / f"{name}.npz").is_file())
    return {"grids": tuple(GRIDS), "others": real, "small": tuple(f"n = {n}" for n in SMALL)}


def make(name: str, kind: str, dtype: str) -> System | None:
    """Return the system, or None if the matrix cannot be of this kind."""
    m = _matrix(name)
    if kind != "rectangular" and m.shape[0] != m.shape[1]:
        return None
    m = _of_kind(m, "definite" if kind == "decaying" else kind, is_grid=name not in REAL)
    if kind == "decaying":
        m = m * (-DECAY / abs(m).sum(axis=1).max())
    m = scipy.sparse.csr_array(m, dtype=dtype)
    m.sum_duplicates()
    rng = np.random.default_rng(0)
    B = rng.random((m.shape[0], 8)).astype(dtype)
    return System(m, np.ascontiguousarray(B[:, 0]), B)


def _matrix(name: str) -> Any:
    if name in GRIDS:
        return grid(*GRIDS[name])
    if name.startswith("n = "):
        return grid(int(name[4:]), 1)
    folder = matrices_folder()
    assert folder is not None
    return scipy.sparse.csr_array(scipy.sparse.load_npz(folder / f"{name}.npz")).astype(float)


def grid(n: int, dimensions: int) -> Any:
    """Return second differences on a grid, made definite by the diagonal."""
    ones = np.ones(n)
    T = scipy.sparse.diags_array([-ones[1:], 2.01 * ones, -ones[1:]], offsets=[-1, 0, 1])
    eye, made = scipy.sparse.eye_array(n), T
    for _ in range(dimensions - 1):
        made = scipy.sparse.kron(made, eye) + scipy.sparse.kron(scipy.sparse.eye_array(made.shape[0]), T)
    made = scipy.sparse.csr_array(made)
    made.sum_duplicates()
    return made


def _of_kind(m: Any, kind: str, *, is_grid: bool) -> Any:
    if kind == "rectangular":
        return m
    if is_grid:
        wind = scipy.sparse.diags_array([np.full(m.shape[0] - 1, 0.2)], offsets=[1], shape=m.shape)
        return m if kind == "definite" else m + wind
    off = scipy.sparse.csr_array(m - scipy.sparse.diags_array(m.diagonal()))
    off.eliminate_zeros()
    if kind == "definite":
        off = -(abs(off) + abs(off).T)
    rows = np.maximum(abs(off).sum(axis=1), abs(off).sum(axis=0))
    return off + scipy.sparse.diags_array(DOMINANCE * np.where(rows > 0, rows, 1.0))
