"""DeviceSpec: everything that the source of a kernel depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from autosparse._native.kernels.identity import code_digest

from autosparse.gpu.schedule import DOT_LAYOUTS, DeviceSchedule
from autosparse.ops.base import ProductKind

VALUES: Final = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
"""Dtype -> Triton's name."""
INDICES: Final = {"int32": "i32", "int64": "i64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """A schedule with the dtypes and address widths that it is emitted for."""

    schedule: DeviceSchedule
    dtype: str = "float32"
    index_dtype: str = "int32"
    is_indirect: bool = False  # values lie in another order than entries (a transpose)
    is_wide: bool = False  # offsets into dense operands need 64 bits

    @property
    def accumulator(self) -> str:
        """Triton's dtype of sums: float32 for half precision."""
        return "tl.float64" if self.dtype == "float64" else "tl.float32"

    def reads_positions(self, n: int) -> bool:
        """Whether part `n` reads values by a list of positions, and has a list of columns of its own."""
        return self.is_indirect or self.schedule.is_listed(n)

    def reason_unsupported(self) -> str | None:
        """Why there is no such kernel, or None."""
        if self.dtype not in VALUES or self.index_dtype not in INDICES:
            return f"{self.dtype} values with {self.index_dtype} indices are not served"
        is_half = self.dtype in ("float16", "bfloat16")
        if is_half and self.schedule.shares_rows and self.schedule.reduction == "atomic":
            return "half precision is summed in float32 and rounded once: atomic adds would round each part"
        if self.schedule.precision == "tf32" and self.dtype != "float32":
            return f"TF32 is a way to multiply float32, not {self.dtype}"
        if self.schedule.vector * {"float64": 8, "float32": 4}.get(self.dtype, 2) > 16:
            return f"a load has at most 16 bytes: vector={self.schedule.vector} of {self.dtype} is more"
        return None

    def key(self) -> str:
        """32 hex digits: the spec and the sources that emit."""
        facts = [
            self.schedule.to_json(), self.dtype, self.index_dtype, str(self.is_indirect), str(self.is_wide),
            code_digest("triton"),
        ]  # fmt: skip
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of an emitted kernel: name and Triton's type (``*fp32``, ``i32``)."""

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
"""Layout -> arrays of a part that packers make, all of the index dtype."""


def part_arrays(spec: DeviceSpec, n: int) -> tuple[str, ...]:
    """Names of the arrays of part `n`, in the order of the kernel's parameters."""
    layout = spec.schedule.parts[n].layout
    names = PART_ARRAYS[layout]
    if spec.reads_positions(n) and layout not in (*DOT_LAYOUTS, "fill"):
        names += ("positions",) if layout == "ell" else ("cols", "positions")
    return names


def arguments(spec: DeviceSpec) -> tuple[Argument, ...]:
    """Parameters of the emitted kernel, in order."""
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
"""Kind -> arrays of the whole operand."""
DENSE: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("B", "C"),
    "columns": ("B", "C"),
    "sampled": ("X", "Y", "C"),
    "fibers": ("B", "D", "C"),
}
"""Kind -> dense operands, the result last."""
SIZES: Final[Mapping[ProductKind, tuple[str, ...]]] = {
    "vector": ("n_tasks",),
    "columns": ("n_tasks", "n_cols", "ldb", "ldc"),
    "sampled": ("n_tasks", "n_cols", "ldx", "ldy"),
    "fibers": ("n_tasks", "n_cols", "ldb", "ldd", "ldc"),
}
"""Kind -> numbers: tasks, columns of the result (k of sampled products), elements from row to row of dense operands."""
