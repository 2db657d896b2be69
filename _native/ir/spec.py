"""KernelSpec: everything that generated code depends on, and the index expressions of the operations as data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from autosparse.core.formats import LevelKind
from autosparse.core.schedule import RUN_TIME, SuperSchedule
from autosparse.core.target import VECTOR_BYTES
from autosparse.errors import ScheduleError
from autosparse.forking import computed_once

VALUE_BYTES: Final[Mapping[str, int]] = {"float32": 4, "float64": 8}
"""Value types that kernels are generated for, with their size."""

INDEX_BYTES: Final[Mapping[str, int]] = {"int32": 4, "int64": 8}
"""Integer types of the user's index arrays, with their size."""

SPEC_VERSION: Final = 1
"""Raise when the meaning of a KernelSpec changes (the generated source itself is part of the artefact's key anyway)."""


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor read or written at indices, as ``B[k,j]``."""

    tensor: str
    indices: tuple[str, ...]

    def without(self, missing: frozenset[str]) -> Access:
        """The access when the indices in `missing` have extent 1 and are not written."""
        return Access(self.tensor, tuple(index for index in self.indices if index not in missing))

    def __str__(self) -> str:
        return f"{self.tensor}[{','.join(self.indices)}]"


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """``output += sparse * dense[0] * dense[1] ...``, summed over the indices that the output does not have.

    `sampled`: the output is sparse and has the entries of the sparse operand, one result each (SDDMM).
    """

    output: Access
    sparse: Access
    dense: tuple[Access, ...]
    sampled: bool = False

    @property
    def indices(self) -> tuple[str, ...]:
        """Every index once: those of the sparse operand, then the others."""
        names = [*self.sparse.indices, *(index for access in self.dense for index in access.indices)]
        return tuple(dict.fromkeys(names))

    @property
    def dense_indices(self) -> tuple[str, ...]:
        """Indices that the sparse operand does not have."""
        return tuple(index for index in self.indices if index not in self.sparse.indices)

    def without(self, missing: frozenset[str]) -> IndexExpression:
        """The expression when the indices in `missing` have extent 1 (SpMV is SpMM without j)."""
        dense = tuple(access.without(missing) for access in self.dense)
        return IndexExpression(self.output.without(missing), self.sparse, dense, self.sampled)

    def __str__(self) -> str:
        return f"{self.output} += {' * '.join(map(str, (self.sparse, *self.dense)))}"


TENSOR_INDICES: Final = ("i", "k", "l", "m", "n", "o")
"""Indices of a sparse operand: the output's rows, then the others in the order of its modes; ``j`` counts columns."""

FACTORS: Final = ("B", "C", "D", "E", "F")
"""Dense operands of MTTKRP, by the index of their rows: ``k``, ``l``, ..."""


def _mttkrp(order: int) -> IndexExpression:
    stored = TENSOR_INDICES[:order]
    factors = tuple(Access(name, (index, "j")) for name, index in zip(FACTORS, stored[1:], strict=False))
    return IndexExpression(Access("M", ("i", "j")), Access("T", stored), factors)


EXPRESSIONS: Final[Mapping[str, tuple[IndexExpression, ...]]] = {
    "matmul": (IndexExpression(Access("C", ("i", "j")), Access("A", ("i", "k")), (Access("B", ("k", "j")),)),),
    "sddmm": (
        IndexExpression(
            Access("O", ("i", "k")),
            Access("A", ("i", "k")),
            (Access("X", ("i", "j")), Access("Y", ("k", "j"))),
            sampled=True,
        ),
    ),
    "mttkrp": tuple(_mttkrp(order) for order in range(3, len(TENSOR_INDICES) + 1)),
}
"""Index expressions of each operation that can be lowered, by order of the sparse operand; an operation is a row."""


def sums_over(coordinate: str, expression: IndexExpression) -> bool:
    """Whether a loop over `coordinate` adds to the same results again and again."""
    return coordinate[:-1] not in expression.output.indices


def is_private(schedule: SuperSchedule) -> bool:
    """Whether iterations of the parallel loop add to the same results: threads then have outputs of their own."""
    expression, parallel = expression_of(schedule), schedule.parallel
    repeats = {level.coordinate for level in schedule.format.levels if level.kind is LevelKind.NONUNIQUE}
    if schedule.format.symmetric:
        return True
    return sums_over(parallel, expression) or (parallel in repeats and not expression.sampled)


def variant_of(operation: str, stored: Collection[str]) -> IndexExpression | None:
    """The expression of `operation` whose sparse operand has the indices `stored`; None when there is none."""
    variants = EXPRESSIONS.get(operation, ())
    return next((variant for variant in variants if set(variant.sparse.indices) == set(stored)), None)


def expression_of(schedule: SuperSchedule) -> IndexExpression:
    """The expression that `schedule` computes: dense indices without a loop are dropped (one column: SpMV)."""
    expression = variant_of(schedule.operation, {name[:-1] for name in schedule.format.order})
    if expression is None:
        raise ScheduleError.illegal(schedule.to_json(), f"no {schedule.operation} of {schedule.format}")
    looped = {coordinate[:-1] for coordinate in schedule.loop_order}
    return expression.without(frozenset(expression.dense_indices) - looped)


@dataclass(frozen=True)
class KernelSpec:
    """One kernel: operation, schedule, value and index types, instruction set. Shared by all patterns and sizes.

    `index_dtype` is the type of the user's index arrays; positions have it too, coordinates of packed formats have
    ``schedule.format.index_bits``. `deterministic` asks for one summation order whatever the thread count. `gathers`
    says whether gather instructions are faster here than a load for each element; results are the same bits.
    """

    operation: str
    schedule: SuperSchedule
    dtype: str
    index_dtype: str
    isa: str
    deterministic: bool = False
    gathers: bool = True

    @property
    def value_bytes(self) -> int:
        """Bytes of one value."""
        return VALUE_BYTES[self.dtype]

    @property
    def max_lanes(self) -> int:
        """Values in one vector register."""
        return VECTOR_BYTES[self.isa] // self.value_bytes

    @property
    def masked_lanes(self) -> frozenset[int]:
        """Vector lengths whose first n lanes can be loaded and stored without touching the others' memory."""
        widths = {"avx512": (64, 32), "avx2": (32,)}.get(self.isa, ())
        return frozenset(size // self.value_bytes for size in widths)

    @property
    def coordinate_bits(self) -> int:
        """Width of stored coordinates: the user's own for CSR (nothing is packed), else the format's."""
        fmt = self.schedule.format
        return 8 * INDEX_BYTES[self.index_dtype] if fmt.is_csr else fmt.index_bits

    @property
    def positions_bits(self) -> int:
        """Width of the entries of pos arrays."""
        return 8 * INDEX_BYTES[self.index_dtype]

    def key(self) -> str:
        """32 hex digits over all that the code depends on: not the pattern, and no argument given at run time."""
        return self._key

    @computed_once
    def _key(self) -> str:
        schedule = {field.name: getattr(self.schedule, field.name) for field in dataclasses.fields(self.schedule)}
        for run_time in RUN_TIME:
            del schedule[run_time]
        if not self.schedule.is_precompiled:
            del schedule["implementation"]
        schedule["format"] = str(self.schedule.format.as_compiled())
        facts = [SPEC_VERSION, self.operation, schedule, self.dtype, self.index_dtype, self.isa]
        if is_private(self.schedule):  # else the order of sums is the same anyway
            facts.append(self.deterministic)
        if not self.gathers:
            facts.append("loads")
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
