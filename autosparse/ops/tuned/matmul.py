"""Tuning row of matmul."""

from __future__ import annotations

from typing import Final

from autosparse.ops.tuned import Collected, Tuning

TUNING: Final = Tuning(
    runtime_loops="asp_ready_kernel",
    panel_loops="asp_ready_row_panels",
    model="matrix_product",
    learned_names={1: "spmv", 2: "spmm8", 9: "spmm32", 91: "spmm256"},
    algorithms={"spmv": "vector", "spmm": "columns"},
    collected=(
        Collected(name="spmv", algorithm="spmv", n_dense_cols=1),
        Collected(name="spmm32", algorithm="spmm", n_dense_cols=32),
        Collected(name="spmm256", algorithm="spmm", n_dense_cols=256),
        Collected(name="spmm4", algorithm="spmm", n_dense_cols=4, model="spmm8"),
        Collected(name="spmm8", algorithm="spmm", n_dense_cols=8),
        Collected(name="spmm64", algorithm="spmm", n_dense_cols=64, model="spmm32"),
        Collected(name="spmm128", algorithm="spmm", n_dense_cols=128, model="spmm256"),
    ),
    priors="matmul",
)
