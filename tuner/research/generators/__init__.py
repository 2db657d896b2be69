"""Generators of synthetic patterns, for measurement collections and tests."""

from __future__ import annotations
