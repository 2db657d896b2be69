"""Search for a plan of a problem: predict, measure, and stop within a budget."""

from __future__ import annotations
