"""Features of a pattern and a setting that cost models take as input."""

from __future__ import annotations
