"""Tuning row of mttkrp."""

from __future__ import annotations

from typing import Final

from autosparse.ops.tuned import Collected, Tuning

TUNING: Final = Tuning(
    adapter="autosparse.tuning.trials.mttkrp",
    space="autosparse.tuner.space.mttkrp",
    model="tensor_product",
    learned_names={1: "mttkrp16"},
    algorithms={"mttkrp": "fibers"},
    collected=(Collected(name="mttkrp16", algorithm="mttkrp", n_dense_cols=16, n_dims=3),),
    priors="mttkrp",
)
