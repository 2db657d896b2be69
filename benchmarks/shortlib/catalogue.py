"""Catalogue of all short programs by name."""

from __future__ import annotations

from shortlib import building, direct, grids, libraries, objects, parts, products, solvers, sums, text, walks
from shortlib.program import PROGRAMS

__all__ = ["GROUPS", "PROGRAMS"]

GROUPS = (solvers, direct, walks, text, grids, building, parts, sums, objects, products, libraries)
"""Modules whose functions are registered in `PROGRAMS`."""
