"""Predictions of WACO's networks without torch: features of a pattern, embeddings of programs, and costs."""

from __future__ import annotations
