"""Learned cost models as products use them: weights, inference in NumPy, what they were trained on. No PyTorch."""

from __future__ import annotations
