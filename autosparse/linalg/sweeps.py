"""Sweeps: several operations on vectors in one pass over memory.

A sweep is a list of steps on vectors of one length and dtype. It is executed chunk by chunk, so that each vector is
read and written once. A dot product is the sum of the chunks' sums in the order of the chunks: its bits do not depend
on the number of threads. Products of float32 (complex64) are summed in float64 (complex128).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[Any]  # float32, float64, complex64 or complex128


@dataclass(frozen=True, eq=False)
class Combine:
    """out = sum_i c_i * terms[i], for 1 to 4 terms; the coefficients c_i come with each call. `out` may be a term."""

    out: Vector
    terms: Sequence[Vector]


@dataclass(frozen=True, eq=False)
class Scale:
    """out = d * v, elementwise. `d` has the dtype of `v`, or the real dtype of the same precision."""

    out: Vector
    d: Vector
    v: Vector


@dataclass(frozen=True, eq=False)
class Dot:
    """sum_i conj(u_i) * v_i: one result of each call, a float, or a complex for complex vectors."""

    u: Vector
    v: Vector


Step = Combine | Scale | Dot


def _arrays(step: Step) -> tuple[Vector, ...]:
    if isinstance(step, Combine):
        return (step.out, *step.terms)
    return (step.out, step.d, step.v) if isinstance(step, Scale) else (step.u, step.v)


class Sweep:
    """Steps compiled for vectors; a call executes them and returns the tuple of the dot products, in order."""

    __slots__ = ("_plan", "_vectors")

    def __init__(self, steps: Sequence[Step]) -> None:
        self._vectors: list[Vector] = []
        places: dict[int, int] = {}
        self._plan: list[tuple[type, list[int]]] = []
        for step in steps:
            numbers = []
            for array in _arrays(step):
                if id(array) not in places:
                    places[id(array)] = len(self._vectors)
                    self._vectors.append(array)
                numbers.append(places[id(array)])
            self._plan.append((type(step), numbers))

    def bind(self, position: int, array: Vector) -> None:
        """Exchange the vector `position`: vectors are numbered in the order of their first appearance in the steps."""
        old = self._vectors[position]
        if array.shape != old.shape or array.dtype != old.dtype:
            raise ValueError(f"vector {position} is {old.dtype} {old.shape}, not {array.dtype} {array.shape}")
        self._vectors[position] = array

    def __call__(self, *coefficients: complex) -> tuple[Any, ...]:
        """Execute the steps with one coefficient for each term of each Combine; return the dots."""
        left, dots = list(coefficients), []
        for kind, numbers in self._plan:
            arrays = [self._vectors[at] for at in numbers]
            if kind is Combine:
                terms = arrays[1:]
                arrays[0][...] = sum(term * term.dtype.type(left.pop(0)) for term in terms)
            elif kind is Scale:
                np.multiply(arrays[1], arrays[2], out=arrays[0])
            else:
                wide = np.complex128 if arrays[0].dtype.kind == "c" else np.float64
                dots.append(np.vdot(arrays[0].astype(wide), arrays[1].astype(wide)).item())
        return tuple(dots)
