"""Inputs of the einsum benchmarks: graphs, expressions, prepared operands, and timing functions."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sps

from autosparse.contraction.candidates import name_of
from autosparse.contraction.choice import RankedPrograms, choose
from autosparse.contraction.operands import Operand, Sparse, prepare
from autosparse.contraction.subscripts import Subscripts, read

GRAPHS = ("cora", "citeseer", "CollegeMsg", "email-Eu-core", "4elt", "wiki-Vote", "as-caida20070917", "Oregon-1")
LARGE = ("as-caida20070917",)
"""Graphs whose third power is left out, because it has about 10^8 entries or more."""
EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "ij,jk->ik": lambda A: A @ A,
    "ij,jk,kl->il": lambda A: A @ A @ A,
    "ij,ik,kj->ij": lambda A: A * (A @ A),
    "ij,jk,ik->": lambda A: ((A @ A) * A).sum(),
    "ij,jk,kl,il->": lambda A: ((A @ A @ A) * A).sum(),
}
"""Einsums of an adjacency matrix with itself, and the equivalent SciPy expression."""


def seconds(run: Callable[[], Any]) -> float:
    """Return the seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(runs: dict[str, Callable[[], Any]], n_rounds: int) -> dict[str, float]:
    """Return the median seconds of each run over interleaved rounds.

    The order within a round is random, so that no run always follows the same other one in the caches.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    rng = random.Random(0)
    for _ in range(n_rounds):
        for name in rng.sample(list(runs), len(runs)):
            found[name].append(seconds(runs[name]))
    return {name: statistics.median(times) for name, times in found.items()}


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def load(folder: Path, name: str) -> sps.csr_array:
    """Load the leading square part of a matrix, with all values replaced by 1."""
    A = sps.csr_array(sps.load_npz(folder / f"{name}.npz"))
    n = min(A.shape)
    A = sps.csr_array(A[:n, :n], dtype=np.float64)
    A.sum_duplicates()
    A.data[:] = 1.0
    return A


def is_asked(graph: str, expression: str) -> bool:
    """Return whether the expression is measured on this graph: third powers of large graphs are not."""
    return graph not in LARGE or "kl" not in expression


class Problem:
    """An expression and its operands, prepared for the scheduler."""

    def __init__(self, expression: str, operands: Sequence[Any]) -> None:
        self.subscripts: Subscripts = read(expression, [one.shape for one in operands])
        self.prepared: list[Operand] = prepare(operands, self.subscripts, np.dtype(float))
        self.named = {name_of(number): one for number, one in enumerate(self.prepared)}
        self.extents = self.subscripts.extents

    def choice(self, *, are_copies_kept: bool = False) -> RankedPrograms:
        """Return the frontier of programs, ordered by price."""
        is_dense = len(self.subscripts.output) < 2
        return choose(self.prepared, self.subscripts, is_dense_output=is_dense, are_copies_kept=are_copies_kept)

    def forget_copies(self) -> None:
        """Drop copies of the operands in other orders, so that the next call makes them again, as a first call does."""
        for one in self.prepared:
            if isinstance(one, Sparse):
                one.stored.clear()
                one.shared.clear()
