"""Sample program that type checkers analyse; it is never run.

`make lint` and `test_typing.py` check it with mypy, the latter with pyright too. Each wrong line names its expected
error. A missing error is reported as well, by `warn_unused_ignores` and `reportUnnecessaryTypeIgnoreComment`.
"""

from __future__ import annotations

import numpy as np

import autosparse as asp
from autosparse import csr as make_csr

right = asp.csr(np.eye(3))
asp.csr("matrix.mtx", dtype=np.float32, copy=True)
asp.csr((3, 4), shape=(3, 4))
asp.csc([[1.0, 0.0]], dtype="float64")
make_csr(right)
asp.csr_array(np.eye(3)).tune("matmul", columns=8)

product = right @ np.ones(3)
plan = right.tune("matmul", columns=256, runs=10_000, effort="measure", budget_s=5, progress=True)
plan.why.upper()
print(right.explain(8), right.T, right.shape, right.toarray())
right.tune("sddmm", columns=64, transposed=False, dtype=np.float32, effort=asp.Effort.FULL)
tensor = asp.tensor(np.zeros((3, 1), dtype=int), np.ones(1), (2, 2, 2))
tensor.tune(columns=16, mode=1, effort="off")

with asp.options(effort="off", threads=2, deterministic=True, cache_dir="cache", storage=None):
    asp.set_options(budget_s=3, overhead=0.1)
print(asp.get_options().threads, asp.eye_array(3))


def takes_rows(A: asp.csr_array) -> None:
    """Take an array annotated with the public class."""


takes_rows(asp.csr(np.eye(3)))

asp.csr(3)  # type: ignore[arg-type]
asp.csr(np.eye(3), copy="yes")  # type: ignore[arg-type]
asp.csr(np.eye(3), shape=3)  # type: ignore[arg-type]
asp.csc(np.eye(3), shapes=(3, 3))  # type: ignore[call-arg]
right.tune("matmul", columns="8")  # type: ignore[arg-type]
right.tune("matmul", colums=8)  # type: ignore[call-arg]
right.tune(effort="mesure")  # type: ignore[arg-type]
right.tune(runs=1.5)  # type: ignore[arg-type]
tensor.tune(budget_s="1 s")  # type: ignore[arg-type]
asp.options(thread=2)  # type: ignore[call-arg]
asp.options(threads="2")  # type: ignore[arg-type]
asp.set_options(effort="most")  # type: ignore[arg-type]
