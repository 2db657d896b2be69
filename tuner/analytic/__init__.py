"""Analytic cost models: predict the time of a schedule from statistics of the pattern, without training."""

from __future__ import annotations
