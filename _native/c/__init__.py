"""Kernels in C: emitted from the loop IR and compiled."""

from __future__ import annotations
