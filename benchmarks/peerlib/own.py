"""autosparse in the race: ``A @ B`` against peers that return, ``matmul(A, B, out=C)`` against peers that fill."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import autosparse
from peerlib.case import Case, Prepared

EXPECTED_RUNS = 100_000


def _tuned(case: Case) -> tuple[Any, dict[str, Any]]:
    """The case's matrix as ours, tuned once for both contenders when the effort asks for it."""
    if "autosparse" not in case.shared:
        A, facts = autosparse.csr(case.A, copy=True), {}  # owned: see the guard (docs/adr/0003)
        if case.effort != "off":
            start = time.perf_counter()
            plan = A.tune(
                "matmul",
                columns=case.operation.n_dense_cols,
                runs=EXPECTED_RUNS,
                effort=case.effort,
                budget_s=case.budget_s,
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


def autosparse_new(case: Case) -> Prepared:
    """``A @ B``: a new result."""
    (A, facts), B = _tuned(case), case.B
    return Prepared(lambda: A @ B, facts)


def autosparse_out(case: Case) -> Prepared:
    """``autosparse.matmul(A, B, out=C)``."""
    (A, facts), B, C, matmul = _tuned(case), case.B, case.out, autosparse.matmul

    def run() -> np.ndarray:
        matmul(A, B, out=C)
        return C

    return Prepared(run, facts)
