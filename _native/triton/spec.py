"""Specification of a kernel: everything that its generated source depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autosparse._native.kernels.identity import code_digest

from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule
from autosparse.ops.base import ProductKind
from autosparse.scalar import INDICES, NARROW_INDEX, SCALARS, SINGLE, TRITON, WIDE_INDEX
from autosparse.scalar.kernel import KernelType

VALUES: Final = {name: SCALARS[name].triton for name in TRITON}
"""Triton's names of value dtypes."""
WIDE: Final = f"tl.{WIDE_INDEX.name}"
"""Triton's dtype of positions that need 64 bits."""
NARROW: Final = f"tl.{NARROW_INDEX.name}"
"""Triton's dtype of other positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """Schedule with the dtypes and address widths for which source is generated."""

    schedule: DeviceSchedule
    dtype: str = SINGLE.name
    index_dtype: str = NARROW_INDEX.name
    is_indirect: bool = False  # values are in another order than entries (a transpose)
    is_wide: bool = False  # offsets into dense operands need 64 bits

    @property
    def types(self) -> KernelType:
        """Types of values, of index arrays, and of sums."""
        return KernelType.of(self.dtype, self.index_dtype)

    @property
    def accumulator(self) -> str:
        """Triton's dtype of sums: float32 for half precision."""
        return f"tl.{self.types.compute.name}"

    def reads_positions(self, n: int) -> bool:
        """Return whether part `n` reads values through a list of positions, and has its own list of columns."""
        return self.is_indirect or self.schedule.is_listed(n)

    def reason_unsupported(self) -> str | None:
        """Return why there is no such kernel, or None."""
        if self.dtype not in VALUES or self.index_dtype not in INDICES:
            return f"{self.dtype} values with {self.index_dtype} indices are not supported"
        row = SCALARS[self.dtype]
        if self.schedule.precision == "tf32" and not row.has_tf32:
            return f"precision 'tf32' requires {SINGLE.name}, not {self.dtype}"
        if self.schedule.vector * row.itemsize > 16:
            return f"a load has at most 16 bytes: vector={self.schedule.vector} of {self.dtype} is more"
        return None

    def key(self) -> str:
        """Return 32 hex digits of the spec and of the generator's source."""
        facts = [
            self.schedule.to_json(), self.dtype, self.index_dtype, str(self.is_indirect), str(self.is_wide),
            code_digest("triton"),
        ]  # fmt: skip
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Argument:
    """Parameter of a generated kernel: name and Triton's type (``*fp32``, ``i32``)."""

    name: str
    type: str


PART_ARRAYS: Final = {
    "rows": ("starts", "ends", "dest"),
    "unrolled": ("starts", "ends", "dest"),
    "ell": ("starts", "cols", "dest"),
    "segments": ("pieces", "starts", "ends", "dest"),
    "entries": ("rows",),
    "windows": ("groups", "cols", "positions", "dest"),
    "blocks": ("groups", "cols", "positions", "dest"),
    "fibers": ("starts", "ends", "dest"),
    "fill": ("dest",),
}
"""Arrays of a part that packers create, by layout; all have the index dtype."""


def part_arrays(spec: DeviceSpec, n: int) -> tuple[str, ...]:
    """Return the names of the arrays of part `n`, in the order of the kernel's parameters."""
    layout = spec.schedule.parts[n].layout
    names = PART_ARRAYS[layout]
    if spec.reads_positions(n) and layout not in (*DOT_LAYOUTS, "fill"):
        names += ("positions",) if layout == "ell" else ("cols", "positions")
    return names


def arguments(spec: DeviceSpec) -> tuple[Argument, ...]:
    """Return the parameters of the generated kernel, in order."""
    value, index, sums = (f"*{row.triton}" for row in spec.types)
    given = [Argument("table", f"*{NARROW_INDEX.triton}"), Argument("values", value)]
    kind = spec.schedule.kind
    given += [Argument(name, index) for name in SHARED[kind]]
    given += [Argument(f"p{n}_{name}", index) for n in range(len(spec.schedule.parts)) for name in part_arrays(spec, n)]
    given += [Argument(name, value) for name in DENSE[kind]]
    if spec.schedule.is_sampled:
        return (*given, *(Argument(name, SINGLE.triton) for name in ("alpha", "beta")), *_sizes(spec))
    return (*given, Argument("work", sums), *_sizes(spec))


def _sizes(spec: DeviceSpec) -> tuple[Argument, ...]:
    return tuple(Argument(name, NARROW_INDEX.triton) for name in SIZES[spec.schedule.kind])


SHARED: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("cols",),
    "columns": ("cols",),
    "sampled": ("cols",),
    "fibers": ("fiber_ends", "fiber_cols", "leaf_cols"),
}
"""Arrays of the whole operand, by kind."""
DENSE: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("B", "C"),
    "columns": ("B", "C"),
    "sampled": ("X", "Y", "C"),
    "fibers": ("B", "D", "C"),
}
"""Dense operands by kind, the result last."""
SIZES: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("n_tasks",),
    "columns": ("n_tasks", "n_cols", "ldb", "ldc"),
    "sampled": ("n_tasks", "n_cols", "ldx", "ldy"),
    "fibers": ("n_tasks", "n_cols", "ldb", "ldd", "ldc"),
}
"""Integer arguments by kind: tasks, columns of the result (k of sampled products), row strides of dense operands."""
