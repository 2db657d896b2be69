"""Kernels that the runtime has ready: nothing is compiled for them.

The default kernel's loops on rows in an order of their own (`asp_ordered_kernel` in ``runtime/matmul.c``): vectors are
cut at B's cache lines, large results are stored past the caches, giant rows are divided between threads. Generated
kernels do none of this (docs/adr/0020-ordered-rows.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.kernel import Kernel
from autosparse._native.spec import KernelSpec

from autosparse.formats import CSR, MAX_SPLIT

DTYPES: Final = {"float32": 0, "float64": 1}
"""Codes of `asp_ordered_kernel`."""
LOOPS: Final = ("i1", "j1", "k1", "j0")


def is_ready(spec: KernelSpec) -> bool:
    """Whether the runtime computes what `spec` asks for: ordered CSR, 32-bit indices, a row of the result at once."""
    schedule, fmt = spec.schedule, spec.schedule.format
    if not fmt.rows:  # nearly all
        return False
    return (
        spec.operation == "matmul"
        and fmt.levels == CSR.levels
        and not (fmt.symmetric or fmt.values)
        and fmt.index_bits == 32
        and spec.index_dtype == "int32"
        and spec.dtype in DTYPES
        and schedule.loop_order == LOOPS
        and schedule.parallel == "i1"
        and schedule.dense_split("j") == MAX_SPLIT
        and schedule.unroll == 1
        and schedule.prefetch == 0
    )


def ready_kernel(spec: KernelSpec) -> Kernel | None:
    """The runtime's kernel for `spec`; None when it has none."""
    if not runtime_api.available or not is_ready(spec):
        return None
    address = int(runtime_api.lib.asp_ordered_kernel(DTYPES[spec.dtype]))
    return Kernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=runtime_api.lib)
