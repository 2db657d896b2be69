"""Inference of learned cost models by the runtime."""

from __future__ import annotations
