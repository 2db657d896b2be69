"""Solvers of the sparse times sparse product: the accumulators of `spgemm`, with their estimated costs.

Only planning, explanations and tests import this module: a product by the default solver needs none of its types.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.kernels.spgemm import FEW_COLS, MAX_EMPTY_COLS, SOLVERS, CompressedRows, codes_of, multiply

from autosparse.core.problem import Problem
from autosparse.core.solver import Bound, Cost, SparseOperand, SparsePair, SparseProductArguments
from autosparse.scalar import DOUBLE, PRODUCT_CODES, WIDE_INDEX


class SolverCost(NamedTuple):
    """Estimated cost of one solver, and the rows that it serves if solvers are chosen by class."""

    solver: str
    n_rows: int
    n_products: int
    """Number of multiplications in these rows."""
    alone_s: float
    """Estimated seconds on one thread if the solver served all rows."""


def costs(A: CompressedRows, B: CompressedRows, *, n_cols: int) -> tuple[SolverCost, ...]:
    """Return the estimated cost of the product for each of `SOLVERS`, if it computes all rows.

    The solver "by class" takes for each row the solver that is cheapest there.
    """
    lib, ffi, pointer = runtime_api.lib, runtime_api.ffi, runtime_api.pointer
    counts, ns = ffi.new(WIDE_INDEX.array, 2 * len(SOLVERS)), ffi.new(DOUBLE.array, len(SOLVERS))
    if n_cols > FEW_COLS + MAX_EMPTY_COLS * B.indices.size:
        n_cols = max(1, min(n_cols, B.indices.size))  # only columns with entries are numbered
    codes = codes_of(A)
    patterns = (pointer(A.indptr), pointer(A.indices), pointer(B.indptr), pointer(B.indices))
    runtime_api.raise_for(lib.asp_spgemm_costs(*codes, (A.n_rows, B.n_rows, n_cols), *patterns, counts, ns))
    return tuple(
        SolverCost(name, int(counts[2 * n]), int(counts[2 * n + 1]), float(ns[n]) * 1e-9)
        for n, name in enumerate(SOLVERS)
    )


class RowSolver:
    """Solver of products of two sparse matrices by one kind of accumulator, or by the cheapest one for each row."""

    reads_live = True

    def __init__(self, name: str) -> None:
        self.name = name

    def applicable(self, problem: Problem) -> str | None:
        """Return why the runtime has no kernel for `problem`, or None."""
        is_known = problem.dtype in PRODUCT_CODES and problem.other is not None
        return None if is_known else f"no kernel multiplies sparse matrices of {problem.dtype}"

    def knobs(self, problem: Problem) -> Iterable[Hashable]:
        """Return one choice without knobs."""
        return (None,)

    def cost(self, problem: Problem, knobs: Hashable) -> Cost:
        """Return the seconds on one thread that counts of both patterns predict; nothing is prepared."""
        return Cost(seconds=self.share(problem).alone_s)

    def share(self, problem: Problem) -> SolverCost:
        """Return the expected seconds, and the rows that the solver takes if the cheapest one serves each row."""
        A, B = problem.matrix, problem.other
        assert B is not None
        key = "spgemm costs", B.sparsity_hash, problem.dtype
        if key not in A.counts:
            none = np.empty(0, problem.dtype)
            left, right = (CompressedRows(one.indptr, one.indices, none) for one in (A, B))
            A.counts[key] = costs(left, right, n_cols=B.n_cols)
        found: SolverCost = A.counts[key][SOLVERS.index(self.name)]
        return found

    def prepare(self, operand: SparsePair, knobs: Hashable) -> Bound:
        """Return the runtime's loops, which read the user's arrays."""
        return _Loops(self.name)


class _Loops:
    """The runtime's loops of one solver."""

    def __init__(self, solver: str) -> None:
        self.solver = solver

    def run(self, arguments: SparseProductArguments) -> bool:
        """Set C to the rows of the product."""
        left, right = (rows_of(one) for one in (arguments.left, arguments.right))
        n_cols, threads = arguments.right.shape[1], arguments.n_threads
        arguments.C = multiply(left, right, n_cols=n_cols, threads=threads, solver=self.solver)
        return True


def rows_of(operand: SparseOperand) -> CompressedRows:
    """Return the arrays of an operand."""
    return CompressedRows(operand.indptr, operand.indices, operand.data)


ROW_SOLVERS: Final = tuple(map(RowSolver, SOLVERS))
"""Solvers in the order of their codes in the runtime; the first one, by class, is the default."""
