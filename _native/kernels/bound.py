"""Kernels of operations beside the product A B, bound to their operand; the arguments of `run` are addresses.

Positional arguments: these are hot paths. Every `run` may be called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from autosparse._native import runtime_api
from autosparse._native.c.private import FIXED_PARTS, OWN_BYTES, PRIVATE_LIMIT_BYTES
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.storage.structure import PackedStructure
from autosparse._native.storage.tensors import PackedTensor


class Compiled(Protocol):
    """What is asked of a `Kernel`."""

    @property
    def spec(self) -> KernelSpec:
        """What it was made for."""

    @property
    def address(self) -> int:
        """Of its machine code."""

    @property
    def is_private(self) -> bool:
        """Whether its threads have outputs of their own."""


class _Bound:
    """What all have in common: the kernel, the operand, the schedule's arguments at run time."""

    __slots__ = ("_address", "_call", "_chunk", "_most_threads", "_operand", "kernel", "packed")
    passes_python: ClassVar[bool] = False

    def __init__(self, kernel: Compiled, packed: Any, operand: Any, call: str) -> None:
        schedule = kernel.spec.schedule
        self.kernel = kernel
        self.packed = packed
        self._operand = operand
        self._chunk = schedule.chunk if schedule.partition == "dynamic" else 0
        self._most_threads = schedule.threads or 1 << 30
        self._address = kernel.address
        self._call = getattr(runtime_api.lib, call)

    def enter(self, state: Any) -> None:  # Any: cffi asp_entry *
        """Only products of matrices go past Python."""
        raise NotImplementedError


class BoundSddmm(_Bound):
    """``O = A ∘ (X @ Yᵀ)`` at the stored entries of A, each on its own where they repeat."""

    __slots__ = ()
    packed: PackedStructure

    def __init__(self, kernel: Compiled, packed: PackedStructure, operand: Any) -> None:
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
        """``out[e] = vals[e] * sum_j X[i_e, j] * Y[k_e, j]`` for every entry e of the pattern, j < `n_cols`.

        X (m, n_cols) and Y (n, n_cols) are row-major with `ldx`, `ldy` elements between rows: Y holds the columns of
        the operand that SciPy users write as (n_cols, n). Kernels without a loop over j take one column
        (``n_cols == 1``) of adjacent elements. `vals` and `out` are in the order of the pattern's `indices`; `out`
        need not be initialised and must not be `vals`: where a loop over j lies outside, partial sums are kept in it.
        Always True: padding is never multiplied.
        """
        n_threads = min(n_threads, self._most_threads)
        self._call(
            self._address, self._operand, X_address, ldx, Y_address, ldy, vals_address, out_address,
            n_cols, n_threads, self._chunk,
        )  # fmt: skip
        return True


class BoundMttkrp(_Bound):
    """``M[i, j] = sum T[i, k, l, ...] * B[k, j] * C[l, j] * ...`` for the packed tensor T."""

    __slots__ = ()
    packed: PackedTensor

    def __init__(self, kernel: Compiled, packed: PackedTensor, operand: Any) -> None:
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
        """The product into M (shape[mode], n_cols), which need not be initialised.

        `factor_addresses` and `lds` (elements between rows) are those of the dense operands of the modes other than
        the packed tensor's, in the order of the modes; all row-major (extent, n_cols). Kernels without a loop over j
        take one column of adjacent elements. False: a result that padding, or an empty sum, may have spoilt is not
        finite: M must be computed again by the default kernel.
        """
        n_threads = min(n_threads, self._most_threads)
        return not self._call(
            self._address, self._operand, factor_addresses, lds, len(lds), M_address, ldm,
            n_cols, n_threads, self._chunk,
        )  # fmt: skip

    def private_bytes(self, n_cols: int, n_threads: int) -> int:
        """Memory that a run takes beside its operands: outputs of threads' own, where the parallel loop sums."""
        return private_bytes(self.kernel, self.packed.sizes["i"], n_cols, n_threads)


def private_bytes(kernel: Compiled, n_rows: int, n_cols: int, n_threads: int) -> int:
    """Most bytes of the outputs that the threads of a run keep to themselves; 0 where the parallel loop sums nothing.

    One for each part but the first (see `c_private`), and never more than PRIVATE_LIMIT_BYTES. A kernel that cannot
    have them does with fewer.
    """
    if not kernel.is_private:
        return 0
    one = -(-n_rows * n_cols * kernel.spec.value_bytes // OWN_BYTES) * OWN_BYTES
    schedule = kernel.spec.schedule
    n_parts = FIXED_PARTS if kernel.spec.deterministic else min(n_threads, schedule.threads or n_threads)
    return min(max(n_parts, 1) - 1, PRIVATE_LIMIT_BYTES // max(one, 1)) * one
