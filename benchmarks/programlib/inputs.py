"""Inputs of programs: real matrices if their folder exists, and generated ones of the same kind otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from peerlib.environment import matrices_folder


def real_or(name: str, stand_in: Callable[[], Any], *, toy: bool) -> Any:
    """Return the matrix `name` of the folder in float64, or `stand_in()` if it is missing or `toy` is set."""
    folder = None if toy else matrices_folder()
    path = None if folder is None else folder / f"{name}.npz"
    if path is None or not path.exists():
        return canonical(stand_in())
    return canonical(scipy.sparse.load_npz(path))


def canonical(m: Any, dtype: str = "float64") -> Any:
    """Convert `m` to a csr_array with sorted 32-bit indices and without duplicates."""
    found: Any = scipy.sparse.csr_array(m).astype(dtype)
    found.sum_duplicates()
    found.indices = found.indices.astype(np.int32)
    found.indptr = found.indptr.astype(np.int32)
    return found


def generated(family: str, *, nnz: int, seed: int = 0) -> Any:
    """Return a pattern of `autosparse.tuner.research.generators.base` with values 1."""
    from autosparse.tuner.research.generators.base import generate

    found = generate(family, nnz=nnz, seed=seed)
    rows, cols = found.indices
    return canonical(scipy.sparse.coo_array((np.ones(rows.size), (rows, cols)), shape=found.shape))


def graph(name: str, *, n: int, degree: float, toy: bool) -> Any:
    """Return an undirected graph with weights 1: the real one `name`, or one of `n` nodes with heavy tails."""
    m = real_or(name, lambda: heavy_tails(60 if toy else n, degree), toy=toy)
    both = (m + m.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.data[:] = 1.0
    return canonical(both)


def heavy_tails(n: int, degree: float, seed: int = 0) -> Any:
    """Make a directed graph whose node k is drawn with weight (k + 1) ** -0.7; nodes are shuffled."""
    rng = np.random.default_rng(seed)
    weights = (1.0 + np.arange(n)) ** -0.7
    cumulative = np.cumsum(weights / weights.sum())
    ends = np.minimum(np.searchsorted(cumulative, rng.random((2, int(n * degree)))), n - 1)
    rows, cols = rng.permutation(n)[ends]
    return scipy.sparse.coo_array((np.ones(rows.size), (rows, cols)), shape=(n, n))


def second_difference(n: int) -> Any:
    """Return the matrix of -u'' on `n` inner points, scaled by h**2."""
    return scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")


def first_difference(n: int) -> Any:
    """Return the matrix of central differences of u' on `n` inner points, scaled by 2 h."""
    return scipy.sparse.diags_array([-1.0, 1.0], offsets=[-1, 1], shape=(n, n), format="csr")


def laplacian(*extents: int) -> Any:
    """Return the positive definite Laplacian of a grid with these extents."""
    total: Any = None
    for at, _ in enumerate(extents):
        term: Any = scipy.sparse.eye_array(1)
        for axis, n in enumerate(extents):
            term = scipy.sparse.kron(term, second_difference(n) if axis == at else scipy.sparse.eye_array(n))
        total = term if total is None else total + term
    return canonical(total)


def convection(nx: int, ny: int, strength: float) -> Any:
    """Return the unsymmetric matrix of diffusion and a wind along both axes, on a grid of nx x ny points."""
    wind = scipy.sparse.kron(first_difference(nx), scipy.sparse.eye_array(ny)) + 0.5 * scipy.sparse.kron(
        scipy.sparse.eye_array(nx), first_difference(ny)
    )
    return canonical(laplacian(nx, ny) + strength * wind)


def saddle_point(n: int) -> Any:
    """Return [[H, A'], [A, 0]] of a discretised control problem on n x n points."""
    H = scipy.sparse.eye_array(2 * n * n) * 0.1
    A = scipy.sparse.hstack([laplacian(n, n), -scipy.sparse.eye_array(n * n)])
    return scipy.sparse.block_array([[H, A.T], [A, None]])


def _one_dimensional(n: int) -> dict[str, Any]:
    """Return matrices of linear elements on `n` points.

    They are the stiffness matrix, the mass matrix, and the mixed matrix of a derivative and a value.
    """
    diag, off = np.full(n, 2.0), np.full(n - 1, -1.0)
    diag[[0, -1]] = 1.0
    mixed = scipy.sparse.diags_array([-0.5, 0.5], offsets=[-1, 1], shape=(n, n)).tolil()
    mixed[0, 0], mixed[n - 1, n - 1] = -0.5, 0.5
    return {
        "stiffness": scipy.sparse.diags_array([off, diag, off], offsets=[-1, 0, 1]).tocsr(),
        "mass": scipy.sparse.diags_array([-off / 6, diag / 3, -off / 6], offsets=[-1, 0, 1]).tocsr(),
        "mixed": mixed.tocsr(),  # value of the test function, derivative of the unknown
    }


def elasticity(n: int, *, lame: float = 1.0, shear: float = 1.0) -> Any:
    """Return linear elasticity in a cube of trilinear elements with n**3 points and one fixed face.

    There are 3 n**2 (n - 1) unknowns.
    """
    one = _one_dimensional(n)

    def integral(of_test: int, of_unknown: int) -> Any:
        """Return the integral of d(test)/dx_i d(unknown)/dx_j, as a Kronecker product of one-dimensional matrices."""
        product: Any = scipy.sparse.eye_array(1)
        for axis in range(3):
            name = "mass" if axis not in (of_test, of_unknown) else "mixed"
            part = one["stiffness"] if axis == of_test == of_unknown else one[name]
            product = scipy.sparse.kron(product, part.T if name == "mixed" and axis == of_test != of_unknown else part)
        return product

    gradient = sum(integral(axis, axis) for axis in range(3))
    total: Any = None
    for i in range(3):
        for j in range(3):
            block = lame * integral(i, j) + shear * integral(j, i) + (shear * gradient if i == j else 0 * gradient)
            place = scipy.sparse.coo_array(([1.0], ([i], [j])), shape=(3, 3))
            term = scipy.sparse.kron(block, place, format="csr")
            total = term if total is None else total + term
    held = 3 * n * n  # the face x = 0
    found = canonical(total)[held:, held:]
    found.eliminate_zeros()
    return canonical(found)


def heavy_rows(m: int, n: int, per_row: int, seed: int = 0) -> Any:
    """Make a design matrix or bag of words: about `per_row` of `n` unequally popular features in each of `m` rows."""
    rng = np.random.default_rng(seed)
    weights = (1.0 + np.arange(n)) ** -0.9
    cumulative = np.cumsum(weights / weights.sum())
    cols = np.minimum(np.searchsorted(cumulative, rng.random(m * per_row)), n - 1)
    rows = np.repeat(np.arange(m), per_row)
    found = canonical(scipy.sparse.coo_array((np.ones(rows.size), (rows, rng.permutation(n)[cols])), shape=(m, n)))
    found.data[:] = 1.0
    return found
