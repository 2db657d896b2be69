"""Spaces of SuperSchedules: sets of schedules to choose from, with sampling, counting and encoding."""

from __future__ import annotations
