"""Operation: the class of the rows of `OPS`, which describe how one operation differs from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from autosparse.core.expression import IndexExpression
from autosparse.core.values import dataclass, field

Ability = Literal["transposed", "storage", "rows", "symmetric", "slices"]
ProductKind = Literal["vector", "columns", "sampled", "fibers"]
"""Kind of product that a kernel computes: A x; A B; products at the entries of A; sums over the fibers of a tensor."""
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Set of problems that cost models are trained on, by the name that the command line gives it."""

    name: str
    algorithm: str  # a key of `Operation.algorithms`
    n_dense_cols: int
    n_dims: int = 2
    model: str = ""  # name of another set whose model also learns from this one's measurements; "": none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProduct:
    """Product that GPU kernels compute: its name in schedules and plans, and its kind."""

    name: str
    kind: ProductKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Texts by which `explain` describes the operation: `{A}` is the sparse operand, `{width}` the dense columns."""

    title: str
    dense: str  # names of the dense operands
    dense_shapes: str  # shapes written ``n x k``, from `n_rows`, `n_cols` and `n_vecs`
    statement: str  # statement of the innermost loop
    default_nest: tuple[str, ...]  # loops of the default kernel
    default_storage: str = "the matrix as it is (CSR)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Row of `OPS`, read by lowering, interpreter, search, cost models, tuning, `explain` and collection.

    Gains are priors from ``benchmarks/results/cost_models``. A table maps the first number of dense columns of a range
    to the fraction of the default kernel's time that tuning is expected to save before this machine has measured any.
    """

    name: str
    formula: str
    expressions: tuple[IndexExpression, ...]  # by order of the sparse operand; (): each call brings its own
    reference: Callable[..., Any]  # reference result by NumPy or SciPy; types differ per operation
    library: str  # library that computes what autosparse's kernels do not
    sparse: Literal["matrix", "tensor"] = "matrix"
    packed: Literal["values", "structure", "fibers", ""] = "values"  # what kernels read; "": none are generated
    adapter: str = "autosparse.tuning.trials.matmul"  # module whose `ADAPTER` packs, times and compares
    dtypes: tuple[str, ...] = REAL  # dtypes that plans choose kernels for
    default_dtypes: tuple[str, ...] = ()  # further dtypes that the default kernel computes
    abilities: frozenset[Ability] = frozenset()  # optional features of its kernels
    synonyms: tuple[str, ...] = ()  # further names that `tune` accepts
    runtime_loops: str = ""  # C function that gives the precompiled loops a search may choose
    block_loops: str = ""  # C function for precompiled loops on operands in blocks
    panel_loops: str = ""  # C function for precompiled loops on panels of columns, rows side by side
    space: str = ""  # module whose ``members(problem, is_whole=)`` is its schedule space; "": that of matrix products
    model: str = ""  # function of `tuner.analytic.models` that makes its cost model
    parts: str = ""  # function of `tuner.hybrid.schedules` for composites; "": matrices are never divided
    device: tuple[DeviceProduct, ...] = ()  # products of the operation that GPU kernels compute
    gain_prior: Mapping[int, float] = field(default_factory=dict)  # expected gain by measuring candidates
    estimate_prior: Mapping[int, float] = field(default_factory=dict)  # expected gain by a model's prediction alone
    statistics_margins: Mapping[int, float] = field(default_factory=dict)  # predicted gain accepted unmeasured
    learned_margins: Mapping[int, float] = field(default_factory=dict)  # minimum gain predicted by the learned model
    agreed_margins: Mapping[int, float] = field(default_factory=dict)  # where statistics predict a gain, too
    is_model_stale: Callable[[int, int, int], bool] | None = None  # see `ops.matmul.is_model_stale`
    learned_names: Mapping[int, str] = field(default_factory=dict)  # first number of columns -> learned model
    algorithms: Mapping[str, ProductKind] = field(default_factory=dict)  # names in `waco_space` and `own_space`
    collected: tuple[Collected, ...] = ()
    words: Words | None = None

    @property
    def is_tuned(self) -> bool:
        """Return whether kernels are generated for the operation, so that there are alternatives to choose from."""
        return bool(self.packed)

    @property
    def is_sampled(self) -> bool:
        """Return whether results are at the entries of the sparse operand."""
        return bool(self.expressions) and self.expressions[0].sampled

    @property
    def reason_not_lowered(self) -> str | None:
        """Reason why no schedule of the operation is lowered, or None."""
        if not self.expressions:
            return f"{self.name} has no index expression of its own: each call brings one"
        return self.expressions[0].reason_not_lowered

    def prior_gain(self, n_dense_cols: int) -> float:
        """Return the fraction of the default time, in [0, 1), that measuring candidates should save for this width."""
        return of_width(self.gain_prior, n_dense_cols) or 0.0

    def prior_estimate_gain(self, n_dense_cols: int) -> float:
        """Return the fraction of the default time that a model's prediction alone should save for this width."""
        return of_width(self.estimate_prior, n_dense_cols) or 0.0


def of_width(table: Mapping[int, Any], n_dense_cols: int) -> Any:  # Any: the type of the table's values, or None
    """Return the value of the range that contains `n_dense_cols`; None below the first."""
    fitting = [start for start in table if start <= max(1, n_dense_cols)]
    return table[max(fitting)] if fitting else None
