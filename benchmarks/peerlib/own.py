"""autosparse as a contender: with a new result against peers that return one, and with ``out=`` against the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import autosparse
from peerlib.case import Case, Prepared


def _tuned(case: Case) -> tuple[Any, dict[str, Any]]:
    """Return the case's matrix or tensor in autosparse, and facts; it is tuned once for both contenders."""
    if "autosparse" not in case.shared:
        A, facts = _own(case), {}
        if case.effort != "off" and case.operation.kind in TUNED:
            start = time.perf_counter()
            operation, hints = TUNED[case.operation.kind](case)
            plan = A.tune(
                operation,
                columns=case.operation.n_dense_cols,
                runs=case.expected_runs,
                effort=case.effort,
                budget_s=case.budget_s,
                **hints,
            )
            facts = {
                "schedule": plan.schedule.to_json() if plan.schedule is not None else None,
                "why": plan.why,
                "tune_wall_s": time.perf_counter() - start,
                "pack_s": plan.pack_s,
                "packed_bytes": plan.packed_bytes,
            }
        case.shared["autosparse"] = A, facts
    found: tuple[Any, dict[str, Any]] = case.shared["autosparse"]
    return found


def _own(case: Case) -> Any:
    """Return a matrix that owns its arrays, as `asp.csr(A)` makes it while `A` is alive.

    `copy=True` is explicit, so that no setting changes the result.
    """
    A = case.A
    if case.operation.is_of_tensors:
        return autosparse.tensor(A.coords, A.data, A.shape, copy=True)
    return autosparse.csr(A, copy=True)


TUNED: dict[str, Callable[[Case], tuple[str, dict[str, Any]]]] = {
    "spmv": lambda case: ("matmul", {}),
    "spmm": lambda case: ("matmul", {}),
    "sddmm": lambda case: ("sddmm", {}),
    "mttkrp": lambda case: ("mttkrp", {"mode": case.operation.mode}),
}
"""Function that returns the operation's name and hints for `tune`, by kind of operation."""


def autosparse_new(case: Case) -> Prepared:
    """Prepare ``A @ B`` with a new result."""
    (A, facts), B = _tuned(case), case.B
    return Prepared(lambda: A @ B, facts)


def autosparse_out(case: Case) -> Prepared:
    """Prepare ``autosparse.matmul(A, B, out=C)``."""
    (A, facts), B, C, matmul = _tuned(case), case.B, case.out, autosparse.matmul
    return Prepared(lambda: matmul(A, B, out=C), facts)


def sampled_new(case: Case) -> Prepared:
    """Prepare the values of ``autosparse.sddmm(A, X, Y)``, Y in Fortran order."""
    (A, facts), (X, Y_rows), sddmm = _tuned(case), case.B, autosparse.sddmm
    Y = Y_rows.T
    return Prepared(lambda: sddmm(A, X, Y).data, facts)


def sampled_out(case: Case) -> Prepared:
    """Prepare ``autosparse.sddmm(A, X, Y, out=values)``, Y in Fortran order."""
    (A, facts), (X, Y_rows), out, sddmm = _tuned(case), case.B, case.out, autosparse.sddmm
    Y = Y_rows.T
    return Prepared(lambda: sddmm(A, X, Y, out=out), facts)


def tensor_new(case: Case) -> Prepared:
    """Prepare ``autosparse.mttkrp(T, factors, mode)``."""
    (T, facts), factors, mode, mttkrp = _tuned(case), case.B, case.operation.mode, autosparse.mttkrp
    return Prepared(lambda: mttkrp(T, factors, mode), facts)


def tensor_out(case: Case) -> Prepared:
    """Prepare ``autosparse.mttkrp(T, factors, mode, out=M)``."""
    (T, facts), factors, mode, out = _tuned(case), case.B, case.operation.mode, case.out
    return Prepared(lambda: autosparse.mttkrp(T, factors, mode, out=out), facts)


def sparse_new(case: Case) -> Prepared:
    """Prepare ``A @ A``."""
    A, _ = _tuned(case)
    return Prepared(lambda: A @ A)
