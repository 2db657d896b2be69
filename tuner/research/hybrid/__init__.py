"""STile's search for a partition into tiles (Fang et al., PACMMOD 2(1), 2024), which plans do not use."""

from __future__ import annotations
