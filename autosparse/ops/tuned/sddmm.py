"""Tuning row of sddmm."""

from __future__ import annotations

from typing import Final

from autosparse.ops.tuned import Collected, Tuning

TUNING: Final = Tuning(
    adapter="autosparse.tuning.trials.sddmm",
    runtime_loops="asp_ready_sampled",
    space="autosparse.tuner.space.sddmm",
    model="sampled_product",
    learned_names={1: "sddmm32", 91: "sddmm256"},
    algorithms={"sddmm": "sampled"},
    collected=(
        Collected(name="sddmm32", algorithm="sddmm", n_dense_cols=32),
        Collected(name="sddmm256", algorithm="sddmm", n_dense_cols=256),
    ),
    priors="sddmm",
)
