"""Matrices for the asv suite: small generated ones, and real ones if the folder of matrices exists."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse
from peerlib.environment import matrices_folder
from peerlib.matrices import as_csr, load

REAL: Final = ("bcsstk16", "wiki-Vote")
COLUMNS: Final = (1, 32, 256)


def poisson() -> Any:
    """Return the 5-point stencil on a 200 x 200 grid."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(200, 200))
    return scipy.sparse.kronsum(line, line, format="csr")


def banded() -> Any:
    """Return a matrix with 21 diagonals and 20,000 rows."""
    offsets = list(range(-10, 11))
    return scipy.sparse.diags_array([1.0] * len(offsets), offsets=offsets, shape=(20_000, 20_000), format="csr")


def scattered() -> Any:
    """Return a uniformly random matrix with 10 entries per row and 20,000 rows."""
    return scipy.sparse.random_array(
        (20_000, 20_000), density=5e-4, format="csr", random_state=np.random.default_rng(0)
    )


GENERATED: Final[dict[str, Callable[[], Any]]] = {"poisson": poisson, "banded": banded, "scattered": scattered}


def names() -> list[str]:
    """Return the names of generated matrices, followed by the real ones that exist."""
    folder = matrices_folder()
    return [*GENERATED, *(name for name in REAL if folder is not None and (folder / f"{name}.npz").is_file())]


def matrix(name: str) -> Any:
    """Return the matrix `name` as a float32 csr_array with int32 indices."""
    folder = matrices_folder()
    if name not in GENERATED and folder is not None:
        return load(folder / f"{name}.npz", dtype="float32")
    return as_csr(GENERATED[name](), dtype="float32")


def dense(n_rows: int, n_columns: int) -> np.ndarray:
    """Return a float32 vector, or a matrix of `n_columns` columns."""
    shape = (n_rows,) if n_columns == 1 else (n_rows, n_columns)
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def imported(name: str) -> Any:
    """Return the module `name`; raise NotImplementedError, by which asv skips a benchmark, where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotImplementedError(f"{name} is not installed") from error
