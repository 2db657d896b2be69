"""Hybrid formats: which parts a matrix is worth dividing into (Fang et al., "STile", PACMMOD 2(1), 2024)."""

from __future__ import annotations
