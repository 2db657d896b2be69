"""Loaded kernels, and kernels bound to packed operands, one class per operation, which are ready to be called."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, overload

from autosparse._native import runtime_api
from autosparse._native.ir.rough_times import mixes_rows
from autosparse._native.ir.slice_layout import SIDES
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.slice_names import window_of

from autosparse.core.values import dataclass, field
from autosparse.errors import BuildError
from autosparse.ops import OPS

if TYPE_CHECKING:
    from autosparse._native.storage.packing import PackedOperand
    from autosparse._native.storage.structure import PackedStructure
    from autosparse._native.storage.tensors import PackedTensor

MAX_THREADS: Final = 1 << 30
"""Maximum number of threads of schedules that leave it to the caller."""


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """Machine code for a KernelSpec. There is one per process and artefact, and it is never unloaded."""

    spec: KernelSpec
    path: Path
    address: int  # address of asp_kernel
    needs_sorted: bool  # the kernel searches levels and must know which are sorted
    library: Any = field(repr=False)  # keeps the shared object mapped

    @classmethod
    def load(cls, spec: KernelSpec, path: Path, *, needs_sorted: bool) -> CompiledKernel:
        """Load the shared object. Raises BuildError if the system refuses it."""
        try:
            library = ctypes.CDLL(str(path))
            address = ctypes.cast(library.asp_kernel, ctypes.c_void_p).value
        except (OSError, AttributeError) as err:
            raise BuildError(f"a compiled kernel cannot be loaded: {err}", key=spec.key()) from err
        assert address is not None
        return cls(spec, path, address, needs_sorted, library)

    @overload
    def bind(self, packed: PackedOperand) -> BoundKernel: ...
    @overload
    def bind(self, packed: PackedStructure) -> BoundSddmm: ...
    @overload
    def bind(self, packed: PackedTensor) -> BoundMttkrp: ...
    def bind(self, packed: PackedOperand | PackedStructure | PackedTensor) -> BoundKernel | BoundSddmm | BoundMttkrp:
        """Bind this kernel to `packed`, which must have the spec's format and types and the kind of its operation.

        Values are read live: after `packed.refresh` of a copy no new binding is needed. Where the user's own arrays
        moved, pack and bind again. A PackedStructure has no values: they are arguments of `run`.
        """
        spec = self.spec
        # Values of a structure are arguments; half-precision values are widened to the spec's dtype.
        is_own = packed.kind == "structure" or packed.fmt.values
        values: Any = None if is_own else packed  # distinguished by `kind`
        dtype = spec.dtype if is_own else values.values.dtype.name
        found = (packed.fmt, dtype, packed.pattern.index_dtype)
        if found != (spec.schedule.format, spec.dtype, spec.index_dtype):
            raise TypeError(f"a kernel for {spec.schedule.format}, {spec.dtype}, {spec.index_dtype} got {found}")
        if packed.kind != OPS[spec.operation].packed:
            raise TypeError(f"a kernel for {spec.operation} got a {type(packed).__name__}")
        operand = _operand(packed, self.needs_sorted)
        kinds = {"values": BoundKernel, "structure": BoundSddmm, "fibers": BoundMttkrp}
        bound: Any = kinds[packed.kind]  # Any: as above
        made: BoundKernel | BoundSddmm | BoundMttkrp = bound(self, packed, operand)
        return made


class _ReadyKernel:
    """A kernel with its operand and the schedule's run-time arguments. Several threads may call it concurrently.

    Arguments of `run` are addresses, and positional, because these are hot paths.
    """

    __slots__ = ("__weakref__", "_address", "_call", "_chunk", "_most_threads", "_operand", "kernel", "packed")
    has_fast_call: ClassVar[bool] = False

    def __init__(self, kernel: CompiledKernel, packed: Any, operand: Any, call: str) -> None:
        schedule = kernel.spec.schedule
        self.kernel = kernel
        self.packed = packed
        self._operand = operand  # cffi asp_operand *
        self._chunk = schedule.chunk if schedule.partition == "dynamic" else 0
        self._most_threads = schedule.threads or MAX_THREADS
        self._address = kernel.address
        self._call = getattr(runtime_api.lib, call)

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Raise NotImplementedError: the fast call supports products of matrices only."""
        raise NotImplementedError


class BoundKernel(_ReadyKernel):
    """Compiled kernel of ``C = op(A) @ B`` together with the packed A on which `run` calls it."""

    __slots__ = ("_n_reads", "_value_bytes")
    has_fast_call: ClassVar[bool] = True  # by `enter`
    packed: PackedOperand

    def __init__(self, kernel: CompiledKernel, packed: PackedOperand, operand: Any) -> None:
        super().__init__(kernel, packed, operand, "asp_run_kernel")
        self._value_bytes, self._n_reads = kernel.spec.value_bytes, reads_of_b(packed)
        if mixes_rows(packed.fmt, n_rows=packed.sizes["i"], n_cells=packed.values.size):
            self._most_threads = 1

    def run(  # noqa: PLR0917
        self, B_address: int, ldb: int, C_address: int, ldc: int, n_cols: int, n_threads: int
    ) -> bool:
        """Compute ``C = op(A) @ B`` for row-major B and C with `ldb`, `ldc` elements between rows; C may be
        uninitialised.

        Kernels without a column loop take one column (``n_cols == 1``) of contiguous elements. Returns False if a
        result that padding may have affected is not finite; C must then be recomputed by a kernel without padding.
        """
        n_threads = min(n_threads, self._most_threads)
        return not self._call(
            self._address, self._operand, B_address, ldb, C_address, ldc, n_cols, n_threads, self._chunk,
            self._value_bytes, self._n_reads,
        )  # fmt: skip

    def enter(self, state: Any) -> None:  # Any: a FastCall
        """Write the arguments of `run` into a fast call (`dispatch.fast_path`)."""
        state.kernel = self._address
        state.kernel_operand = int(runtime_api.ffi.cast("uintptr_t", self._operand))
        state.chunk, state.most_threads = self._chunk, self._most_threads
        state.value_bytes, state.n_reads = self._value_bytes, self._n_reads


class BoundSddmm(_ReadyKernel):
    """Compiled kernel of ``O = A ∘ (X @ Yᵀ)`` at the entries of A, together with A's packed structure.

    Each repeated entry has a result of its own.
    """

    __slots__ = ()
    packed: PackedStructure

    def __init__(self, kernel: CompiledKernel, packed: PackedStructure, operand: Any) -> None:
        super().__init__(kernel, packed, operand, "asp_run_sddmm")

    def run(  # noqa: PLR0917
        self,
        X_address: int,
        ldx: int,
        Y_address: int,
        ldy: int,
        vals_address: int,
        out_address: int,
        n_cols: int,
        n_threads: int,
    ) -> bool:
        """Compute ``out[e] = vals[e] * sum_j X[i_e, j] * Y[k_e, j]`` for every entry e of the pattern, j < `n_cols`.

        X (m, n_cols) and Y (n, n_cols) are row-major with `ldx`, `ldy` elements between rows. Y holds the columns of
        the operand that SciPy users write as (n_cols, n). Kernels without a loop over j take one column (``n_cols ==
        1``) of contiguous elements. `vals` and `out` have the order of the pattern's `indices`. `out` may be
        uninitialised and must not be `vals`, because an outer loop over j keeps partial sums in it. Always returns
        True, because padding is never multiplied.
        """
        n_threads = min(n_threads, self._most_threads)
        self._call(
            self._address, self._operand, X_address, ldx, Y_address, ldy, vals_address, out_address,
            n_cols, n_threads, self._chunk,
        )  # fmt: skip
        return True


class BoundMttkrp(_ReadyKernel):
    """Compiled kernel of ``M[i, j] = sum T[i, k, l, ...] * B[k, j] * C[l, j] * ...`` with the packed tensor T."""

    __slots__ = ()
    packed: PackedTensor

    def __init__(self, kernel: CompiledKernel, packed: PackedTensor, operand: Any) -> None:
        super().__init__(kernel, packed, operand, "asp_run_mttkrp")

    def run(  # noqa: PLR0917
        self,
        factor_addresses: Sequence[int],
        lds: Sequence[int],
        M_address: int,
        ldm: int,
        n_cols: int,
        n_threads: int,
    ) -> bool:
        """Compute the product into M (shape[mode], n_cols), which may be uninitialised.

        `factor_addresses` and `lds` (elements between rows) describe the dense operands of the modes other than the
        packed tensor's, in the order of the modes; all are row-major (extent, n_cols). Kernels without a loop over j
        take one column of contiguous elements. Returns False if a result that padding or an empty sum may have
        affected is not finite; M must then be recomputed by the default kernel.
        """
        n_threads = min(n_threads, self._most_threads)
        return not self._call(
            self._address, self._operand, factor_addresses, lds, len(lds), M_address, ldm,
            n_cols, n_threads, self._chunk,
        )  # fmt: skip


def reads_of_b(packed: PackedOperand) -> int:
    """Return the number of rows of B that a product reads, counting repeats: one per stored entry, or per column of a
    block.
    """
    inner = [level.coordinate for level in packed.fmt.levels if level.coordinate.endswith("0")]
    rows_at_once = packed.fmt.split("i") if "i0" in inner and packed.fmt.has_padding else 1
    return int(packed.n_positions[-1]) // rows_at_once


def _operand(packed: PackedOperand | PackedStructure | PackedTensor, needs_sorted: bool) -> Any:
    """Return the C structure, which refers to arrays that `packed` keeps alive."""
    ffi, lib = runtime_api.ffi, runtime_api.lib
    struct = ffi.new("asp_operand *")
    for at, size in enumerate(packed.sizes.values()):
        struct.size[at] = size
    _set_levels(struct, packed, needs_sorted=needs_sorted)
    for name, (kind, depth) in SIDES.items():
        arrays = getattr(packed, kind)
        if name in arrays:
            getattr(struct, kind)[depth] = runtime_api.pointer(arrays[name])
    for depth, count in enumerate(packed.n_positions):
        struct.n_positions[depth] = count
    values: Any = packed  # a structure has none
    if packed.kind == "structure":
        for side in ("origin", "repeats"):
            array = getattr(packed, side)
            setattr(struct, side, ffi.NULL if array is None else runtime_api.pointer(array))
    else:
        struct.vals = runtime_api.pointer(values.values)
    struct.parallel, struct.window = lib.asp_parallel_address(), window_of(packed.fmt.sigma, packed.crd)
    struct.take, struct.give = lib.asp_output_take_address(), lib.asp_output_give_address()
    return struct


def _set_levels(struct: Any, packed: PackedOperand | PackedStructure | PackedTensor, *, needs_sorted: bool) -> None:
    """Set the arrays of the levels by depth, and the bits of levels with ascending coordinates."""
    for depth, level in enumerate(packed.fmt.levels):
        name = level.coordinate
        if name in packed.crd:
            struct.crd[depth] = runtime_api.pointer(packed.crd[name])
        if name in packed.pos:
            struct.pos[depth] = runtime_api.pointer(packed.pos[name])
            if needs_sorted and packed.is_sorted(name):
                struct.sorted |= 1 << depth
