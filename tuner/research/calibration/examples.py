"""Measured patterns for calibration: predictions and measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Logs = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Example:
    """One pattern: n measured programs, the model's logarithms of ratios, and the measured ratios.

    Ratios are times over the default kernel's; those that are `censored` are lower bounds.
    """

    group: str  # patterns of one origin share a group and are left out together
    pattern: Floats = field(repr=False)  # input of the trees: features of pattern and setting
    programs: NDArray[Any] = field(repr=False)  # (n, columns)
    predicted: Logs = field(repr=False)  # (n,)
    ratios: Floats = field(repr=False)  # (n,)
    censored: NDArray[np.bool_] = field(repr=False)  # (n,)
