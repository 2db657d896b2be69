"""Format times, bytes and counts with three digits and a unit."""

from __future__ import annotations

import math
from typing import Final

TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
"""Seconds per unit of time, largest unit first."""
BYTE_UNITS: Final = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))
"""Bytes per unit of memory, largest unit first."""
UNKNOWN: Final = "-"
"""Text for unknown values."""


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next(((factor, unit) for factor, unit in units if value >= factor), units[-1])
    return f"{value / factor:.3g} {unit}" if value < 999.5 * factor else f"{value / factor:,.0f} {unit}"


def seconds(value_s: float | None) -> str:
    """Return a time such as ``1.25 ms``, or a dash if it is unknown."""
    if value_s is None or math.isnan(value_s):
        return UNKNOWN
    return "0 s" if value_s <= 0 else _scaled(value_s, TIME_UNITS)


def n_bytes(value: float | None) -> str:
    """Return a number of bytes such as ``3.2 MiB``, or a dash if it is unknown."""
    if value is None:
        return UNKNOWN
    return "0 B" if value <= 0 else _scaled(value, BYTE_UNITS)


def count(value: float | None) -> str:
    """Return a count such as ``12,345``, or a dash if it is unknown."""
    return UNKNOWN if value is None else f"{math.ceil(value):,}"


def shape(rows: int, columns: int) -> str:
    """Return a shape such as ``4,884 x 32``."""
    return f"{rows:,} x {columns:,}"
