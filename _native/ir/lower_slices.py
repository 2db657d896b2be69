"""Lowering of sliced formats: a loop over slices, each of which sums its slots, with one row of the output per lane."""

from __future__ import annotations

from typing import Final

from autosparse._native.ir.nodes import Coordinate, Extent, ForDense, Program, StoredLevel, SumSlots
from autosparse._native.ir.slice_layout import INDEX_BITS, LEVELS, has_diagonals
from autosparse._native.ir.spec import KernelSpec, expression_of

from autosparse.core.formats import DICTIONARY
from autosparse.core.schedule import SuperSchedule
from autosparse.ops import OPS

LANES: Final = (2, 4, 8, 16, 32)
"""Supported numbers of rows per slice."""
UNROLL: Final = (1, 2, 4)
"""Supported numbers of slots per step, each with its own accumulators."""


def reason_unsupported(schedule: SuperSchedule) -> str | None:
    """Return why a schedule with a sliced format cannot be lowered, or None."""
    fmt = schedule.format
    if "slices" not in OPS[schedule.operation].abilities:
        return f"slices are not lowered for {schedule.operation}"
    if ",".join(map(str, fmt.levels)) not in LEVELS:
        return f"of sliced formats only {' and '.join(LEVELS)} can be lowered"
    if fmt.split("i") not in LANES or schedule.unroll not in UNROLL:
        return f"slices have {LANES} rows and are unrolled by {UNROLL}, not {fmt.split('i')} by {schedule.unroll}"
    if fmt.index_bits not in INDEX_BITS:
        return f"slices store columns of {INDEX_BITS} bits, not {fmt.index_bits}"
    if schedule.loop_order != ("i1", "k1", "i0") or schedule.parallel != "i1":
        return "slices are computed by the loops i1 k1 i0 and threads over i1, for one dense column"
    return None


def lower_slices(spec: KernelSpec) -> Program:
    """Return the IR of a supported schedule."""
    schedule, fmt = spec.schedule, spec.schedule.format
    slices, columns, lanes = Coordinate("i1", fmt.split("i")), Coordinate("k1", 1), Coordinate("i0", fmt.split("i"))
    levels = (
        StoredLevel(0, slices, "U", None),
        StoredLevel(1, columns, fmt.levels[1].kind.value, "i1"),
        StoredLevel(2, lanes, "U", "k1"),
    )
    node = SumSlots(
        level=levels[1],
        lanes=lanes,
        expression=expression_of(schedule),
        copies=schedule.unroll,
        is_permuted=fmt.sigma > 1,
        diagonals=has_diagonals(fmt),
        narrow=fmt.index_bits == 16,
        prefetch=schedule.prefetch,
        numbered=fmt.values == DICTIONARY,
    )
    extent = Extent(slices, partner_bound=False)
    return Program(node.expression, levels, (ForDense(slices, extent, (node,), True, levels[1]),))
