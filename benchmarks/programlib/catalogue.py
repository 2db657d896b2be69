"""Every program by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from programlib import eigen, evolution, factors, graphs, learning, solvers
from programlib.program import Program

MODULES: Final = (solvers, evolution, eigen, graphs, learning, factors)
PROGRAMS: Final[Mapping[str, Program]] = {row.name: row for module in MODULES for row in module.PROGRAMS}
