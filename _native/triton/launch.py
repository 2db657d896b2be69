"""Launches of kernels with packed operands and dense tensors on the current stream.

Triton inspects every argument of a launch to find its machine code, which takes longer than most products. Between two
launches of one packed operand, only the 16-byte alignment of addresses can change this choice. Machine code for aligned
addresses is kept and launched directly (`Started`).

Launches do not synchronise with the device. The workspace of a launch comes from torch's caching allocator and returns
to it. Launches on several streams share no workspace, and a launch captured in a CUDA graph has one in the graph's
pool.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import torch
from autosparse._native.triton.packing import Packed

from autosparse.gpu.schedule import DeviceSchedule
from autosparse.scalar.tensors import COMPUTED

Kernel = Any  # triton.JITFunction, or the interpreter's

ALIGNED: Final = 16
"""Address alignment in bytes for which Triton compiles separate kernels."""

REDUCE_OPTIONS: Final = {"num_warps": 1, "num_stages": 2}
"""Options of Triton's compiler for ``reduce``."""


def options_of(schedule: DeviceSchedule) -> dict[str, int]:
    """Return the options of Triton's compiler for `schedule`."""
    return {"num_warps": schedule.warps, "num_stages": schedule.stages, "maxnreg": schedule.registers}


class Started:
    """Machine code of a kernel that was launched before, on one device."""

    __slots__ = ("_at", "_by_triton", "_index", "_is_direct", "_runtime")

    def __init__(self, made: Any, index: int) -> None:  # Any: triton's CompiledKernel
        from triton import knobs

        self._by_triton, self._index, self._runtime = made, index, knobs.runtime
        self._at, self._is_direct = (made.run, made.function, made.packed_metadata), True

    def start(self, grid: tuple[int, int, int], given: tuple[Any, ...]) -> None:
        """Launch on the current stream, calling Triton's launcher directly, without the search for machine code.

        `given`: numbers, and tensors or their addresses; for addresses Triton makes no driver queries.
        """
        hooks = self._runtime.launch_enter_hook  # of a profiler: Triton must then report the launch
        if self._is_direct and not getattr(hooks, "calls", hooks):
            run, function, metadata = self._at
            stream = torch._C._cuda_getCurrentRawStream(self._index)
            try:
                run(*grid, stream, function, metadata, None, None, None, *given)
                return
            except TypeError:  # another version of Triton with other arguments; nothing was launched
                self._is_direct = False
        self._by_triton[grid](*given)


@dataclass(slots=True)
class Launch:
    """Kernel bound to a packed operand; each method computes one product."""

    module: ModuleType
    packed: Packed
    _ready: dict[str, Started] = field(default_factory=dict)  # name -> its machine code for aligned operands
    _no_sums: torch.Tensor | None = None  # placeholder of the workspace where no rows are shared
    _table: int = field(init=False)  # addresses of packed arrays: numbers are launched faster than tensors
    _arrays: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._table = self.packed.table.data_ptr()
        self._arrays = tuple(one.data_ptr() for one in self.packed.arrays)

    def work_bytes(self, n_cols: int, dtype: torch.dtype) -> int:
        """Return the bytes of partial rows that a product of `n_cols` columns needs while it runs."""
        return self._n_sums(n_cols) * COMPUTED.get(dtype, dtype).itemsize

    def _n_sums(self, n_cols: int) -> int:
        return max(1, self.packed.n_slots * n_cols)

    def _workspace(self, n_cols: int, dtype: torch.dtype) -> torch.Tensor:
        sums, place = COMPUTED.get(dtype, dtype), self.packed.table.device
        if self.packed.n_slots:
            return torch.empty(self._n_sums(n_cols), dtype=sums, device=place)
        if self._no_sums is None or self._no_sums.dtype is not sums:
            self._no_sums = torch.empty(1, dtype=sums, device=place)
        return self._no_sums

    def spmv(self, values: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Compute out = A x; x (m,), out (n,)."""
        packed = self.packed
        work = self._workspace(1, values.dtype)
        self._start(packed.n_tasks, (values, x, out, work), (packed.n_tasks,))
        if packed.n_slots:
            self._reduce(work, out, (1, 1), n_tiles=1)
        return out

    def matmul(self, values: torch.Tensor, B: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Compute out = A B; B (m, N) and out (n, N) with rows of unit stride."""
        sizes = (out.shape[1], B.stride(0), out.stride(0))
        return self._sums((values, B), out, sizes)

    def mttkrp(self, values: torch.Tensor, B: torch.Tensor, D: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Compute out[i] = Σ_k Σ_l A[i, k, l] B[k] ∘ D[l]; B (K, R), D (L, R), out (n, R)."""
        return self._sums((values, B, D), out, (out.shape[1], B.stride(0), D.stride(0), out.stride(0)))

    def sddmm(
        self, values: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, out: torch.Tensor,
        *, alpha: float = 1.0, beta: float = 0.0,
    ) -> torch.Tensor:  # fmt: skip
        """Compute out[p] = alpha ⟨X[i], Y[j]⟩ + beta values[p] for p = (i, j); X (n, K), Y (m, K), out (nnz,)."""
        n_tasks = self.packed.n_tasks
        numbers = (float(alpha), float(beta), n_tasks, X.shape[1], X.stride(0), Y.stride(0))
        self._start(n_tasks, (values, X, Y, out), numbers)
        return out

    def _sums(self, given: tuple[torch.Tensor, ...], out: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
        packed = self.packed
        n_cols = out.shape[1]
        if not n_cols:
            return out
        work = self._workspace(n_cols, given[0].dtype)
        n_tiles = -(-n_cols // packed.spec.schedule.tile)
        self._start(packed.n_tasks * n_tiles, (*given, out, work), (packed.n_tasks, *sizes))
        if packed.n_slots:
            self._reduce(work, out, (n_cols, out.stride(0)), n_tiles=n_tiles)
        return out

    def _start(self, n_programs: int, given: tuple[torch.Tensor, ...], numbers: tuple[float, ...]) -> None:
        """Launch ``kernel`` on the current stream; `given`: values, dense operands, the result and the workspace."""
        if not n_programs:
            return
        packed, known, grid = self.packed, self._ready.get("kernel"), (n_programs, 1, 1)
        values, *dense = (one.data_ptr() for one in given)
        is_aligned = not any(one % ALIGNED for one in (values, *dense))
        if is_aligned and known is not None:
            known.start(grid, (self._table, values, *self._arrays, *dense, *numbers))
            return
        everything = (packed.table, given[0], *packed.arrays, *given[1:], *numbers)
        self._first("kernel", grid, everything, options_of(packed.spec.schedule), is_aligned=is_aligned)

    def _reduce(self, work: torch.Tensor, out: torch.Tensor, sizes: tuple[int, int], *, n_tiles: int) -> None:
        """Launch the kernel ``reduce``, which adds the sums of rows that several programs share, on the current stream.

        `sizes`: number of columns, and elements from one row of `out` to the next.
        """
        packed, known, is_aligned = self.packed, self._ready.get("reduce"), not out.data_ptr() % ALIGNED
        rows = packed.shared_rows.shape[0]
        grid, given = (rows, n_tiles, 1), (packed.shared_rows, packed.slots, work, out, rows, *sizes)
        if is_aligned and known is not None:
            known.start(grid, given)
        else:
            self._first("reduce", grid, given, REDUCE_OPTIONS, is_aligned=is_aligned)

    def _first(
        self,
        name: str,
        grid: tuple[int, int, int],
        given: tuple[Any, ...],
        options: dict[str, int],
        *,
        is_aligned: bool,
    ) -> None:  # Any: tensors and numbers
        """Launch by Triton, which finds or compiles the machine code; keep the code for aligned operands."""
        made = getattr(self.module, name)[grid](*given, **options)
        if is_aligned and made is not None:  # the interpreter returns None
            self._ready[name] = Started(made, self.packed.table.device.index)
