"""Hybrid formats: search for a partition of a matrix into parts (Fang et al., "STile", PACMMOD 2(1), 2024)."""

from __future__ import annotations
