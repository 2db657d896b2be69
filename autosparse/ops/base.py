"""Operation: what a planned operation computes and what is expected of tuning it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of `OPS`.

    `expression` is the index expression that lowering starts from; `reference` computes it with SciPy (the oracle);
    `gain_prior` maps the dense columns bucket it starts at to the share of the default kernel's time that measuring
    candidates is expected to save before this machine has seen any tuning, `estimate_prior` to the share that an
    unmeasured estimate saves (see docs/adr on payoff; from ``benchmarks/results/cost_models``, where patterns that were
    not trained on gain ``1 - 1 / speedup`` by the best of the first ten, and by the first).
    """

    name: str
    expression: str
    dense_index: str  # index that only dense operands have; its extent is `Problem.n_dense_cols`
    reference: Callable[..., Any]  # SciPy's own types in and out, which differ per operation
    gain_prior: Mapping[int, float]
    estimate_prior: Mapping[int, float]

    def prior_gain(self, n_dense_cols: int) -> float:
        """Expected share of the default time saved by measuring candidates, in [0, 1), for this width."""
        return _of_width(self.gain_prior, n_dense_cols)

    def prior_estimate_gain(self, n_dense_cols: int) -> float:
        """... and by the model's word alone."""
        return _of_width(self.estimate_prior, n_dense_cols)


def _of_width(table: Mapping[int, float], n_dense_cols: int) -> float:
    fitting = [start for start in table if start <= max(1, n_dense_cols)]
    return table[max(fitting)] if fitting else 0.0
