"""Helpers of the ownership tests: matrices of SciPy and of autosparse, and a count of looks at their arrays.

A look is a pass over an array that finds out whether it was written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sps

import autosparse
from autosparse.operands import mutation_guard

N = 12
KINDS = ("csr_array", "csc_array", "csr_matrix", "csc_matrix")
counts_known = pytest.mark.skipif(
    mutation_guard.calibrated_counts() is None, reason="reference counts do not show aliases on this interpreter"
)


def plain(kind: str = "csr_array", n: int = N, seed: int = 0) -> Any:
    m = sps.random(n, n, 0.3, format=kind[:3], random_state=np.random.RandomState(seed))
    return getattr(sps, kind)(m)


def ours(m: Any, **how: Any) -> Any:
    return getattr(autosparse, m.format)(m, **how)


SIZE = 40_000
"""Number of entries of `large`.

Its arrays outweigh all other allocations, and NumPy allocates their copies, so that tracemalloc counts them.
"""


def large(kind: str = "csr_array") -> Any:
    rng = np.random.default_rng(0)
    n = 1000
    indices = np.concatenate([np.sort(rng.choice(n, SIZE // n, replace=False)) for _ in range(n)]).astype(np.int32)
    indptr = np.arange(0, SIZE + 1, SIZE // n, dtype=np.int32)
    return getattr(sps, kind)((rng.random(SIZE), indices, indptr), shape=(n, n))


def bytes_of(m: Any) -> int:
    return sum(array.nbytes for array in (m.data, m.indices, m.indptr))


def over_bytes(m: Any) -> Any:
    arrays = (np.frombuffer(array.tobytes(), array.dtype) for array in (m.data, m.indices, m.indptr))
    return sps.csr_array(tuple(arrays), shape=m.shape)


def big() -> Any:
    """Return a matrix whose arrays NumPy unpickles without a copy, which it does from 1000 bytes on."""
    return plain(n=60)


class Looks:
    """Counter of looks at the arrays of a matrix."""

    def __init__(self) -> None:
        self.n = 0

    def of_the_second(self, A: Any) -> int:
        """Return the number of looks of a `refresh` that follows another one."""
        A._cell.refresh()
        before = A._cell.n_looks
        A._cell.refresh()
        self.n = A._cell.n_looks
        return self.n - before
