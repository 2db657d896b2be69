"""Catalogue of all programs by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from programlib import building, eigen, evolution, factors, fits, graphs, learning, solvers, written
from programlib.program import Program

GROUPS: Final[Mapping[str, tuple[ModuleType, ...]]] = {
    "programs": (solvers, evolution, eigen, graphs, learning, factors),
    "sklearn": (fits,),
    "written": (written, building),
}
"""Modules of programs, by the benchmark that runs them by default."""
PROGRAMS: Final[Mapping[str, Program]] = {
    row.name: row for modules in GROUPS.values() for module in modules for row in module.PROGRAMS
}


def names(group: str) -> list[str]:
    """Return the names of one group's programs, in order."""
    return [row.name for module in GROUPS[group] for row in module.PROGRAMS]
