"""Operation: a row that says everything in which one operation differs from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from autosparse.core.expression import IndexExpression
from autosparse.core.values import dataclass, field

Ability = Literal["transposed", "storage", "rows", "symmetric", "slices"]
ProductKind = Literal["vector", "columns", "sampled", "fibers"]
"""What a kernel computes: A x; A B; products at the entries of A; sums over the fibers of a tensor."""
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Problems that cost models are trained on, by the name that the command line gives them."""

    name: str
    algorithm: str  # a key of `Operation.algorithms`
    n_dense_cols: int
    n_dims: int = 2
    model: str = ""  # of another operation, which learns from this one's measurements too; "": its own


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProduct:
    """A product that GPU kernels compute: its name in schedules and plans, and what its kernels do."""

    name: str
    kind: ProductKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How `explain` describes the operation. `{A}` is the sparse operand, `{width}` its dense operands' columns."""

    title: str
    dense: str  # names of the dense operands
    dense_shapes: str  # of `n_rows`, `n_cols` and `n_vecs`, written ``n x k``
    statement: str  # of the innermost loop
    default_nest: tuple[str, ...]  # the loops of the default kernel
    default_storage: str = "the matrix as it is (CSR)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of `OPS`: lowering, interpreter, search, cost models, tuning, `explain` and collection read it.

    The gains are priors, from ``benchmarks/results/cost_models`` (docs/design/tuning-policy.md): dense columns that a
    range begins
    with -> the share of the default kernel's time that tuning is expected to save before this machine has seen any.
    """

    name: str
    formula: str
    expressions: tuple[IndexExpression, ...]  # by order of the sparse operand; (): each call brings its own
    reference: Callable[..., Any]  # NumPy's or SciPy's answer; types differ per operation
    library: str  # that computes where our kernels do not
    sparse: Literal["matrix", "tensor"] = "matrix"
    packed: Literal["values", "structure", "fibers", ""] = "values"  # what kernels read; "": none are generated
    adapter: str = "autosparse.tuning.trials.matmul"  # module whose `ADAPTER` packs, times and compares
    dtypes: tuple[str, ...] = REAL  # that plans choose kernels for
    default_dtypes: tuple[str, ...] = ()  # further ones that the default kernel computes
    abilities: frozenset[Ability] = frozenset()  # what its kernels can do beside
    synonyms: tuple[str, ...] = ()  # what else `tune` calls it
    runtime_loops: str = ""  # C function that gives the precompiled loops a search may choose
    block_loops: str = ""  # the same for operands in blocks
    panel_loops: str = ""  # ... and in panels of columns, of rows side by side
    space: str = ""  # module whose ``members(problem, is_whole=)`` is its schedule space; "": that of matrix products
    model: str = ""  # function of `tuner.analytic.models` that makes its cost model
    parts: str = ""  # function of `tuner.hybrid.schedules` for matrices in parts; "": they are never divided
    device: tuple[DeviceProduct, ...] = ()  # what GPU kernels compute of it
    gain_prior: Mapping[int, float] = field(default_factory=dict)  # by measuring candidates
    estimate_prior: Mapping[int, float] = field(default_factory=dict)  # by a model's word alone
    statistics_margins: Mapping[int, float] = field(default_factory=dict)  # predicted gain that is believed unmeasured
    learned_margins: Mapping[int, float] = field(default_factory=dict)  # the same of the learned model
    agreed_margins: Mapping[int, float] = field(default_factory=dict)  # ... where the statistics expect a gain too
    is_model_stale: Callable[[int, int, int], bool] | None = None  # see `ops.matmul.is_model_stale`
    learned_names: Mapping[int, str] = field(default_factory=dict)  # columns from which on -> name of the model
    algorithms: Mapping[str, ProductKind] = field(default_factory=dict)  # of `waco_space` and `own_space`
    collected: tuple[Collected, ...] = ()
    words: Words | None = None

    @property
    def is_tuned(self) -> bool:
        """Whether kernels are generated for it, so that there is something to choose."""
        return bool(self.packed)

    @property
    def is_sampled(self) -> bool:
        """Whether results are at the entries of the sparse operand."""
        return bool(self.expressions) and self.expressions[0].sampled

    @property
    def reason_not_lowered(self) -> str | None:
        """Why no schedule of it is lowered, or None."""
        if not self.expressions:
            return f"{self.name} has no index expression of its own: each call brings one"
        return self.expressions[0].reason_not_lowered

    def prior_gain(self, n_dense_cols: int) -> float:
        """Expected share of the default time saved by measuring candidates, in [0, 1), for this width."""
        return of_width(self.gain_prior, n_dense_cols) or 0.0

    def prior_estimate_gain(self, n_dense_cols: int) -> float:
        """... and by the model's word alone."""
        return of_width(self.estimate_prior, n_dense_cols) or 0.0


def of_width(table: Mapping[int, Any], n_dense_cols: int) -> Any:  # Any: whatever the table holds, or None
    """The value of the range that `n_dense_cols` lies in; None below the first."""
    fitting = [start for start in table if start <= max(1, n_dense_cols)]
    return table[max(fitting)] if fitting else None
