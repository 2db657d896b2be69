"""Spaces of SuperSchedules: what may be chosen for a problem, how it is drawn, counted and encoded."""

from __future__ import annotations
