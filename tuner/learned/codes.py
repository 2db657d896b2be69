"""Codes of programs as rows of integers, the form in which learned models read them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from autosparse.tuner.space.template import Categorical, Code, Parameter
from numpy.typing import NDArray

from autosparse.core.dtypes import ProgramCode
from autosparse.core.pattern import Pattern, TensorPattern

Structure = Pattern | TensorPattern


def code_rows(codes: Sequence[Code], parameters: Sequence[Parameter]) -> NDArray[ProgramCode]:
    """Return codes as rows of integers: one per categorical parameter, one per position of a permutation."""
    rows = [[n for one in code for n in (one if isinstance(one, tuple) else (one,))] for code in codes]
    return np.array(rows, ProgramCode).reshape(len(rows), sum(map(width, parameters)))


def code_of(row: NDArray[ProgramCode], parameters: Sequence[Parameter]) -> Code:
    """Return the code of one row of `code_rows`."""
    parts: list[int | tuple[int, ...]] = []
    at = 0
    for parameter in parameters:
        values = row[at : at + width(parameter)].tolist()
        parts.append(values[0] if isinstance(parameter, Categorical) else tuple(values))
        at += width(parameter)
    return tuple(parts)


def width(parameter: Parameter) -> int:
    """Return the number of integers that code `parameter`: 1, or the length of a permutation."""
    return 1 if isinstance(parameter, Categorical) else len(parameter.items)
