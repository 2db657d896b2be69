"""Operation: what a planned operation computes and what is expected of tuning it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of `OPS`.

    `expression` is the index expression that lowering starts from; `reference` computes it with SciPy (the oracle);
    `gain_prior` maps the dense columns bucket it starts at to the share of the default kernel's time that tuning is
    expected to save before this machine has seen any tuning (see docs/adr on payoff).
    """

    name: str
    expression: str
    dense_index: str  # index that only dense operands have; its extent is `Problem.n_dense_cols`
    reference: Callable[..., Any]  # SciPy's own types in and out, which differ per operation
    gain_prior: Mapping[int, float]

    def prior_gain(self, n_dense_cols: int) -> float:
        """Expected share of the default time saved by tuning, in [0, 1), for this width."""
        fitting = [start for start in self.gain_prior if start <= max(1, n_dense_cols)]
        return self.gain_prior[max(fitting)] if fitting else 0.0
