"""KernelSpec: everything that generated code depends on, and the index expression of a schedule."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from autosparse._native.ir import key_of

from autosparse.core.expression import IndexExpression
from autosparse.core.formats import DICTIONARY, STORED_VALUES, LevelKind
from autosparse.core.schedule import RUN_TIME, SuperSchedule
from autosparse.core.values import computed_once, dataclass
from autosparse.errors import ScheduleError
from autosparse.isa import ISAS
from autosparse.ops import OPS
from autosparse.scalar import BYTE, GENERATED, INDICES, SCALARS

if TYPE_CHECKING:
    from autosparse.core.composite import Schedule
    from autosparse.scalar.kernel import KernelType

VALUE_BYTES: Final[Mapping[str, int]] = {name: SCALARS[name].itemsize for name in GENERATED}
"""Value types for which kernels are generated, with their size in bytes."""

INDEX_BYTES: Final[Mapping[str, int]] = {name: SCALARS[name].itemsize for name in INDICES}
"""Integer types of the user's index arrays, with their size in bytes."""


def is_private(schedule: SuperSchedule) -> bool:
    """Return whether parallel iterations write to the same output, which requires one private output per thread."""
    expression, parallel = expression_of(schedule), schedule.parallel
    repeats = {level.coordinate for level in schedule.format.levels if level.kind is LevelKind.NONUNIQUE}
    is_sum = parallel[:-1] not in expression.output.indices
    return is_sum or (parallel in repeats and not expression.sampled)


def reason_cannot_add(schedule: SuperSchedule) -> str | None:
    """Return why no kernel of `schedule` can add to the output's previous content, or None."""
    if schedule.is_precompiled:
        return "the runtime's loops write results, they do not add to them"
    if expression_of(schedule).sampled:
        return f"results of {schedule.operation} are written once"
    if schedule.format.is_sliced or is_private(schedule):
        return "slices, and loops that sum in parallel, write results and do not add to them"
    return None


def reason_not_of_type(schedule: Schedule, dtype: str) -> str | None:
    """Return why no kernel of `schedule` is generated for values of `dtype`, or None; real values have all of them."""
    if dtype not in VALUE_BYTES:
        return f"kernels are not generated for {dtype}"
    if not isinstance(schedule, SuperSchedule):
        return None if SCALARS[dtype].kind == "real" else f"composites are for real values, not {dtype}"
    values = schedule.format.values
    if values in STORED_VALUES and dtype != (wide := SCALARS[values].compute):
        return f"values={values} are widened to {wide}, not {dtype}"
    if SCALARS[dtype].kind == "real":
        return None
    if schedule.is_precompiled or values:
        return f"{schedule.implementation} loops and values={values}: they are for real values, not {dtype}"
    if not expression_of(schedule).is_plain_product:
        return f"{schedule.operation} of {dtype} has the default kernel only"
    return None


def variant_of(operation: str, stored: Collection[str]) -> IndexExpression | None:
    """Return the expression of `operation` whose sparse operand has the indices `stored`, or None."""
    variants = OPS[operation].expressions if operation in OPS else ()
    return next((variant for variant in variants if set(variant.sparse.indices) == set(stored)), None)


def expression_of(schedule: SuperSchedule) -> IndexExpression:
    """Return the expression that `schedule` computes; dense indices without a loop are dropped (one column: SpMV)."""
    expression = variant_of(schedule.operation, {name[:-1] for name in schedule.format.order})
    if expression is None:
        raise ScheduleError.illegal(schedule.to_json(), f"no {schedule.operation} of {schedule.format}")
    looped = {coordinate[:-1] for coordinate in schedule.loop_order}
    return expression.without(frozenset(expression.dense_indices) - looped)


@dataclass(frozen=True)
class KernelSpec:
    """Specification of one kernel: operation, schedule, value and index types, instruction set. All patterns and sizes
    share it.

    `index_dtype` is the type of the user's index arrays; positions have it too, coordinates of packed formats have
    ``schedule.format.index_bits``. `deterministic` requests one summation order for any number of threads. `gathers`
    says whether gather instructions are faster on this CPU than one load per element; results are identical.

    `adds` adds to the output's previous content.
    """

    operation: str
    schedule: SuperSchedule
    dtype: str
    index_dtype: str
    isa: str
    deterministic: bool = False
    gathers: bool = True
    adds: bool = False

    @property
    def types(self) -> KernelType:
        """Types of stored values, of index arrays, and of sums; dictionary-encoded values are stored as bytes."""
        from autosparse.scalar.kernel import KernelType  # for generators: a remembered plan is served without it

        values = self.schedule.format.values
        stored = BYTE if values == DICTIONARY else SCALARS[values or self.dtype]
        return KernelType(stored, SCALARS[self.index_dtype], SCALARS[self.dtype])

    @property
    def value_bytes(self) -> int:
        """Bytes of one value."""
        return VALUE_BYTES[self.dtype]

    @property
    def max_lanes(self) -> int:
        """Number of values in one vector register."""
        return self.types.compute.lanes(ISAS[self.isa].vector_bytes)

    @property
    def masked_lanes(self) -> frozenset[int]:
        """Vector lengths whose first n lanes can be loaded and stored without accessing the other lanes' memory."""
        return frozenset(size // self.value_bytes for size in ISAS[self.isa].masked_bytes)

    @property
    def coordinate_bits(self) -> int:
        """Bits of stored coordinates: the user's own for CSR (nothing is packed), else the format's."""
        fmt = self.schedule.format
        return 8 * INDEX_BYTES[self.index_dtype] if fmt.is_csr else fmt.index_bits

    @property
    def positions_bits(self) -> int:
        """Bits of the elements of pos arrays."""
        return 8 * INDEX_BYTES[self.index_dtype]

    def key(self) -> str:
        """Return 32 hex digits over everything that the code depends on: neither the pattern nor run-time arguments."""
        return self._key

    @computed_once
    def _key(self) -> str:
        schedule = {field.name: getattr(self.schedule, field.name) for field in dataclasses.fields(self.schedule)}
        for run_time in RUN_TIME:
            del schedule[run_time]
        if not self.schedule.is_precompiled:
            del schedule["implementation"]
        schedule["format"] = str(self.schedule.format.as_compiled())
        facts: list[object] = []
        if is_private(self.schedule):  # otherwise the order of sums is always the same
            facts.append(self.deterministic)
        if not self.gathers:
            facts.append("loads")
        if self.adds:
            facts.append("adds")
        return key_of(self.operation, schedule, (self.dtype, self.index_dtype, self.isa), *facts)
