"""Kernels, built or loaded by a backend, and bound to an operand."""

from __future__ import annotations
