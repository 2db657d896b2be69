"""Path of every product: imported with the first product, small, and independent of the tuning modules."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@functools.cache
def _sets() -> Mapping[str, Mapping[str, Any]]:
    file = Path(__file__).parent.parent / "targets" / "first_look.json"
    found: Mapping[str, Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["values"]
    return found


def number(name: str, row: str) -> float:
    """Return a number of `targets/first_look.json`, as `targets.priors.number` does, without loading a module."""
    return float(_sets()[name][row]["value"])
