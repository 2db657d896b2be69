"""Reports to render, made without building kernels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from autosparse.core.formats import Format
from autosparse.core.pattern import Pattern
from autosparse.core.plan import Candidate, Plan
from autosparse.core.problem import Problem
from autosparse.core.schedule import SuperSchedule
from autosparse.core.solver import DEFAULT, choice_of
from autosparse.core.target import Target
from autosparse.tuning.report import Report

TARGET = Target(
    cpu="Some <CPU> & more",
    machine="x86_64",
    isa="avx2",
    n_cores=2,
    l1_bytes=1 << 15,
    l2_bytes=1 << 20,
    l3_bytes=1 << 25,
)
BLOCKS = SuperSchedule(
    format=Format.parse("i1:U,k1:C,i0:U,k0:U | i=4,k=2"),
    loop_order=("i1", "j1", "k1", "i0", "k0", "j0"),
    dense_splits=(("j", 32),),
    prefetch=8,
)
NARROW = SuperSchedule(format=Format.parse("i1:U,k1:C | bits=16"), unroll=4, partition="dynamic", chunk=128)


def pattern(n_rows: int = 5, n_cols: int = 7, n_per_row: int = 2) -> Pattern:
    indptr = np.arange(n_rows + 1, dtype=np.int32) * np.int32(n_per_row)
    indices = np.arange(n_rows * n_per_row, dtype=np.int32) % max(1, n_cols)
    return Pattern(n_rows, n_cols, indptr, indices)


def problem(**changed: Any) -> Problem:
    base = Problem(
        operation="matmul", pattern=pattern(), transposed=False, n_dense_cols=32, dtype="float32", threads=2,
        deterministic=False, target=TARGET,
    )  # fmt: skip
    return dataclasses.replace(base, **changed)


CANDIDATES = (
    Candidate(choice=DEFAULT, measured_s=2e-3, predicted_s=2.1e-3),
    Candidate(
        choice=choice_of(BLOCKS), measured_s=1e-3, predicted_s=0.9e-3, build_s=0.31, pack_s=4e-3, packed_bytes=4096
    ),
    Candidate(choice=choice_of(NARROW), failed="cc said:\n  <error> & 'more'"),
)
TUNED = Plan(
    choice=choice_of(BLOCKS), why="it won the race", effort="measure", predicted_s=0.9e-3, measured_s=1e-3,
    default_s=2e-3, tune_s=0.996, pack_s=4e-3, packed_bytes=4096, candidates=CANDIDATES,
)  # fmt: skip
UNTUNED = Plan(choice=DEFAULT, why="tuning costs more than 3 products save")


def report(plan: Plan = TUNED, **changed: Any) -> Report:
    base = Report(
        problem=problem(), plan=plan, value_bytes=4, n_calls=12, product_s=0.024, runs_expected=10_000.0,
        packed_bytes=4096, packed_limit_bytes=8192, verdict="done", tuning_s=1.1, saved_s=0.5, expected_gain=0.1,
        prices_s={"compile": 0.35, "pack": 0.002},
    )  # fmt: skip
    return dataclasses.replace(base, **changed)
