"""Kernels of composites: one kernel per part, bound together and called like one kernel.

Parts of whole rows run one after the other, each on all threads. Parts that share rows also run one after the other:
the first writes and the others add. With windows, they take turns on a window of rows inside each thread.
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
from autosparse._native.ir.rough_times import COLUMN_NS, ENTRY_NS
from autosparse._native.ir.spec import KernelSpec, expression_of, is_private, reason_cannot_add
from autosparse._native.kernels.kernel import BoundKernel, CompiledKernel
from autosparse._native.kernels.precompiled import DTYPES, block_shape, panel_shape
from autosparse._native.kernels.precompiled import reason_unsupported as reason_not_precompiled
from autosparse._native.storage.composite import PackedComposite, is_sampled, part_schedules

from autosparse.core.composite import COMPOSITE_VERSION, Composite
from autosparse.core.dtypes import NarrowIndex
from autosparse.core.formats import CSR
from autosparse.core.schedule import SuperSchedule
from autosparse.core.values import dataclass, field
from autosparse.forking import computed_once
from autosparse.scalar import NARROW_INDEX


def composite_unsupported(operation: str, composite: Composite) -> str | None:
    """Return why there are no kernels for `composite`, or None if there are."""
    if composite.operation != operation or len(expression_of(composite.schedules[0]).sparse.indices) != 2:
        return f"{operation} has no kernels for parts"
    for at in range(len(composite.parts)):
        if (reason := part_unsupported(composite, at)) is not None:
            return f"part {composite.parts[at]}: {reason}"
    return None


def is_fused(composite: Composite) -> bool:
    """Return whether the runtime sums both parts, blocks and the rest, in registers, window by window."""
    ready = all(one.is_precompiled for one in composite.schedules)
    return bool(composite.window) and ready and not composite.n_row_parts and not is_sampled(composite)


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


def _fused_unsupported(composite: Composite) -> str | None:
    """Return why the runtime cannot sum all parts in registers, or None."""
    blocks, rest = composite.schedules[0].format, composite.schedules[-1].format
    shape = block_shape(blocks)
    if len(composite.parts) != 2 or shape is None or not rest.is_csr:
        return "the runtime's loops over windows are for two parts, blocks and the rest by rows"
    if composite.window % shape[0]:
        return f"windows of {composite.window} rows do not fit {blocks}"
    return None


def part_unsupported(composite: Composite, at: int) -> str | None:
    """Return why there is no kernel for the part at index `at`, or None."""
    operation, first_shared, schedule = composite.operation, composite.n_row_parts, part_schedules(composite)[at]
    reason = reason_not_precompiled if schedule.is_precompiled else supports
    if (found := reason(operation, schedule)) is not None:
        return found
    if is_fused(composite):
        return _fused_unsupported(composite)
    if is_private(schedule):
        return "schedules with private outputs per thread are not supported in composites"
    if schedule.format.values or schedule.format.symmetric:
        return "parts support neither encoded values nor symmetric storage"
    if schedule.format.is_sliced and (first_shared or composite.window or at > first_shared):
        return "sliced formats permute and overwrite rows: only a first part that shares no rows may have one"
    if is_sampled(composite):
        if composite.is_split and at >= first_shared and schedule.is_precompiled:
            return "precompiled SDDMM kernels require a row's entries to be contiguous in the result"
    elif at > first_shared and (found := reason_cannot_add(schedule)) is not None:
        return found
    if composite.window and at >= first_shared:
        return _no_windows(composite.window, schedule)
    return None


def _no_windows(window: int, schedule: SuperSchedule) -> str | None:
    """Return why the kernel of `schedule` cannot take turns on windows of rows, or None."""
    if schedule.is_precompiled or schedule.loop_order[0] != "i1" or schedule.parallel != "i1":
        return "windows are for generated loops over rows, outermost and in parallel"
    if window % schedule.format.split("i") or schedule.format.rows not in ("", "listed"):
        return f"windows of {window} rows do not fit {schedule.format}"
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
            elif (at > composite.n_row_parts and not is_fused(composite)) or zeroes(spec):
                spec = dataclasses.replace(spec, adds=True)
            found.append(spec)
        return tuple(found)

    def key(self) -> str:
        """Return 32 hex digits over the parts' keys, their selections and the window."""
        facts = [str(COMPOSITE_VERSION), str(self.schedule.window), *(part.key() for part in self.parts)]
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

    def bind(self, packed: PackedComposite) -> BoundComposite | BoundSampledComposite | BoundFused | BoundSwept:
        """Bind these kernels to the parts of `packed`."""
        if packed.composite != self.composite:
            raise TypeError(f"kernels for {self.composite} got {packed.composite}")
        pairs = zip(self.kernels, packed.parts, strict=True)
        bounds: list[Any] = [kernel.bind(part.as_bound) for kernel, part in pairs]  # all of the same class
        if is_sampled(self.composite):
            return BoundSampledComposite.of(packed, bounds)
        if is_fused(self.composite):
            return BoundFused.of(packed, bounds)
        if is_swept(self.composite):
            return BoundSwept.of(packed, bounds)
        return BoundComposite.of(packed, bounds)


@dataclass(frozen=True, eq=False)
class BoundSampledComposite:
    """SDDMM ``O = A ∘ (X @ Yᵀ)``, part by part or window by window.

    Every entry belongs to one part, so nothing is summed.
    """

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[Any, ...]  # BoundSddmm of each part
    _windows: _Windows | None = field(repr=False)

    @classmethod
    def of(cls, packed: PackedComposite, bounds: Sequence[Any]) -> BoundSampledComposite:
        """Combine parts that were bound one by one."""
        return cls(packed, tuple(bounds), _windows_of(packed, bounds))

    # Positional, like BoundSddmm.run.
    def run(  # noqa: PLR0917
        self, X: int, ldx: int, Y: int, ldy: int, values: int, out: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute SDDMM; see `BoundSddmm.run`."""
        windows = self._windows
        for bound in self.bounds if windows is None else self.bounds[: self.packed.composite.n_row_parts]:
            bound.run(X, ldx, Y, ldy, values, out, n_cols, n_threads)
        if windows is not None:
            runtime_api.lib.asp_run_sampled_windows(
                *windows.parts, X, ldx, Y, ldy, values, out, n_cols, n_threads, windows.serial_ns(n_cols)
            )
        return True

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call does not support composites."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class _Windows:
    """Parts that take turns on windows of rows: leading arguments of the runtime's function, and the amount of work."""

    parts: tuple[Any, int, int, int]  # asp_part *, number of parts, rows of C that they share, rows per window
    entries: float
    kept: Any = field(repr=False)  # objects that the C structures refer to

    def serial_ns(self, n_cols: int) -> float:
        """Return the estimated time on one thread, ns."""
        return self.entries * (ENTRY_NS + COLUMN_NS * n_cols)


@dataclass(frozen=True, eq=False)
class BoundComposite:
    """The kernels of all parts, bound to their operands. Several threads may call it concurrently."""

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[BoundKernel, ...]
    _parts: tuple[Any, ...] = field(repr=False)  # leading and last arguments of asp_run_parts
    _last: tuple[Any, ...] = field(repr=False)
    _kept: Any = field(repr=False)  # objects that the C structures refer to

    @classmethod
    def of(cls, packed: PackedComposite, bounds: Sequence[BoundKernel]) -> BoundComposite:
        """Combine parts that were bound one by one."""
        composite = packed.composite
        n_alone = composite.n_row_parts if composite.window else len(bounds)
        structures, kept = _structures(packed, bounds, n_alone)
        size, n_reads = bounds[0].kernel.spec.value_bytes, sum(bound._n_reads for bound in bounds)
        entries = float(sum(bound.packed.n_positions[-1] for bound in bounds[n_alone:]))
        n_rows = packed.parts[-1].subset.pattern.n_rows if composite.window else 0
        leading = (structures, len(bounds), n_alone, n_rows, composite.window)
        return cls(packed, tuple(bounds), leading, (size, n_reads, entries), kept)

    # Positional, like BoundKernel.run.
    def run(  # noqa: PLR0917
        self, B_address: int, ldb: int, C_address: int, ldc: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute ``C = op(A) @ B``; see `BoundKernel.run`."""
        size, n_reads, entries = self._last
        serial_ns = entries * (ENTRY_NS + COLUMN_NS * n_cols)
        return not runtime_api.lib.asp_run_parts(
            *self._parts, B_address, ldb, C_address, ldc, n_cols, n_threads, size, n_reads, serial_ns
        )

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call does not support composites."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class BoundFused:
    """Blocks and the remaining entries, summed in registers by one loop of the runtime.

    Several threads may call it concurrently.
    """

    has_fast_call: ClassVar[bool] = False

    packed: PackedComposite
    bounds: tuple[BoundKernel, ...]  # of each part alone
    _leading: tuple[Any, ...] = field(repr=False)  # arguments of asp_run_blocks before the dense operands
    _n_reads: int = field(repr=False)

    @classmethod
    def of(cls, packed: PackedComposite, bounds: Sequence[BoundKernel]) -> BoundFused:
        """Combine both parts, bound one by one."""
        blocks, rest = bounds
        shape = block_shape(blocks.packed.fmt)
        assert shape is not None
        code, window = DTYPES[blocks.kernel.spec.dtype], packed.composite.window
        leading = (code, *shape, window, blocks._operand, rest._operand)
        return cls(packed, tuple(bounds), leading, blocks._n_reads + rest._n_reads)

    # Positional, like BoundKernel.run.
    def run(  # noqa: PLR0917
        self, B_address: int, ldb: int, C_address: int, ldc: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute ``C = op(A) @ B``; see `BoundKernel.run`."""
        dense = (B_address, ldb, C_address, ldc, n_cols, n_threads, self._n_reads)
        return not runtime_api.lib.asp_run_blocks(*self._leading, *dense)

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


def _structures(packed: PackedComposite, bounds: Sequence[BoundKernel], n_alone: int) -> tuple[Any, list[Any]]:
    """Return the parts as asp_part structures for asp_run_parts, and the objects that they refer to."""
    ffi = runtime_api.ffi
    structures, kept = ffi.new("asp_part[]", len(bounds)), list[Any]()
    for at, (structure, bound) in enumerate(zip(structures, bounds, strict=True)):
        operand = _fill(structure, bound, takes_turns=at >= n_alone)
        if (zeroed := _zeroed(packed, at, bound) if at < n_alone else None) is not None:
            structure.zeroed = ffi.cast(NARROW_INDEX.pointer, runtime_api.pointer(zeroed))
            structure.n_zeroed = zeroed.size
        kept += [operand, zeroed]
    return structures, kept


def _zeroed(packed: PackedComposite, at: int, bound: BoundKernel) -> Any:
    """Return the rows of C (int32) to clear before a kernel that only adds, or None if an earlier part writes them."""
    if not bound.kernel.spec.adds or at > packed.composite.n_row_parts:
        return None
    rows = packed.parts[at].subset.rows
    return np.arange(packed.n_rows, dtype=NarrowIndex) if rows is None else rows


def _windows_of(packed: PackedComposite, bounds: Sequence[Any]) -> _Windows | None:
    """Return the parts that share rows and take turns on windows, or None if the composite has no windows."""
    composite = packed.composite
    if not composite.window:
        return None
    shared = bounds[composite.n_row_parts :]
    structures = runtime_api.ffi.new("asp_part[]", len(shared))
    kept = [_fill(structure, bound, takes_turns=True) for structure, bound in zip(structures, shared, strict=True)]
    entries = float(sum(bound.packed.n_positions[-1] for bound in shared))
    n_rows = packed.parts[-1].subset.pattern.n_rows
    return _Windows((structures, len(shared), n_rows, composite.window), entries, kept)


def _fill(structure: Any, bound: Any, *, takes_turns: bool) -> Any:
    """Write a part into the cffi asp_part `structure`; return the operand structure, to be kept alive."""
    operand = runtime_api.ffi.new("asp_operand *", bound._operand[0])
    if takes_turns:
        operand.parallel = runtime_api.lib.asp_range_address()
    structure.kernel, structure.A = bound.kernel.address, operand
    structure.rows_per_iteration = bound.kernel.spec.schedule.format.split("i")
    structure.chunk, structure.most_threads = bound._chunk, bound._most_threads
    return operand
