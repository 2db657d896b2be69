"""Kernels of composites: one of the runtime's loops per part, bound together and called like one kernel.

Parts run one after the other, each on all threads, or all in one sweep over B.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.kernel import BoundKernel, CompiledKernel
from autosparse._native.kernels.precompiled import DTYPES, panel_shape, reason_unsupported
from autosparse._native.storage.composite import PackedComposite, part_schedules

from autosparse.core.composite import COMPOSITE_VERSION, Composite
from autosparse.core.dtypes import NarrowIndex
from autosparse.core.formats import CSR
from autosparse.core.values import computed_once, dataclass, field
from autosparse.ops.names import MATMUL
from autosparse.scalar import NARROW_INDEX


def composite_unsupported(operation: str, composite: Composite) -> str | None:
    """Return why there are no kernels for `composite`, or None if there are."""
    if operation != MATMUL or composite.operation != operation:
        return f"{operation} has no kernels for parts"
    for at in range(len(composite.parts)):
        if (reason := part_unsupported(composite, at)) is not None:
            return f"part {composite.parts[at]}: {reason}"
    return None


def is_swept(composite: Composite) -> bool:
    """Return whether one sweep over B computes all parts: panels of whole rows, and rows sorted by first column."""
    if not all(one.is_precompiled for one in composite.schedules):
        return False
    *panels, last = (panel_shape(one.format) for one in composite.schedules)
    widths = {None if shape is None else shape[1] for shape in panels}
    if len(widths) != 1 or None in widths:
        return False
    rest = composite.schedules[-1].format
    return rest.levels == CSR.levels and rest.rows == "first" if last is None else last[1] in widths


def part_unsupported(composite: Composite, at: int) -> str | None:
    """Return why there is no kernel for the part at index `at`, or None."""
    schedule = part_schedules(composite)[at]
    if not schedule.is_precompiled:
        return "the runtime's loops compute parts, no generated kernels do"
    if schedule.format.is_sliced:
        return "sliced formats permute rows"
    return reason_unsupported(composite.operation, schedule)


@dataclass(frozen=True)
class CompositeSpec:
    """Specification of a composite's kernels, with the fields of `KernelSpec`."""

    operation: str
    schedule: Composite
    dtype: str
    index_dtype: str
    isa: str
    deterministic: bool = False
    gathers: bool = True

    @computed_once
    def parts(self) -> tuple[KernelSpec, ...]:
        """Specification of each part's kernel."""
        facts = (self.dtype, self.index_dtype, self.isa, self.deterministic, self.gathers)
        return tuple(KernelSpec(self.operation, one, *facts) for one in part_schedules(self.schedule))

    def key(self) -> str:
        """Return 32 hex digits over the parts' keys and their selections."""
        facts = [str(COMPOSITE_VERSION), *(part.key() for part in self.parts)]
        facts += [str(part.select) for part in self.schedule.parts]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, eq=False)
class CompositeKernel:
    """The kernels of a composite's parts, in order."""

    composite: Composite
    kernels: tuple[CompiledKernel, ...]

    @property
    def address(self) -> int:
        """Identity of the code within this process."""
        return hash(tuple(kernel.address for kernel in self.kernels))

    def bind(self, packed: PackedComposite) -> BoundComposite | BoundSwept:
        """Bind these kernels to the parts of `packed`."""
        if packed.composite != self.composite:
            raise TypeError(f"kernels for {self.composite} got {packed.composite}")
        pairs = zip(self.kernels, packed.parts, strict=True)
        bounds: list[Any] = [kernel.bind(part.as_bound) for kernel, part in pairs]  # all of the same class
        if is_swept(self.composite):
            return BoundSwept.of(packed, bounds)
        return BoundComposite.of(packed, bounds)


@dataclass(frozen=True, eq=False)
class BoundComposite:
    """The kernels of all parts, bound to their operands. Several threads may call it concurrently."""

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[BoundKernel, ...]
    _parts: tuple[Any, int] = field(repr=False)  # asp_part *, and their number
    _last: tuple[int, int] = field(repr=False)  # bytes of a value, reads of rows of B
    _kept: Any = field(repr=False)  # objects that the C structures refer to

    @classmethod
    def of(cls, packed: PackedComposite, bounds: Sequence[BoundKernel]) -> BoundComposite:
        """Combine parts that were bound one by one."""
        structures, kept = runtime_api.ffi.new("asp_part[]", len(bounds)), list[Any]()
        for structure, bound in zip(structures, bounds, strict=True):
            structure.kernel, structure.A = bound.kernel.address, bound._operand
            structure.chunk, structure.most_threads = bound._chunk, bound._most_threads
            kept.append(bound._operand)
        size, n_reads = bounds[0].kernel.spec.value_bytes, sum(bound._n_reads for bound in bounds)
        return cls(packed, tuple(bounds), (structures, len(bounds)), (size, n_reads), kept)

    # Positional, like BoundKernel.run.
    def run(  # noqa: PLR0917
        self, B_address: int, ldb: int, C_address: int, ldc: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute ``C = op(A) @ B``; see `BoundKernel.run`."""
        dense = (B_address, ldb, C_address, ldc, n_cols, n_threads)
        return not runtime_api.lib.asp_run_parts(*self._parts, *dense, *self._last)

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call does not support composites."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class BoundSwept:
    """Parts of whole rows that are computed together, panel by panel of B.

    Several threads may call it concurrently.
    """

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[BoundKernel, ...]  # of each part alone
    _leading: tuple[Any, ...] = field(repr=False)  # arguments of asp_run_sweep before the dense operands
    _n_reads: int = field(repr=False)
    _kept: Any = field(repr=False)  # objects that the C structures refer to

    @classmethod
    def of(cls, packed: PackedComposite, bounds: Sequence[BoundKernel]) -> BoundSwept:
        """Combine parts that were bound one by one."""
        shapes = [panel_shape(bound.packed.fmt) for bound in bounds]
        assert shapes[0] is not None
        structures, kept = runtime_api.ffi.new("asp_swept[]", len(bounds)), []
        for structure, bound, shape in zip(structures, bounds, shapes, strict=True):
            structure.A, structure.r = bound._operand, 0 if shape is None else shape[0]
            structure.prefetch = bound.kernel.spec.schedule.prefetch
            if shape is None:
                starts = _starts(bound.packed, shapes[0][1])
                structure.starts = runtime_api.ffi.cast(NARROW_INDEX.pointer, runtime_api.pointer(starts))
                kept.append(starts)
        leading = (DTYPES[bounds[0].kernel.spec.dtype], shapes[0][1], structures, len(bounds))
        return cls(packed, tuple(bounds), leading, sum(bound._n_reads for bound in bounds), kept)

    # Positional, like BoundKernel.run.
    def run(  # noqa: PLR0917
        self, B_address: int, ldb: int, C_address: int, ldc: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute ``C = op(A) @ B``; see `BoundKernel.run`."""
        dense = (B_address, ldb, C_address, ldc, n_cols, n_threads, self._n_reads)
        return not runtime_api.lib.asp_run_sweep(*self._leading, *dense)

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call does not support composites."""
        raise NotImplementedError


def _starts(packed: Any, panel: int) -> Any:
    """Return the first row of each panel of columns and the number of rows (int32), for rows by first column."""
    pos, columns = packed.pos["k1"], packed.crd["k1"]
    filled = np.flatnonzero(pos[1:] > pos[:-1])  # the leading rows: empty rows come last
    first = np.minimum.reduceat(columns, pos[filled]) if filled.size else columns[:0]
    starts = np.searchsorted(first, np.arange(0, packed.sizes["k"] + panel, panel)).astype(NarrowIndex)
    starts[-1] = pos.size - 1
    return starts
