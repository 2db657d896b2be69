"""STile's search for a partition into tiles (Fang et al., PACMMOD 2(1), 2024), on a GPU (`cuda.composites`)."""

from __future__ import annotations
