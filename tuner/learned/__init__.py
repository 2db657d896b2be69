"""Inference of learned cost models: weights, prediction in NumPy, and the domain of their training data. No PyTorch."""

from __future__ import annotations
