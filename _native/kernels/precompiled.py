"""Kernels that the runtime has ready: nothing is compiled for them.

The default kernels' loops with what a search may want otherwise: rows in an order of their own, rows of B (or Y)
fetched ahead. They cut vectors at cache lines, store large results past the caches, divide giant rows between threads,
fetch the next rows of X; generated kernels do none of this (docs/adr/0020-ready-kernels.md, 0024-ready-sddmm.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.kernel import Kernel

from autosparse.core.formats import CSR
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS

DTYPES: Final = {"float32": 0, "float64": 1}
"""Codes of `asp_ready_kernel` and `asp_ready_sampled`."""
PREFETCH: Final = (0, 4, 8, 16, 64)
LOOPS: Final = ("i1", "k1")
"""Over rows, and their entries; dense columns are cut as the registers allow."""


def reason_unsupported(operation: str, schedule: SuperSchedule) -> str | None:
    """Why the runtime has no loops for `schedule`, or None: CSR, rows in any order, 32-bit indices, as they are."""
    fmt = schedule.format
    if operation != schedule.operation or operation not in OPS or not OPS[operation].runtime_loops:
        return f"the runtime has no loops for schedules of {operation}"
    if fmt.levels != CSR.levels or fmt.symmetric or fmt.values or fmt.index_bits != 32:
        return f"the runtime's loops read CSR with 32-bit indices, not {fmt}"
    if schedule.loop_order != LOOPS or schedule.dense_splits or schedule.parallel != "i1" or schedule.unroll != 1:
        return "the runtime's loops are over rows, in parallel, and their entries"
    if schedule.prefetch not in PREFETCH:
        return f"the runtime's loops fetch {', '.join(map(str, PREFETCH))} entries ahead, not {schedule.prefetch}"
    return None


def is_ready(spec: KernelSpec) -> bool:
    """Whether the runtime has the kernel of `spec`."""
    if not spec.schedule.is_precompiled:  # nearly all
        return False
    is_known = spec.index_dtype == "int32" and spec.dtype in DTYPES
    return is_known and reason_unsupported(spec.operation, spec.schedule) is None


def ready_kernel(spec: KernelSpec) -> Kernel | None:
    """The runtime's kernel for `spec`; None when it has none."""
    if not runtime_api.available or not is_ready(spec):
        return None
    lib = runtime_api.lib
    address_of = getattr(lib, OPS[spec.operation].runtime_loops)
    address = int(address_of(DTYPES[spec.dtype], spec.schedule.prefetch))
    return Kernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=lib)
