"""Values of decisions that no machine measures before the first use: expected gains and margins of acceptance.

The values are data: `priors.json` holds each with its source, machine and date, `policy.json` likewise the shares,
margins and limits of tuning, and `first_look.json` those that dispatch reads before tuning is loaded. Plans are chosen
differently after an edit; compiled kernels stay valid.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PRIORS: Final = Path(__file__).parent / "priors.json"
"""File of the values that describe kernels: name of a set -> row -> value with its source."""
POLICY: Final = Path(__file__).parent / "policy.json"
"""File of the shares, margins and limits of tuning, of the same form, with other names of sets."""
FIRST_LOOK: Final = Path(__file__).parent / "first_look.json"
"""File of the values that dispatch reads, likewise; it is small, because every process with products reads it."""


@functools.cache
def _set(name: str) -> Mapping[str, Any]:
    """Return the set `name`; {} if no file has one. The larger files are read only for sets that the first lacks."""
    return next((sets[name] for sets in map(_sets, (FIRST_LOOK, PRIORS, POLICY)) if name in sets), {})


@functools.cache
def _sets(file: Path) -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["values"]
    return found


def has(name: str, row: str) -> bool:
    """Return whether the set `name` has a value `row`."""
    return row in _set(name)


@functools.cache
def table(name: str, row: str) -> Mapping[int, float]:
    """Return the value `row` of the set `name` by the first number of dense columns of a range; {} if there is none."""
    found = _set(name).get(row)
    return {} if found is None else {int(start): float(value) for start, value in found["value"].items()}


@functools.cache
def number(name: str, row: str) -> float:
    """Return the value `row`, one number, of the set `name`."""
    return float(_set(name)[row]["value"])


@functools.cache
def numbers(name: str) -> Mapping[str, float]:
    """Return all values of the set `name`, whose values are numbers, in the order of the file."""
    return {row: float(found["value"]) for row, found in _set(name).items()}


def of_width(values: Mapping[int, Any], n_dense_cols: int) -> Any:  # Any: the type of the table's values, or None
    """Return the value of the range that contains `n_dense_cols`; None below the first."""
    fitting = [start for start in values if start <= max(1, n_dense_cols)]
    return values[max(fitting)] if fitting else None
