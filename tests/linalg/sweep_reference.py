"""Reference implementation of sweeps in NumPy: the oracle of `test_sweeps`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosparse.linalg.sweeps import Combine, Scale, Step


def wide(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def run(steps: Sequence[Step], coefficients: Sequence[Any]) -> list[Any]:
    """Execute the steps on vectors or columns; return the dot products, as arrays for columns."""
    left, dots = list(coefficients), []
    for step in steps:
        if isinstance(step, Combine):
            dtype = step.out.dtype
            parts = [term * np.asarray(left.pop(0)).astype(dtype) for term in step.terms]
            step.out[...] = sum(parts[1:], start=parts[0])
        elif isinstance(step, Scale):
            d = step.d if step.d.ndim == step.v.ndim else step.d[:, None]
            np.multiply(d, step.v, out=step.out)
        else:
            dots.append((wide(step.u).conj() * wide(step.v)).sum(axis=0))
    assert not left
    return dots
