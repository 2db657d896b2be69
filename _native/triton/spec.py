"""Specification of a kernel: everything that its generated source depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autosparse._native.kernels.identity import code_digest

from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule
from autosparse.ops.base import ProductKind

VALUES: Final = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
"""Triton's names of value dtypes."""
INDICES: Final = {"int32": "i32", "int64": "i64"}
"""Triton's names of index dtypes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """Schedule with the dtypes and address widths for which source is generated."""

    schedule: DeviceSchedule
    dtype: str = "float32"
    index_dtype: str = "int32"
    is_indirect: bool = False  # values are in another order than entries (a transpose)
    is_wide: bool = False  # offsets into dense operands need 64 bits

    @property
    def accumulator(self) -> str:
        """Triton's dtype of sums: float32 for half precision."""
        return "tl.float64" if self.dtype == "float64" else "tl.float32"

    def reads_positions(self, n: int) -> bool:
        """Return whether part `n` reads values through a list of positions, and has its own list of columns."""
        return self.is_indirect or self.schedule.is_listed(n)

    def reason_unsupported(self) -> str | None:
        """Return why there is no such kernel, or None."""
        if self.dtype not in VALUES or self.index_dtype not in INDICES:
            return f"{self.dtype} values with {self.index_dtype} indices are not supported"
        is_half = self.dtype in ("float16", "bfloat16")
        if is_half and self.schedule.shares_rows and self.schedule.reduction == "atomic":
            return "half precision is summed in float32 and rounded once: atomic adds would round each part"
        if self.schedule.precision == "tf32" and self.dtype != "float32":
            return f"precision 'tf32' requires float32, not {self.dtype}"
        if self.schedule.vector * {"float64": 8, "float32": 4}.get(self.dtype, 2) > 16:
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
    index, value = f"*{INDICES[spec.index_dtype]}", f"*{VALUES[spec.dtype]}"
    sums = "*fp64" if spec.dtype == "float64" else "*fp32"
    given = [Argument("table", "*i32"), Argument("values", value)]
    kind = spec.schedule.kind
    given += [Argument(name, index) for name in SHARED[kind]]
    given += [Argument(f"p{n}_{name}", index) for n in range(len(spec.schedule.parts)) for name in part_arrays(spec, n)]
    given += [Argument(name, value) for name in DENSE[kind]]
    if spec.schedule.is_sampled:
        return (*given, *(Argument(name, "fp32") for name in ("alpha", "beta")), *_sizes(spec))
    return (*given, Argument("work", sums), *_sizes(spec))


def _sizes(spec: DeviceSpec) -> tuple[Argument, ...]:
    return tuple(Argument(name, "i32") for name in SIZES[spec.schedule.kind])


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
