"""Data that solvers keep with a matrix between solves: work vectors, and numbers of iterations."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosparse import forking
from autosparse._native import memory
from autosparse.config import get_options
from autosparse.operands.csr import Operand

Vector = NDArray[Any]
Key = tuple[tuple[int, ...], str]
"""Shape and dtype character of a vector."""


class Conversion:
    """A copy of the matrix in another dtype, with the versions of the operand it was made from."""

    __slots__ = ("matrix", "structure_version", "values_version")

    def __init__(self, matrix: Any, structure_version: int, values_version: int) -> None:  # Any: an autosparse array
        self.matrix = matrix
        self.structure_version, self.values_version = structure_version, values_version


class SolverMemory:
    """Vectors, converted copies and numbers of iterations of one matrix, freed with the matrix; thread-safe.

    A vector that a solve has taken belongs to it until the solve returns it. A solve that runs while another one holds
    the vectors gets new ones.
    """

    __slots__ = ("_free", "_kept_bytes", "_lock", "conversions", "facts", "fewest")

    def __init__(self) -> None:
        self.fewest: dict[str, int] = {}  # solver -> iterations of its shortest solve
        self.conversions: dict[tuple[str, bool], Conversion] = {}  # (dtype character, is conjugated) -> copy
        self.facts: dict[Hashable, tuple[tuple[int, int], Any]] = {}  # name -> (versions of the operand, fact)
        self._free: dict[Key, list[Vector]] = {}
        self._kept_bytes = 0
        self._lock = forking.lock()

    def take(self, key: Key, n: int) -> list[Vector]:
        """Return `n` distinct uninitialized arrays of the shape and dtype `key`, kept ones first."""
        free = self._free.get(key)
        if not free or not n:
            return new_vectors(key, n)
        with self._lock:
            taken = free[-n:]
            del free[-n:]
            if taken:
                self._kept_bytes -= len(taken) * taken[0].nbytes
        return taken if len(taken) == n else taken + new_vectors(key, n - len(taken))

    def give(self, key: Key, vectors: list[Vector]) -> None:
        """Keep `vectors` for the next solve, up to the setting `output_pool_bytes` in total, or 128 KiB."""
        n_bytes = len(vectors) * vectors[0].nbytes if vectors else 0
        with self._lock:
            if self._kept_bytes + n_bytes > memory.RECYCLED_FROM_BYTES:
                limit_bytes = pool_bytes()
                if self._kept_bytes + n_bytes > limit_bytes:  # vectors of other shapes are dropped first
                    for free in self._free.values():
                        free.clear()
                    self._kept_bytes = 0
                if n_bytes > limit_bytes:
                    return
            self._free.setdefault(key, []).extend(vectors)
            self._kept_bytes += n_bytes

    @property
    def kept_bytes(self) -> int:
        """Bytes of the vectors that no solve holds."""
        return self._kept_bytes

    def note_length(self, solver: str, n_iterations: int) -> None:
        """Record that a solve by `solver` took `n_iterations`; the smallest number is kept."""
        self.fewest[solver] = min(n_iterations, self.fewest.get(solver, n_iterations))


def pool_bytes() -> int:
    """Return the setting `output_pool_bytes`, or its default."""
    wanted_bytes = get_options().output_pool_bytes
    return memory.default_pool_bytes() if wanted_bytes is None else wanted_bytes


def new_vectors(key: Key, n: int) -> list[Vector]:
    """Return `n` new uninitialized arrays of the shape and dtype `key`."""
    shape, char = key
    return [memory.empty_output(shape, np.dtype(char)) for _ in range(n)]


def memory_of(operand: Operand) -> SolverMemory:
    """Return the solver memory of `operand`, created on first use."""
    found: SolverMemory | None = operand.solver_memory
    if found is None:
        found = operand.solver_memory = SolverMemory()
    return found
