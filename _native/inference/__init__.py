"""Inference of learned cost models in the C runtime."""

from __future__ import annotations
