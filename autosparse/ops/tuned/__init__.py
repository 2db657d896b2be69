"""Tuning rows of operations: which engine modules serve them, and which values of `autosparse.targets` hold for them.

The rows lie apart from `autosparse.ops`, whose sources determine the code of kernels: an edit here keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from autosparse.core.values import dataclass, field
from autosparse.targets import priors

ProductKind = Literal["vector", "columns", "sampled", "fibers"]
"""Kind of product that a kernel computes: A x; A B; products at the entries of A; sums over the fibers of a tensor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Set of problems whose measurements train cost models, under the `name` that the command line gives it."""

    name: str
    algorithm: str  # a key of `Tuning.algorithms`
    n_dense_cols: int
    n_dims: int = 2
    model: str = ""  # name of another set whose model also learns from this one's measurements; "": none


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Row of an operation for the engines that tune it: modules and functions by name, and names of values."""

    adapter: str = "autosparse.tuning.trials.matmul"  # module whose `ADAPTER` packs, times and compares
    runtime_loops: str = ""  # C function that gives the precompiled loops a search may choose
    panel_loops: str = ""  # C function for precompiled loops on panels of columns, rows side by side
    space: str = ""  # module whose ``members(problem, is_whole=)`` is its schedule space; "": that of matrix products
    model: str = ""  # function of `tuner.analytic.models` that makes its cost model
    priors: str = ""  # set of values in `autosparse.targets`
    learned_names: Mapping[int, str] = field(default_factory=dict)  # first number of columns -> learned model
    algorithms: Mapping[str, ProductKind] = field(default_factory=dict)  # names in `waco_space` and `own_space`
    collected: tuple[Collected, ...] = ()

    def measured_gain(self, n_dense_cols: int) -> float:
        """Return the fraction of the default time, in [0, 1), that measuring candidates should save for this width."""
        return priors.of_width(priors.table(self.priors, "measured gain"), n_dense_cols) or 0.0

    def estimated_gain(self, n_dense_cols: int) -> float:
        """Return the fraction of the default time that a model's prediction alone should save for this width."""
        return priors.of_width(priors.table(self.priors, "estimated gain"), n_dense_cols) or 0.0
