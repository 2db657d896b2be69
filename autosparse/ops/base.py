"""Operation: the class of the rows of `OPS`, which describe how one operation differs from another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from autosparse.core.expression import IndexExpression
from autosparse.core.values import dataclass
from autosparse.ops.tuned import ProductKind as ProductKind  # noqa: PLC0414  # re-exported
from autosparse.ops.tuned import Tuning
from autosparse.scalar import REAL

Ability = Literal["transposed", "storage", "rows", "slices"]


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
    transposed_nest: tuple[str, ...] = ()  # the same for the transpose of A
    default_storage: str = "the matrix as it is (CSR)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Row of `OPS`: what the operation computes, on which operands, and how surfaces name it.

    Lowering, the interpreter, `explain` and the surfaces read it; `tuning` is for the engines that choose kernels.
    """

    name: str
    formula: str
    expressions: tuple[IndexExpression, ...]  # by order of the sparse operand; (): each call brings its own
    reference: Callable[..., Any]  # reference result by NumPy or SciPy; types differ per operation
    library: str  # library that computes what autosparse's kernels do not
    sparse: Literal["matrix", "tensor"] = "matrix"
    packed: Literal["values", "structure", "fibers", ""] = "values"  # what kernels read; "": none are generated
    dtypes: tuple[str, ...] = REAL  # dtypes that plans choose kernels for
    default_dtypes: tuple[str, ...] = ()  # further dtypes that the default kernel computes
    abilities: frozenset[Ability] = frozenset()  # optional features of its kernels
    synonyms: tuple[str, ...] = ()  # further names that `tune` accepts
    device: tuple[DeviceProduct, ...] = ()  # products of the operation that GPU kernels compute
    words: Words | None = None
    tuning: Tuning = Tuning()

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
