"""Launches: packed operands and dense tensors to a kernel on the stream that is current.

Nothing here waits for the device. The workspace of a launch comes from torch's caching allocator and goes back to it:
launches on several streams share none, and one that is captured in a CUDA graph has its own, in the graph's pool.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import torch
from autosparse._native.triton.packing import Packed

from autosparse.gpu.schedule import DeviceSchedule

Kernel = Any  # triton.JITFunction, or the interpreter's

SUMS: Final = {torch.float64: torch.float64}
"""Dtype of values -> dtype of sums; float32 for all others."""

REDUCE_OPTIONS: Final = {"num_warps": 1, "num_stages": 2}


def options_of(schedule: DeviceSchedule) -> dict[str, int]:
    """What Triton's compiler is told beside the source."""
    return {"num_warps": schedule.warps, "num_stages": schedule.stages, "maxnreg": schedule.registers}


@dataclass(slots=True)
class Launch:
    """A kernel bound to a packed operand. `run` computes one product."""

    module: ModuleType
    packed: Packed

    def work_bytes(self, n_cols: int, dtype: torch.dtype) -> int:
        """Bytes of partial rows of a product of `n_cols` columns, while it runs."""
        return self._n_sums(n_cols) * SUMS.get(dtype, torch.float32).itemsize

    def _n_sums(self, n_cols: int) -> int:
        return max(1, self.packed.n_slots * n_cols)

    def _workspace(self, n_cols: int, dtype: torch.dtype) -> torch.Tensor:
        sums = SUMS.get(dtype, torch.float32)
        return torch.empty(self._n_sums(n_cols), dtype=sums, device=self.packed.table.device)

    def spmv(self, values: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Out = A x; x (m,), out (n,)."""
        packed = self.packed
        work = self._workspace(1, values.dtype)
        self._clear(out)
        self._launch(packed.n_tasks, packed.table, values, *packed.arrays, x, out, work, packed.n_tasks)
        if packed.n_slots:
            rows = packed.shared_rows.shape[0]
            self.module.reduce[(rows,)](packed.shared_rows, packed.slots, work, out, rows, 1, 1, **REDUCE_OPTIONS)
        return out

    def matmul(self, values: torch.Tensor, B: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Out = A B; B (m, N) and out (n, N) with rows of unit stride."""
        sizes = (out.shape[1], B.stride(0), out.stride(0))
        return self._sums(values, (B,), out, sizes)

    def mttkrp(self, values: torch.Tensor, B: torch.Tensor, D: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """out[i] = Σ_k Σ_l A[i, k, l] B[k] ∘ D[l]; B (K, R), D (L, R), out (n, R)."""
        return self._sums(values, (B, D), out, (out.shape[1], B.stride(0), D.stride(0), out.stride(0)))

    def sddmm(
        self, values: torch.Tensor, X: torch.Tensor, Y: torch.Tensor, out: torch.Tensor,
        *, alpha: float = 1.0, beta: float = 0.0,
    ) -> torch.Tensor:  # fmt: skip
        """out[p] = alpha ⟨X[i], Y[j]⟩ + beta values[p] for entry p = (i, j); X (n, K), Y (m, K), out (nnz,)."""
        packed = self.packed
        numbers = (packed.n_tasks, X.shape[1], X.stride(0), Y.stride(0))
        self._launch(
            packed.n_tasks, packed.table, values, *packed.arrays, X, Y, out, float(alpha), float(beta), *numbers
        )
        return out

    def _sums(
        self, values: torch.Tensor, dense: tuple[torch.Tensor, ...], out: torch.Tensor, sizes: tuple[int, ...]
    ) -> torch.Tensor:
        packed, schedule = self.packed, self.packed.spec.schedule
        n_cols = out.shape[1]
        if not n_cols:
            return out
        work = self._workspace(n_cols, values.dtype)
        self._clear(out)
        n_tiles = -(-n_cols // schedule.tile)
        self._launch(
            packed.n_tasks * n_tiles, packed.table, values, *packed.arrays, *dense, out, work, packed.n_tasks, *sizes
        )
        if packed.n_slots:
            rows = packed.shared_rows.shape[0]
            self.module.reduce[(rows, n_tiles)](
                packed.shared_rows, packed.slots, work, out, rows, n_cols, out.stride(0), **REDUCE_OPTIONS
            )
        return out

    def _clear(self, out: torch.Tensor) -> None:
        """Rows that are added to atomically begin at 0."""
        packed = self.packed
        if packed.spec.schedule.reduction == "atomic" and packed.shared_rows.numel():
            out.index_fill_(0, packed.shared_rows.long(), 0)

    def _launch(self, n_programs: int, *arguments: Any) -> None:  # Any: tensors and numbers
        if n_programs:
            self.module.kernel[(n_programs,)](*arguments, **options_of(self.packed.spec.schedule))
