"""File names and operations of learned models; cheap to import, because every tuning looks for a model."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.ops import OPS
from autosparse.targets.priors import of_width

MODEL_SUFFIX: Final = ".safetensors"


def is_wide(op: str) -> bool:
    """Return whether `op`, as `collect` names operations, has several dense columns."""
    return not any(one.n_dense_cols == 1 for row in OPS.values() for one in row.tuning.collected if one.name == op)


def op_of(problem: Problem) -> str:
    """Return the operation whose model applies to a problem, as `collect` names it: spmv, spmm32, mttkrp16, ..."""
    return of_width(OPS[problem.operation].tuning.learned_names, problem.n_dense_cols) or problem.operation
