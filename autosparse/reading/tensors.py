"""Tensors in FROSTT's text format (.tns): a line per entry with its coordinates, counted from 1, and its value."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosparse.core.dtypes import Real, WideIndex


class Entries(NamedTuple):
    """Entries of a tensor: value e is at ``coords[:, e]``."""

    coords: NDArray[Any]  # (modes, entries), counted from 0
    values: NDArray[Any]


_MAX_COORDINATE: Final = float(1 << 53)
"""Limit of coordinates: from here on float64 does not represent every integer."""


def parsed(text: bytes) -> Entries:
    """Parse the entries of a .tns text; raise ValueError if it is not one."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(b"#")]
    if not lines:
        raise ValueError("it has no entries, so its shape is unknown")
    n_fields = len(lines[0].split())
    if n_fields < 2:
        raise ValueError("each line of a .tns file holds coordinates and a value")
    numbers = np.array(b" ".join(lines).split(), dtype=Real)
    if numbers.size != n_fields * len(lines):
        raise ValueError(f"its {len(lines):,} lines hold {numbers.size:,} numbers, not {n_fields} each")
    table = numbers.reshape(len(lines), n_fields)
    coords = table[:, :-1]
    if not np.all((coords >= 1) & (coords < _MAX_COORDINATE) & (coords == np.floor(coords))):
        raise ValueError("coordinates of a .tns file are integers from 1 on")
    return Entries(np.ascontiguousarray(coords.T.astype(WideIndex) - 1), table[:, -1].copy())
