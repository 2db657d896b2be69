"""Files and operations of learned models: light to import, because every tuning asks whether there is a model."""

from __future__ import annotations

from typing import Final

from autosparse.core.problem import Problem
from autosparse.ops import OPS
from autosparse.ops.base import of_width

MODEL_SUFFIX: Final = ".safetensors"


def is_wide(op: str) -> bool:
    """Whether `op`, as `collect` names operations, has several dense columns."""
    return not any(one.n_dense_cols == 1 for row in OPS.values() for one in row.collected if one.name == op)


def op_of(problem: Problem) -> str:
    """Which operation's model a problem is for, as `collect` names them: spmv, spmm32, spmm256, ..., mttkrp16."""
    return of_width(OPS[problem.operation].learned_names, problem.n_dense_cols) or problem.operation
