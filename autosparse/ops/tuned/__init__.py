"""Tuning rows of operations: which engine modules serve them, and which values of `autosparse.targets` hold for them.

The rows lie apart from `autosparse.ops`, whose sources determine the code of kernels: an edit here keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

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


MATMUL: Final = Tuning(
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
"""Tuning row of matmul."""


SDDMM: Final = Tuning(
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
"""Tuning row of sddmm."""


MTTKRP: Final = Tuning(
    adapter="autosparse.tuning.trials.mttkrp",
    space="autosparse.tuner.space.mttkrp",
    model="tensor_product",
    learned_names={1: "mttkrp16"},
    algorithms={"mttkrp": "fibers"},
    collected=(Collected(name="mttkrp16", algorithm="mttkrp", n_dense_cols=16, n_dims=3),),
    priors="mttkrp",
)
"""Tuning row of mttkrp."""
