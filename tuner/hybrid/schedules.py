"""Schedules of the runtime's loops for whole matrices and for parts of composites."""

from __future__ import annotations

from autosparse.core.formats import Format
from autosparse.core.schedule import RUNTIME, SuperSchedule


def runtime(operation: str, order: str = "", ahead: int = 0) -> SuperSchedule:
    """Return the schedule of the runtime's CSR loop with this row order, which prefetches B `ahead` entries ahead."""
    fmt = Format.parse(f"i1:U,k1:C | rows={order}" if order else "i1:U,k1:C")
    return SuperSchedule(
        operation=operation, format=fmt, loop_order=("i1", "k1"), implementation=RUNTIME, prefetch=ahead
    )
