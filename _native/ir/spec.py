"""KernelSpec: everything that generated code depends on, and the index expression of a schedule."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Final

from autosparse.core.expression import IndexExpression
from autosparse.core.formats import LevelKind
from autosparse.core.schedule import RUN_TIME, SuperSchedule
from autosparse.core.target import VECTOR_BYTES
from autosparse.core.values import dataclass
from autosparse.errors import ScheduleError
from autosparse.forking import computed_once
from autosparse.ops import OPS

VALUE_BYTES: Final[Mapping[str, int]] = {"float32": 4, "float64": 8}
"""Value types that kernels are generated for, with their size."""

INDEX_BYTES: Final[Mapping[str, int]] = {"int32": 4, "int64": 8}
"""Integer types of the user's index arrays, with their size."""

SPEC_VERSION: Final = 1
"""Raise when the meaning of a KernelSpec changes (the generated source itself is part of the artefact's key anyway)."""


def is_private(schedule: SuperSchedule) -> bool:
    """Whether iterations of the parallel loop add to the same results: threads then have outputs of their own."""
    expression, parallel = expression_of(schedule), schedule.parallel
    repeats = {level.coordinate for level in schedule.format.levels if level.kind is LevelKind.NONUNIQUE}
    if schedule.format.symmetric:
        return True
    is_sum = parallel[:-1] not in expression.output.indices
    return is_sum or (parallel in repeats and not expression.sampled)


def reason_cannot_add(schedule: SuperSchedule) -> str | None:
    """Why no kernel of `schedule` adds to what the output holds, or None."""
    if schedule.is_precompiled:
        return "the runtime's loops write results, they do not add to them"
    if expression_of(schedule).sampled:
        return f"results of {schedule.operation} are written once"
    if schedule.format.is_sliced or is_private(schedule):
        return "slices, and loops that sum in parallel, write results and do not add to them"
    return None


def variant_of(operation: str, stored: Collection[str]) -> IndexExpression | None:
    """The expression of `operation` whose sparse operand has the indices `stored`; None when there is none."""
    variants = OPS[operation].expressions if operation in OPS else ()
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
    says whether gather instructions are faster here than a load for each element; results are the same bits. `adds`
    keeps what the output holds and adds to it: the kernel of a part that shares rows with others. `scatters`: entries
    of a row are no neighbours in a sampled result, as in such a part.
    """

    operation: str
    schedule: SuperSchedule
    dtype: str
    index_dtype: str
    isa: str
    deterministic: bool = False
    gathers: bool = True
    adds: bool = False
    scatters: bool = False

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
        if self.adds:
            facts.append("adds")
        if self.scatters:
            facts.append("scatters")
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
