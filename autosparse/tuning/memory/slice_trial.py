"""Trial of a kernel on slices or blocks, of the early race or of a remembered plan, without formats and schedules.

It serves products as long as the matrix is neither written nor checked for writes. Before either, and before a search,
`expanded` makes the `KernelTrial` of the same kernel on the same packed copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from autosparse._native import memory, runtime_api
from autosparse._native.kernels import slice_kernel
from autosparse._native.kernels.slice_kernel import BoundSlices, SliceKernel
from autosparse._native.kernels.slice_names import HIGH_SLICE, Blocks, Slices
from autosparse.containment import contained
from autosparse.dispatch.calls import MatmulCall
from autosparse.dispatch.state import DispatchState, dispatcher_of
from autosparse.errors import PackError
from autosparse.operands.csr import Operand
from autosparse.operands.native_rows import PART_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from autosparse._native.ir.spec import KernelSpec
    from autosparse._native.kernels.slice_kernel import PackedBlocks, PackedSlices
    from autosparse.core.schedule import SuperSchedule
    from autosparse.dispatch.protocols import Bound, Call
    from autosparse.operands.packed_copies import PackedCopy
    from autosparse.operands.unfolding import AnyOperand
    from autosparse.tuning.trials.kernel_trial import KernelTrial

VIEW: Final = "slices before tuning"
"""Name of the packed copy of the early race, beside the names of operand adapters."""
PERIOD: Final = 4099
"""Period in entries of the vector with which results are compared; a prime, so that confused rows differ."""
NOT_FINITE: Final = "it reports a result that is not finite"


class SliceTrial:
    """Kernel on slices or blocks of a matrix; see `dispatch.protocols.Serving`."""

    is_stale = False
    service: Any = None  # Any: of `protocols.Serving`; the `KernelTrial` has one
    bound_to: tuple[Any, ...] | None = None
    looked_ns: int = 0
    is_wrong = False  # whether the kernel's result differs from the default kernel's
    schedule_text = ""  # JSON of a remembered schedule; "": the schedule is that of the shipped kernel
    library: Path | None = None  # shared object of a kernel that is not shipped
    kernel_name = ""  # key of a shipped kernel whose schedule is not read yet

    def __init__(
        self, slices: Slices | Blocks, state: DispatchState, operand: Operand, *, turned: tuple[Any, ...] | None = None
    ) -> None:
        """`turned`: indptr, indices and data of the rows of Mᵀ, for products with Mᵀ."""
        operand.refresh()
        self.is_transposed, self._turned = turned is not None, turned
        self.slices, options = slices, state.options
        self._n_compared = _n_compared(slices.tile) if isinstance(slices, Blocks) and slices.tile else 1
        self.structure_version, self.values_version = operand.structure_version, operand.values_version
        self.failed: str | None = None
        self.packed_copy: PackedCopy | None = None
        self.bound: Bound | None = None
        self.expand: Callable[[], KernelTrial | None] = lambda: None  # set when the trial serves
        self._limit_bytes = int(options.extra_memory * (operand.structure_bytes + operand.nnz * operand.dtype.itemsize))
        self._threads, self._copies = options.threads, dispatcher_of(operand).packed_copies
        self._n_looks = operand.n_looks

    @property
    def context(self) -> SliceTrial:
        """This object, which has the attributes of `dispatch.protocols.Problems`."""
        return self

    @property
    def ready(self) -> bool:
        """Return whether the trial can compute a product now."""
        return self.failed is None and self.bound is not None

    @property
    def n_threads(self) -> int:
        """Number of threads that the kernel may use now."""
        return self._threads or runtime_api.max_threads()

    def pack(self, operand: Operand, kernel: SliceKernel) -> None:
        """Pack the operand for `kernel` and compare its result; a failure sets `failed`."""
        rows = operand.rows or operand.validate()
        arrays = self._turned or (operand.indptr, np.ascontiguousarray(operand.indices[: operand.nnz]), operand.data)
        (indptr, indices, data), self._turned = arrays, None
        shape = (rows.n_minor, rows.n_major) if self.is_transposed else (rows.n_major, rows.n_minor)
        packed = slice_kernel.laid_out(shape, indptr, indices, self.slices)

        def fill() -> tuple[PackedSlices | PackedBlocks, int]:
            if not packed.fill(indptr, indices, data):
                raise PackError("a table does not hold the values of the matrix, or sums of repeated entries")
            return packed, self.values_version

        n_bytes = packed.filled_bytes(operand.dtype)
        try:
            self.packed_copy = self._copies.take(
                self.slices,
                VIEW + ".T" * self.is_transposed,
                needed_bytes=n_bytes,
                limit_bytes=self._limit_bytes,
                pack=fill,
            )
        except PackError as err:
            self.failed = str(err)
            return
        self.bound = bound = BoundSlices(kernel, packed, operand.dtype.itemsize)
        with np.errstate(all="ignore"):  # values may be inf or NaN
            self.failed = self._difference(operand, bound, indptr, data)
        if self.failed is not None:
            from autosparse.tuning.memory.agreement import UNKNOWABLE

            self.is_wrong = self.failed not in {NOT_FINITE, UNKNOWABLE}  # they depend on the values of the matrix
            self.drop()

    def _difference(self, operand: Operand, bound: BoundSlices, indptr: Any, data: Any) -> str | None:
        """Return how the product with a made operand differs from the default kernel's; None if it agrees.

        `indptr` and `data` are those of the rows that are packed.
        """
        rows, address, dtype = operand.rows or operand.validate(), runtime_api.address_of, operand.dtype
        (n_rows, n_inner), n = bound.packed.shape, self._n_compared
        # Entries of both signs from 0.5 to 1.5, none of them small, so that a missing stored entry shows.
        steps = np.arange(PERIOD) * 1789 % PERIOD
        period = (0.5 + steps / PERIOD) * np.where(steps % 2, 1.0, -1.0)
        if dtype.kind == "c":  # either part, with the same absolute values
            period = period * np.where(steps % 3, 0.6 + 0.8j, 0.8 - 0.6j)
        X, found = (memory.empty_scratch((extent, n), dtype) for extent in (n_inner, n_rows))
        whole = X.size // PERIOD * PERIOD
        X.reshape(-1)[:whole].reshape(-1, PERIOD)[:] = period
        X.reshape(-1)[whole:] = period[: X.size - whole]
        found.fill(np.nan)
        is_finite = bound.run(address(X), n, address(found), n, n, self.n_threads)
        step = n_rows if self.is_transposed else max(1, min(n_rows, PART_BYTES // (n * dtype.itemsize)))
        room = memory.empty_scratch((step, n), dtype)
        for first in range(0, n_rows if is_finite else 0, max(1, step)):
            starts, wanted = indptr[first : first + step + 1], room[: n_rows - first]
            own = rows if self.is_transposed else rows.part(starts)
            places = (address(X), n), (address(wanted), n)
            call = MatmulCall(own, *places, n, transposed=self.is_transposed, kept=(X, wanted, starts))
            runtime_api.raise_for(call.by_default(self.n_threads, 0))
            reason = _difference(found[first : first + step], wanted, (starts, data), first)
            if reason is not None:
                return reason
        return None if is_finite else NOT_FINITE

    def run(self, operand: AnyOperand, call: Call) -> bool:
        """Compute the result of `call`; return False if this kernel cannot compute this product."""
        assert isinstance(operand, Operand)
        operand.refresh()
        bound, packed_copy = self.bound, self.packed_copy
        if bound is None or packed_copy is None or not call.suits_generated:
            return False
        is_same = operand.structure_version == self.structure_version
        if is_same and operand.values_version == self.values_version and operand.n_looks == self._n_looks:
            packed_copy.enter()
            try:
                return call.by(bound, self.n_threads)
            finally:
                packed_copy.leave()
        full = self.expand() if is_same else None
        return full is not None and full.run(operand, call)

    def drop(self) -> None:
        """Release the packed copy."""
        packed_copy = self.released()
        if packed_copy is not None:
            self._copies.give(packed_copy)

    def released(self) -> PackedCopy | None:
        """Return the packed copy, which the trial reads no more."""
        packed_copy, self.packed_copy, self.bound = self.packed_copy, None, None
        if packed_copy is not None:
            packed_copy.retire_fast_paths(self)
        return packed_copy


def _difference(found: Any, wanted: Any, rows: tuple[Any, Any], first: int) -> str | None:
    """Return how rows of a result, from `first` on, differ from those of the default kernel; None if they agree.

    `rows`: the starts of these rows, and the values.
    """
    largest, (indptr, data) = 1.5, rows
    if runtime_api.rows_agree(rows, found, wanted, largest):
        return None
    from autosparse.tuning.memory import agreement  # few results need an explanation

    sums = agreement.row_magnitudes(indptr - indptr[0], data[indptr[0] : indptr[-1]])
    limits = sums * sums.dtype.type(largest), np.diff(indptr)
    return agreement.first_difference(found, wanted, *limits, first=first)


def _n_compared(tile: int) -> int:
    """Return the number of columns with which blocks are compared: a whole tile and a remainder."""
    from autosparse.tuning.memory.agreement import BESIDE_TILE  # slices load this module only for a difference

    return tile + min(tile - 1, BESIDE_TILE)


def expanded(light: SliceTrial, state: DispatchState, operand: Operand, gain_s: float | None) -> KernelTrial | None:
    """Return the `KernelTrial` of the kernel and packed copy of `light`, which then serves no more; None if none.

    `gain_s`: seconds that the kernel saves per product; None: unknown.
    """
    from autosparse._native.kernels.kernel import CompiledKernel
    from autosparse._native.kernels.shipped import shipped_kernel
    from autosparse._native.storage.packing import PackedOperand
    from autosparse.core.schedule import SuperSchedule
    from autosparse.core.solver import choice_of
    from autosparse.tuning.memory.light_bench import LightBench
    from autosparse.tuning.trials.kernel_trial import KernelTrial
    from autosparse.tuning.trials.service import Service
    from autosparse.tuning.trials.specs import spec_of

    if light.bound is None or operand.structure_version != light.structure_version:
        light.drop()
        return None
    try:
        text, bench, packed = light.schedule_text, LightBench(state, operand), light.bound.packed
        schedule = SuperSchedule.from_json(text) if text else schedule_of(light.slices, state)
        trial, spec = KernelTrial(choice_of(schedule), bench), cast("KernelSpec", spec_of(bench.problem, schedule))
        kernel: Any = (
            shipped_kernel(spec, state.options.compiler) if light.library is None
            else CompiledKernel.load(spec, light.library, needs_sorted=False)
        )  # fmt: skip
        whole = PackedOperand(
            schedule.format, light.is_transposed, bench.problem.matrix, packed.pos, packed.crd, packed.values
        )
        copy = light.released()
        assert copy is not None
        copy.packed = whole
        bench.packed_copies.rename(copy, schedule.format, bench.adapter.view(bench.problem))
        trial.adopt(kernel, copy)
        Service.of(trial, None, state, operand, gain_s)
    except contained():
        light.drop()
        raise
    return trial


def schedule_of(slices: Slices | Blocks, state: DispatchState) -> SuperSchedule:
    """Return the schedule of the shipped kernel for `slices`."""
    from autosparse._native.kernels import shipped_specs as shipped
    from autosparse._native.kernels.shipped_specs import SLICE_PREFETCH, SLICE_UNROLL, chosen, shared
    from autosparse.core.formats import Format
    from autosparse.core.schedule import SuperSchedule
    from autosparse.ops import names

    if isinstance(slices, Blocks) and not slices.tile:
        return next(chosen(slices.rows))
    if isinstance(slices, Blocks):
        offered = shared(lanes_of(state), slice_kernel.isa_of(state.options.isa).n_registers)
        return next(one for one in offered if one.dense_split("j") == slices.tile)
    if slices.rows == HIGH_SLICE and slices.sigma == 1:
        return shipped.HIGH_SLICES if slices.is_encoded else shipped.HIGH_EXACT
    return SuperSchedule(
        operation=names.MATMUL, format=Format.parse(slices.text()),
        loop_order=("i1", "k1", "i0"), prefetch=SLICE_PREFETCH,
        unroll=SLICE_UNROLL if slices.rows == lanes_of(state) else 1,
    )  # fmt: skip


def lanes_of(state: DispatchState) -> int:
    """Return the number of values in a vector register."""
    return slice_kernel.isa_of(state.options.isa).vector_bytes // state.dtype.itemsize
