"""Files and operations of learned models: light to import, because every tuning asks whether there is a model."""

from __future__ import annotations

from typing import Final

from autosparse.problem import Problem

MODEL_SUFFIX: Final = ".safetensors"
GRAPH_SUFFIX: Final = ".graph.safetensors"
WIDE_FROM: Final = 91
"""Columns from which a product is nearer to 256 columns than to 32, in ratio."""


def op_of(problem: Problem) -> str:
    """Which operation's model a problem is for, as `collect` names them: spmv, spmm32, spmm256."""
    if problem.operation != "matmul":
        return problem.operation
    if problem.n_dense_cols == 1:
        return "spmv"
    return "spmm32" if problem.n_dense_cols < WIDE_FROM else "spmm256"
