"""Kernels of composites: one kernel per part, bound together and called like one kernel.

Parts run one after the other, each on all threads. Of parts that share rows, the first writes and the others add.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from autosparse._native import runtime_api
from autosparse._native.ir.lower import lower, supports
from autosparse._native.ir.nodes import Zero
from autosparse._native.ir.spec import KernelSpec, expression_of, is_private, reason_cannot_add
from autosparse._native.kernels.kernel import BoundKernel, CompiledKernel
from autosparse._native.kernels.precompiled import DTYPES, panel_shape
from autosparse._native.kernels.precompiled import reason_unsupported as reason_not_precompiled
from autosparse._native.storage.composite import PackedComposite, is_sampled, part_schedules

from autosparse.core.composite import COMPOSITE_VERSION, Composite
from autosparse.core.dtypes import NarrowIndex
from autosparse.core.formats import CSR
from autosparse.core.values import computed_once, dataclass, field
from autosparse.scalar import NARROW_INDEX


def composite_unsupported(operation: str, composite: Composite) -> str | None:
    """Return why there are no kernels for `composite`, or None if there are."""
    if composite.operation != operation or len(expression_of(composite.schedules[0]).sparse.indices) != 2:
        return f"{operation} has no kernels for parts"
    for at in range(len(composite.parts)):
        if (reason := part_unsupported(composite, at)) is not None:
            return f"part {composite.parts[at]}: {reason}"
    return None


def is_swept(composite: Composite) -> bool:
    """Return whether one sweep over B computes all parts: panels of whole rows, and rows sorted by first column."""
    ready = all(one.is_precompiled for one in composite.schedules) and not composite.is_split
    if not ready or is_sampled(composite):
        return False
    *panels, last = (panel_shape(one.format) for one in composite.schedules)
    widths = {None if shape is None else shape[1] for shape in panels}
    if len(widths) != 1 or None in widths:
        return False
    rest = composite.schedules[-1].format
    return rest.levels == CSR.levels and rest.rows == "first" if last is None else last[1] in widths


def part_unsupported(composite: Composite, at: int) -> str | None:
    """Return why there is no kernel for the part at index `at`, or None."""
    operation, first_shared, schedule = composite.operation, composite.n_row_parts, part_schedules(composite)[at]
    reason = reason_not_precompiled if schedule.is_precompiled else supports
    if (found := reason(operation, schedule)) is not None:
        return found
    if is_private(schedule):
        return "schedules with private outputs per thread are not supported in composites"
    if schedule.format.values or schedule.format.symmetric:
        return "parts support neither encoded values nor symmetric storage"
    if schedule.format.is_sliced and (first_shared or at > first_shared):
        return "sliced formats permute and overwrite rows: only a first part that shares no rows may have one"
    if is_sampled(composite):
        if composite.is_split and at >= first_shared and schedule.is_precompiled:
            return "precompiled SDDMM kernels require a row's entries to be contiguous in the result"
    elif at > first_shared and (found := reason_cannot_add(schedule)) is not None:
        return found
    return None


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
        composite, found = self.schedule, []
        for at, schedule in enumerate(part_schedules(composite)):
            spec = KernelSpec(
                self.operation, schedule, self.dtype, self.index_dtype, self.isa, self.deterministic, self.gathers
            )
            if is_sampled(composite):
                spec = dataclasses.replace(spec, scatters=composite.is_split and at >= composite.n_row_parts)
            elif at > composite.n_row_parts or zeroes(spec):
                spec = dataclasses.replace(spec, adds=True)
            found.append(spec)
        return tuple(found)

    def key(self) -> str:
        """Return 32 hex digits over the parts' keys and their selections."""
        facts = [str(COMPOSITE_VERSION), *(part.key() for part in self.parts)]
        facts += [str(part.select) for part in self.schedule.parts]
        return hashlib.blake2b("\n".join(facts).encode(), digest_size=16).hexdigest()


@functools.lru_cache(maxsize=256)
def zeroes(spec: KernelSpec) -> bool:
    """Return whether a kernel clears the whole output first. In a part it adds to rows that are cleared for it."""
    if spec.schedule.is_precompiled or expression_of(spec.schedule).sampled:
        return False
    return any(isinstance(node, Zero) for node in lower(spec).body)


@dataclass(frozen=True, eq=False)
class CompositeKernel:
    """The kernels of a composite's parts, in order."""

    composite: Composite
    kernels: tuple[CompiledKernel, ...]

    @property
    def address(self) -> int:
        """Identity of the code within this process."""
        return hash(tuple(kernel.address for kernel in self.kernels))

    def bind(self, packed: PackedComposite) -> BoundComposite | BoundSampledComposite | BoundSwept:
        """Bind these kernels to the parts of `packed`."""
        if packed.composite != self.composite:
            raise TypeError(f"kernels for {self.composite} got {packed.composite}")
        pairs = zip(self.kernels, packed.parts, strict=True)
        bounds: list[Any] = [kernel.bind(part.as_bound) for kernel, part in pairs]  # all of the same class
        if is_sampled(self.composite):
            return BoundSampledComposite(packed, tuple(bounds))
        if is_swept(self.composite):
            return BoundSwept.of(packed, bounds)
        return BoundComposite.of(packed, bounds)


@dataclass(frozen=True, eq=False)
class BoundSampledComposite:
    """SDDMM ``O = A ∘ (X @ Yᵀ)``, part by part.

    Every entry belongs to one part, so nothing is summed.
    """

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[Any, ...]  # BoundSddmm of each part

    # Positional, like BoundSddmm.run.
    def run(  # noqa: PLR0917
        self, X: int, ldx: int, Y: int, ldy: int, values: int, out: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute SDDMM; see `BoundSddmm.run`."""
        for bound in self.bounds:
            bound.run(X, ldx, Y, ldy, values, out, n_cols, n_threads)
        return True

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call does not support composites."""
        raise NotImplementedError


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
        for at, (structure, bound) in enumerate(zip(structures, bounds, strict=True)):
            structure.kernel, structure.A = bound.kernel.address, bound._operand
            structure.chunk, structure.most_threads = bound._chunk, bound._most_threads
            if (zeroed := _zeroed(packed, at, bound)) is not None:
                structure.zeroed = runtime_api.ffi.cast(NARROW_INDEX.pointer, runtime_api.pointer(zeroed))
                structure.n_zeroed = zeroed.size
            kept += [bound._operand, zeroed]
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


def _zeroed(packed: PackedComposite, at: int, bound: BoundKernel) -> Any:
    """Return the rows of C (int32) to clear before a kernel that only adds, or None if an earlier part writes them."""
    if not bound.kernel.spec.adds or at > packed.composite.n_row_parts:
        return None
    rows = packed.parts[at].subset.rows
    return np.arange(packed.n_rows, dtype=NarrowIndex) if rows is None else rows
