"""Predictions of shipped and analytic models for fixed patterns on a fixed machine, as plain values.

`python -m tests.tuner.learned.predictions` prints them in the form of `tests/golden/predictions.json`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from autosparse.tuner.analytic.models import statistics_model
from autosparse.tuner.learned.predict import LearnedModel
from autosparse.tuner.research.generators.base import generate
from autosparse.tuner.space import spaces

from autosparse import _native
from autosparse.core.problem import Problem
from autosparse.core.target import Target
from autosparse.tuning.learned import shipped_folder

MACHINE = Target(
    cpu="a machine", machine="x86_64", isa="avx2", n_cores=2, l1_bytes=32768, l2_bytes=1 << 19, l3_bytes=1 << 25
)
COLUMNS = {"spmv": 1, "spmm32": 32, "spmm256": 256, "sddmm32": 32, "sddmm256": 256}
FAMILIES = ("rmat", "banded")
N_NODES = 12
"""Number of schedules of each kind, evenly spread over the portfolio."""


def problem_of(op: str, family: str) -> Problem:
    return Problem(
        operation="sddmm" if op.startswith("sddmm") else "matmul",
        pattern=generate(family, nnz=60_000, seed=11).to_pattern(), transposed=False, n_dense_cols=COLUMNS[op],
        dtype="float32", threads=2, deterministic=False, target=MACHINE,
    )  # fmt: skip


def is_runtimes(schedule: Any) -> bool:
    return bool(schedule.is_precompiled)


def learned(op: str, family: str) -> dict[str, list[float]]:
    """Return predicted ratios of some generated schedules of the model's portfolio, and of some runtime schedules."""
    model = LearnedModel.read(shipped_folder(Target.host()), op)
    problem = problem_of(op, family)
    features = model.features(problem.pattern)
    known = [model.schedule(node) for node in range(0, len(model.codes), 7)]
    found = {}
    for kind in (False, True):
        some = [one for one in known if one is not None and is_runtimes(one) == kind]
        some = some[:: max(1, len(some) // N_NODES)][:N_NODES]
        found["runtime" if kind else "generated"] = model.ratios(problem, features, some) if some else []
    return found


def analytic(op: str, family: str) -> dict[str, float]:
    """Return the number of candidates, and sums of predicted seconds over generated and runtime schedules."""
    problem = problem_of(op, family)
    whole = spaces.everything(problem, _native.supports)
    default_s, *others = statistics_model(problem).rank(problem, [None, *whole])
    times, kinds = np.array(others), np.array([is_runtimes(one) for one in whole])
    return {
        "n": float(len(whole)), "n_runtime": float(kinds.sum()),
        "generated": float(times[~kinds].sum()), "runtime": float(times[kinds].sum()),
        "best_runtime": float(times[kinds].min()) if kinds.any() else 0.0, "default": default_s,
    }  # fmt: skip


def everything() -> dict[str, Any]:
    return {
        f"{op} {family}": {"learned": learned(op, family), "analytic": analytic(op, family)}
        for op in COLUMNS
        for family in FAMILIES
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(everything(), indent=1) + "\n")
