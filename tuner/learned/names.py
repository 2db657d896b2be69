"""Files and operations of learned models: light to import, because every tuning asks whether there is a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosparse.core.problem import Problem

MODEL_SUFFIX: Final = ".safetensors"
GRAPH_SUFFIX: Final = ".graph.safetensors"
WIDE_FROM: Final = 91
"""Columns from which a product is nearer to 256 columns than to 32, in ratio."""
NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "matmul": ("spmm32", "spmm256"),
    "sddmm": ("sddmm32", "sddmm256"),
    "mttkrp": ("mttkrp16", "mttkrp16"),
}
"""Operation -> names of the models of narrow and of wide problems."""


def op_of(problem: Problem) -> str:
    """Which operation's model a problem is for, as `collect` names them: spmv, spmm32, spmm256, ..., mttkrp16."""
    if problem.operation == "matmul" and problem.n_dense_cols == 1:
        return "spmv"
    narrow, wide = NAMES.get(problem.operation, (problem.operation,) * 2)
    return narrow if problem.n_dense_cols < WIDE_FROM else wide
