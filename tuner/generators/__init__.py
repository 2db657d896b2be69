"""Generators of synthetic patterns, for collections of measurements and for tests."""

from __future__ import annotations
