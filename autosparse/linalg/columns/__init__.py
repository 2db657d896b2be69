"""Several right-hand sides at once: `columns=True` of `cg`, `minres`, `bicgstab` and `gmres`.

Each column of B has a recurrence of its own with the coefficients, breakdowns and convergence of a single solve. The
columns share the products with A (sparse times dense matrix) and the passes over memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosparse._native import runtime_api
from autosparse.arrays.family import AutoSparseMatrix
from autosparse.config import Effort, get_options
from autosparse.core.dtypes import NativeIndex, Real
from autosparse.dispatch import number
from autosparse.dispatch.first_look import EARLY_ENTRIES
from autosparse.errors import InputError, InputTypeError
from autosparse.isa import ISAS
from autosparse.linalg.arguments import System, make_system, scipys, tolerance
from autosparse.linalg.encoded_sweeps import ColumnSweep
from autosparse.linalg.operators import factor_of, preconditioner_of
from autosparse.linalg.solves import Solve
from autosparse.linalg.solves.solve import operand_of
from autosparse.linalg.solves.workspace import memory_of
from autosparse.linalg.sweeps import Dot
from autosparse.operands.csr import Operand

if TYPE_CHECKING:
    from autosparse.linalg.columns.recurrence import Block, Recurrence

_METHODS: Final = {
    "cg": ("autosparse.linalg.columns.conjugate_gradients", "ColumnsCG", 10, 32),
    "bicgstab": ("autosparse.linalg.columns.stabilized", "ColumnsBicgstab", 10, 32),
    "minres": ("autosparse.linalg.columns.minimal_residual", "ColumnsMinres", 5, 32),
    "gmres": ("autosparse.linalg.columns.restarted", "ColumnsGmres", 10, 8),
}
"""Solver -> module and class of its recurrence, default iterations per unknown, and columns per panel.

Further columns run in other panels one after the other, which bounds the memory. A panel of gmres holds a Krylov basis
for each column.
"""
_OWN: Final = {"gmres": {"restart"}, "minres": {"shift"}}
"""Solver-specific arguments that the recurrences accept; calls with others are solved column by column."""

MAX_SEPARATE: Final = number("columns", "entries per row of separate gmres")
"""Maximum mean number of entries per row at which gmres solves the columns one after the other.

Most of its time then goes into the orthogonalization. A single basis stays in the caches, and is read twice per
iteration where a block of bases is read once per vector. Other solvers need `_is_compressed` too.
"""
MIN_SEPARATE_BYTES: Final = number("columns", "bytes of separate columns")
"""Minimum size of b from which on solvers other than gmres may solve the columns one after the other."""


def solve(
    name: str, A: Any, b: Any, x0: Any, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: int | None = None,
    M: Any = None, callback: Any = None, progress: bool = False, **how: Any,
) -> tuple[Block, NDArray[NativeIndex]]:  # fmt: skip  # Any: whatever the solvers take
    """Solve A X = B column by column with `name`; return X (n, k) and `info` (k,).

    b: (n, k). x0: None, ``"Mb"`` or (n, k). `how`: further arguments of the solver. InputError (a ValueError) is raised
    if b or x0 has another shape, and InputTypeError (a TypeError) if there is a callback.
    """
    from autosparse.linalg.columns.recurrence import BlockSystem

    b = np.asanyarray(b)
    _check(name, b, x0, callback)
    _check_rows(A, b)
    how = {key: value for key, value in how.items() if value is not None}
    system = make_system(A, M, None, b[:, 0] if b.shape[1] else np.zeros(b.shape[0], b.dtype))
    known = how.keys() <= _OWN.get(name, set()) and not (name == "minres" and system.dtype.kind == "c")
    if not known or not runtime_api.available or _is_separate(name, A, b, system):
        limits = {"rtol": rtol, "maxiter": maxiter, "M": M, **({} if name == "minres" else {"atol": atol})}
        how |= {"progress": True} if progress and runtime_api.available else {}
        return _one_by_one(name, A, b, x0, {**limits, **how})
    if x0 is None or isinstance(x0, str):
        start = None if x0 is None else BlockSystem(system, None, b.astype(system.dtype)).preconditioned()
    else:
        start = np.array(x0, dtype=system.dtype, order="C")
    module, kind, factor, n_together = _METHODS[name]
    recurrence: type[Recurrence] = getattr(importlib.import_module(module), kind)
    maxiter = factor * system.n if maxiter is None else maxiter
    is_one_panel = 0 < b.shape[1] <= n_together
    X, info = np.empty((0, 0) if is_one_panel else b.shape, system.dtype), np.zeros(b.shape[1], NativeIndex)
    for begin in range(0, b.shape[1], n_together):
        part = slice(begin, begin + n_together)
        block = BlockSystem(system, None if start is None else start[:, part], b[:, part])
        norms = _norms(block.B)
        bounds = np.array([tolerance(name, float(one), atol=atol, rtol=rtol) for one in norms])
        with Solve(name, A, target=float(bounds.max()), limit=maxiter, progress=progress) as solve_:
            run = recurrence(block, solve_, norms, bounds, **({"rtol": rtol} if name == "minres" else {}), **how)
            run.run(maxiter)
            found = solve_.answer(run.results(), block.B)
        if is_one_panel:
            return found
        X[:, part], info[part] = found
    return X, info


def _is_separate(name: str, A: Any, b: Any, system: System) -> bool:  # Any: as `solve`
    """Return whether the columns are solved one after the other, because their products with A are faster alone.

    `A` is an autosparse array whose rows have at most `MAX_SEPARATE` entries on average. Solvers other than gmres also
    need blocks of more than `MIN_SEPARATE_BYTES`, and an A that `_is_compressed` accepts.
    """
    operand = operand_of(A)
    if operand is None or not b.shape[1] or operand.nnz > MAX_SEPARATE * A.shape[0]:
        return False
    if name == "gmres":
        return True
    matrix, dtype = factor_of(A), system.dtype
    is_large = b.shape[1] > 1 and b.size * dtype.itemsize > MIN_SEPARATE_BYTES
    if not is_large or not isinstance(matrix, AutoSparseMatrix) or matrix.dtype != dtype or matrix._transposed:
        return False
    is_raced = operand.nnz < EARLY_ENTRIES[1]
    return is_raced and _is_compressed(operand) and not callable(preconditioner_of(system.M, dtype))


def _is_compressed(operand: Operand) -> bool:
    """Return whether a first race offers a kernel that reads a table of values (`tuning.memory.early.candidate`).

    It reads a fraction of the matrix, so that nothing is gained by reading the matrix once for several columns.
    """
    options = get_options()
    isa = ISAS[options.isa or runtime_api.best_isa()]
    is_tuned = options.overhead > 0 and not options.deterministic and options.effort is not Effort.OFF
    if not is_tuned or not isa.has_table_permutation or not isa.is_shipped:
        return False
    from autosparse._native.storage.dictionary import has_few_kinds
    from autosparse.tuning.memory.row_padding import slices

    shape = slices(operand.indptr, isa.vector_bytes // operand.dtype.itemsize)
    return shape is not None and shape[1] == 1 and has_few_kinds(operand.data[: operand.nnz])


def _norms(B: Block) -> NDArray[Real]:
    """Return the 2-norm of each column."""
    from autosparse.linalg.columns.recurrence import roots

    return roots(ColumnSweep([Dot(B, B)])()[0], B.dtype)


def _check(name: str, b: Any, x0: Any, callback: Any) -> None:
    if callback is not None:
        raise InputTypeError.refused(
            f"{name}: columns=True takes no callback",
            given="a callback; columns converge in different iterations",
            hint="omit callback, or solve for one right-hand side at a time",
        )
    if b.ndim != 2:
        raise InputError.refused(
            f"{name}: columns=True takes right-hand sides of shape (n, k)",
            given=f"b of shape {b.shape}",
            hint="pass b[:, None] for one right-hand side, or omit columns=True",
        )
    if x0 is not None and not isinstance(x0, str) and np.shape(x0) != b.shape:
        raise InputError.refused(
            f"{name}: columns=True takes one initial guess per right-hand side",
            given=f"x0 of shape {np.shape(x0)} and b of shape {b.shape}",
            hint="pass np.broadcast_to(x0[:, None], b.shape) for the same guess in each column",
        )


def _check_rows(A: Any, b: Any) -> None:
    shape = getattr(A, "shape", None)  # `make_system` refuses objects without a shape, and A that is not square
    if shape is not None and len(shape) == 2 and shape[0] == shape[1] != b.shape[0]:
        raise ValueError(f"shapes of A {shape} and b {b.shape} are incompatible")


def _one_by_one(name: str, A: Any, b: Any, x0: Any, how: dict[str, Any]) -> tuple[Block, NDArray[NativeIndex]]:
    """Solve for each column by the single solver, or by SciPy's without the runtime."""
    single: Callable[..., Any] = scipys(name)
    if runtime_api.available:
        single = getattr(importlib.import_module("autosparse.linalg"), name)
    found: list[tuple[Any, int]] = []
    operand, n = operand_of(A), b.shape[1]
    try:
        for j in range(n):
            if operand is not None:
                memory_of(operand).n_following = n - 1 - j
            start = x0 if x0 is None or isinstance(x0, str) else x0[:, j]
            found.append(single(A, b[:, j], start, **how))
    finally:
        if operand is not None:
            memory_of(operand).n_following = 0
    if not found:
        return np.empty(b.shape), np.zeros(0, NativeIndex)
    return np.stack([x for x, _ in found], axis=1), np.array([info for _, info in found], NativeIndex)
