"""Features: what a cost model is told about a pattern."""

from __future__ import annotations
