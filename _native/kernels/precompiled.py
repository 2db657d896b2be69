"""Precompiled kernels of the runtime: nothing is compiled for them.

They are the default kernels' loops with further options: permuted rows, and prefetching of rows of B (or Y). In
contrast to generated kernels they align vectors to cache lines, store large results non-temporally, divide very long
rows among threads, and prefetch rows of X.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from autosparse._native import runtime_api
from autosparse._native.ir.spec import KernelSpec
from autosparse._native.kernels.kernel import CompiledKernel

from autosparse.core.formats import CSR, Format
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS
from autosparse.scalar import NARROW_INDEX, REAL, VALUE_CODES

DTYPES: Final = {name: VALUE_CODES[name] for name in REAL}
"""Value type codes of `asp_ready_kernel` and `asp_ready_sampled`."""
PREFETCH: Final = (0, 4, 8, 16, 64)
LOOPS: Final = ("i1", "k1")
"""Loop order of these kernels: rows, and their entries; dense columns are tiled as the registers allow."""
PANEL_LOOPS: Final = ("k1", "i1", "k0", "i0")
PANEL_SHAPES: Final = ((1, 256), (4, 256), (8, 256))
"""Rows per block row, and columns, of the panels that the runtime supports."""


def reason_unsupported(operation: str, schedule: SuperSchedule) -> str | None:
    """Return why the runtime has no kernel for `schedule`, or None: it supports CSR with 32-bit indices and permuted
    rows.
    """
    fmt = schedule.format
    if operation != schedule.operation or operation not in OPS or not OPS[operation].tuning.runtime_loops:
        return f"the runtime has no loops for schedules of {operation}"
    if OPS[operation].tuning.panel_loops and (fmt.has_padding or panel_shape(fmt) is not None):
        return _reason_no_panels(schedule)
    if fmt.levels != CSR.levels or fmt.values or fmt.index_bits != 32:
        return f"the runtime's loops read CSR with 32-bit indices, not {fmt}"
    if schedule.loop_order != LOOPS or schedule.dense_splits or schedule.parallel != "i1" or schedule.unroll != 1:
        return "the runtime's loops are over rows, in parallel, and their entries"
    if schedule.prefetch not in PREFETCH:
        return f"the runtime's loops fetch {', '.join(map(str, PREFETCH))} entries ahead, not {schedule.prefetch}"
    return None


def panel_shape(fmt: Format) -> tuple[int, int] | None:
    """Return (r, k) of a format of panels of k columns with block rows of r rows, in any row order; else None."""
    r, k = fmt.split("i"), fmt.split("k")
    if k == 1 or fmt.is_sliced:
        return None
    plain = Format.parse(f"k1:U,i1:U,k0:C,i0:U | i={r},k={k}" if r > 1 else f"k1:U,i1:U,k0:C | k={k}")
    return (r, k) if dataclasses.replace(fmt, rows="") == plain else None


def _reason_no_panels(schedule: SuperSchedule) -> str | None:
    """Return why the runtime has no kernel for the panels of `schedule`, or None."""
    if panel_shape(schedule.format) not in PANEL_SHAPES:
        return f"the runtime's loops read panels of {PANEL_SHAPES} rows and columns, not {schedule.format}"
    loops = PANEL_LOOPS if schedule.format.has_padding else PANEL_LOOPS[:-1]
    if schedule.loop_order != loops or schedule.dense_splits or schedule.parallel != "i1":
        return "the runtime's loops are over panels, groups of rows in parallel, and their columns"
    if schedule.unroll != 1 or schedule.prefetch:
        return "the runtime's loops over panels have fixed prefetching and unrolling"
    return None


def is_ready(spec: KernelSpec) -> bool:
    """Return whether the runtime has the kernel of `spec`."""
    if not spec.schedule.is_precompiled:  # the common case
        return False
    is_known = spec.index_dtype == NARROW_INDEX.name and spec.dtype in DTYPES
    return is_known and reason_unsupported(spec.operation, spec.schedule) is None


def ready_kernel(spec: KernelSpec) -> CompiledKernel | None:
    """Return the runtime's kernel for `spec`, or None."""
    if not is_ready(spec):
        return None
    lib, code, row, fmt = runtime_api.lib, DTYPES[spec.dtype], OPS[spec.operation], spec.schedule.format
    if (shape := panel_shape(fmt)) is not None:
        address = int(getattr(lib, row.tuning.panel_loops)(code, *shape))
    else:
        address = int(getattr(lib, OPS[spec.operation].tuning.runtime_loops)(code, spec.schedule.prefetch))
    return CompiledKernel(spec, Path(runtime_api.lib.__name__), address, needs_sorted=False, library=lib)
