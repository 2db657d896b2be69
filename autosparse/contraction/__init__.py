"""Einsum of sparse operands: enumerate loop programs, choose one by its asymptotic cost, compile and run it."""

from __future__ import annotations
