"""One object per solve: what every solver reports to, and the vectors it works in."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Solve:
    """A call of the solver `name` for the matrix or operator `A`."""

    __slots__ = ("A", "name")

    def __init__(self, name: str, A: Any) -> None:  # Any: whatever SciPy's solvers take
        self.name, self.A = name, A

    def __enter__(self) -> Solve:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def step(self, residual_norm: float) -> None:
        """Note that an iteration begins with this norm of the residual."""

    def workspace(self, shape: int | tuple[int, ...], dtype: DTypeLike, n: int) -> tuple[NDArray[Any], ...]:
        """Return `n` arrays of this shape and dtype with any values, each of which owns its memory."""
        return tuple(np.empty(shape, dtype) for _ in range(n))
